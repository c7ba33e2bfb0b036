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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// followPullRequests records the observed states of the pull requests.
func (p *planner) followPullRequests() {
	for _, name := range p.promoted() {
		record := p.pipeline.Status.Environments[name].Promotion
		seen, ok := p.PullRequests[name]
		p.wakeAt(seen.NextPoll)
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
	if record.Superseded && !seen.Merged {
		return // the withdrawal must be completed: a closed pull request may be the result of an interrupted withdrawal
	}
	record.RateLimitedUntil = nil
	switch {
	case seen.Err != nil:
		record.LastError = seen.Err.Error()
		if !seen.RetryAt.IsZero() {
			record.RateLimitedUntil = new(metav1.NewTime(seen.RetryAt))
		}
	case seen.Merged:
		record.PullRequest.MergeCommit = seen.MergeCommit
		end(record, pipelinesv1.PromotionSucceeded, fmt.Sprintf("pull request %s was merged", record.PullRequest.URL), p.Now)
	case seen.Closed != "":
		end(record, pipelinesv1.PromotionAbandoned, fmt.Sprintf("pull request %s was %s", record.PullRequest.URL, seen.Closed), p.Now)
	default:
		record.LastError = ""
		record.PullRequest.HeadCommit = seen.HeadCommit
	}
}

// resume resumes a promotion whose pull request was reopened.
func (p *planner) resume(record *pipelinesv1.PromotionRecord, seen PullRequest) {
	record.State, record.CompletionTime = pipelinesv1.PromotionCreated, nil
	p.follow(record, seen)
}
