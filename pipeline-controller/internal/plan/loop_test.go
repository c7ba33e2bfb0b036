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
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// commit is a hash of one digit, and onMain what Flux calls the commit at the head of the branch main.
func commit(digit string) string { return strings.Repeat(digit, 40) }

func onMain(digit string) string { return "main@sha1:" + commit(digit) }

// merged is a pull request whose merge has made a commit.
func merged(digit string) func(*pipelinesv1.PromotionRecord) {
	return func(r *pipelinesv1.PromotionRecord) {
		r.PullRequest = &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/7", Number: 7, MergeCommit: commit(digit)}
	}
}

// archived moves an environment's promotion into the history.
func archived(env string) func(*plan.World) {
	return func(w *plan.World) {
		status := w.Pipeline.Status.Environments[env]
		status.History, status.Promotion = append(status.History, *status.Promotion), nil
	}
}

// act is "<kind> <environment> <revision>", or "" for no action.
func act(action *plan.Action) string {
	if action == nil {
		return ""
	}
	return string(action.Kind) + " " + action.Environment + " " + action.Revision
}

const loopAdvice = "; the first environment follows the branch that promotions are merged into, so each merge would be a new revision to promote: " +
	"follow tags or another branch, or set spec.revision.expr to the field that has the running revision"

func TestWhatPromotionsHaveMadeIsNotPromoted(t *testing.T) {
	const none = ""
	const isMerge = "bbbbbbbb is not promoted: it is the result of merging pull request https://git/pulls/7" + loopAdvice
	for _, test := range []struct {
		name    string
		world   plan.World
		action  string
		reason  string
		message string
	}{
		{
			name:  "the merge of this environment's last promotion",
			world: with(world(onMain("b"), "v0"), record("staging", onMain("a"), "succeeded", merged("b"))), action: none, reason: "PromotionLoop",
			message: "staging: main@sha1:" + isMerge,
		},
		{
			name:  "that of an earlier one",
			world: with(world(onMain("b"), "v0"), record("staging", onMain("a"), "succeeded", merged("b")), archived("staging")), action: none, reason: "PromotionLoop",
			message: "staging: main@sha1:" + isMerge,
		},
		{
			name:  "that of a promotion into another environment",
			world: with(world(onMain("b"), "v0", "v0"), record("prod", onMain("a"), "succeeded", merged("b"))), action: none, reason: "PromotionLoop",
			message: "staging: main@sha1:" + isMerge,
		},
		{
			name:  "whatever it is called, and though a person asks for it",
			world: with(world("v2@sha1:"+commit("b"), "v0"), record("staging", onMain("a"), "succeeded", merged("b")), requested("now", true)), action: none, reason: "PromotionLoop",
			message: "staging: v2@sha1:" + isMerge,
		},
		{
			name:  "a change on top of that is promoted",
			world: with(world(onMain("c"), "v0"), record("staging", onMain("a"), "succeeded", merged("b"))), action: "OpenPullRequest staging " + onMain("c"), reason: "Promoting",
		},
		{
			name:  "a revision of something else than Git is promoted",
			world: with(world("latest@sha256:"+commit("b"), "v0"), record("staging", onMain("a"), "succeeded", merged("b"))), action: "OpenPullRequest staging latest@sha256:" + commit("b"), reason: "Promoting",
		},
		{
			name:  "an environment that runs it anyway is on it, and the one after it is not promoted into",
			world: with(world(onMain("b"), onMain("b"), "v0"), record("staging", onMain("a"), "succeeded", merged("b"))), action: none, reason: "PromotionLoop",
			message: "prod: main@sha1:" + isMerge,
		},
		{
			name:  "where all run it there is nothing to promote",
			world: with(world(onMain("b"), onMain("b")), record("staging", onMain("a"), "succeeded", merged("b"))), action: none, reason: "UpToDate",
		},
		{
			name: "one that adds nothing but such commits, as it was found to be",
			world: with(world(onMain("c"), "v0"), record("staging", onMain("c"), "abandoned", func(r *pipelinesv1.PromotionRecord) {
				r.Loop, r.Message = onMain("a"), "it adds only Sluice's own commits to main@sha1:aaaaaaaa, which was promoted before"
			})), action: none, reason: "PromotionLoop",
			message: "staging: main@sha1:cccccccc is not promoted: it adds only Sluice's own commits to main@sha1:aaaaaaaa, which was promoted before" + loopAdvice,
		},
		{
			name: "that is checked again when a person asks for it",
			world: with(world(onMain("c"), "v0"), requested("now", true), record("staging", onMain("c"), "abandoned", func(r *pipelinesv1.PromotionRecord) {
				r.Loop = onMain("a")
			})), action: "OpenPullRequest staging " + onMain("c"), reason: "Promoting",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			g.Expect(act(next.Action)).To(Equal(test.action))
			ready := apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition)
			g.Expect(ready.Reason).To(Equal(test.reason))
			loops := test.reason == pipelinesv1.PromotionLoopReason
			g.Expect(apimeta.IsStatusConditionTrue(next.Status.Conditions, meta.StalledCondition)).To(Equal(loops))
			if loops {
				g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
				g.Expect(ready.Message).To(Equal(test.message))
				env, message, _ := strings.Cut(test.message, ": ")
				g.Expect(next.Status.Environments[env]).To(And(HaveField("State", pipelinesv1.EnvironmentInvalid), HaveField("Message", message)))
			}
		})
	}
}

