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
	"errors"
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

// TestTransitions is the state machine of a promotion's record, transition by transition.
func TestTransitions(t *testing.T) {
	opened := plan.Outcome{State: "created", PullRequest: &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/8", Number: 8}}
	failed := plan.Outcome{Err: errors.New("no such branch")}

	// attempt plans the action that is due and records its outcome.
	attempt := func(outcome plan.Outcome) func(*plan.World) {
		return func(w *plan.World) {
			next := plan.Next(*w)
			w.Pipeline.Status = next.Status
			if next.Action == nil {
				panic("no action is due")
			}
			if !plan.Record(w.Pipeline, *next.Action, outcome, now) {
				panic("the outcome was not recorded")
			}
		}
	}
	pass := func(w *plan.World) { w.Pipeline.Status = plan.Next(*w).Status }
	closedGate := func(w *plan.World) { gates("all", "freeze")(w); gate("freeze", true)(w) }
	openGate := func(w *plan.World) { gates("all", "freeze")(w); gate("freeze", false)(w) }
	newRevision := func(w *plan.World) { w.Targets["dev"] = states("v3") }

	for _, test := range []struct {
		from pipelinesv1.PromotionState
		when string
		do   []func(*plan.World)
		to   pipelinesv1.PromotionState
	}{
		{"unapproved", "a gate is closed", []func(*plan.World){closedGate, pass}, "unapproved"},
		{"unapproved", "the preconditions are met", []func(*plan.World){openGate, pass}, "unattempted"},
		{"unattempted", "the pull request was opened", []func(*plan.World){attempt(opened)}, "created"},
		{"unattempted", "the attempt failed", []func(*plan.World){attempt(failed)}, "failed"},
		{"unattempted", "the notification was accepted", []func(*plan.World){spec(byNotification), attempt(plan.Outcome{State: "succeeded"})}, "succeeded"},
		{"unattempted", "the notification failed", []func(*plan.World){spec(byNotification), attempt(failed)}, "failed"},
		{"unattempted", "there was nothing to change", []func(*plan.World){attempt(plan.Outcome{State: "succeeded"})}, "succeeded"},
		{"unattempted", "a gate closed just before the attempt", []func(*plan.World){attempt(plan.Outcome{Message: "gate freeze is closed"})}, "unattempted"},
		{"failed", "a retry opened the pull request", []func(*plan.World){attempt(opened)}, "created"},
		{"failed", "a retry failed", []func(*plan.World){attempt(failed)}, "failed"},
		{"failed", "a retry delivered the notification", []func(*plan.World){spec(byNotification), attempt(plan.Outcome{State: "succeeded"})}, "succeeded"},
		{"created", "the pull request was merged", []func(*plan.World){pullRequest("staging", plan.PullRequest{Merged: true}), pass}, "succeeded"},
		{"created", "the pull request was closed", []func(*plan.World){pullRequest("staging", plan.PullRequest{Closed: "closed without being merged"}), pass}, "abandoned"},
		{"created", "nothing happened", []func(*plan.World){pullRequest("staging", plan.PullRequest{}), pass}, "created"},
		{"unapproved", "a new revision is needed", []func(*plan.World){closedGate, newRevision, pass}, "unapproved"},
		{"unattempted", "a new revision is needed", []func(*plan.World){closedGate, newRevision, pass}, "unapproved"},
		{"succeeded", "a new revision is needed", []func(*plan.World){closedGate, newRevision, pass}, "unapproved"},
		{"abandoned", "a new revision is needed", []func(*plan.World){closedGate, newRevision, pass}, "unapproved"},
		{"created", "a new revision is needed and the old pull request was withdrawn", []func(*plan.World){closedGate, newRevision, attempt(plan.Outcome{State: "abandoned"}), pass}, "unapproved"},
		{"failed", "a new revision is needed and nothing was left to withdraw", []func(*plan.World){closedGate, newRevision, attempt(plan.Outcome{State: "abandoned"}), pass}, "unapproved"},
		{"created", "a new revision is needed and withdrawing failed", []func(*plan.World){newRevision, attempt(failed)}, "created"},
		{"created", "a new revision is needed and the old one turned out to be merged", []func(*plan.World){newRevision, attempt(plan.Outcome{State: "succeeded"})}, "succeeded"},
	} {
		t.Run(fmt.Sprintf("%s becomes %s when %s", test.from, test.to, test.when), func(t *testing.T) {
			g := NewWithT(t)
			w := with(world("v2", "v1"), record("staging", "v2", test.from))
			for _, step := range test.do {
				step(&w)
			}
			g.Expect(stateOf(w.Pipeline.Status, "staging")).To(Equal(test.to))
		})
	}
}

func TestWhatAGitHostSaysIsOneLineOfWhatCanBeSeen(t *testing.T) {
	g := NewWithT(t)
	w := world("v2", "v1")
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	plan.Record(w.Pipeline, *next.Action, plan.Outcome{Err: errors.New("\x1b[2Jrefused:\n✔ all is well\u202e")}, w.Now)
	g.Expect(w.Pipeline.Status.Environments["staging"].Promotion.LastError).To(Equal("[2Jrefused: ✔ all is well"))
	ready := apimeta.FindStatusCondition(plan.Next(w).Status.Conditions, meta.ReadyCondition)
	g.Expect(ready.Message).To(HaveSuffix(": [2Jrefused: ✔ all is well"))
}

func TestRecordOfAFailure(t *testing.T) {
	g := NewWithT(t)
	w := world("v2", "v1")

	var waits []time.Duration
	for range 12 {
		next := plan.Next(w)
		g.Expect(next.Action).NotTo(BeNil(), "a failed promotion is attempted for ever")
		w.Pipeline.Status = next.Status
		g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{Err: errors.New("no such branch")}, w.Now)).To(BeTrue())

		record := w.Pipeline.Status.Environments["staging"].Promotion
		g.Expect(record.LastError).To(Equal("no such branch"))
		waits = append(waits, record.NextAttemptTime.Sub(w.Now))
		g.Expect(plan.Next(w).RequeueAfter).To(Equal(waits[len(waits)-1]), "the plan wakes up for it")
		w.Now = record.NextAttemptTime.Time
	}
	g.Expect(w.Pipeline.Status.Environments["staging"].Promotion.Attempts).To(BeEquivalentTo(12))
	g.Expect(waits[0]).To(And(BeNumerically(">=", 8*time.Second), BeNumerically("<=", 10*time.Second)))
	g.Expect(waits[1]).To(And(BeNumerically(">=", 16*time.Second), BeNumerically("<=", 20*time.Second)))
	g.Expect(waits[11]).To(And(BeNumerically(">=", 12*time.Minute), BeNumerically("<=", 15*time.Minute)))
}

