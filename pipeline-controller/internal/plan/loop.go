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
	"iter"
	"slices"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// endOfLoop explains the loop and how to end it.
const endOfLoop = "so each merge would be a new revision to promote: follow tags or another branch, " +
	"or set spec.revision.expr to the field that has the running revision"

// Merged maps merge commits of the Pipeline's pull requests to their URLs.
func Merged(status *pipelinesv1.PipelineStatus) map[string]string {
	merged := map[string]string{}
	for record := range records(status) {
		if pr := record.PullRequest; pr != nil && pr.MergeCommit != "" {
			merged[pr.MergeCommit] = pr.URL
		}
	}
	return merged
}

// Promoted maps commits to the revisions that the Pipeline has finished: those that were promoted into any environment,
// and those that a person rejected. Superseded revisions are not included.
func Promoted(status *pipelinesv1.PipelineStatus) map[string]string {
	promoted := map[string]string{}
	for record := range records(status) {
		done := record.State == pipelinesv1.PromotionSucceeded || record.State == pipelinesv1.PromotionAbandoned && !record.Superseded
		if commit, ok := revision.Commit(record.Revision); ok && done {
			promoted[commit] = record.Revision
		}
	}
	return promoted
}

// promoted returns the names of the environments that have a record of a promotion, in order.
func (p *planner) promoted() []string {
	var names []string
	for name, env := range p.pipeline.Status.Environments {
		if env.Promotion != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// records returns all records of a status.
func records(status *pipelinesv1.PipelineStatus) iter.Seq[*pipelinesv1.PromotionRecord] {
	return func(yield func(*pipelinesv1.PromotionRecord) bool) {
		for _, env := range status.Environments {
			if env.Promotion != nil && !yield(env.Promotion) {
				return
			}
			for i := range env.History {
				if !yield(&env.History[i]) {
					return
				}
			}
		}
	}
}

// checkLoop rejects a revision that was created by promotions. Promoting it would create the next one.
func (p *promotion) checkLoop() *standing {
	why := ""
	if commit, ok := revision.Commit(p.revision); ok {
		if pullRequest := Merged(&p.pipeline.Status)[commit]; pullRequest != "" {
			why = "it is the result of merging pull request " + pullRequest
		}
	}
	if record := p.status.Promotion; why == "" && record != nil && record.Loop != "" && !p.forced {
		why = record.Message
	}
	if why == "" {
		return nil
	}
	loop := stands(pipelinesv1.EnvironmentInvalid, "%s is not promoted: %s; the first environment follows the branch that promotions are merged into, %s",
		revision.Short(p.revision), why, endOfLoop)
	return new(loop.because(pipelinesv1.PromotionLoopReason))
}
