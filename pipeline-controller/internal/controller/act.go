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
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
)

// actionTimeout is the timeout of an action. Cloning a repository of some hundred megabytes takes a while.
const actionTimeout = 5 * time.Minute

const (
	// calledOffWait is the time after which the Pipeline is reconciled if an action was called off and no event
	// triggers it earlier.
	calledOffWait = 5 * time.Second
	// stepRetry is the time after which the Pipeline is reconciled if a step failed.
	stepRetry = 5 * time.Second
)

// actionTask runs the planned action of a Pipeline, or its chores if there are many.
func (r *PipelineReconciler) actionTask(pipeline *pipelinesv1.Pipeline, next plan.Plan) workpool.Task {
	name := client.ObjectKeyFromObject(pipeline)
	var promotion promote.Promotion
	if next.Action != nil {
		planned := *pipeline
		planned.Status = next.Status
		promotion, _ = promotionOf(&planned, next.Action.Environment)
	}
	return workpool.Task{Key: name.String(), Pipeline: name, Host: hostOf(promotion), Run: func(ctx context.Context) time.Duration {
		again, err := r.step(ctx, name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "running a step of the Pipeline failed")
			return stepRetry
		}
		return again
	}}
}

// hostOf returns the Git host of a promotion. Notifications have none: they are all sent to the operator's own
// notification-controller.
func hostOf(promotion promote.Promotion) string {
	if promotion.Strategy.PullRequest == nil {
		return ""
	}
	return scm.HostName(promotion.Strategy.PullRequest.URL)
}

// step plans again, since the task may have waited long for its turn, and runs the action of the plan. It runs a single
// action, so other tasks have their turn. It returns the time after which the Pipeline must be reconciled.
func (r *PipelineReconciler) step(ctx context.Context, name types.NamespacedName) (again time.Duration, err error) {
	pipeline := &pipelinesv1.Pipeline{}
	if err := r.Get(ctx, name, pipeline); err != nil || !pipeline.DeletionTimestamp.IsZero() {
		return 0, client.IgnoreNotFound(err)
	}
	if r.own.IsAheadOf(pipeline) {
		return newsWait, nil
	}
	world, wait, err := r.observe(ctx, pipeline)
	if err != nil || wait > 0 {
		return wait, err
	}
	next := plan.Next(world)
	chores := r.choresFor(pipeline, world, next)
	if len(chores) > fewChores {
		ctrl.LoggerFrom(ctx).Info("deleting stale approvals and adopting current ones", "pipeline", name, "approvals", len(chores))
		result, err := conflictIsNews(doAll(ctx, chores[:min(len(chores), mostChores)]))
		return max(result.RequeueAfter, choresPause), err
	}
	if next.Action == nil {
		return 0, nil
	}
	if len(chores) > 0 {
		if err := doAll(ctx, chores); err != nil {
			result, err := conflictIsNews(err)
			return result.RequeueAfter, err
		}
		// They may have taken seconds, and a claim contains the time of the next attempt.
		world.Now = r.Now()
		next = plan.Next(world)
	}
	if err := r.write(ctx, pipeline, next.Status); err != nil || next.Action == nil {
		result, err := conflictIsNews(err)
		return result.RequeueAfter, err
	}
	outcome := r.act(ctx, pipeline, world.Approvals, *next.Action)
	if err := r.record(ctx, pipeline, world, *next.Action, outcome); err != nil {
		return 0, err
	}
	if outcome.CalledOff() {
		// The cache does not show the reason yet. It will trigger a reconcile when it does.
		return calledOffWait, nil
	}
	return 0, nil
}

