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

// Package controller reconciles Pipelines: it observes the world, plans, claims, acts and records.
package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines/status,verbs=update
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=promotionapprovals,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=get;list;watch
// +kubebuilder:rbac:groups=kustomize.toolkit.fluxcd.io,resources=kustomizations,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Targets reads the application objects of targets, in whichever cluster they are.
type Targets interface {
	// Want declares all targets of a Pipeline, as they are to be read from now on.
	Want(pipeline *pipelinesv1.Pipeline)
	// Forget declares that there is no Pipeline of that name.
	Forget(pipeline types.NamespacedName)
	// Hurry has clusters that can't be reached be tried at once.
	Hurry(pipeline types.NamespacedName)
	// Read reads a target. It blocks neither on a cluster nor on a watch that has yet to start.
	Read(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) target.State
}

// PullRequests promotes by pull request.
type PullRequests interface {
	// Open makes the pull request of a promotion, or finds the one that was made for it.
	Open(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome
	// Look tells what became of a pull request.
	Look(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus) plan.PullRequest
	// Withdraw closes the pull request of a promotion, if there is one.
	Withdraw(ctx context.Context, promotion promote.Promotion, why string) plan.Outcome
	// Renew makes the commit of a pull request anew if the base branch has changed what it changes.
	Renew(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome
	// ReportGates sets the commit status of a pull request.
	ReportGates(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, gates pipelinesv1.GatesCommitStatus) plan.Outcome
	// Merge merges a pull request as it was last seen.
	Merge(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome
}

// Notifications promotes by notification.
type Notifications interface {
	// Notify posts the event of a promotion.
	Notify(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome
}

// PipelineReconciler reconciles Pipelines.
type PipelineReconciler struct {
	client.Client
	*Announcer

	// Live reads past the cache.
	Live client.Reader
	// Targets reads application objects.
	Targets Targets
	// PullRequests promotes by pull request.
	PullRequests PullRequests
	// Notifications promotes by notification.
	Notifications Notifications
	// NoCrossNamespaceRefs denies gates of other namespaces. Namespaces are read and watched only without it.
	NoCrossNamespaceRefs bool
	// Now is the clock.
	Now func() time.Time

	looks looks
}

// Reconcile takes the Pipeline from action to action until the plan has none left.
func (r *PipelineReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pipeline := &pipelinesv1.Pipeline{}
	if err := r.Get(ctx, req.NamespacedName, pipeline); err != nil {
		if apierrors.IsNotFound(err) {
			r.Targets.Forget(req.NamespacedName)
			forgetMeasures(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !pipeline.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, pipeline)
	}
	if controllerutil.AddFinalizer(pipeline, pipelinesv1.PipelineFinalizer) {
		// The lock keeps a stale copy from undoing somebody else's change to the list of finalizers.
		before := pipeline.DeepCopy()
		controllerutil.RemoveFinalizer(before, pipelinesv1.PipelineFinalizer)
		if err := r.Patch(ctx, pipeline, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return conflictIsNews(err)
		}
	}

	for {
		world, err := r.observe(ctx, pipeline)
		if err != nil {
			return ctrl.Result{}, err
		}
		if wait := connecting(world); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		if err := r.adopt(ctx, pipeline, world.Approvals); err != nil {
			return ctrl.Result{}, err
		}
		next := plan.Next(world)
		if err := r.collect(ctx, pipeline, next.StaleApprovals, next.Status.Revision); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.write(ctx, pipeline, next.Status); err != nil {
			return conflictIsNews(err)
		}
		if next.Action == nil {
			return ctrl.Result{RequeueAfter: next.RequeueAfter}, nil
		}
		outcome := r.act(ctx, pipeline, *next.Action)
		if err := r.record(ctx, pipeline, *next.Action, outcome); err != nil {
			return ctrl.Result{}, err
		}
		if outcome.State == "" && outcome.Err == nil {
			// Called off at the last moment: the cache has yet to show why, and will bring the Pipeline back when it does.
			return ctrl.Result{RequeueAfter: calledOffWait}, nil
		}
	}
}

// calledOffWait is how long after an action was called off the Pipeline is looked at again, should no event do it before.
const calledOffWait = 5 * time.Second

// write makes the status the Pipeline's, unless it is already. The update carries the resourceVersion that the status was
// planned from, so that it fails if the plan was made from anything but the newest Pipeline: with an action in the plan, this
// is the claim on it.
func (r *PipelineReconciler) write(ctx context.Context, pipeline *pipelinesv1.Pipeline, status pipelinesv1.PipelineStatus) error {
	if equality.Semantic.DeepEqual(pipeline.Status, status) {
		return nil
	}
	before := pipeline.Status
	changed := pipeline.DeepCopy()
	changed.Status = status
	if err := r.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	*pipeline = *changed
	r.announce(ctx, pipeline, before)
	return nil
}

// conflictIsNews turns a conflict into nothing: whoever changed the Pipeline meanwhile has queued it by that.
func conflictIsNews(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
