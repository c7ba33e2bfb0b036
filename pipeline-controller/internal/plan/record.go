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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// historyLength is the maximum number of past promotions of an environment in the status.
const historyLength = 10

// Outcome is the outcome of an action.
type Outcome struct {
	// State after the action: created, succeeded or abandoned. It is empty if the action was called off before any
	// external change, because a precondition was no longer met.
	State pipelinesv1.PromotionState
	// Message describes what was done.
	Message string
	// PullRequest that was opened or found.
	PullRequest *pipelinesv1.PullRequestStatus
	// Loop is the previously promoted revision, if the revision of the promotion adds nothing to it but commits of
	// promotions. In that case nothing was changed, and the state is meaningless.
	Loop string
	// Err is the error of the action. The fields above are meaningless then.
	Err error
	// RetryAt is the earliest time of the next attempt, if the remote side reported one.
	RetryAt time.Time
}

// Record writes an action's outcome to the status of a Pipeline, which may have changed since the action was planned.
// It returns false, and changes nothing, if the promotion no longer exists.
func Record(pipeline *pipelinesv1.Pipeline, action Action, outcome Outcome, now time.Time) bool {
	recorded := recordOutcome(pipeline, action, outcome, now)
	if recorded {
		status := pipeline.Status.Environments[action.Environment]
		boundRecord(status.Promotion, longestText)
		if !outcome.CalledOff() {
			tellOutcome(status, now)
		}
	}
	return recorded
}

// CalledOff reports whether the action was called off before any external change.
func (o Outcome) CalledOff() bool { return o.State == "" && o.Err == nil }

// tellOutcome updates the state of an environment according to the outcome, before the next plan.
func tellOutcome(status *pipelinesv1.EnvironmentStatus, now time.Time) {
	record := status.Promotion
	if status.State != pipelinesv1.EnvironmentPromoting || record.Superseded {
		return
	}
	s := byRecord(record)
	status.State, status.Message, status.Since = s.state, cut(s.message, longestMessage), s.since
	if s.since == nil {
		status.Since = new(metav1.NewTime(now))
	}
}

func recordOutcome(pipeline *pipelinesv1.Pipeline, action Action, outcome Outcome, now time.Time) bool {
	status := pipeline.Status.Environments[action.Environment]
	if status == nil || status.Promotion == nil {
		return false
	}
	record := status.Promotion
	if record.Revision != action.Revision || !record.StartTime.Equal(&action.StartTime) || record.State.Ended() {
		return false
	}
	switch {
	case action.Kind == Renew || action.Kind == ReportPreconditions || action.Kind == Merge:
		return recordStep(pipeline, record, action, outcome, now)
	case outcome.Err != nil:
		record.LastError = outcome.Err.Error()
		record.NextAttemptTime = new(metav1.NewTime(now.Add(backoffFor(pipeline, action.Environment, record.Revision, record.Attempts))))
		if !outcome.RetryAt.IsZero() {
			record.RateLimitedUntil = new(metav1.NewTime(outcome.RetryAt))
		}
		if action.Kind != Withdraw {
			record.State = pipelinesv1.PromotionFailed
			record.Message = "the last attempt failed"
		}
	case outcome.Loop != "":
		record.Loop = outcome.Loop
		end(record, pipelinesv1.PromotionAbandoned, outcome.Message, now)
	case outcome.State == "":
		record.Message = outcome.Message
		record.NextAttemptTime = nil
	case outcome.State == pipelinesv1.PromotionCreated:
		record.State = outcome.State
		record.NextAttemptTime = nil
		record.Message = outcome.Message
		record.LastError = ""
		record.PullRequest = outcome.PullRequest
	default:
		switch {
		case outcome.PullRequest == nil:
		case record.PullRequest == nil:
			record.PullRequest = outcome.PullRequest
		default:
			record.PullRequest.MergeCommit = outcome.PullRequest.MergeCommit
		}
		end(record, outcome.State, outcome.Message, now)
	}
	return true
}

// begin creates a record for the revision and moves the previous one to the history. Its start is at least a second
// later than that of the previous one, which is the precision of the API: the start distinguishes promotions of the
// same revision.
func begin(status *pipelinesv1.EnvironmentStatus, current string, now time.Time) {
	archive(status)
	start := now
	if len(status.History) > 0 && !start.After(status.History[0].StartTime.Time) {
		start = status.History[0].StartTime.Add(time.Second)
	}
	status.Promotion = &pipelinesv1.PromotionRecord{
		Revision:  current,
		State:     pipelinesv1.PromotionUnapproved,
		StartTime: metav1.NewTime(start),
	}
}

// archive moves the record to the history, unless it was never attempted.
func archive(status *pipelinesv1.EnvironmentStatus) {
	if record := status.Promotion; record != nil && record.Attempts > 0 {
		status.History = append([]pipelinesv1.PromotionRecord{past(record)}, status.History...)
		status.History = status.History[:min(len(status.History), historyLength)]
	}
	status.Promotion = nil
	status.WaitingApproval.Revision = ""
}

// past returns the part of a record that the history keeps: of the pull request, only its location and commit.
func past(record *pipelinesv1.PromotionRecord) pipelinesv1.PromotionRecord {
	kept := *record
	kept.NextAttemptTime, kept.RateLimitedUntil = nil, nil
	if pr := record.PullRequest; pr != nil {
		kept.PullRequest = &pipelinesv1.PullRequestStatus{
			URL: pr.URL, Number: pr.Number, Branch: pr.Branch, HeadCommit: pr.HeadCommit, Commit: pr.Commit,
			MergeCommit: pr.MergeCommit, Warning: pr.Warning,
		}
	}
	return kept
}

func end(record *pipelinesv1.PromotionRecord, state pipelinesv1.PromotionState, message string, now time.Time) {
	record.State = state
	record.Message = message
	record.LastError = ""
	record.NextAttemptTime = nil
	record.CompletionTime = new(metav1.NewTime(now))
}

// arrived ends the promotion into an environment that now runs the revision. A promotion that was never attempted was
// not needed. One whose attempt was not recorded has succeeded. A pull request is followed until it is closed, and a
// promotion of another revision must still be withdrawn.
func (p *planner) arrived(env *pipelinesv1.Environment, current string) {
	status := p.environment(env.Name)
	status.WaitingApproval.Revision = ""
	record := status.Promotion
	if record == nil || !revision.Equal(record.Revision, current) {
		return
	}
	switch {
	case record.State.Ended() || record.State == pipelinesv1.PromotionCreated:
	case record.Attempts == 0:
		archive(status)
		return
	case p.usesPullRequests(env.Name):
		p.withdraw(env.Name, record, "the environment runs the revision")
		return
	default:
		end(record, pipelinesv1.PromotionSucceeded, "the environment runs the revision", p.Now)
	}
	if record.ArrivalTime == nil {
		record.ArrivalTime = new(metav1.NewTime(p.Now))
	}
	record.RollbackTime, record.RolledBackTo = nil, ""
}
