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

package plan

import (
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// standing is the state of an environment and its explanation. The status and all conditions are derived from it.
type standing struct {
	state pipelinesv1.EnvironmentState
	// reason of the Ready condition if the run has reached this environment.
	reason  string
	message string
	// since is the start of the state, if a record knows it better than the last change of the state.
	since *metav1.Time
}

// reasons maps states to reasons of the Ready condition.
var reasons = map[pipelinesv1.EnvironmentState]string{
	pipelinesv1.EnvironmentCurrent:         pipelinesv1.UpToDateReason,
	pipelinesv1.EnvironmentSkipped:         pipelinesv1.UpToDateReason,
	pipelinesv1.EnvironmentNotReady:        pipelinesv1.EnvironmentNotReadyReason,
	pipelinesv1.EnvironmentUnknown:         pipelinesv1.TargetNotReadableReason,
	pipelinesv1.EnvironmentWaiting:         pipelinesv1.WaitingForPreconditionsReason,
	pipelinesv1.EnvironmentPromoting:       pipelinesv1.PromotingReason,
	pipelinesv1.EnvironmentPullRequestOpen: pipelinesv1.PullRequestOpenReason,
	pipelinesv1.EnvironmentPromoted:        pipelinesv1.PromotedReason,
	pipelinesv1.EnvironmentRollingOut:      pipelinesv1.RollingOutReason,
	pipelinesv1.EnvironmentRolledBack:      pipelinesv1.RolledBackReason,
	pipelinesv1.EnvironmentFailed:          pipelinesv1.PromotionFailedReason,
	pipelinesv1.EnvironmentAbandoned:       pipelinesv1.PromotionAbandonedReason,
	pipelinesv1.EnvironmentNotPromoted:     pipelinesv1.NoPromotionReason,
	pipelinesv1.EnvironmentSuspended:       pipelinesv1.SuspendedReason,
	pipelinesv1.EnvironmentInvalid:         pipelinesv1.InvalidSpecReason,
}

func stands(state pipelinesv1.EnvironmentState, format string, args ...any) standing {
	return standing{state: state, reason: reasons[state], message: fmt.Sprintf(format, args...)}
}

// runs returns the state of an environment that has settled on the run's revision. It is the most frequent one, so its
// message is not formatted.
func runs(message string) standing {
	return standing{state: pipelinesv1.EnvironmentCurrent, reason: pipelinesv1.UpToDateReason, message: message}
}

// because sets another reason for the Ready condition.
func (s standing) because(reason string) standing {
	s.reason = reason
	return s
}

// from sets the start of the state, which may be nil.
func (s standing) from(since *metav1.Time) standing {
	s.since = since
	return s
}

// byRecord returns the state of an environment whose promotion was attempted.
func byRecord(record *pipelinesv1.PromotionRecord) standing {
	name := revision.Short(record.Revision)
	switch record.State {
	case pipelinesv1.PromotionSucceeded:
		return stands(pipelinesv1.EnvironmentPromoted, "%s was promoted and is not rolled out yet: %s", name, record.Message).from(record.CompletionTime)
	case pipelinesv1.PromotionAbandoned:
		return stands(pipelinesv1.EnvironmentAbandoned, "%s is not promoted: %s; force the promotion to open another", name, record.Message).from(record.CompletionTime)
	case pipelinesv1.PromotionCreated:
		return stands(pipelinesv1.EnvironmentPullRequestOpen, "%s waits for pull request %s to be merged", name, record.PullRequest.URL).from(record.LastAttemptTime)
	}
	return stands(pipelinesv1.EnvironmentFailed, "promoting %s failed, next attempt at %s: %s", name, nextTry(record), record.LastError)
}

// ready returns the status of the Ready condition. A promotion that only waits is not an error. It is False if someone
// must fix something.
func (s standing) ready() metav1.ConditionStatus {
	switch s.state {
	case pipelinesv1.EnvironmentPromoting:
		return metav1.ConditionUnknown
	case pipelinesv1.EnvironmentUnknown, pipelinesv1.EnvironmentFailed, pipelinesv1.EnvironmentInvalid:
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

// of adds the environment's name, for a message about the whole Pipeline.
func (s standing) of(env string) standing {
	s.message = env + ": " + s.message
	return s
}

// stand writes the state of an environment, and its start, to the status.
func (p *planner) stand(env string, s standing) {
	status := p.environment(env)
	was, is := p.World.Pipeline.Status.Revision, p.pipeline.Status.Revision
	switch {
	case s.since != nil:
		status.Since = s.since
	case status.State != s.state || status.Since == nil || was != is && !revision.Equal(was, is):
		status.Since = new(metav1.NewTime(p.Now))
	}
	status.State, status.Message = s.state, s.message
	if p.stopped == nil && !s.state.Settled() {
		p.stopped = new(s.of(env))
	}
}

// blocked returns what blocks the whole Pipeline, or nil. The messages are those of the affected environments.
func (p *planner) blocked() (pipeline, environment *standing) {
	if reason, why := p.invalid(); reason != "" {
		return new(stands(pipelinesv1.EnvironmentInvalid, "%s", why).because(reason)),
			new(stands(pipelinesv1.EnvironmentInvalid, "nothing is promoted until the Pipeline's spec is corrected: %s", why).because(reason))
	}
	if p.pipeline.Spec.Suspend {
		return new(stands(pipelinesv1.EnvironmentSuspended, "suspended: nothing is promoted")),
			new(stands(pipelinesv1.EnvironmentSuspended, "nothing is promoted while the Pipeline is suspended"))
	}
	return nil, nil
}

// invalid returns what must be corrected in the spec before anything can be promoted, or "".
func (p *planner) invalid() (reason, why string) {
	if err := validate(&p.pipeline); err != nil {
		return pipelinesv1.InvalidSpecReason, err.Error()
	}
	if p.RevisionError != nil {
		return pipelinesv1.InvalidSpecReason, "spec.revision.expr is not valid: " + p.RevisionError.Error()
	}
	if p.shared != "" && p.promotes() {
		return pipelinesv1.SharedSourceReason, p.shared
	}
	if why := p.promotionLoop(); why != "" {
		return pipelinesv1.PromotionLoopReason, why
	}
	return "", ""
}

// promotes reports whether any environment has a promotion.
func (p *planner) promotes() bool {
	for env := range p.pipeline.PromotedEnvironments() {
		if p.pipeline.PromotionInto(env) != nil {
			return true
		}
	}
	return false
}

// conclude writes the conditions: what blocks the whole Pipeline, or otherwise the state of the run.
func (p *planner) conclude(blocked *standing) {
	if p.stopped == nil && blocked != nil && blocked.reason == pipelinesv1.PromotionLoopReason {
		p.stopped = blocked // each merge creates the next revision, so nothing ever settles
	}
	settled := runs("every environment runs " + revision.Short(p.pipeline.Status.Revision))
	if len(p.pipeline.Spec.Environments) == 0 {
		settled.message = "there are no environments"
	}
	ready := settled
	switch {
	case blocked != nil:
		ready = *blocked
	case p.stopped != nil:
		ready = *p.stopped
	}
	if ready.ready() == metav1.ConditionTrue {
		ready = p.lingeringError(ready)
	}
	p.pipeline.Status.ObservedGeneration = p.pipeline.Generation
	p.setReady(ready)
	p.setOrRemove(pipelinesv1.SharedSourceCondition, p.shared != "", standing{reason: pipelinesv1.SharedSourceReason, message: p.shared})
	unheard := p.unheard()
	p.setOrRemove(pipelinesv1.AlertMissingCondition, unheard != "", standing{reason: pipelinesv1.NoAlertReason, message: unheard})
	switch {
	case p.stopped == nil:
		p.setCondition(pipelinesv1.SettledCondition, metav1.ConditionTrue, settled)
	default:
		p.setCondition(pipelinesv1.SettledCondition, metav1.ConditionFalse, *p.stopped)
	}
	if len(p.pipeline.Spec.Environments) > 0 && p.pipeline.Status.Revision == "" {
		p.setCondition(pipelinesv1.PromotionPendingCondition, metav1.ConditionTrue, *p.stopped)
	} else {
		p.setCondition(pipelinesv1.PromotionPendingCondition, metav1.ConditionFalse,
			standing{reason: pipelinesv1.EnvironmentReadyReason, message: "the first environment is settled"})
	}
}

// lingeringError returns an error of another promotion than the current one, so a good state of the current one does
// not hide it.
func (p *planner) lingeringError(ready standing) standing {
	for _, name := range p.promoted() {
		record := p.pipeline.Status.Environments[name].Promotion
		if name != p.standsAt && !record.State.Ended() && record.LastError != "" {
			return stands(pipelinesv1.EnvironmentFailed, "promotion of %s: %s", revision.Short(record.Revision), record.LastError).of(name)
		}
	}
	return ready
}

func (p *planner) setReady(s standing) {
	p.setCondition(meta.ReadyCondition, s.ready(), s)
	p.setOrRemove(meta.StalledCondition, s.state == pipelinesv1.EnvironmentInvalid, s)
	if s.state == pipelinesv1.EnvironmentFailed {
		// As in Flux: kstatus waits for what is retried.
		s.reason = meta.ProgressingWithRetryReason
	}
	p.setOrRemove(meta.ReconcilingCondition, s.ready() == metav1.ConditionUnknown || s.state == pipelinesv1.EnvironmentFailed, s)
}

func (p *planner) setOrRemove(conditionType string, present bool, s standing) {
	switch {
	case present:
		p.setCondition(conditionType, metav1.ConditionTrue, s)
	case apimeta.FindStatusCondition(p.pipeline.Status.Conditions, conditionType) != nil:
		apimeta.RemoveStatusCondition(&p.pipeline.Status.Conditions, conditionType)
	}
}

func (p *planner) setCondition(conditionType string, status metav1.ConditionStatus, s standing) {
	apimeta.SetStatusCondition(&p.pipeline.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             s.reason,
		Message:            cut(s.message, longestMessage),
		ObservedGeneration: p.pipeline.Generation,
		LastTransitionTime: metav1.NewTime(p.Now),
	})
}
