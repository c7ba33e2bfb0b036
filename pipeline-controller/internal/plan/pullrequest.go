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
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

const (
	// leastStepBackoff is the maximum backoff between attempts to merge a new pull request: the checks that a merge
	// waits for take minutes.
	leastStepBackoff = 2 * time.Minute
	// comparisonHolds is how long a pull request counts as up to date after a comparison with its base branch, even if
	// that moves. Otherwise a host that reports another commit at each request would make Sluice renew the commit
	// forever.
	comparisonHolds = 30 * time.Second
	// mergePoll is the time after which an accepted merge is requested again if it has not happened.
	mergePoll = time.Minute
)

// PullRequest is the last observed state of a promotion's pull request.
type PullRequest struct {
	// Merged is true if it was merged into the base branch.
	Merged bool
	// MergeCommit is the commit of the base branch after the merge, if the host reports it.
	MergeCommit string
	// Closed explains how it was closed without being merged into the base branch. It is empty otherwise.
	Closed string
	// NextPoll is the time of the next poll.
	NextPoll time.Time
	// RetryAt is the time from which the Git host accepts requests, if it reported one.
	RetryAt time.Time
	// HeadCommit is the commit at the head of its branch, and BaseCommit that of the base branch. They are empty if
	// unknown.
	HeadCommit, BaseCommit string
	// Pipeline is the newest CI pipeline of the head, on hosts where a commit status belongs to a CI pipeline. The
	// status is set again for each new one.
	Pipeline string
	// Err explains why the pull request could not be read. The fields above, except the times, are meaningless then.
	Err error
}

// open reports whether it waits to be merged.
func (s PullRequest) open() bool { return s.Err == nil && !s.Merged && s.Closed == "" }

// tendPullRequests keeps the commit status of every open pull request up to date with the promotion's preconditions. It
// merges the pull request of the current promotion if Sluice merges it.
func (p *planner) tendPullRequests() {
	if p.pipeline.Spec.Suspend {
		return
	}
	for i := range p.pipeline.Spec.Environments {
		env := &p.pipeline.Spec.Environments[i]
		record, promotion := p.environment(env.Name).Promotion, p.pipeline.PromotionInto(env)
		seen, ok := p.PullRequests[env.Name]
		open := ok && seen.open() && record != nil && record.State == pipelinesv1.PromotionCreated && !record.Superseded
		if open && promotion != nil {
			p.tend(env, promotion, record)
		}
	}
}

func (p *planner) tend(env *pipelinesv1.Environment, promotion *pipelinesv1.Promotion, record *pipelinesv1.PromotionRecord) {
	results := p.evaluate(p.preconditionInput(env.Name, record.Revision, promotion))
	pr, base := record.PullRequest, p.PullRequests[env.Name].BaseCommit
	status := commitStatus(pr.HeadCommit, results)
	status.Pipeline = p.PullRequests[env.Name].Pipeline
	if pr.HeadCommit != "" && (pr.CommitStatus == nil || *pr.CommitStatus != status) {
		p.step(Action{Kind: ReportPreconditions, CommitStatus: status}, env.Name, record, &pr.Reporting)
		return
	}
	// Others' commits are not touched. If the end of a Renew was not recorded, the next one reports whether it has
	// pushed.
	unrecorded := pr.Merging != nil && pr.Merging.Attempts > 0 && base != pr.BaseCommit
	if pr.HeadCommit == "" || pr.HeadCommit != pr.Commit && !unrecorded || env.Name != p.standsAt || !status.Met || base == "" {
		return
	}
	if base != pr.BaseCommit && !p.comparedLately(pr) {
		p.step(Action{Kind: Renew}, env.Name, record, &pr.Merging)
	} else if promotion.MergesItself() {
		p.step(Action{Kind: Merge}, env.Name, record, &pr.Merging)
	}
}

// comparedLately reports whether the pull request was compared with its base branch recently, so the comparison is
// skipped even if the base branch has moved. The host rejects a merge with conflicts.
func (p *planner) comparedLately(pr *pipelinesv1.PullRequestStatus) bool {
	if pr.ComparisonTime == nil || pr.HeadCommit != pr.Commit {
		return false
	}
	age := p.Now.Sub(pr.ComparisonTime.Time)
	if age < 0 || age >= comparisonHolds {
		return false
	}
	p.wakeAt(pr.ComparisonTime.Add(comparisonHolds))
	return true
}

