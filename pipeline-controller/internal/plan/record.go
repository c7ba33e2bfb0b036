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
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

const (
	// historyLength is how many past promotions of an environment the status remembers.
	historyLength = 10

	firstBackoff = 10 * time.Second
	mostBackoff  = 15 * time.Minute

	// longestError and longestMessage, in characters, bound what the status quotes of others. The API refuses a message of
	// more than 32768 bytes, and with it the whole status.
	longestError   = 2000
	longestMessage = 4000
	// longestDescription is what every Git host takes as the text of a commit status.
	longestDescription = 139
)

// Outcome is what came of an action.
type Outcome struct {
	// State that the action leads to: created, succeeded or abandoned. It is left empty when the action was called off
	// before anything was touched, because a precondition was no longer met.
	State pipelinesv1.PromotionState
	// Message says in a sentence what was done.
	Message string
	// PullRequest that was opened or found.
	PullRequest *pipelinesv1.PullRequestStatus
	// Err says why the action failed; the fields above mean nothing then.
	Err error
	// RetryAt is the earliest time for another attempt, where the other side named one.
	RetryAt time.Time
}

// Record writes an action's outcome into the status of a Pipeline, which may have changed since the action was planned. It
// returns false, having changed nothing, if the promotion is no longer there to be recorded.
func Record(pipeline *pipelinesv1.Pipeline, action Action, outcome Outcome, now time.Time) bool {
	status := pipeline.Status.Environments[action.Environment]
	if status == nil || status.Promotion == nil {
		return false
	}
	record := status.Promotion
	if record.Revision != action.Revision || !record.StartTime.Equal(&action.StartTime) || record.State.Ended() {
		return false
	}
	switch {
	case action.Kind == Renew || action.Kind == ReportGates || action.Kind == Merge:
		return recordStep(pipeline, record, action, outcome, now)
	case outcome.Err != nil:
		record.LastError = cut(outcome.Err.Error(), longestError)
		record.NextAttemptTime = ptr(metav1.NewTime(now.Add(backoffFor(pipeline, action.Environment, record.Revision, record.Attempts))))
		if !outcome.RetryAt.IsZero() {
			record.RateLimitedUntil = ptr(metav1.NewTime(outcome.RetryAt))
		}
		if action.Kind != Withdraw {
			record.State = pipelinesv1.PromotionFailed
			record.Message = "the last attempt failed"
		}
	case outcome.State == "":
		record.Message = outcome.Message
	case outcome.State == pipelinesv1.PromotionCreated:
		record.State = outcome.State
		record.Message = outcome.Message
		record.LastError = ""
		record.PullRequest = outcome.PullRequest
		record.PullRequest.Warning = cut(outcome.PullRequest.Warning, longestError)
	default:
		if outcome.PullRequest != nil {
			record.PullRequest = outcome.PullRequest
		}
		end(record, outcome.State, outcome.Message, now)
	}
	return true
}

// begin makes a new record for the revision and puts the one before into the history. Its start is later than the one before
// it by a second at least, which is what the API keeps: the start tells promotions of the same revision apart.
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

// archive moves the record into the history. One that was never attempted is no history.
func archive(status *pipelinesv1.EnvironmentStatus) {
	if record := status.Promotion; record != nil && record.Attempts > 0 {
		status.History = append([]pipelinesv1.PromotionRecord{*record}, status.History...)
		status.History = status.History[:min(len(status.History), historyLength)]
	}
	status.Promotion = nil
	status.WaitingApproval.Revision = ""
}

func end(record *pipelinesv1.PromotionRecord, state pipelinesv1.PromotionState, message string, now time.Time) {
	record.State = state
	record.Message = message
	record.LastError = ""
	record.NextAttemptTime = nil
	record.CompletionTime = ptr(metav1.NewTime(now))
}

// mayHavePullRequest tells whether a pull request of the promotion may be open. A failed attempt, or one whose end was never
// recorded, may have left one.
func mayHavePullRequest(record *pipelinesv1.PromotionRecord) bool {
	return record != nil && !record.State.Ended() && record.Attempts > 0
}

