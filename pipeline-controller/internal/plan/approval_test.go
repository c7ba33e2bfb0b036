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
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func approval(env, revision, by string) func(*plan.World) {
	return func(w *plan.World) {
		w.Approvals = append(w.Approvals, *pipelinesv1.NewPromotionApproval("default", pipelinesv1.PromotionApprovalSpec{
			Environment: env, Revision: revision, ApprovedBy: by,
		}))
	}
}

func manual(spec *pipelinesv1.PipelineSpec) { spec.Promotion.Manual = true }

func TestAnApprovalStartsTheAttemptAndStaysInTheRecord(t *testing.T) {
	g := NewWithT(t)
	next := plan.Next(with(world("v2", "v1"), spec(manual), approval("staging", "v2", "ada")))
	g.Expect(next.Action).To(HaveValue(HaveField("Kind", plan.OpenPullRequest)))
	g.Expect(next.Status.Environments["staging"].WaitingApproval.Revision).To(BeEmpty())
	g.Expect(next.Status.Environments["staging"].Promotion.Approvers).To(Equal([]string{"ada"}))
}

const (
	digest = "@sha1:0123456789012345678901234567890123456789"
	// evil and good are two names of one revision.
	evil, good = "v1.4.0-evil" + digest, "v1.4.0" + digest
)

func TestTheNameThatIsApprovedIsTheOneThatIsPromoted(t *testing.T) {
	const none = ""
	failed := record("staging", evil, "failed", nextAttempt(0))
	created := func(w *plan.World) {
		record("staging", evil, "created")(w)
		pullRequest("staging", plan.PullRequest{HeadCommit: "c"})(w)
	}
	forced := func(w *plan.World) {
		record("staging", evil, "abandoned")(w)
		requested("now", true)(w)
	}

	for _, test := range []struct {
		name  string
		world plan.World
		// shown is the name that people are shown, and waiting the one that waits for their approval.
		shown, waiting string
		// promoted is the name that the action writes.
		promoted string
		stale    []string
	}{
		{"before any attempt the promotion takes the name that the run has now", with(world(good, "v0"), spec(manual), record("staging", evil, "unapproved")),
			good, good, none, nil},
		{"an approval by the name before is void then", with(world(good, "v0"), spec(manual), record("staging", evil, "unapproved"), approval("staging", evil, "ada")),
			good, good, none, []string{evil}},
		{"so it is where the preconditions were met by it", with(world(good, "v0"), spec(manual), record("staging", evil, "unattempted"), approval("staging", evil, "ada")),
			good, good, none, []string{evil}},
		{"an approval by the name of now is for that one", with(world(good, "v0"), spec(manual), record("staging", evil, "unapproved"), approval("staging", good, "ada")),
			good, none, good, nil},
		{"after an attempt people are shown the promotion's name", with(world(good, "v0"), spec(manual), failed), evil, evil, none, nil},
		{"an approval by the run's name is void then", with(world(good, "v0"), spec(manual), failed, approval("staging", good, "ada")), evil, evil, none, []string{good}},
		{"an approval by the promotion's name is for that one", with(world(good, "v0"), spec(manual), failed, approval("staging", evil, "ada")), evil, none, evil, nil},
		{"an open pull request keeps its name", with(world(good, "v0"), spec(manual), created, approval("staging", good, "ada")), evil, evil, evil, []string{good}},
		{"a promotion that is started again takes the name that the run has now", with(world(good, "v0"), spec(manual), forced, approval("staging", evil, "ada")),
			good, good, none, []string{evil}},
		{"a name that is the digest alone is another name", with(world(good, "v0"), spec(manual), approval("staging", digest[1:], "ada")),
			good, good, none, []string{digest[1:]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			staging := next.Status.Environments["staging"]
			g.Expect(staging.Promotion.Revision).To(Equal(test.shown))
			g.Expect(staging.WaitingApproval.Revision).To(Equal(test.waiting))
			ready := apimeta.FindStatusCondition(next.Status.Conditions, "Ready")
			g.Expect(ready.Message).To(ContainSubstring(revision.Short(test.shown)))
			promoted := none
			if next.Action != nil {
				promoted = next.Action.Revision
			}
			g.Expect(promoted).To(Equal(test.promoted))
			var stale []string
			for _, approval := range next.StaleApprovals {
				stale = append(stale, approval.Spec.Revision)
			}
			g.Expect(stale).To(Equal(test.stale))
		})
	}
}

func TestAnotherNameIsAnotherPromotionBeforeAnyAttempt(t *testing.T) {
	g := NewWithT(t)
	next := plan.Next(with(world(good, "v0"), spec(manual), record("staging", evil, "unapproved"))).Status.Environments["staging"]
	g.Expect(next.Promotion.StartTime.Time).To(BeTemporally("==", now), "whoever signed an approval before has not seen it")
	g.Expect(next.History).To(BeEmpty())
}

