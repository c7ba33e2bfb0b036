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
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

// actionTimeout bounds an action: cloning a repository of some hundred megabytes takes a while.
const actionTimeout = 5 * time.Minute

// act carries an action out that this Pipeline's status has claimed.
func (r *PipelineReconciler) act(ctx context.Context, pipeline *pipelinesv1.Pipeline, action plan.Action) plan.Outcome {
	promotion, ok := promotionOf(pipeline, action.Environment)
	if !ok {
		return plan.Outcome{Err: errors.New("the promotion is no longer configured")}
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	ctrl.LoggerFrom(ctx).Info("acting", "action", action.Kind, "environment", action.Environment, "revision", action.Revision)

	recorded := pipeline.Status.Environments[action.Environment].Promotion.PullRequest
	confirm := func(ctx context.Context) (string, error) { return r.confirm(ctx, pipeline, action) }
	switch action.Kind {
	case plan.OpenPullRequest:
		return r.PullRequests.Open(ctx, promotion, confirm)
	case plan.Notify:
		// Cut off halfway it may have been delivered or not. It has a timeout of its own.
		ctx := context.WithoutCancel(ctx)
		return r.Notifications.Notify(ctx, promotion, confirm)
	case plan.Renew:
		return r.seenAnew(pipeline, action, r.PullRequests.Renew(ctx, promotion, recorded, confirm))
	case plan.ReportGates:
		return r.PullRequests.ReportGates(ctx, promotion, recorded, action.Gates)
	case plan.Merge:
		return r.seenAnew(pipeline, action, r.PullRequests.Merge(ctx, promotion, recorded, confirm))
	default:
		return r.PullRequests.Withdraw(ctx, promotion, action.Why)
	}
}

// seenAnew has the pull request looked at once it has changed.
func (r *PipelineReconciler) seenAnew(pipeline *pipelinesv1.Pipeline, action plan.Action, outcome plan.Outcome) plan.Outcome {
	if outcome.Err == nil {
		r.looks.forget(pipeline.UID, action.Environment)
	}
	return outcome
}

// confirm looks once more, on fresh reads, whether the promotion may go ahead. It is asked right before the outside world is
// touched: minutes may have passed since the plan, and what the plan saw came from a cache.
func (r *PipelineReconciler) confirm(ctx context.Context, planned *pipelinesv1.Pipeline, action plan.Action) (string, error) {
	fresh := &pipelinesv1.Pipeline{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(planned), fresh); err != nil {
		return "", fmt.Errorf("reading the Pipeline once more: %w", err)
	}
	if fresh.UID != planned.UID || fresh.Generation != planned.Generation || !fresh.DeletionTimestamp.IsZero() {
		return "the Pipeline has changed", nil
	}
	env := fresh.Environment(action.Environment)
	promotion := fresh.PromotionInto(env)
	gates, err := r.findGates(ctx, r.Live, fresh)
	if err != nil {
		return "", err
	}
	approvals, err := approvalsOf(ctx, r.Live, fresh)
	if err != nil {
		return "", err
	}
	return unmet(precondition.Evaluate(precondition.Input{
		Environment: env.Name, Revision: action.Revision, Promotion: promotion, Gates: gates, Approvals: approvals,
	})), nil
}

func unmet(results []precondition.Result) string {
	var why []string
	for _, result := range results {
		if !result.Met {
			why = append(why, result.Message)
		}
	}
	return strings.Join(why, "; ")
}

// record writes what came of an action. The action has happened, so that the write is repeated until it succeeds, on a
// Pipeline that was changed meanwhile as well. What is lost all the same, with the process for instance, is found again by the
// next attempt if it was a pull request.
func (r *PipelineReconciler) record(ctx context.Context, pipeline *pipelinesv1.Pipeline, action plan.Action, outcome plan.Outcome) error {
	// The outcome is worth recording even if the controller is being stopped right now.
	ctx = context.WithoutCancel(ctx)
	planned := pipeline.UID
	return retry.OnError(recordBackoff, worthRepeating, func() error {
		changed := pipeline.DeepCopy()
		if !plan.Record(changed, action, outcome, r.Now()) {
			return nil
		}
		err := r.write(ctx, pipeline, changed.Status)
		if apierrors.IsConflict(err) {
			err = errors.Join(err, r.Live.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline))
		}
		if pipeline.UID != planned {
			return fmt.Errorf("the Pipeline was replaced: %w", errGone)
		}
		return err
	})
}

// recordBackoff repeats for some ten seconds.
var recordBackoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10}

var errGone = errors.New("it is gone")

func worthRepeating(err error) bool {
	return !apierrors.IsNotFound(err) && !errors.Is(err, errGone)
}
