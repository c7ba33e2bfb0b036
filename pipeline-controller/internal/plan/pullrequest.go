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
	// leastStepBackoff is the longest wait between attempts to merge a new pull request: the checks that a merge waits for take minutes.
	leastStepBackoff = 2 * time.Minute
	// comparisonHolds is how long a pull request that was compared with its base branch counts as up to date, however often that moves.
	// A host that tells of another commit at each request would keep Sluice renewing for ever.
	comparisonHolds = 30 * time.Second
	// mergePoll is how long after a merge that the host has accepted it is asked for again, should it not have come about.
	mergePoll = time.Minute
)

// PullRequest is what was last seen of a promotion's pull request.
type PullRequest struct {
	// Merged tells that it was merged into the base branch.
	Merged bool
	// MergeCommit is the commit that the base branch was moved to by that, where the host tells.
	MergeCommit string
	// Closed tells how it was closed without being merged into the base branch; empty if it wasn't.
	Closed string
	// NextPoll is when it is to be looked at again.
	NextPoll time.Time
	// RetryAt is when the Git host wants to be asked again, if it said so.
	RetryAt time.Time
	// HeadCommit is the commit at the head of its branch, and BaseCommit that of the base branch; empty if that isn't known.
	HeadCommit, BaseCommit string
	// Pipeline is the newest CI pipeline of the head, on hosts where a commit status belongs to one. The status is set again for another one.
	Pipeline string
	// Err says why the pull request could not be read; the fields above but the times mean nothing then.
	Err error
}

// Open reports whether it waits to be merged.
func (s PullRequest) open() bool { return s.Err == nil && !s.Merged && s.Closed == "" }

// tendPullRequests sees to it that the commit status of every open pull request reports whether the promotion's preconditions are
// met, and merges the one that the run stands at if that is Sluice's to do.
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
	results := precondition.Evaluate(p.preconditionInput(env.Name, record.Revision, promotion))
	pr, base := record.PullRequest, p.PullRequests[env.Name].BaseCommit
	status := commitStatus(pr.HeadCommit, results)
	status.Pipeline = p.PullRequests[env.Name].Pipeline
	if pr.HeadCommit != "" && (pr.CommitStatus == nil || *pr.CommitStatus != status) {
		p.step(Action{Kind: ReportPreconditions, CommitStatus: status}, env.Name, record, &pr.Reporting)
		return
	}
	// What others have pushed to is theirs. Where the end of a Renew was not recorded, the next one reports whether it has pushed.
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

// comparedLately reports whether the pull request was compared with its base branch so short a time ago that it isn't done again, although
// that has moved. The host refuses to merge what conflicts with it.
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

// commitStatus is what the commit status of a pull request is to say.
func commitStatus(commit string, results []precondition.Result) pipelinesv1.PreconditionsCommitStatus {
	status := pipelinesv1.PreconditionsCommitStatus{Commit: commit, Met: precondition.Met(results)}
	var told []string
	for _, result := range results {
		if result.Met == status.Met {
			told = append(told, result.Message)
		}
	}
	if len(results) == 0 {
		told = []string{"the promotion waits for nothing"}
	}
	status.Description = cut(strings.Join(told, "; "), longestDescription)
	return status
}

// step makes the action the plan's, unless it may have none or a failed attempt at the step has to be waited for. As in a claim, the
// time of the next attempt is written with it.
func (p *planner) step(action Action, env string, record *pipelinesv1.PromotionRecord, status **pipelinesv1.StepStatus) {
	if *status == nil {
		*status = &pipelinesv1.StepStatus{}
	}
	step := *status
	if p.tooSoon(record, step.NextAttemptTime) || !p.mayAct() {
		return
	}
	step.Attempts++
	step.NextAttemptTime = new(nextStep(p.pipeline, env, record, step.Attempts, p.Now))
	action.Environment, action.Revision, action.StartTime = env, record.Revision, record.StartTime
	p.action = &action
}

// recordStep writes what came of an attempt to renew the commit of a pull request, to set its commit status or to merge it.
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
		// Called off: the next plan says why.
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
		// Whether it was merged is seen when it is looked at. Some hosts merge in the background.
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

// nextStep is when a step is taken again if the attempt at it fails. A merge waits for people and for checks, both of which take the longer
// the older it is.
func nextStep(pipeline *pipelinesv1.Pipeline, env string, record *pipelinesv1.PromotionRecord, attempts int32, now time.Time) metav1.Time {
	most := min(max(now.Sub(record.StartTime.Time)/20, leastStepBackoff), mostBackoff)
	wait := min(backoffFor(pipeline, env, record.Revision, attempts), most)
	return metav1.NewTime(now.Add(wait.Round(time.Second)))
}