func TestWhatRollsOutIsToldByTheNameThatWasPromoted(t *testing.T) {
	g := NewWithT(t)
	next := plan.Next(with(world(good, evil+"!"), record("staging", evil, "succeeded")))
	g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, "Ready").Message).To(HavePrefix("staging: v1.4.0-evil@sha1:01234567 is rolling out"))
}

func TestNothingWaitsByANameThatTheRunNoLongerHas(t *testing.T) {
	g := NewWithT(t)
	// staging was rolled back by hand, so the run has reached it again.
	w := with(world(evil, evil, "v0"), spec(manual))
	w.Pipeline.Status = plan.Next(w).Status
	g.Expect(w.Pipeline.Status.Environments["prod"].WaitingApproval.Revision).To(Equal(evil))
	w.Targets["dev"], w.Targets["staging"] = states(good), states("v0")
	next := plan.Next(with(w, approval("prod", evil, "ada")))
	g.Expect(next.Status.Environments["staging"].WaitingApproval.Revision).To(Equal(good))
	g.Expect(next.Status.Environments["prod"].WaitingApproval.Revision).To(BeEmpty())
	g.Expect(next.StaleApprovals).To(HaveLen(1))
}

func TestAnApprovalByHTTPCountsUnlessThePromotionSaysOtherwise(t *testing.T) {
	for _, test := range []struct {
		name    string
		counts  bool
		by      string
		waiting string
	}{
		{"it counts", true, "controller", ""},
		{"it doesn't count", false, "controller", "v2"},
		{"a person's does", false, "ada", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			approvals := spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion.Approvals = &pipelinesv1.Approvals{Required: 1, HTTP: &test.counts}
			})
			w := with(world("v2", "v1"), approvals, approval("staging", "v2", test.by))
			w.HTTPApprover = "controller"
			next := plan.Next(w)
			g.Expect(next.Status.Environments["staging"].WaitingApproval.Revision).To(Equal(test.waiting))
			g.Expect(next.Action == nil).To(Equal(test.waiting != ""))
			g.Expect(next.StaleApprovals).To(BeEmpty(), "the promotion may come to count it")

			// The commit status of an open pull request says the same.
			w = with(w, record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{HeadCommit: "c"}))
			g.Expect(plan.Next(w).Action).To(HaveValue(HaveField("CommitStatus.Met", test.waiting == "")))
		})
	}
}

func TestStaleApprovals(t *testing.T) {
	for _, test := range []struct {
		name  string
		world plan.World
		stale []string
	}{
		{"those of the current revision stay, promoted or not", with(world("v2", "v2", "v1"), approval("staging", "v2", "a"), approval("prod", "v2", "b")), nil},
		{"those of another revision go", with(world("v2", "v1"), approval("staging", "v1", "a"), approval("staging", "v2", "b")), []string{"a"}},
		{"those of an environment that is gone go", with(world("v2", "v1"), approval("prod", "v2", "a")), []string{"a"}},
		{"all stay while no revision has settled", with(world("v2!", "v1"), approval("staging", "v1", "a")), nil},
		{"all stay while the Pipeline is suspended", with(world("v2", "v1"), approval("staging", "v1", "a"),
			spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })), nil},
		{"those of the revision by another name go", with(world(good, "v0"), approval("staging", evil, "a")), []string{"a"}},
		{"those by the name that was attempted stay", with(world(good, "v0"), record("staging", evil, "created"), approval("staging", evil, "a")), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stale []string
			for _, approval := range plan.Next(test.world).StaleApprovals {
				stale = append(stale, approval.Spec.ApprovedBy)
			}
			NewWithT(t).Expect(stale).To(Equal(test.stale))
		})
	}
}

func TestPreconditionsTellSinceWhen(t *testing.T) {
	g := NewWithT(t)
	since := func(status pipelinesv1.PipelineStatus) *metav1.Time {
		return status.Environments["staging"].Promotion.Preconditions[0].LastTransitionTime
	}
	w := with(world("v2", "v1"), spec(manual))
	first := plan.Next(w).Status
	g.Expect(since(first).Time).To(BeTemporally("==", now))

	w.Pipeline.Status = first
	w.Now = now.Add(time.Minute)
	second := plan.Next(w).Status
	g.Expect(since(second).Time).To(BeTemporally("==", now), "nothing has changed")

	w.Pipeline.Status = second
	approval("staging", "v2", "ada")(&w)
	g.Expect(since(plan.Next(w).Status).Time).To(BeTemporally("==", now.Add(time.Minute)), "it is met since then")
}

func TestNothingWaitsForApprovalWhereNothingIsPromoted(t *testing.T) {
	manual := spec(func(spec *pipelinesv1.PipelineSpec) { spec.Promotion.Manual = true })
	for _, test := range []struct {
		name   string
		change func(*plan.World)
		want   string
	}{
		{"nothing has changed", func(*plan.World) {}, "v2"},
		{"someone has brought the revision there by hand", func(w *plan.World) { w.Targets["staging"] = states("v2!") }, ""},
		{"the promotion was taken out of the spec", func(w *plan.World) { w.Pipeline.Spec.Promotion = nil }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := with(world("v2", "v1"), manual)
			w.Pipeline.Status = plan.Next(w).Status
			test.change(&w)
			NewWithT(t).Expect(plan.Next(w).Status.Environments["staging"].WaitingApproval.Revision).To(Equal(test.want))
		})
	}
}

