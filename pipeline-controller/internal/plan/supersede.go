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
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// mayHavePullRequest reports whether a pull request of the promotion may be open. A failed attempt, or one whose end
// was not recorded, may have left one.
func mayHavePullRequest(record *pipelinesv1.PromotionRecord) bool {
	return record != nil && !record.State.Ended() && record.Attempts > 0
}

// supersede ends the promotions of all revisions other than the current one, in every environment, even if the run has
// not reached it: their pull requests must not be merged any more. A promotion that was never attempted is superseded
// by another name of the same revision too, because people approve the name that is written. While there is no current
// revision to replace them, only promotions into removed environments end. A started withdrawal is completed even if
// its revision becomes the current one again: a pull request that Sluice closed was not abandoned by a person.
func (p *planner) supersede(current string) {
	for _, name := range p.promoted() {
		status := p.pipeline.Status.Environments[name]
		record := status.Promotion
		wanted := p.pipeline.Environment(name) != nil && (current == "" || record.IsOf(current))
		if wanted && (!record.Superseded || record.State == pipelinesv1.PromotionSucceeded) {
			continue
		}
		if !mayHavePullRequest(record) {
			archive(status)
			continue
		}
		if p.pipeline.Environment(name) != nil && p.givenUp(name, record) {
			continue // promote gives it up when the run reaches this environment
		}
		why := "superseded by " + revision.Short(current)
		if p.pipeline.Environment(name) == nil {
			why = "environment removed from the Pipeline"
		}
		if p.usesPullRequests(name) {
			p.withdraw(name, record, why)
			continue
		}
		end(record, pipelinesv1.PromotionAbandoned, why, p.Now)
		archive(status)
	}
}

// withdraw is attempted immediately, even if the promotion was in backoff.
func (p *planner) withdraw(env string, record *pipelinesv1.PromotionRecord, why string) {
	if !record.Superseded {
		record.Superseded, record.NextAttemptTime, record.LastError = true, nil, ""
	}
	if !p.tooSoon(record, record.NextAttemptTime) && p.claim(Withdraw, env, record) {
		p.action.Why = why
	}
}

// givenUp reports whether a person requested another promotion while this one cannot be withdrawn, and no change of the
// spec could fix that.
func (p *planner) givenUp(env string, record *pipelinesv1.PromotionRecord) bool {
	return p.forced && mayHavePullRequest(record) && record.Superseded && record.LastError != "" && p.elsewhere(env, record) && !p.rateLimited(record)
}

// giveUp ends a promotion without withdrawing it.
func (p *planner) giveUp(status *pipelinesv1.EnvironmentStatus) {
	record := status.Promotion
	end(record, pipelinesv1.PromotionAbandoned, fmt.Sprintf("abandoned by force: a pull request may still be open in %s, because closing it failed: %s",
		record.Repository.URL, record.LastError), p.Now)
	archive(status)
}

// superseding returns the state of an environment whose last promotion is not withdrawn yet.
func (p *planner) superseding(env string, record *pipelinesv1.PromotionRecord) standing {
	if p.rateLimited(record) {
		return stands(pipelinesv1.EnvironmentFailed, "withdrawing the promotion of %s is rate limited by the Git host until %s",
			revision.Short(record.Revision), nextTry(record))
	}
	if record.LastError != "" {
		hint := ""
		if p.elsewhere(env, record) {
			hint = fmt.Sprintf("; %s is no longer named in the spec: restore access, or force the promotion (its pull request stays open)", record.Repository.URL)
		}
		return stands(pipelinesv1.EnvironmentFailed, "withdrawing the promotion of %s failed: %s%s", revision.Short(record.Revision), record.LastError, hint)
	}
	return stands(pipelinesv1.EnvironmentPromoting, "withdrawing the promotion of %s", revision.Short(record.Revision))
}

// usesPullRequests reports whether the environment's last promotion has a pull request, even if the spec has changed
// since.
func (p *planner) usesPullRequests(name string) bool {
	if status := p.pipeline.Status.Environments[name]; status != nil && status.Promotion != nil && status.Promotion.Repository != nil {
		return true
	}
	return p.pullRequestsInto(name) != nil
}

// pullRequestsInto returns the pull-request strategy of an environment, or nil.
func (p *planner) pullRequestsInto(name string) *pipelinesv1.PullRequestPromotion {
	if promotion := p.pipeline.PromotionInto(p.pipeline.Environment(name)); promotion != nil {
		return promotion.Strategy.PullRequest
	}
	return nil
}

// elsewhere reports whether the environment's last promotion was made in a repository that is no longer in the spec, so
// no change of the spec can restore access to it.
func (p *planner) elsewhere(name string, record *pipelinesv1.PromotionRecord) bool {
	if record.Repository == nil {
		return false
	}
	configured := p.pullRequestsInto(name)
	return configured == nil || !scm.SameRepository(configured.URL, record.Repository.URL)
}