// claims are worlds in which an action of each kind is due.
var claims = []struct {
	kind  plan.ActionKind
	world func() plan.World
}{
	{plan.OpenPullRequest, func() plan.World { return world("v2", "v1") }},
	{plan.Notify, func() plan.World { return with(world("v2", "v1"), spec(byNotification)) }},
	{plan.Withdraw, func() plan.World { return with(world("v3", "v1"), record("staging", "v2", "created")) }},
	{plan.Renew, func() plan.World {
		return open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}))
	}},
	{plan.ReportPreconditions, func() plan.World { return open(pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil })) }},
	{plan.Merge, func() plan.World { return open(mergedBySluice) }},
}

func TestAnAttemptThatIsNeverRecordedIsMadeAgainAfterTheBackoff(t *testing.T) {
	for _, test := range claims {
		t.Run(string(test.kind), func(t *testing.T) {
			g := NewWithT(t)
			w := test.world()
			requested("now", false)(&w)
			w.Pipeline.Generation++ // a request and a change of the spec end waits, once
			var waits []time.Duration
			for range 4 {
				claim := plan.Next(w)
				g.Expect(claim.Action).To(HaveField("Kind", test.kind))
				w.Pipeline.Status = claim.Status // and here the process dies

				again := plan.Next(w)
				g.Expect(again.Action).To(BeNil(), "a restarted controller waits")
				waits = append(waits, again.RequeueAfter)
				w.Now = w.Now.Add(again.RequeueAfter)
			}
			g.Expect(waits[0]).To(And(BeNumerically(">=", 8*time.Second), BeNumerically("<=", 20*time.Second)))
			g.Expect(waits[3]).To(BeNumerically(">=", 60*time.Second))
		})
	}
}

