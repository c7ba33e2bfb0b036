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
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

const (
	// leastStepBackoff is the longest wait between attempts to merge a new pull request: the checks that a merge waits for take minutes.
	leastStepBackoff = 2 * time.Minute
	// mergePoll is how long after a merge that the host has accepted it is asked for again, should it not have come about.
	mergePoll = time.Minute
)

// PullRequest is what was last seen of a promotion's pull request.
type PullRequest struct {
	// Merged tells that it was merged into the base branch.
	Merged bool
	// Closed tells how it was closed without being merged into the base branch; empty if it wasn't.
	Closed string
	// NextLook is when it is to be looked at again.
	NextLook time.Time
	// RetryAt is when the Git host wants to be asked again, if it said so.
	RetryAt time.Time
	// HeadCommit is the commit at the head of its branch, and BaseCommit that of the base branch; empty if that isn't known.
	HeadCommit, BaseCommit string
	// Err says why the pull request could not be read; the fields above but the times mean nothing then.
	Err error
}

// Open tells whether it waits to be merged.
func (s PullRequest) open() bool { return s.Err == nil && !s.Merged && s.Closed == "" }

// followPullRequests takes over what became of the pull requests.
func (p *planner) followPullRequests() {
	for _, name := range slices.Sorted(maps.Keys(p.pipeline.Status.Environments)) {
		record := p.pipeline.Status.Environments[name].Promotion
		seen, ok := p.PullRequests[name]
		if record == nil {
			continue
		}
		p.wakeAt(seen.NextLook)
		switch {
		case !ok:
			p.rateLimited(record)
		case record.State == pipelinesv1.PromotionCreated:
			p.follow(record, seen)
		case record.State == pipelinesv1.PromotionAbandoned && seen.open():
			p.resume(record, seen)
		case record.State == pipelinesv1.PromotionAbandoned && seen.Merged:
			p.follow(record, seen)
		}
	}
}

func (p *planner) follow(record *pipelinesv1.PromotionRecord, seen PullRequest) {
	if record.Superseded && (seen.Err != nil || seen.open()) {
		return // what there is to say is whether it can be withdrawn
	}
	record.RateLimitedUntil = nil
	switch {
	case seen.Err != nil:
		record.LastError = cut(seen.Err.Error(), longestError)
		if !seen.RetryAt.IsZero() {
			record.RateLimitedUntil = ptr(metav1.NewTime(seen.RetryAt))
		}
	case seen.Merged:
		end(record, pipelinesv1.PromotionSucceeded, fmt.Sprintf("pull request %s was merged", record.PullRequest.URL), p.Now)
	case seen.Closed != "":
		end(record, pipelinesv1.PromotionAbandoned, fmt.Sprintf("pull request %s was %s", record.PullRequest.URL, seen.Closed), p.Now)
	default:
		record.LastError = ""
		record.PullRequest.HeadCommit = seen.HeadCommit
	}
}

// resume takes a promotion up again whose pull request a person has reopened.
func (p *planner) resume(record *pipelinesv1.PromotionRecord, seen PullRequest) {
	record.State, record.CompletionTime = pipelinesv1.PromotionCreated, nil
	p.follow(record, seen)
}

// tendPullRequests sees to it that the commit status of every open pull request tells whether the promotion's preconditions are
// met, and merges the one that the run stands at if that is Sluice's to do.
func (p *planner) tendPullRequests() {
	if p.pipeline.Spec.Suspend {
		return
	}
	for i := range p.pipeline.Spec.Environments {
		env := &p.pipeline.Spec.Environments[i]
		record, promotion := p.environment(env.Name).Promotion, p.pipeline.PromotionInto(env)
		open := record != nil && record.State == pipelinesv1.PromotionCreated && !record.Superseded && p.PullRequests[env.Name].open()
		if open && promotion != nil {
			p.tend(env, promotion, record)
		}
	}
}

func (p *planner) tend(env *pipelinesv1.Environment, promotion *pipelinesv1.Promotion, record *pipelinesv1.PromotionRecord) {
	results := precondition.Evaluate(precondition.Input{
		Environment: env.Name, Revision: record.Revision, Promotion: promotion, Gates: p.Gates, Approvals: p.Approvals,
	})
	pr, base := record.PullRequest, p.PullRequests[env.Name].BaseCommit
	gates := gatesStatus(pr.HeadCommit, results)
	if pr.HeadCommit != "" && (pr.Gates == nil || *pr.Gates != gates) {
		p.step(Action{Kind: ReportGates, Gates: gates}, env.Name, record, &pr.Reporting)
		return
	}
	// What others have pushed to is theirs. Where the end of a Renew was not recorded, the next one tells whether it has pushed.
	unrecorded := pr.Merging != nil && pr.Merging.Attempts > 0 && base != pr.BaseCommit
	if pr.HeadCommit == "" || pr.HeadCommit != pr.Commit && !unrecorded || env.Name != p.standsAt || !gates.Met || base == "" {
		return
	}
	if base != pr.BaseCommit {
		p.step(Action{Kind: Renew}, env.Name, record, &pr.Merging)
	} else if promotion.MergesItself() {
		p.step(Action{Kind: Merge}, env.Name, record, &pr.Merging)
	}
}