// commitStatus returns the expected commit status of a pull request.
func commitStatus(commit string, results []precondition.Result) pipelinesv1.PreconditionsCommitStatus {
	status := pipelinesv1.PreconditionsCommitStatus{Commit: commit, Met: precondition.Met(results)}
	var told []string
	for _, result := range results {
		if result.Met == status.Met {
			told = append(told, result.Message)
		}
	}
	if len(results) == 0 {
		told = []string{"the promotion has no preconditions"}
	}
	status.Description = cut(strings.Join(told, "; "), longestDescription)
	return status
}

// step sets the plan's action, unless there is one already or the step is in backoff. As in a claim, the time of the
// next attempt is written with it.
func (p *planner) step(action Action, env string, record *pipelinesv1.PromotionRecord, status **pipelinesv1.StepStatus) {
	if *status == nil {
		*status = &pipelinesv1.StepStatus{}
	}
	step := *status
	if p.tooSoon(record, step.NextAttemptTime) || !p.mayAct() {
		return
	}
	step.Attempts++
	step.NextAttemptTime = new(nextStep(&p.pipeline, env, record, step.Attempts, p.Now))
	action.Environment, action.Revision, action.StartTime = env, record.Revision, record.StartTime
	p.action = &action
}

// recordStep records an attempt to renew the commit of a pull request, to set its commit status or to merge it.
func recordStep(pipeline *pipelinesv1.Pipeline, record *pipelinesv1.PromotionRecord, action Action, outcome Outcome, now time.Time) bool {
	pr := record.PullRequest
	if record.State != pipelinesv1.PromotionCreated || pr == nil {
		return false
	}
	status := &pr.Merging
	if action.Kind == ReportPreconditions {
		status = &pr.Reporting
	}
	switch {
	case outcome.Err != nil:
		failStep(pipeline, record, action, status, outcome, now)
	case outcome.State == "":
		// It was called off. The next plan contains the reason.
		if *status != nil {
			(*status).NextAttemptTime = nil
		}
	case outcome.State.Ended():
		*status = nil
		end(record, outcome.State, outcome.Message, now)
	case action.Kind == Renew:
		*status = nil
		pr.HeadCommit, pr.Commit = outcome.PullRequest.HeadCommit, outcome.PullRequest.Commit
		pr.BaseCommit, pr.BaseFiles = outcome.PullRequest.BaseCommit, outcome.PullRequest.BaseFiles
		pr.ComparisonTime = new(metav1.NewTime(now))
	case action.Kind == ReportPreconditions:
		*status = nil
		pr.CommitStatus = &action.CommitStatus
	default:
		// The next poll shows whether it was merged. Some hosts merge in the background.
		*status = &pipelinesv1.StepStatus{NextAttemptTime: new(metav1.NewTime(now.Add(mergePoll)))}
	}
	return true
}

func failStep(pipeline *pipelinesv1.Pipeline, record *pipelinesv1.PromotionRecord, action Action, status **pipelinesv1.StepStatus, outcome Outcome, now time.Time) {
	if *status == nil {
		*status = &pipelinesv1.StepStatus{Attempts: 1}
	}
	step := *status
	step.LastError = outcome.Err.Error()
	step.NextAttemptTime = new(nextStep(pipeline, action.Environment, record, step.Attempts, now))
	if !outcome.RetryAt.IsZero() {
		record.RateLimitedUntil = new(metav1.NewTime(outcome.RetryAt))
	}
}

// nextStep returns when a step is retried if the attempt fails. A merge waits for people and checks. The older it is,
// the longer both may take.
func nextStep(pipeline *pipelinesv1.Pipeline, env string, record *pipelinesv1.PromotionRecord, attempts int32, now time.Time) metav1.Time {
	most := min(max(now.Sub(record.StartTime.Time)/20, leastStepBackoff), mostBackoff)
	wait := min(backoffFor(pipeline, env, record.Revision, attempts), most)
	return metav1.NewTime(now.Add(wait.Round(time.Second)))
}