func TestAnActionThatIsCalledOffIsTakenAgainAtOnce(t *testing.T) {
	for _, test := range claims {
		t.Run(string(test.kind), func(t *testing.T) {
			g := NewWithT(t)
			w := test.world()
			claim := plan.Next(w)
			w.Pipeline.Status = claim.Status
			g.Expect(plan.Record(w.Pipeline, *claim.Action, plan.Outcome{Message: "the Pipeline has changed"}, now)).To(BeTrue())
			g.Expect(plan.Next(w).Action).To(HaveField("Kind", test.kind))
		})
	}
}

func TestAnInterruptedAttemptIsToldFromAFailedOne(t *testing.T) {
	g := NewWithT(t)
	w := world("v2", "v1")
	w.Pipeline.Status = plan.Next(w).Status
	status := plan.Next(w).Status
	due := status.Environments["staging"].Promotion.NextAttemptTime.UTC().Format(time.RFC3339)
	g.Expect(apimeta.FindStatusCondition(status.Conditions, meta.ReadyCondition)).To(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", pipelinesv1.PromotionFailedReason),
		HaveField("Message", "staging: the last attempt to promote v2 was interrupted; next attempt at "+due)))
	g.Expect(status.Environments["staging"].Promotion.Message).To(Equal("the last attempt was interrupted"))
}

func TestRecordWaitsAsLongAsTheHostAsks(t *testing.T) {
	g := NewWithT(t)
	w := world("v2", "v1")
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	until := now.Add(time.Hour)
	plan.Record(w.Pipeline, *next.Action, plan.Outcome{Err: errors.New("rate limited"), RetryAt: until}, now)
	g.Expect(plan.Next(w).RequeueAfter).To(Equal(time.Hour))
}

func TestTextsOfOthersAreCut(t *testing.T) {
	g := NewWithT(t)
	w := world("v2", "v1")
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	plan.Record(w.Pipeline, *next.Action, plan.Outcome{Err: errors.New(strings.Repeat("x", 1<<20))}, now)
	status := plan.Next(w).Status
	g.Expect(len(status.Environments["staging"].Promotion.LastError)).To(BeNumerically("<", 3000))
	for _, condition := range status.Conditions {
		g.Expect(len(condition.Message)).To(BeNumerically("<", 32768), "or the API server refuses the status")
	}
}

func TestRecordLeavesAnotherPromotionAlone(t *testing.T) {
	for _, test := range []struct {
		name   string
		record func(*plan.World)
	}{
		{"the environment is gone", func(*plan.World) {}},
		{"another revision has taken its place", record("staging", "v3", "unapproved")},
		{"the same revision was started again", record("staging", "v2", "unapproved", func(r *pipelinesv1.PromotionRecord) { r.StartTime = metav1.NewTime(now) })},
		{"it has ended meanwhile", record("staging", "v2", "succeeded")},
	} {
		t.Run("when "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := with(world("v2", "v1"), test.record)
			before := w.Pipeline.DeepCopy()
			action := plan.Action{Kind: plan.OpenPullRequest, Environment: "staging", Revision: "v2", StartTime: earlier}
			g.Expect(plan.Record(w.Pipeline, action, plan.Outcome{State: "created"}, now)).To(BeFalse())
			g.Expect(w.Pipeline).To(Equal(before))
		})
	}
}

func TestPromotionsOfOneRevisionStartAtDifferentTimes(t *testing.T) {
	g := NewWithT(t)
	w := with(world("v2", "v1"), record("staging", "v2", "abandoned"), requested("now", true))
	w.Pipeline.Status.Environments["staging"].Promotion.StartTime = metav1.NewTime(now)
	next := plan.Next(w)
	g.Expect(next.Action.StartTime.Time).To(Equal(now.Add(time.Second)), "or the new one would take the old one's pull request for its own")
	g.Expect(next.Status.Environments["staging"].Promotion.StartTime).To(Equal(next.Action.StartTime))
}

func TestHistoryKeepsTheLastTenThatWereAttempted(t *testing.T) {
	g := NewWithT(t)
	w := world("v0", "v0")
	for i := range 12 {
		w.Targets["dev"] = states(fmt.Sprintf("v%d", i+1))
		next := plan.Next(w)
		w.Pipeline.Status = next.Status
		g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{State: "succeeded"}, now)).To(BeTrue())
	}
	staging := w.Pipeline.Status.Environments["staging"]
	g.Expect(staging.Promotion.Revision).To(Equal("v12"))
	g.Expect(staging.History).To(HaveLen(10))
	g.Expect(staging.History[0].Revision).To(Equal("v11"))
	g.Expect(staging.History[9].Revision).To(Equal("v2"))
}
