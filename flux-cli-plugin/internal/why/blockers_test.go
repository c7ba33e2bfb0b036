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

package why_test

import (
	"testing"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// promotes lets prod have a record of a promotion with unmet preconditions.
func promotes(pipeline *pipelinesv1.Pipeline) {
	pipeline.Status.Environments["prod"].Promotion = &pipelinesv1.PromotionRecord{
		Revision:    current,
		PullRequest: &pipelinesv1.PullRequestStatus{URL: pull, Number: 7},
		Preconditions: []pipelinesv1.PreconditionStatus{
			{Type: pipelinesv1.GatesPrecondition, Message: "gate freeze is closed\nby ada"},
			{Type: pipelinesv1.ApprovalPrecondition, Message: "1 of 2 approvals, by ada"},
			{Type: "Soak", Met: true, Message: "soaked"},
		},
	}
}

func TestBlockers(t *testing.T) {
	gate := why.Blocker{Kind: why.GatesBlocker, Text: "gate freeze is closed by ada"}
	approval := why.Blocker{Kind: why.ApprovalBlocker, Text: "1 of 2 approvals, by ada"}
	for _, tt := range []struct {
		name    string
		env     string
		changes []func(*pipelinesv1.Pipeline)
		want    []why.Blocker
	}{
		{
			name: "a promotion waits for its unmet preconditions", env: "prod",
			changes: []func(*pipelinesv1.Pipeline){promotes, stands("prod", "Waiting", "v1.2.3 waits")},
			want:    []why.Blocker{gate, approval},
		},
		{
			name: "an open pull request comes first", env: "prod",
			changes: []func(*pipelinesv1.Pipeline){promotes, stands("prod", "PullRequestOpen", "v1.2.3 waits for pull request 7")},
			want:    []why.Blocker{{Kind: why.PullRequestBlocker, Text: "pull request #7 is open", URL: pull}, gate, approval},
		},
		{
			name: "a failure comes first", env: "prod",
			changes: []func(*pipelinesv1.Pipeline){promotes, stands("prod", "Failed", "the last attempt failed: no such host")},
			want:    []why.Blocker{{Kind: why.OtherBlocker, Text: "the last attempt failed: no such host"}, gate, approval},
		},
		{
			name: "preconditions of an ended promotion block nothing", env: "prod",
			changes: []func(*pipelinesv1.Pipeline){promotes, stands("prod", "RolledBack", "was rolled back")},
			want:    []why.Blocker{{Kind: why.OtherBlocker, Text: "was rolled back"}},
		},
		{
			name: "a rollout is shown by its message", env: "staging",
			changes: []func(*pipelinesv1.Pipeline){stands("staging", "RollingOut", "v1.2.3 is rolling out")},
			want:    []why.Blocker{{Kind: why.OtherBlocker, Text: "v1.2.3 is rolling out"}},
		},
		{name: "an environment whose turn has not come is blocked by nothing of its own", env: "prod", changes: []func(*pipelinesv1.Pipeline){promotes, stands("staging", "RollingOut", "v1.2.3 is rolling out")}},
		{name: "an environment that runs the revision is not blocked", env: "prod", changes: []func(*pipelinesv1.Pipeline){promotes, stands("prod", "Current", "runs v1.2.3")}},
		{name: "nothing is known about an environment that nobody has observed", env: "prod"},
		{name: "nor about one that does not exist", env: "nowhere"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pipeline := world()
			for _, change := range tt.changes {
				change(pipeline)
			}
			NewWithT(t).Expect(why.Blockers(pipeline, tt.env)).To(Equal(tt.want))
		})
	}
}