// supersede ends the promotions of all revisions but the current one, in every environment, whether the run has come that
// far or not: their pull requests must not be merged any more. While there is no current revision, and so nothing to take
// their place, it ends only those into environments that have left the spec. What it has begun to withdraw is withdrawn to the
// end, even if its revision is the current one again: a pull request that Sluice has closed was not given up by a person.
func (p *planner) supersede(current string) {
	for _, name := range slices.Sorted(maps.Keys(p.pipeline.Status.Environments)) {
		status := p.pipeline.Status.Environments[name]
		record := status.Promotion
		if record == nil {
			continue
		}
		wanted := p.pipeline.Environment(name) != nil && (current == "" || revision.Equal(record.Revision, current))
		if wanted && (!record.Superseded || record.State == pipelinesv1.PromotionSucceeded) {
			continue
		}
		if !mayHavePullRequest(record) {
			archive(status)
			continue
		}
		if p.pipeline.Environment(name) != nil && p.givenUp(name, record) {
			continue // if the run stands there
		}
		why := "superseded by " + revision.Short(current)
		if p.pipeline.Environment(name) == nil {
			why = "the environment has left the Pipeline"
		}
		if p.usesPullRequests(name) {
			p.withdraw(name, record, why)
			continue
		}
		end(record, pipelinesv1.PromotionAbandoned, why, p.Now)
		archive(status)
	}
}

// withdraw is tried at once, whatever the promotion was waiting for until then.
func (p *planner) withdraw(env string, record *pipelinesv1.PromotionRecord, why string) {
	if !record.Superseded {
		record.Superseded, record.NextAttemptTime, record.LastError = true, nil, ""
	}
	if !p.tooSoon(record, record.NextAttemptTime) && p.claim(Withdraw, env, record) {
		p.action.Why = why
	}
}

// givenUp tells whether a person has asked for another promotion while this one can't be withdrawn, and no change of the spec could mend
// that.
func (p *planner) givenUp(env string, record *pipelinesv1.PromotionRecord) bool {
	return p.forced && mayHavePullRequest(record) && record.Superseded && record.LastError != "" && p.elsewhere(env, record) && !p.rateLimited(record)
}

// giveUp ends a promotion that is not withdrawn.
func (p *planner) giveUp(status *pipelinesv1.EnvironmentStatus) {
	record := status.Promotion
	end(record, pipelinesv1.PromotionAbandoned, fmt.Sprintf("given up by a person: withdrawing it failed: %s; a pull request may still be open in %s",
		record.LastError, record.Repository.URL), p.Now)
	archive(status)
}

// superseding says what an environment waits for whose last promotion is yet to be withdrawn.
func (p *planner) superseding(env string, record *pipelinesv1.PromotionRecord) verdict {
	if p.rateLimited(record) {
		return broken(pipelinesv1.PromotionFailedReason, "%s: withdrawing the promotion of %s waits until %s, as the Git host asks",
			env, revision.Short(record.Revision), nextTry(record))
	}
	if record.LastError != "" {
		hint := ""
		if p.elsewhere(env, record) {
			hint = fmt.Sprintf("; %s is no longer named in the spec: mend its access, or force the promotion, which leaves what is open there", record.Repository.URL)
		}
		return broken(pipelinesv1.PromotionFailedReason, "%s: withdrawing the promotion of %s failed: %s%s", env, revision.Short(record.Revision), record.LastError, hint)
	}
	return progressing(pipelinesv1.PromotingReason, "%s: withdrawing the promotion of %s", env, revision.Short(record.Revision))
}

// repositoryOf remembers where a pull request is to be opened; nil for a URL that nothing can be opened at. A password that somebody has
// written into the URL isn't used, and stays out of the status.
func repositoryOf(pr *pipelinesv1.PullRequestPromotion) *pipelinesv1.RepositoryReference {
	parsed, err := url.Parse(pr.URL)
	if err != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil
	}
	if parsed.User != nil && parsed.Scheme == "ssh" {
		parsed.User = url.User(parsed.User.Username())
	} else {
		parsed.User = nil
	}
	return &pipelinesv1.RepositoryReference{Type: pr.Type, URL: parsed.String(), BaseBranch: pr.BaseBranch, SecretRef: pr.SecretRef}
}

