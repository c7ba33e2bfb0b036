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

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

// promotion is the promotion of the current revision into an environment, during one step.
type promotion struct {
	*planner
	env      string
	spec     *pipelinesv1.Promotion
	revision string
	status   *pipelinesv1.EnvironmentStatus
	// record and name are set once the promotion has started. Two names with equal digests are one revision: everything
	// that is shown, approved and written uses the record's name.
	record *pipelinesv1.PromotionRecord
	name   string
	// results of the preconditions, once they were evaluated.
	results []precondition.Result
}

// steps of a promotion, in order. Each returns the environment's state if the promotion cannot continue, or nil.
var steps = []func(*promotion) *standing{
	(*promotion).withdrawOther,
	(*promotion).checkLoop,
	(*promotion).begin,
	(*promotion).checkEnded,
	(*promotion).withdrawOtherStrategy,
	(*promotion).checkPreconditions,
	(*promotion).awaitMerge,
	(*promotion).awaitPreconditions,
	(*promotion).awaitRetry,
}

// promote advances the promotion of the current revision into an environment.
func (p *planner) promote(env *pipelinesv1.Environment, spec *pipelinesv1.Promotion, current string) standing {
	p.standsAt = env.Name
	promotion := &promotion{planner: p, env: env.Name, spec: spec, revision: current, status: p.environment(env.Name)}
	for _, step := range steps {
		if s := step(promotion); s != nil {
			return *s
		}
	}
	return promotion.attempt()
}

// withdrawOther withdraws an earlier promotion first: there is never a second pull request while another one may be
// open.
func (p *promotion) withdrawOther() *standing {
	if p.givenUp(p.env, p.status.Promotion) {
		p.giveUp(p.status)
	}
	if p.forced && mayHavePullRequest(p.status.Promotion) && p.usesPullRequests(p.env) {
		p.withdraw(p.env, p.status.Promotion, "restarted")
	}
	record := p.status.Promotion
	if record != nil && (!revision.Equal(record.Revision, p.revision) || record.Superseded && !record.State.Ended()) {
		return new(p.superseding(p.env, record))
	}
	return nil
}

func (p *promotion) begin() *standing {
	if p.forced {
		p.discardApprovals()
	}
	if p.status.Promotion == nil || p.forced {
		begin(p.status, p.revision, p.Now)
	}
	p.record = p.status.Promotion
	p.name = revision.Short(p.record.Revision)
	return nil
}

// discardApprovals requires new approvals if a person restarts a promotion that ended.
func (p *promotion) discardApprovals() {
	if record := p.status.Promotion; record == nil || !record.State.Ended() || record.Superseded {
		return
	}
	kept := []pipelinesv1.PromotionApproval{}
	for _, approval := range p.Approvals {
		if approval.Spec.Environment == p.env {
			p.discarded = append(p.discarded, approval)
		} else {
			kept = append(kept, approval)
		}
	}
	p.Approvals = kept
}

func (p *promotion) checkEnded() *standing {
	if !p.record.State.Ended() {
		return nil
	}
	s := byRecord(p.record)
	if why := p.holdup(p.pipeline.Environment(p.env), p.record.Revision); why != "" && s.state == pipelinesv1.EnvironmentPromoted {
		s.message = fmt.Sprintf("%s was promoted and is not rolled out yet: %s", p.name, why)
	}
	return &s
}

// withdrawOtherStrategy withdraws the pull request of an earlier attempt, which must not be merged in addition to the
// notification.
func (p *promotion) withdrawOtherStrategy() *standing {
	if p.record.Repository == nil || p.record.State == pipelinesv1.PromotionCreated || p.spec.Strategy.PullRequest != nil {
		return nil
	}
	p.withdraw(p.env, p.record, "strategy changed to notification")
	return new(p.superseding(p.env, p.record))
}

func (p *promotion) checkPreconditions() *standing {
	input := p.preconditionInput(p.env, p.record.Revision, p.spec)
	p.results = p.evaluate(input)
	p.record.Approvers = precondition.Approvers(input)
	p.showPreconditions(p.status, p.results)
	return nil
}

// awaitMerge returns what a promotion with a pull request waits for.
func (p *promotion) awaitMerge() *standing {
	if p.record.State != pipelinesv1.PromotionCreated {
		return nil
	}
	pr := p.record.PullRequest
	p.record.Message = fmt.Sprintf("pull request %s waits to be merged", pr.URL)
	if p.record.LastError != "" {
		unknown := stands(pipelinesv1.EnvironmentFailed, "pull request %s can't be read: %s", pr.URL, p.record.LastError)
		return new(unknown.because(pipelinesv1.PullRequestUnknownReason))
	}
	s := byRecord(p.record)
	auto := p.spec.MergesItself()
	switch {
	case auto && pr.Commit != pr.HeadCommit:
		s.message += "; auto-merge disabled: someone else pushed to its branch"
	case !precondition.Met(p.results):
		s.message += "; merge blocked: " + precondition.Unmet(p.results)
	case auto:
		s.message += " once the Git host allows it"
	}
	for _, step := range []*pipelinesv1.StepStatus{pr.Merging, pr.Reporting} {
		if step != nil && step.LastError != "" {
			s.message += ": " + step.LastError
		}
	}
	if pr.Warning != "" {
		s.message += "; the Git host rejected: " + pr.Warning
	}
	return &s
}

func (p *promotion) awaitPreconditions() *standing {
	if !precondition.Met(p.results) {
		return new(held(p.record, p.results))
	}
	if p.record.State == pipelinesv1.PromotionUnapproved {
		p.record.State = pipelinesv1.PromotionUnattempted
	}
	return nil
}

// awaitRetry returns why the last attempt failed and when the next one is due.
func (p *promotion) awaitRetry() *standing {
	switch {
	case !p.tooSoon(p.record, p.record.NextAttemptTime):
		return nil
	case p.record.LastError == "":
		p.record.Message = "the last attempt was interrupted"
		return new(stands(pipelinesv1.EnvironmentFailed, "the last attempt to promote %s was interrupted; next attempt at %s", p.name, nextTry(p.record)))
	}
	return new(byRecord(p.record))
}

func (p *promotion) attempt() standing {
	kind := Notify
	if p.spec.Strategy.PullRequest != nil {
		kind = OpenPullRequest
	}
	if !p.claim(kind, p.env, p.record) {
		return stands(pipelinesv1.EnvironmentPromoting, "promotion of %s is queued", p.name)
	}
	if p.spec.Strategy.PullRequest != nil {
		p.record.Repository = repositoryOf(p.spec.Strategy.PullRequest)
	}
	p.record.Message = "being promoted"
	return stands(pipelinesv1.EnvironmentPromoting, "promoting %s", p.name)
}
