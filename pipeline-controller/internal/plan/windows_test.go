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
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// overridden makes a gate that is something else until a moment.
func overridden(name gatingv1.GateReference, closed bool, until time.Time) func(*plan.World) {
	return func(w *plan.World) {
		w.Gates[name] = gatingv1.Finding{Gate: &gatingv1.Gate{Spec: gatingv1.GateSpec{
			Closed: !closed, Override: &gatingv1.Override{Closed: closed, Until: metav1.NewTime(until)},
		}}}
	}
}

func at(t time.Time) func(*plan.World) { return func(w *plan.World) { w.Now = t } }

func TestAPromotionGoesOnWhenItsGateOpensByItself(t *testing.T) {
	g := NewWithT(t)
	opens := now.Add(30 * time.Second)
	held := with(world("v2", "v1"), gates("all", "freeze"), overridden("freeze", true, opens))
	next := plan.Next(held)
	g.Expect(next.Action).To(BeNil())
	g.Expect(next.RequeueAfter).To(Equal(30 * time.Second))
	waits := next.Status.Environments["staging"].Promotion.Preconditions[0]
	g.Expect(waits.NextTransitionTime.Time).To(Equal(opens))
	g.Expect(waits.Message).To(Equal("gate freeze is closed by override until 2026-03-27T12:00:30Z"))

	g.Expect(plan.Next(with(held, at(opens.Add(-time.Millisecond)))).RequeueAfter).To(Equal(time.Millisecond), "it is checked when that is over, not a second later")
	g.Expect(plan.Next(with(held, at(opens))).Action).To(HaveField("Kind", plan.OpenPullRequest))
}

func TestAPromotionThatWaitsForLongNoticesThatTheClockIsSet(t *testing.T) {
	held := with(world("v2", "v1"), gates("all", "freeze"), overridden("freeze", true, now.Add(time.Hour)))
	NewWithT(t).Expect(plan.Next(held).RequeueAfter).To(Equal(time.Minute))
}

func TestAGateThatOpensBesideAClosedOneChangesWhatIsSaid(t *testing.T) {
	g := NewWithT(t)
	opens := now.Add(30 * time.Second)
	held := with(world("v2", "v1"), gates("all", "freeze", "night"), gate("freeze", true), overridden("night", true, opens))
	next := plan.Next(held)
	g.Expect(next.RequeueAfter).To(Equal(30 * time.Second))
	g.Expect(next.Status.Environments["staging"].Promotion.Preconditions[0].NextTransitionTime).To(BeNil(), "freeze stays closed")
	after := plan.Next(with(held, at(opens)))
	g.Expect(after.Status.Environments["staging"].Promotion.Preconditions[0].Message).To(Equal("gate freeze is closed; gate night is open"))
	g.Expect(after.RequeueAfter).To(BeZero())
}

func TestAnOpenPullRequestIsLookedAtWhenItsGateCloses(t *testing.T) {
	closes := now.Add(20 * time.Second)
	created := with(world("v2", "v1"), gates("all", "freeze"), overridden("freeze", false, closes),
		record("staging", "v2", pipelinesv1.PromotionCreated), pullRequest("staging", plan.PullRequest{HeadCommit: "c"}))
	NewWithT(t).Expect(plan.Next(created).RequeueAfter).To(BeNumerically("<=", 20*time.Second))
}
