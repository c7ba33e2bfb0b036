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
)

const (
	// finalizerPatience is how long closing pull requests may hold up the deletion of their Pipeline.
	finalizerPatience = time.Minute
	finalizerRetry    = 10 * time.Second
)

// finalize closes the pull requests of a deleted Pipeline, as well as can be done in a minute, and lets it go.
func (r *PipelineReconciler) finalize(ctx context.Context, pipeline *pipelinesv1.Pipeline) (ctrl.Result, error) {
	r.looks.forgetPipeline(pipeline.UID)
	if !controllerutil.ContainsFinalizer(pipeline, pipelinesv1.PipelineFinalizer) {
		return ctrl.Result{}, nil
	}
	// The cache may still hold a Pipeline that is gone. Another one of its name may own the pull requests by now.
	fresh := &pipelinesv1.Pipeline{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pipeline), fresh); err != nil || fresh.UID != pipeline.UID {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deadline := pipeline.DeletionTimestamp.Add(finalizerPatience)
	if err := r.withdrawAll(ctx, pipeline, deadline); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "closing the pull requests of a deleted Pipeline failed")
		// A deadline that is farther away is one by another clock, that of the API server, and no measure of how long this takes.
		left := deadline.Sub(r.Now())
		if wait := min(finalizerRetry, left); wait > 0 && left <= finalizerPatience+finalizerRetry {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	before := pipeline.DeepCopy()
	controllerutil.RemoveFinalizer(pipeline, pipelinesv1.PipelineFinalizer)
	err := r.Patch(ctx, pipeline, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return conflictIsNews(err)
}

func (r *PipelineReconciler) withdrawAll(ctx context.Context, pipeline *pipelinesv1.Pipeline, deadline time.Time) error {
	if !r.Now().Before(deadline) {
		return nil
	}
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
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return r.PullRequests.Withdraw(ctx, promotion, "the Pipeline was deleted").Err
}
