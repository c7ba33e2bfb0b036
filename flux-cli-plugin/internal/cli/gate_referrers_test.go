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

package cli

import (
	"testing"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

func TestAPullRequestThatSluiceMergesWaitsForGates(t *testing.T) {
	const waits = "v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"
	for _, test := range []struct {
		name  string
		state pipelinesv1.PromotionState
		merge pipelinesv1.MergeMode
		want  string
	}{
		{"a person merges it when they like", pipelinesv1.PromotionCreated, "", "does not wait"},
		{"Sluice merges it when its gates are open", pipelinesv1.PromotionCreated, pipelinesv1.MergeAuto, waits},
		{"it is merged", pipelinesv1.PromotionSucceeded, pipelinesv1.MergeAuto, "does not wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pipeline := waiting(gated, created)
			pipeline.Spec.Promotion.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{Merge: test.merge}
			pipeline.Status.Environments["prod"].Promotion.State = test.state
			NewWithT(t).Expect(describe.HeldByGates(pipeline, "prod")).To(Equal(test.want))
		})
	}
}

func TestAPromotionWithAPullRequestDoesNotWaitForGates(t *testing.T) {
	pipeline := waiting(gated, created)
	NewWithT(t).Expect(describe.HeldByGates(pipeline, "prod")).To(Equal("does not wait"))
	pipeline.Status.Environments["prod"].Promotion.State = pipelinesv1.PromotionFailed
	NewWithT(t).Expect(describe.HeldByGates(pipeline, "prod")).To(Equal("v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"))
}