// usesPullRequests tells whether the environment's last promotion is a pull request, whatever the spec says by now.
func (p *planner) usesPullRequests(name string) bool {
	if status := p.pipeline.Status.Environments[name]; status != nil && status.Promotion != nil && status.Promotion.Repository != nil {
		return true
	}
	return p.pullRequestsInto(name) != nil
}

// pullRequestsInto returns how the spec has pull requests made for an environment; nil if it has none made.
func (p *planner) pullRequestsInto(name string) *pipelinesv1.PullRequestPromotion {
	if promotion := p.pipeline.PromotionInto(p.pipeline.Environment(name)); promotion != nil {
		return promotion.Strategy.PullRequest
	}
	return nil
}

// elsewhere tells whether the environment's last promotion was made in a repository that its spec no longer names, so that no change of
// the spec can mend the access to it.
func (p *planner) elsewhere(name string, record *pipelinesv1.PromotionRecord) bool {
	if record.Repository == nil {
		return false
	}
	configured := p.pullRequestsInto(name)
	return configured == nil || !SameRepository(configured.URL, record.Repository.URL)
}

// SameRepository tells whether two URLs are of one repository, be it by HTTPS or by SSH.
func SameRepository(a, b string) bool {
	place := func(repository string) string {
		parsed, err := url.Parse(repository)
		if err != nil {
			return repository
		}
		return strings.ToLower(parsed.Hostname()) + strings.TrimSuffix(strings.TrimRight(parsed.Path, "/"), ".git")
	}
	return place(a) == place(b)
}

// arrived ends the promotion into an environment that runs the revision now. One that was never attempted was not needed
// after all; one whose attempt was not recorded has evidently succeeded. A pull request is followed to its own end, and a
// promotion of another revision is still to be withdrawn.
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
		record.ArrivalTime = ptr(metav1.NewTime(p.Now))
	}
}

// showPreconditions writes into the status what the preconditions say, since when, and what waits for a person.
func (p *planner) showPreconditions(status *pipelinesv1.EnvironmentStatus, current string, results []precondition.Result) {
	before := status.Promotion.Preconditions
	shown := make([]pipelinesv1.PreconditionStatus, len(results))
	status.WaitingApproval.Revision = ""
	for i, result := range results {
		shown[i] = pipelinesv1.PreconditionStatus{
			Type: result.Type, Met: result.Met, Reason: result.Reason, Message: result.Message, LastTransitionTime: ptr(metav1.NewTime(p.Now)),
		}
		for _, old := range before {
			if old.Type == result.Type && old.Met == result.Met && old.LastTransitionTime != nil {
				shown[i].LastTransitionTime = old.LastTransitionTime
			}
		}
		if !result.NextTransition.IsZero() {
			shown[i].NextTransitionTime = ptr(metav1.NewTime(result.NextTransition))
			p.wakeAt(result.NextTransition)
		}
		if result.Type == precondition.ApprovalType && !result.Met {
			status.WaitingApproval.Revision = current
		}
	}
	status.Promotion.Preconditions = shown
}

// backoffFor doubles with each attempt, up to a limit, and is spread by a fifth so that promotions which failed together
// don't come back together. It depends on nothing but its arguments.
func backoffFor(pipeline *pipelinesv1.Pipeline, env, revision string, attempts int32) time.Duration {
	wait := mostBackoff
	if doublings := max(attempts-1, 0); doublings < 10 {
		wait = min(firstBackoff<<doublings, mostBackoff)
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%s/%s/%d", pipeline.UID, env, revision, attempts)
	spread := time.Duration(hash.Sum32()%1000) * wait / 5 / 1000
	return (wait - spread).Round(time.Second)
}

// cut shortens what others wrote.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
