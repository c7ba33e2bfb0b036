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
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// telling maps the states of a promotion that are reported by events to the reason of the event and the state of the
// environment.
var telling = map[pipelinesv1.PromotionState]struct {
	reason string
	stands pipelinesv1.EnvironmentState
}{
	pipelinesv1.PromotionUnapproved: {pipelinesv1.WaitingForPreconditionsReason, pipelinesv1.EnvironmentWaiting},
	pipelinesv1.PromotionCreated:    {pipelinesv1.PullRequestOpenReason, pipelinesv1.EnvironmentPullRequestOpen},
	pipelinesv1.PromotionSucceeded:  {pipelinesv1.PromotedReason, pipelinesv1.EnvironmentPromoted},
	pipelinesv1.PromotionAbandoned:  {pipelinesv1.PromotionAbandonedReason, pipelinesv1.EnvironmentAbandoned},
	pipelinesv1.PromotionFailed:     {pipelinesv1.PromotionFailedReason, pipelinesv1.EnvironmentFailed},
}

// announce reports every promotion that the status has moved on: in the log, in metrics, in an event on the Pipeline,
// and to notification-controller for the environment's applications too. Flux's Alerts support Pipelines only with the
// component alert-kinds, but existing Alerts for the applications include the latter.
func (r *PipelineReconciler) announce(ctx context.Context, pipeline *pipelinesv1.Pipeline, before pipelinesv1.PipelineStatus) {
	for _, env := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		old, now := before.Environments[env], pipeline.Status.Environments[env]
		if len(now.History) > 0 && left(old, &now.History[0]) {
			r.tell(ctx, pipeline, env, &now.History[0])
		}
		measure(pipeline, env, old, now.Promotion)
		if now.Promotion != nil && moved(old, now.Promotion) {
			r.tell(ctx, pipeline, env, now.Promotion)
		}
	}
	for env := range before.Environments {
		if pipeline.Status.Environments[env] == nil {
			forgetEnvironment(pipeline, env)
		}
	}
}

func (r *PipelineReconciler) tell(ctx context.Context, pipeline *pipelinesv1.Pipeline, env string, record *pipelinesv1.PromotionRecord) {
	as, ok := telling[record.State]
	switch {
	case record.RollbackTime != nil:
		as.reason, as.stands = pipelinesv1.RolledBackReason, pipelinesv1.EnvironmentRolledBack
	case record.State == pipelinesv1.PromotionCreated && record.LastError != "":
		as.reason, as.stands = pipelinesv1.PullRequestUnknownReason, pipelinesv1.EnvironmentFailed
	}
	if !ok {
		return
	}
	eventType := corev1.EventTypeNormal
	if record.LastError != "" || record.RollbackTime != nil {
		eventType = corev1.EventTypeWarning
	}
	status := pipeline.Status.Environments[env]
	message := plaintext.Line(env + ": " + messageOf(status, record, as.stands))
	if status.Promotion == record && status.WaitingApproval.Revision != "" {
		message += fmt.Sprintf("; to approve: flux approve promotion %s --env %s -n %s", pipeline.Name, env, pipeline.Namespace)
	}
	r.Event(pipeline, eventType, as.reason, message)
	for _, app := range r.applications(ctx, pipeline, env) {
		r.Post(&app, pipeline, eventType, as.reason, fmt.Sprintf("pipeline %s/%s: %s", pipeline.Namespace, pipeline.Name, message))
	}
	ctrl.LoggerFrom(ctx).Info(message, "environment", env, "revision", record.Revision, "state", record.State)
}

// messageOf returns the environment's message about its promotion. If another promotion has replaced it, only the
// record has the message.
func messageOf(status *pipelinesv1.EnvironmentStatus, record *pipelinesv1.PromotionRecord, stands pipelinesv1.EnvironmentState) string {
	if status.Promotion == record && status.State == stands {
		return status.Message
	}
	message := record.Message
	if record.LastError != "" {
		message = record.LastError
	}
	return revision.Short(record.Revision) + ": " + message
}

// applications returns references to the application objects of an environment that can be read and are in this
// cluster.
func (r *PipelineReconciler) applications(ctx context.Context, pipeline *pipelinesv1.Pipeline, name string) []corev1.ObjectReference {
	var found []corev1.ObjectReference
	env := pipeline.Environment(name)
	if env == nil {
		return nil
	}
	for _, t := range env.Targets {
		if state := r.Targets.Read(ctx, pipeline, t); state.Known && t.ClusterRef == nil {
			found = append(found, state.Object)
		}
	}
	return found
}

// left reports whether a past promotion has ended and was replaced immediately.
func left(before *pipelinesv1.EnvironmentStatus, past *pipelinesv1.PromotionRecord) bool {
	return before != nil && before.Promotion != nil && before.Promotion.StartTime.Equal(&past.StartTime) && before.Promotion.State != past.State
}

// moved reports whether the record has a new state or message, or waits for what it did not wait for before. A repeated
// error is not new.
func moved(before *pipelinesv1.EnvironmentStatus, record *pipelinesv1.PromotionRecord) bool {
	if before == nil || before.Promotion == nil {
		return true
	}
	old := before.Promotion
	return old.State != record.State || old.RollbackTime == nil && record.RollbackTime != nil || old.Revision != record.Revision || !old.StartTime.Equal(&record.StartTime) ||
		record.LastError != "" && old.LastError != record.LastError || blockedAgain(old, record)
}

// blockedAgain reports whether a precondition was met and no longer is, for instance because a gate has closed.
func blockedAgain(old, record *pipelinesv1.PromotionRecord) bool {
	if record.State != pipelinesv1.PromotionUnapproved && record.State != pipelinesv1.PromotionCreated {
		return false
	}
	return slices.ContainsFunc(record.Preconditions, func(now pipelinesv1.PreconditionStatus) bool {
		return !now.Met && slices.ContainsFunc(old.Preconditions, func(before pipelinesv1.PreconditionStatus) bool {
			return before.Type == now.Type && before.Met
		})
	})
}