// act runs an action that the Pipeline's status has claimed.
func (r *PipelineReconciler) act(
	ctx context.Context, pipeline *pipelinesv1.Pipeline, approvals []pipelinesv1.PromotionApproval, action plan.Action,
) plan.Outcome {
	promotion, ok := promotionOf(pipeline, action.Environment)
	if !ok {
		return plan.Outcome{Err: errors.New("the promotion is no longer configured")}
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	ctrl.LoggerFrom(ctx).Info("running action", "action", action.Kind, "environment", action.Environment, "revision", action.Revision)

	recorded := pipeline.Status.Environments[action.Environment].Promotion.PullRequest
	confirm := func(ctx context.Context) (string, error) { return r.confirm(ctx, pipeline, approvals, action) }
	switch action.Kind {
	case plan.OpenPullRequest:
		promotion.Earlier = promote.Earlier{Promoted: plan.Promoted(&pipeline.Status), Merged: plan.Merged(&pipeline.Status)}
		return r.PullRequests.Open(ctx, promotion, confirm)
	case plan.Notify:
		// If it were cancelled, it would be unknown whether the event was delivered. It has its own timeout.
		ctx := context.WithoutCancel(ctx)
		return r.Notifications.Notify(ctx, promotion, confirm)
	case plan.Renew:
		return r.seenAgain(pipeline, action, r.PullRequests.Renew(ctx, promotion, recorded, confirm))
	case plan.ReportPreconditions:
		return r.PullRequests.ReportPreconditions(ctx, promotion, recorded, action.CommitStatus)
	case plan.Merge:
		return r.seenAgain(pipeline, action, r.PullRequests.Merge(ctx, promotion, recorded, confirm))
	default:
		return r.PullRequests.Withdraw(ctx, promotion, action.Why)
	}
}

// seenAgain triggers a check of the pull request after a change.
func (r *PipelineReconciler) seenAgain(pipeline *pipelinesv1.Pipeline, action plan.Action, outcome plan.Outcome) plan.Outcome {
	if outcome.Err == nil {
		r.polls.forget(pipeline.UID, action.Environment)
	}
	return outcome
}

// confirm checks again, with uncached reads, whether the promotion may continue. It is called right before any external
// change: the plan may be minutes old, and was made from a cache, including its approvals.
func (r *PipelineReconciler) confirm(
	ctx context.Context, planned *pipelinesv1.Pipeline, approvals []pipelinesv1.PromotionApproval, action plan.Action,
) (string, error) {
	fresh := &pipelinesv1.Pipeline{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(planned), fresh); err != nil {
		return "", fmt.Errorf("reading the Pipeline again: %w", err)
	}
	if fresh.UID != planned.UID || fresh.Generation != planned.Generation || !fresh.DeletionTimestamp.IsZero() {
		return "the Pipeline has changed", nil
	}
	env := fresh.Environment(action.Environment)
	promotion := fresh.PromotionInto(env)
	var refs []gatingv1.GateReference
	if promotion.Gates != nil {
		refs = promotion.Gates.Refs // the gates of other environments are irrelevant, and there may be 64 times as many
	}
	gates, err := r.findGates(ctx, r.Live, fresh.Namespace, refs)
	if err != nil {
		return "", err
	}
	byHTTP, err := r.httpApprover(ctx, fresh)
	if err != nil {
		return "", err
	}
	world := plan.World{Pipeline: fresh, Gates: gates, Approvals: approvals, HTTPApprover: byHTTP, Now: r.Now()}
	if world.Approvals, err = r.stillThere(ctx, fresh, world.PreconditionsOf(action)); err != nil {
		return "", err
	}
	return precondition.Unmet(precondition.Evaluate(world.PreconditionsOf(action))), nil
}

// record writes the outcome of an action. The action has happened, so the write is retried until it succeeds, even if
// the Pipeline has changed. If the outcome is lost nevertheless, for instance because the process dies, the next
// attempt finds the pull request again.
func (r *PipelineReconciler) record(
	ctx context.Context, pipeline *pipelinesv1.Pipeline, world plan.World, action plan.Action, outcome plan.Outcome,
) error {
	// The outcome must be recorded even if the controller is stopping.
	ctx = context.WithoutCancel(ctx)
	planned, claimed := pipeline.UID, pipeline.ResourceVersion
	return retry.OnError(recordBackoff, worthRepeating, func() error {
		changed := pipeline.DeepCopy()
		if !plan.Record(changed, action, outcome, r.Now()) {
			return nil
		}
		if action.Kind == plan.Notify && changed.ResourceVersion == claimed {
			r.conclude(changed, world)
		}
		err := r.write(ctx, pipeline, changed.Status)
		if apierrors.IsConflict(err) {
			err = errors.Join(err, r.Live.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline))
		}
		if pipeline.UID != planned {
			return errReplaced
		}
		return err
	})
}

// conclude plans the status of a Pipeline that has an outcome, from the world of the action, so the next reconcile need
// not write it. If that plan is more than a status, it is left to the next reconcile. An action on a pull request has
// changed that world.
func (r *PipelineReconciler) conclude(pipeline *pipelinesv1.Pipeline, world plan.World) {
	world.Pipeline, world.Now = pipeline, r.Now()
	if next := plan.Next(world); next.Action == nil && len(r.choresFor(pipeline, world, next)) == 0 {
		pipeline.Status = next.Status
	}
}

// recordBackoff retries for about ten seconds.
var recordBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10}

var errReplaced = errors.New("the Pipeline was replaced")

func worthRepeating(err error) bool {
	return !apierrors.IsNotFound(err) && !errors.Is(err, errReplaced)
}
