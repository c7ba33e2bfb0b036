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

// Package controller reconciles Pipelines: it observes, plans, claims, acts and records.
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
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
	"github.com/sluice-toolkit/sluice/runtime/announce"
	"github.com/sluice-toolkit/sluice/runtime/ownwrites"
)

// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines/status,verbs=update
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=promotionapprovals,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=notification.toolkit.fluxcd.io,resources=alerts,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Targets reads the application objects of targets in all clusters.
type Targets interface {
	// Want declares all current targets of a Pipeline, and how they are read.
	Want(ctx context.Context, pipeline *pipelinesv1.Pipeline)
	// Forget declares that the Pipeline does not exist.
	Forget(pipeline types.NamespacedName)
	// Refresh triggers an immediate lookup of the clusters of the Pipeline's targets, and an attempt to connect to
	// those that are unreachable.
	Refresh(pipeline types.NamespacedName)
	// Read returns the state of a target. It blocks neither on a cluster nor on a watch that has not started.
	Read(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) application.State
	// ReadSources declares all sources that are read for a Pipeline, and returns their states.
	ReadSources(ctx context.Context, pipeline *pipelinesv1.Pipeline, of []application.SourceOf) []application.State
}

// PullRequests promotes with pull requests.
type PullRequests interface {
	// Open opens the pull request of a promotion, or finds the existing one.
	Open(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome
	// Poll returns the state of a pull request.
	Poll(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus) plan.PullRequest
	// Withdraw closes the pull request of a promotion, if there is one.
	Withdraw(ctx context.Context, promotion promote.Promotion, why string) plan.Outcome
	// Renew creates the commit of a pull request again if the changed files have changed on the base branch.
	Renew(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome
	// ReportPreconditions sets the commit status of a pull request.
	ReportPreconditions(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, status pipelinesv1.PreconditionsCommitStatus) plan.Outcome
	// Merge merges a pull request if its head has not changed.
	Merge(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome
}

// Notifications promotes with notifications.
type Notifications interface {
	// Notify posts the event of a promotion.
	Notify(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome
}

// Pool runs tasks that may wait for Git hosts.
type Pool interface {
	// Do runs the task, immediately or when its turn comes, unless there is a task with its key. It reports whether the
	// task is running.
	Do(task workpool.Task) bool
	// Running reports whether the task with the key is running.
	Running(key string) bool
	// Waited returns how long the task with the key has waited to start.
	Waited(key string) time.Duration
	// Cancel cancels the task with the key, or removes it if it has not started.
	Cancel(key string)
}

// PipelineReconciler reconciles Pipelines.
type PipelineReconciler struct {
	client.Client
	*announce.Announcer

	// Live reads without a cache.
	Live client.Reader
	// Targets reads application objects.
	Targets Targets
	// PullRequests promotes with pull requests.
	PullRequests PullRequests
	// Notifications promotes with notifications.
	Notifications Notifications
	// Actions runs the actions of plans, one at a time for each Pipeline.
	Actions Pool
	// Polls runs polls of pull requests.
	Polls Pool
	// HTTPApprover returns the user name of approvals by HTTP, which is the controller's own.
	HTTPApprover func(context.Context) (string, error)
	// ReadAlerts is true if the cluster has Alerts and the controller may read them.
	ReadAlerts bool
	// NoCrossNamespaceRefs denies references to gates in other namespaces.
	NoCrossNamespaceRefs bool
	// Now is the clock.
	Now func() time.Time

	polls polls
	own   ownwrites.Log
}

// queuePatience is how long a notification waits for its turn before the status reports that. When many Pipelines
// promote at once, each write of a status would make the others wait longer.
const queuePatience = 2 * time.Minute

// newsWait is the time after which a Pipeline is reconciled that has changed but is old in the cache, if no event
// triggers it earlier.
const newsWait = time.Second

// Reconcile writes the planned status. An action of the plan is run separately, in a task, after which the Pipeline is
// reconciled again.
func (r *PipelineReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pipeline := &pipelinesv1.Pipeline{}
	if err := r.Get(ctx, req.NamespacedName, pipeline); err != nil {
		if apierrors.IsNotFound(err) {
			r.Targets.Forget(req.NamespacedName)
			r.Actions.Cancel(req.String())
			r.own.Forget(req.NamespacedName)
			forgetMeasures(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.own.IsAheadOf(pipeline) {
		return ctrl.Result{RequeueAfter: newsWait}, nil
	}
	defer durations.RecordDuration(referTo(req.NamespacedName), time.Now())
	if !pipeline.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, pipeline)
	}
	if controllerutil.AddFinalizer(pipeline, pipelinesv1.PipelineFinalizer) {
		// The optimistic lock keeps a stale copy from reverting another client's change to the list of finalizers.
		before := pipeline.DeepCopy()
		controllerutil.RemoveFinalizer(before, pipelinesv1.PipelineFinalizer)
		if err := r.Patch(ctx, pipeline, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return conflictIsNews(err)
		}
	}

	if r.Actions.Running(req.String()) {
		// The end of the task triggers a reconcile.
		return ctrl.Result{}, nil
	}
	world, wait, err := r.observe(ctx, pipeline)
	if err != nil || wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	next := plan.Next(world)
	chores := r.choresFor(pipeline, world, next)
	if next.Action != nil || len(chores) > fewChores {
		if r.Actions.Do(r.actionTask(pipeline, next)) {
			return ctrl.Result{}, nil
		}
		if wait := queuePatience - r.Actions.Waited(req.String()); wait > 0 && next.Action != nil && next.Action.Kind == plan.Notify {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		// The action waits for its turn. Until then the status reports that.
		world.Queued = true
		next = plan.Next(world)
		chores = r.choresFor(pipeline, world, next)
	}
	if len(chores) > fewChores {
		return conflictIsNews(r.write(ctx, pipeline, plan.AwaitChores(world)))
	}
	if err := r.settle(ctx, pipeline, chores, next); err != nil {
		return conflictIsNews(err)
	}
	return ctrl.Result{RequeueAfter: next.RequeueAfter}, nil
}

// settle writes the status of a plan, once its chores are done. If the plan has an action, the write is the claim on
// it.
func (r *PipelineReconciler) settle(ctx context.Context, pipeline *pipelinesv1.Pipeline, chores []chore, next plan.Plan) error {
	if err := doAll(ctx, chores); err != nil {
		return err
	}
	return r.write(ctx, pipeline, next.Status)
}

// write updates the status if it has changed. The update contains the resourceVersion from which the status was
// planned, so it fails if the plan was not made from the newest Pipeline. If the plan has an action, the write is the
// claim on it.
func (r *PipelineReconciler) write(ctx context.Context, pipeline *pipelinesv1.Pipeline, status pipelinesv1.PipelineStatus) error {
	if equality.Semantic.DeepEqual(pipeline.Status, status) {
		return nil
	}
	before := pipeline.Status
	// The response is decoded into the copy, and the plan's status shares parts with the Pipeline's.
	changed := pipeline.DeepCopy()
	status.DeepCopyInto(&changed.Status)
	if err := r.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	*pipeline = *changed
	r.own.Remember(pipeline)
	r.announce(ctx, pipeline, before)
	return nil
}

// conflictIsNews ignores a conflict: the change that caused it triggers a reconcile.
func conflictIsNews(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: newsWait}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