func TestAMergeIsKnownHoweverItIsSeen(t *testing.T) {
	for _, test := range []struct {
		name string
		see  func(g Gomega, w *plan.World)
	}{
		{"when the pull request is polled", func(_ Gomega, w *plan.World) {
			w.PullRequests["staging"] = plan.PullRequest{Merged: true, MergeCommit: commit("b")}
			w.Pipeline.Status = plan.Next(*w).Status
			delete(w.PullRequests, "staging")
		}},
		{"when it must be withdrawn because of what was merged", func(g Gomega, w *plan.World) {
			w.Targets["dev"] = states(onMain("b"))
			next := plan.Next(*w)
			g.Expect(act(next.Action)).To(Equal("Withdraw staging " + onMain("a")))
			w.Pipeline.Status = next.Status
			g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{State: "succeeded", PullRequest: &pipelinesv1.PullRequestStatus{MergeCommit: commit("b")}}, now)).To(BeTrue())
		}},
		{"when it must be withdrawn although its opening was not recorded", func(g Gomega, w *plan.World) {
			w.Pipeline.Status.Environments["staging"].Promotion.State = "failed"
			w.Pipeline.Status.Environments["staging"].Promotion.PullRequest = nil
			w.Targets["dev"] = states(onMain("b"))
			next := plan.Next(*w)
			g.Expect(act(next.Action)).To(Equal("Withdraw staging " + onMain("a")))
			w.Pipeline.Status = next.Status
			g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{State: "succeeded", PullRequest: &pipelinesv1.PullRequestStatus{
				URL: "https://git/pulls/7", Number: 7, MergeCommit: commit("b"),
			}}, now)).To(BeTrue())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := with(world(onMain("a"), "v0"), record("staging", onMain("a"), "created"))
			test.see(g, &w)
			g.Expect(plan.Merged(&w.Pipeline.Status)).To(Equal(map[string]string{commit("b"): "https://git/pulls/7"}))
			g.Expect(plan.Promoted(&w.Pipeline.Status)).To(Equal(map[string]string{commit("a"): onMain("a")}))

			w.Targets["dev"] = states(onMain("b"))
			next := plan.Next(w)
			g.Expect(next.Action).To(BeNil())
			g.Expect(next.Status.Environments["staging"].State).To(Equal(pipelinesv1.EnvironmentInvalid))
			g.Expect(next.Status.Environments["staging"].History).To(ConsistOf(HaveField("PullRequest.MergeCommit", commit("b"))), "the history keeps it")
		})
	}
}

func TestOneOfPromotionsIsRecordedAndNotRepeated(t *testing.T) {
	g := NewWithT(t)
	w := with(world(onMain("c"), "v0"))
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{Loop: onMain("a"), Message: "it adds nothing"}, now)).To(BeTrue())
	g.Expect(w.Pipeline.Status.Environments["staging"].Promotion).To(And(HaveField("State", pipelinesv1.PromotionAbandoned), HaveField("Loop", onMain("a"))))
	next = plan.Next(w)
	g.Expect(next.Action).To(BeNil())
	g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition).Reason).To(Equal("PromotionLoop"))

	w.Pipeline.Status = next.Status
	w.Targets["dev"] = states(onMain("d"))
	g.Expect(act(plan.Next(w).Action)).To(Equal("OpenPullRequest staging " + onMain("d")))
}

func TestPromotedIsWhatIsDoneWith(t *testing.T) {
	for _, test := range []struct {
		name  string
		state pipelinesv1.PromotionState
		more  func(*pipelinesv1.PromotionRecord)
		done  bool
	}{
		{"merged or notified", "succeeded", nil, true},
		{"merged while it was withdrawn", "succeeded", superseded, true},
		{"closed by a person", "abandoned", nil, true},
		{"closed for another revision", "abandoned", superseded, false},
		{"open", "created", nil, false},
		{"failed", "failed", nil, false},
		{"waiting", "unapproved", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			more := test.more
			if more == nil {
				more = func(*pipelinesv1.PromotionRecord) {}
			}
			w := with(world(onMain("b"), "v0", "v0"), record("staging", onMain("a"), test.state, more), record("prod", "1.2.3", "succeeded"))
			g.Expect(plan.Promoted(&w.Pipeline.Status)).To(HaveLen(map[bool]int{true: 1}[test.done]))
		})
	}
}
