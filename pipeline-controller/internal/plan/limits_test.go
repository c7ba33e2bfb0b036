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

package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// weighing gives the Pipeline an annotation of so many bytes.
func weighing(bytes int) func(*plan.World) {
	return func(w *plan.World) { w.Pipeline.Annotations = map[string]string{"weight": strings.Repeat("x", bytes)} }
}

// past gives an environment a promotion for each hour, the newest first, with texts of 150 characters.
func past(env string, hours ...int) func(*plan.World) {
	return func(w *plan.World) {
		status := w.Pipeline.Status.Environments[env]
		if status == nil {
			status = &pipelinesv1.EnvironmentStatus{}
			w.Pipeline.Status.Environments[env] = status
		}
		for _, hour := range hours {
			status.History = append(status.History, pipelinesv1.PromotionRecord{
				Revision: fmt.Sprintf("v0.%d", hour), State: "succeeded", Message: strings.Repeat("m", 150), Attempts: 1,
				StartTime: metav1.NewTime(earlier.Add(time.Duration(hour-100) * time.Hour)),
			})
		}
	}
}

func TestAPipelineThatIsTooLargeIsRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*plan.World)
		message string
	}{
		{"by its environments", spec(func(s *pipelinesv1.PipelineSpec) {
			for i := range 5000 {
				s.Environments = append(s.Environments, pipelinesv1.Environment{Name: fmt.Sprintf("e%d", i)})
			}
		}), "the Pipeline has 5002 environments, at most 64 are allowed: split it"},
		{"by its targets", spec(func(s *pipelinesv1.PipelineSpec) {
			s.Environments[0].Targets = make([]pipelinesv1.Target, 500)
			s.Environments[1].Targets = make([]pipelinesv1.Target, 13)
		}), "the Pipeline has 513 targets, at most 512 are allowed: split it"},
		{"by its metadata", weighing(1280 << 10),
			"the Pipeline and its status would exceed 1280 KiB: use fewer targets or gates, shorter names or less metadata, or split it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			long := strings.Repeat("x", 1000)
			w := with(world("v2", "v1"), record("staging", "v2", "failed", func(r *pipelinesv1.PromotionRecord) { r.LastError = long }), past("staging", 2, 1))
			w.Pipeline.Status.Environments["staging"].Targets = make([]pipelinesv1.TargetStatus, 8)
			good := *w.Pipeline.DeepCopy()
			test.change(&w)

			next := plan.Next(w)
			g.Expect(next.Action).To(BeNil())
			g.Expect(next.RequeueAfter).To(BeZero(), "nothing changes until the Pipeline does")
			for conditionType, status := range map[string]metav1.ConditionStatus{"Ready": "False", "Stalled": "True"} {
				g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, conditionType)).To(And(
					HaveField("Status", status), HaveField("Reason", "InvalidSpec"), HaveField("Message", test.message)))
			}
			g.Expect(next.Status.Revision).To(BeEmpty())
			g.Expect(next.Status.Environments).To(HaveLen(1))
			g.Expect(next.Status.Environments["staging"]).To(And(HaveField("Targets", BeEmpty()), HaveField("History", BeEmpty()),
				HaveField("Promotion.Attempts", BeEquivalentTo(1)), HaveField("Promotion.LastError", strings.Repeat("x", 100)+"…")))

			good.Status = next.Status
			w.Pipeline = &good
			g.Expect(plan.Next(w).Action).To(HaveField("Kind", plan.OpenPullRequest), "it continues once it was split")
		})
	}
}

func TestTheHistoryGivesWayFromItsEnd(t *testing.T) {
	g := NewWithT(t)
	size := func(part any) int {
		content, err := json.Marshal(part)
		g.Expect(err).NotTo(HaveOccurred())
		return len(content)
	}
	w := with(world("v2", "v2", "v2"), past("staging", 9, 7, 5, 3, 1), past("prod", 8, 6, 4, 2))
	w.Pipeline.Status = plan.Next(w).Status
	record := size(w.Pipeline.Status.Environments["prod"].History[0])
	weighing(1280<<10 - size(w.Pipeline) + 4*record + record/2)(&w)
	g.Expect(plan.Next(w).Status).To(Equal(w.Pipeline.Status), "a status that stays as it is stored is not measured")

	w.Pipeline.Generation++
	before := w.Pipeline.DeepCopy()
	var kept []string
	for _, env := range []string{"staging", "prod"} {
		for _, record := range plan.Next(w).Status.Environments[env].History {
			kept = append(kept, record.Revision)
		}
	}
	g.Expect(kept).To(Equal([]string{"v0.9", "v0.7", "v0.8", "v0.6"}))
	g.Expect(w.Pipeline).To(Equal(before), "planning leaves its input as it is")
}

func TestTextsGiveWayWhenThereIsNoHistory(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("<", 1900) // which JSON makes six times as long
	w := with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(time.Minute), func(r *pipelinesv1.PromotionRecord) { r.LastError = long }), past("staging", 1))
	g.Expect(plan.Next(w).Status.Environments["staging"].Promotion.LastError).To(Equal(long))
	weighing(1260 << 10)(&w)
	staging := plan.Next(w).Status.Environments["staging"]
	g.Expect(staging.History).To(BeEmpty())
	g.Expect(staging.Promotion.LastError).To(Equal(long[:100] + "…"))
	g.Expect(apimeta.IsStatusConditionTrue(plan.Next(w).Status.Conditions, meta.StalledCondition)).To(BeFalse())
}
