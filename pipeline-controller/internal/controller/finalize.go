/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
)

const (
	// finalizerPatience is how long closing pull requests may delay the deletion of their Pipeline.
	finalizerPatience = time.Minute
	finalizerRetry    = 10 * time.Second
)

// finalize removes the finalizer of a deleted Pipeline once its pull requests are closed, or after a minute if that
// fails. It cancels a running action.
func (r *PipelineReconciler) finalize(ctx context.Context, pipeline *pipelinesv1.Pipeline) (ctrl.Result, error) {
	r.polls.forgetPipeline(pipeline.UID)
	if !controllerutil.ContainsFinalizer(pipeline, pipelinesv1.PipelineFinalizer) {
		return ctrl.Result{}, nil
	}
	name := client.ObjectKeyFromObject(pipeline)
	if r.Actions.Cancel(name.String()); r.Actions.Running(name.String()) {
		// The end of the action triggers a reconcile.
		return ctrl.Result{}, nil
	}
	left := pipeline.DeletionTimestamp.Add(finalizerPatience).Sub(r.Now())
	if left <= 0 {
		return conflictIsNews(r.letGo(ctx, pipeline))
	}
	r.Actions.Do(workpool.Task{Key: name.String() + "/finalizer", Pipeline: name, Run: func(ctx context.Context) time.Duration {
		again, err := r.withdrawAndLetGo(ctx, pipeline)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "finalizing a deleted Pipeline failed")
			return finalizerRetry
		}
		return again
	}})
	return ctrl.Result{RequeueAfter: left}, nil
}

// withdrawAndLetGo closes the pull requests of a deleted Pipeline and removes the finalizer. It returns when to retry.
func (r *PipelineReconciler) withdrawAndLetGo(ctx context.Context, pipeline *pipelinesv1.Pipeline) (again time.Duration, err error) {
	// The cache may still contain a Pipeline that is gone. A new one of the same name may own the pull requests now.
	fresh := &pipelinesv1.Pipeline{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pipeline), fresh); err != nil || fresh.UID != pipeline.UID {
		return 0, client.IgnoreNotFound(err)
	}
	deadline := pipeline.DeletionTimestamp.Add(finalizerPatience)
	if err := r.withdrawAll(ctx, pipeline, deadline); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "closing the pull requests of a deleted Pipeline failed")
		// The deadline is based on the clock of the API server. If it is too far away, the clocks differ.
		left := deadline.Sub(r.Now())
		if wait := min(finalizerRetry, left); wait > 0 && left <= finalizerPatience+finalizerRetry {
			return wait, nil
		}
	}
	result, err := conflictIsNews(r.letGo(ctx, pipeline))
	return result.RequeueAfter, err
}

// letGo removes the finalizer.
func (r *PipelineReconciler) letGo(ctx context.Context, pipeline *pipelinesv1.Pipeline) error {
	released := pipeline.DeepCopy()
	controllerutil.RemoveFinalizer(released, pipelinesv1.PipelineFinalizer)
	return r.Patch(ctx, released, client.MergeFromWithOptions(pipeline, client.MergeFromWithOptimisticLock{}))
}

func (r *PipelineReconciler) withdrawAll(ctx context.Context, pipeline *pipelinesv1.Pipeline, deadline time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(r.Now()))
	defer cancel()
	var errs []error
	for _, env := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		status := pipeline.Status.Environments[env]
		if status.Promotion == nil || status.Promotion.Attempts == 0 || status.Promotion.State.Ended() {
			continue
		}
		promotion, ok := promotionOf(pipeline, env)
		if !ok || promotion.Strategy.PullRequest == nil {
			continue
		}
		errs = append(errs, r.withdrawForDeletion(ctx, promotion))
	}
	return errors.Join(errs...)
}

func (r *PipelineReconciler) withdrawForDeletion(ctx context.Context, promotion promote.Promotion) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return r.PullRequests.Withdraw(ctx, promotion, "the Pipeline was deleted").Err
}