// ready says on what the targets of an environment were last seen ready.
func ready(env string, revisions ...string) func(*plan.World) {
	return func(w *plan.World) {
		status := w.Pipeline.Status.Environments[env]
		if status == nil {
			status = &pipelinesv1.EnvironmentStatus{}
			w.Pipeline.Status.Environments[env] = status
		}
		for i, revision := range revisions {
			namespace := env + string(rune('a'+i))
			w.Pipeline.Environment(env).Targets[i].Namespace = namespace
			status.Targets = append(status.Targets, pipelinesv1.TargetStatus{
				ClusterAppRef: pipelinesv1.ClusterAppReference{LocalAppReference: w.Pipeline.Spec.AppRef},
				Namespace:     namespace, ReadyRevision: revision,
			})
		}
	}
}

func ever(env string) func(*plan.World) {
	return func(w *plan.World) { w.Pipeline.Environment(env).Settle = pipelinesv1.SettleIndividually }
}

func TestSettleIndividually(t *testing.T) {
	for _, test := range []struct {
		name   string
		world  plan.World
		reason string
	}{
		{"a target that was ready on the revision counts though it isn't now", with(world("v2 v2!", "v1"), ever("dev"), ready("dev", "v2", "v2")), "Promoting"},
		{"by default it doesn't", with(world("v2 v2!", "v1"), ready("dev", "v2", "v2")), "EnvironmentNotReady"},
		{"a target that never was ready on it doesn't", with(world("v2 v2!", "v1"), ever("dev"), ready("dev", "v2", "v1")), "EnvironmentNotReady"},
		{"a target that never was ready at all doesn't", with(world("v2 v2!", "v1"), ever("dev"), ready("dev", "v2", "")), "EnvironmentNotReady"},
		{"a target that can't be read stops the run", with(world("v2 ?", "v1"), ever("dev"), ready("dev", "v2", "v2")), "TargetNotReadable"},
		{"later environments are done when each target was ready on it", with(world("v2", "v2! v2"), ever("staging"), ready("staging", "v2", "v2")), "UpToDate"},
		{"later environments roll out until then", with(world("v2", "v2! v2"), ever("staging"), ready("staging", "v1", "v2")), "RollingOut"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(plan.Next(test.world).Status.Conditions).To(ContainElement(And(HaveField("Type", "Ready"), HaveField("Reason", test.reason))))
		})
	}
}

func TestATargetsReadyRevisionIsKeptWhileItIsNotReady(t *testing.T) {
	g := NewWithT(t)
	target := func(w plan.World) string { return plan.Next(w).Status.Environments["dev"].Targets[0].ReadyRevision }
	g.Expect(target(with(world("v2!"), ready("dev", "v1")))).To(Equal("v1"))
	g.Expect(target(with(world("?"), ready("dev", "v1")))).To(Equal("v1"))
	g.Expect(target(with(world("v2"), ready("dev", "v1")))).To(Equal("v2"))
}

func TestAnotherApplicationWasNeverReady(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*pipelinesv1.LocalAppReference)
		want   string
	}{
		{"another name", func(ref *pipelinesv1.LocalAppReference) { ref.Name = "other" }, ""},
		{"another kind", func(ref *pipelinesv1.LocalAppReference) { ref.Kind = "HelmRelease" }, ""},
		{"another version of its API is the same application", func(ref *pipelinesv1.LocalAppReference) { ref.APIVersion = "kustomize.toolkit.fluxcd.io/v2" }, "v1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := with(world("v1", "v0"), ever("dev"))
			w.Pipeline.Status = plan.Next(w).Status
			w.Targets["dev"] = states("!")
			test.change(&w.Pipeline.Spec.AppRef)
			next := plan.Next(w).Status
			g.Expect(next.Environments["dev"].Targets[0].ReadyRevision).To(Equal(test.want))
			g.Expect(next.Revision).To(Equal(test.want))
		})
	}
}

func TestTheRecordTellsWhenTheRevisionArrived(t *testing.T) {
	g := NewWithT(t)
	arrived := func(w plan.World) *metav1.Time {
		return plan.Next(w).Status.Environments["staging"].Promotion.ArrivalTime
	}
	g.Expect(arrived(with(world("v2", "v1"), record("staging", "v2", "succeeded")))).To(BeNil())
	w := with(world("v2", "v2"), record("staging", "v2", "succeeded"))
	g.Expect(arrived(w).Time).To(BeTemporally("==", now))
	w.Pipeline.Status = plan.Next(w).Status
	w.Now = now.Add(time.Hour)
	g.Expect(arrived(w).Time).To(BeTemporally("==", now), "it is reported once")
}