// gatesStatus is what the commit status of a pull request is to say.
func gatesStatus(commit string, results []precondition.Result) pipelinesv1.GatesCommitStatus {
	status := pipelinesv1.GatesCommitStatus{Commit: commit, Met: precondition.Met(results)}
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

// step makes the action the plan's, unless it has one already or a failed attempt at the step has to be waited for.
func (p *planner) step(action Action, env string, record *pipelinesv1.PromotionRecord, status **pipelinesv1.StepStatus) {
	if *status == nil {
		*status = &pipelinesv1.StepStatus{}
	}
	step := *status
	if p.tooSoon(record, step.NextAttemptTime) || p.action != nil {
		return
	}
	step.Attempts++
	step.NextAttemptTime = nil
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
	if action.Kind == ReportGates {
		status = &pr.Reporting
	}
	switch {
	case outcome.Err != nil:
		failStep(pipeline, record, action, status, outcome, now)
	case outcome.State == "":
		// Called off: the next plan says why.
	case outcome.State.Ended():
		*status = nil
		end(record, outcome.State, outcome.Message, now)
	case action.Kind == Renew:
		*status = nil
		pr.HeadCommit, pr.Commit = outcome.PullRequest.HeadCommit, outcome.PullRequest.Commit
		pr.BaseCommit, pr.BaseFiles = outcome.PullRequest.BaseCommit, outcome.PullRequest.BaseFiles
	case action.Kind == ReportGates:
		*status = nil
		pr.Gates = &action.Gates
	default:
		// Whether it was merged is seen when it is looked at. Some hosts merge in the background.
		*status = &pipelinesv1.StepStatus{NextAttemptTime: ptr(metav1.NewTime(now.Add(mergePoll)))}
	}
	return true
}

func failStep(pipeline *pipelinesv1.Pipeline, record *pipelinesv1.PromotionRecord, action Action, status **pipelinesv1.StepStatus, outcome Outcome, now time.Time) {
	if *status == nil {
		*status = &pipelinesv1.StepStatus{Attempts: 1}
	}
	step := *status
	step.LastError = cut(outcome.Err.Error(), longestError)
	// A merge waits for people and for checks, both of which take the longer the older it is.
	most := min(max(now.Sub(record.StartTime.Time)/20, leastStepBackoff), mostBackoff)
	wait := min(backoffFor(pipeline, action.Environment, record.Revision, step.Attempts), most)
	step.NextAttemptTime = ptr(metav1.NewTime(now.Add(wait.Round(time.Second))))
	if !outcome.RetryAt.IsZero() {
		record.RateLimitedUntil = ptr(metav1.NewTime(outcome.RetryAt))
	}
}

// awaitMerge says what a promotion with a pull request waits for.
func (p *planner) awaitMerge(env string, promotion *pipelinesv1.Promotion, record *pipelinesv1.PromotionRecord, results []precondition.Result) verdict {
	pr := record.PullRequest
	record.Message = fmt.Sprintf("pull request %s waits to be merged", pr.URL)
	if record.LastError != "" {
		return broken(pipelinesv1.PullRequestUnknownReason, "%s: pull request %s can't be read: %s", env, pr.URL, record.LastError)
	}
	v := fine(pipelinesv1.PullRequestOpenReason, "%s: %s waits for pull request %s to be merged", env, revision.Short(record.Revision), pr.URL)
	auto := promotion.MergesItself()
	switch {
	case auto && pr.Commit != pr.HeadCommit:
		v.message += ", by a person: its branch was pushed to by somebody else"
	case !precondition.Met(results):
		v.message += ", which is to wait: " + unmet(results)
	case auto:
		v.message += " as soon as the Git host lets it"
	}
	for _, step := range []*pipelinesv1.StepStatus{pr.Merging, pr.Reporting} {
		if step != nil && step.LastError != "" {
			v.message += ": " + step.LastError
		}
	}
	if pr.Warning != "" {
		v.message += "; the Git host has not taken all: " + pr.Warning
	}
	return v
}

// unmet says which preconditions are.
func unmet(results []precondition.Result) string {
	var waits []string
	for _, result := range results {
		if !result.Met {
			waits = append(waits, result.Message)
		}
	}
	return strings.Join(waits, "; ")
}
