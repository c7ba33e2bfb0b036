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
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

// open is a world with an open pull request, whose commit status says that its preconditions are met.
func open(changes ...func(*plan.World)) plan.World {
	w := with(world("v2", "v1"), record("staging", "v2", "created", reported(true)), pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b1"}))
	return with(w, changes...)
}

func reported(met bool) func(*pipelinesv1.PromotionRecord) {
	return func(r *pipelinesv1.PromotionRecord) {
		r.PullRequest.Commit, r.PullRequest.HeadCommit, r.PullRequest.BaseCommit = "c1", "c1", "b1"
		r.PullRequest.CommitStatus = &pipelinesv1.PreconditionsCommitStatus{Commit: "c1", Met: met, Description: "the promotion has no preconditions"}
	}
}

func pr(change func(*pipelinesv1.PullRequestStatus)) func(*plan.World) {
	return func(w *plan.World) { change(w.Pipeline.Status.Environments["staging"].Promotion.PullRequest) }
}

func mergedBySluice(w *plan.World) {
	w.Pipeline.Spec.Promotion.Strategy.PullRequest.Merge = pipelinesv1.MergeAuto
}

func TestWhatIsDoneAboutAnOpenPullRequest(t *testing.T) {
	for _, test := range []struct {
		name  string
		world plan.World
		// action is the kind of the next one, or empty.
		action plan.ActionKind
		// met is the result that a ReportPreconditions reports.
		met bool
		// message is a part of the Ready condition's.
		message string
	}{
		{
			name:  "with its commit status set it is waited for",
			world: open(), message: "waits for pull request https://git/pulls/7 to be merged",
		},
		{
			name:  "a commit status that was never set is",
			world: open(pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil })), action: plan.ReportPreconditions, met: true,
		},
		{
			name:  "a new commit needs a commit status of its own",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c2", BaseCommit: "b1"})), action: plan.ReportPreconditions, met: true,
		},
		{
			name:   "a pipeline that the host has made since needs the commit status too",
			world:  open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b1", Pipeline: "2"})),
			action: plan.ReportPreconditions, met: true,
		},
		{
			name: "once it is known to have the commit status, it is waited for",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b1", Pipeline: "2"}),
				pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus.Pipeline = "2" })),
			message: "waits for pull request https://git/pulls/7 to be merged",
		},
		{
			name:   "when a gate closes the commit status says so",
			world:  open(gates("all", "freeze"), gate("freeze", true)),
			action: plan.ReportPreconditions, message: "merge blocked: ",
		},
		{
			name:   "while the first environment is unsettled too",
			world:  with(open(gates("all", "freeze"), gate("freeze", true)), func(w *plan.World) { w.Targets["dev"] = states("v3!") }),
			action: plan.ReportPreconditions,
		},
		{
			name:  "not while the pipeline is suspended",
			world: open(gates("all", "freeze"), gate("freeze", true), spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })),
		},
		{
			name:   "not once it must be withdrawn",
			world:  with(open(gates("all", "freeze"), gate("freeze", true)), func(w *plan.World) { w.Targets["dev"] = states("v3") }),
			action: plan.Withdraw,
		},
		{
			name:  "not while it can't be read",
			world: open(pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil }), pullRequest("staging", plan.PullRequest{Err: errors.New("timeout")})),
		},
		{
			name: "a head that someone else has pushed is left alone",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c2", BaseCommit: "b2"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.CommitStatus.Commit = "c2"
			})),
		},
		{
			name: "so is one after an attempt to merge",
			world: open(mergedBySluice, pullRequest("staging", plan.PullRequest{HeadCommit: "c2", BaseCommit: "b1"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.CommitStatus.Commit, pr.Merging = "c2", &pipelinesv1.StepStatus{Attempts: 1}
			})),
		},
		{
			name: "a commit status that could not be set is tried again in time, and the message says why",
			world: open(gates("all", "freeze"), gate("freeze", true), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.Reporting = &pipelinesv1.StepStatus{LastError: "may not set it", NextAttemptTime: &metav1.Time{Time: now.Add(time.Minute)}}
			})),
			message: "may not set it",
		},
		{
			name: "a pending merge does not delay the commit status",
			world: open(mergedBySluice, gates("all", "freeze"), gate("freeze", true), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.Merging = &pipelinesv1.StepStatus{LastError: "a review is missing", NextAttemptTime: &metav1.Time{Time: now.Add(time.Minute)}}
			})),
			action: plan.ReportPreconditions,
		},
		{
			name: "nor does a base branch that has moved",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.CommitStatus = nil
			})),
			action: plan.ReportPreconditions, met: true,
		},
		{
			name: "a person's request ends that wait",
			world: open(gates("all", "freeze"), gate("freeze", true), requested("now", false), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.Reporting = &pipelinesv1.StepStatus{NextAttemptTime: &metav1.Time{Time: now.Add(time.Minute)}}
			})),
			action: plan.ReportPreconditions,
		},

		{
			name:   "a base branch that has moved may want another commit",
			world:  open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}), pr(func(pr *pipelinesv1.PullRequestStatus) { pr.BaseCommit = "b1" })),
			action: plan.Renew,
		},
		{
			name:  "one that hasn't doesn't",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b1"}), pr(func(pr *pipelinesv1.PullRequestStatus) { pr.BaseCommit = "b1" })),
		},
		{
			name: "what others have pushed is not recreated",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.BaseCommit, pr.Commit = "b1", "c0"
			})),
		},
		{
			name: "nothing is pushed while a gate is closed",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}), gates("all", "freeze"), gate("freeze", true),
				pr(func(pr *pipelinesv1.PullRequestStatus) {
					pr.CommitStatus = &pipelinesv1.PreconditionsCommitStatus{Commit: "c1", Description: "gate freeze is closed"}
				})),
		},

		{
			name: "one that has moved again so soon after it was compared is not compared again",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b3"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.BaseCommit, pr.ComparisonTime = "b2", &metav1.Time{Time: now.Add(-29 * time.Second)}
			})),
		},
		{
			name: "it is compared half a minute later",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b3"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.BaseCommit, pr.ComparisonTime = "b2", &metav1.Time{Time: now.Add(-30 * time.Second)}
			})),
			action: plan.Renew,
		},
		{
			name: "it is compared too if the last comparison was made while the clock was ahead",
			world: open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b3"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.BaseCommit, pr.ComparisonTime = "b2", &metav1.Time{Time: now.Add(time.Second)}
			})),
			action: plan.Renew,
		},
		{
			name: "a base branch that moves all the time does not keep Sluice from merging",
			world: open(mergedBySluice, pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b3"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.BaseCommit, pr.ComparisonTime = "b2", &metav1.Time{Time: now.Add(-time.Second)}
			})),
			action: plan.Merge,
		},
		{
			name:  "nothing is done while others have their turn",
			world: open(mergedBySluice, pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil }), func(w *plan.World) { w.Queued = true }),
		},
		{
			name:  "nothing is done before it was polled",
			world: open(mergedBySluice, pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil }), func(w *plan.World) { w.PullRequests = nil }),
		},

		{
			name:  "Sluice merges where it is to",
			world: open(mergedBySluice), action: plan.Merge, message: "once the Git host allows it",
		},
		{
			name:   "it sets the commit status first, which the host may ask for",
			world:  open(mergedBySluice, pr(func(pr *pipelinesv1.PullRequestStatus) { pr.CommitStatus = nil })),
			action: plan.ReportPreconditions, met: true,
		},
		{
			name: "it does not merge while a gate is closed",
			world: open(mergedBySluice, gates("all", "freeze"), gate("freeze", true), pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.CommitStatus = &pipelinesv1.PreconditionsCommitStatus{Commit: "c1", Description: "gate freeze is closed"}
			})),
			message: "merge blocked: gate freeze is closed",
		},
		{
			name:    "it does not merge what someone else has pushed",
			world:   open(mergedBySluice, pr(func(pr *pipelinesv1.PullRequestStatus) { pr.Commit = "c0" })),
			message: "auto-merge disabled: someone else pushed to its branch",
		},
		{
			name:  "it does not merge while the run is somewhere else",
			world: with(open(mergedBySluice), func(w *plan.World) { w.Targets["dev"] = states("v2!") }),
		},
		{
			name: "it tries again in time what the host did not let it",
			world: open(mergedBySluice, pr(func(pr *pipelinesv1.PullRequestStatus) {
				pr.Merging = &pipelinesv1.StepStatus{LastError: "a check has not passed", NextAttemptTime: &metav1.Time{Time: now.Add(time.Minute)}}
			})),
			message: "once the Git host allows it: a check has not passed",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			var action plan.Action
			if next.Action != nil {
				action = *next.Action
			}
			g.Expect(action.Kind).To(Equal(test.action))
			g.Expect(action.CommitStatus.Met).To(Equal(test.met))
			g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition).Message).To(ContainSubstring(test.message))
			if test.action != "" && test.action != plan.Withdraw {
				g.Expect(claimed(next.Status)).To(Equal(int32(1)), "the step is claimed")
				g.Expect(next.Status.Environments["staging"].Promotion.Attempts).To(Equal(int32(1)), "it is no attempt at the promotion")
			}
		})
	}
}

// claimed returns the number of claimed attempts of the steps.
func claimed(status pipelinesv1.PipelineStatus) (attempts int32) {
	pr := status.Environments["staging"].Promotion.PullRequest
	for _, step := range []*pipelinesv1.StepStatus{pr.Reporting, pr.Merging} {
		if step != nil {
			attempts += step.Attempts
		}
	}
	return attempts
}

func TestAHeadThatARenewMayHavePushedIsLookedInto(t *testing.T) {
	g := NewWithT(t)
	next := plan.Next(open(pullRequest("staging", plan.PullRequest{HeadCommit: "c2", BaseCommit: "b2"}), pr(func(pr *pipelinesv1.PullRequestStatus) {
		pr.CommitStatus.Commit, pr.Merging = "c2", &pipelinesv1.StepStatus{Attempts: 1}
	})))
	g.Expect(next.Action).NotTo(BeNil())
	g.Expect(next.Action.Kind).To(Equal(plan.Renew))
}

func TestAPromotionThatIsQueuedIsNoAttempt(t *testing.T) {
	g := NewWithT(t)
	next := plan.Next(with(world("v2", "v1"), func(w *plan.World) { w.Queued = true }))
	g.Expect(next.Action).To(BeNil())
	g.Expect(next.Status.Environments["staging"].Promotion.Attempts).To(BeZero())
	g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition).Message).To(Equal("staging: promotion of v2 is queued"))
}

func TestAPullRequestThatWasRenewedWasCompared(t *testing.T) {
	g := NewWithT(t)
	w := open(pullRequest("staging", plan.PullRequest{HeadCommit: "c1", BaseCommit: "b2"}))
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	renewed := &pipelinesv1.PullRequestStatus{HeadCommit: "c1", Commit: "c1", BaseCommit: "b2"}
	g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{State: pipelinesv1.PromotionCreated, PullRequest: renewed}, now)).To(BeTrue())
	g.Expect(w.Pipeline.Status.Environments["staging"].Promotion.PullRequest.ComparisonTime.Time).To(BeTemporally("==", now))

	w.PullRequests["staging"] = plan.PullRequest{HeadCommit: "c1", BaseCommit: "b3"}
	next = plan.Next(w)
	g.Expect(next.Action).To(BeNil())
	g.Expect(next.RequeueAfter).To(Equal(30 * time.Second))
}

func TestRecordOfAStep(t *testing.T) {
	g := NewWithT(t)
	w := open(mergedBySluice)
	step := func(outcome plan.Outcome) *pipelinesv1.PullRequestStatus {
		next := plan.Next(w)
		g.Expect(next.Action).NotTo(BeNil())
		w.Pipeline.Status = next.Status
		g.Expect(plan.Record(w.Pipeline, *next.Action, outcome, w.Now)).To(BeTrue())
		g.Expect(stateOf(w.Pipeline.Status, "staging")).To(Equal(pipelinesv1.PromotionCreated))
		return w.Pipeline.Status.Environments["staging"].Promotion.PullRequest
	}

	var waits []time.Duration
	for range 6 {
		after := step(plan.Outcome{Err: errors.New("not mergeable: a check has not passed")}).Merging
		g.Expect(after.LastError).To(Equal("not mergeable: a check has not passed"))
		waits = append(waits, after.NextAttemptTime.Sub(w.Now))
		w.Now = after.NextAttemptTime.Time
	}
	g.Expect(waits[0]).To(BeNumerically("<=", 10*time.Second))
	g.Expect(waits[5]).To(BeNumerically("<=", 4*time.Minute), "checks take minutes, for a promotion of an hour ago")

	merged := step(plan.Outcome{State: pipelinesv1.PromotionCreated}).Merging
	g.Expect(merged.LastError).To(BeEmpty())
	g.Expect(merged.Attempts).To(BeZero())
	g.Expect(plan.Next(w).Action).To(BeNil(), "the host may merge in the background")

	gates("all", "freeze")(&w)
	gate("freeze", true)(&w)
	w.Now = w.Now.Add(time.Hour)
	after := step(plan.Outcome{State: pipelinesv1.PromotionCreated})
	g.Expect(after.Reporting).To(BeNil())
	g.Expect(after.CommitStatus).To(Equal(&pipelinesv1.PreconditionsCommitStatus{Commit: "c1", Description: after.CommitStatus.Description}))
	g.Expect(after.CommitStatus.Description).To(ContainSubstring("freeze"))
	g.Expect(plan.Next(w).Action).To(BeNil())
}

func TestAStepThatMeetsARateLimitIsNotTakenAgainBeforeItEnds(t *testing.T) {
	g := NewWithT(t)
	w := open(mergedBySluice)
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	limit := now.Add(time.Hour)
	g.Expect(plan.Record(w.Pipeline, *next.Action, plan.Outcome{Err: errors.New("rate limited"), RetryAt: limit}, now)).To(BeTrue())
	seen := w.PullRequests["staging"]
	delete(w.PullRequests, "staging") // it is not polled either

	w.Now = limit.Add(-time.Second)
	g.Expect(plan.Next(w).Action).To(BeNil())
	g.Expect(plan.Next(w).RequeueAfter).To(Equal(time.Second))
	w.Now, w.PullRequests["staging"] = limit, seen
	g.Expect(plan.Next(w).Action).NotTo(BeNil())
}

func TestAPullRequestThatIsReopenedIsFollowedAgain(t *testing.T) {
	abandoned := func(seen plan.PullRequest) plan.World {
		return with(world("v2", "v1"), record("staging", "v2", "created", reported(true), func(r *pipelinesv1.PromotionRecord) {
			r.State, r.CompletionTime = pipelinesv1.PromotionAbandoned, &earlier
		}), pullRequest("staging", seen))
	}
	for _, test := range []struct {
		name  string
		seen  plan.PullRequest
		state pipelinesv1.PromotionState
	}{
		{"open", plan.PullRequest{HeadCommit: "c1"}, "created"},
		{"merged", plan.PullRequest{Merged: true}, "succeeded"},
		{"still closed", plan.PullRequest{Closed: "closed without being merged"}, "abandoned"},
		{"unreadable", plan.PullRequest{Err: errors.New("timeout"), NextPoll: now.Add(time.Minute)}, "abandoned"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(abandoned(test.seen))
			g.Expect(stateOf(next.Status, "staging")).To(Equal(test.state))
			g.Expect(next.Status.Environments["staging"].Promotion.CompletionTime.IsZero()).To(Equal(test.state == "created"))
			if !test.seen.NextPoll.IsZero() {
				g.Expect(next.RequeueAfter).To(Equal(time.Minute), "it is polled again")
			}
		})
	}
}

func TestACommitStatusIsNoLongerThanHostsTake(t *testing.T) {
	g := NewWithT(t)
	w := open()
	var refs []gatingv1.GateReference
	for i := range 40 {
		refs = append(refs, gatingv1.GateReference(strings.Repeat("x", i+1)))
	}
	gates("all", refs...)(&w)
	next := plan.Next(w)
	g.Expect(next.Action.Kind).To(Equal(plan.ReportPreconditions))
	g.Expect(len([]rune(next.Action.CommitStatus.Description))).To(BeNumerically("<=", 140))
}

func TestAPullRequestIsNotLostWhenTheSpecChanges(t *testing.T) {
	opened := func(changes ...func(*plan.World)) plan.World {
		w := open(func(w *plan.World) {
			w.Pipeline.Status.Environments["staging"].Promotion.Repository = &pipelinesv1.RepositoryReference{URL: "https://git/fleet", BaseBranch: "main"}
		}, spec(byNotification))
		return with(w, changes...)
	}
	for _, test := range []struct {
		name   string
		world  plan.World
		action plan.ActionKind
	}{
		{"it is followed though strategy changed to notification", opened(), ""},
		{"also while it meets a rate limit", opened(func(w *plan.World) {
			delete(w.PullRequests, "staging")
			w.Pipeline.Status.Environments["staging"].Promotion.RateLimitedUntil = &metav1.Time{Time: now.Add(time.Minute)}
		}), ""},
		{"its commit status stays true", opened(gates("all", "freeze"), gate("freeze", true)), plan.ReportPreconditions},
		{"it is withdrawn when another revision takes its place", opened(func(w *plan.World) { w.Targets["dev"] = states("v3") }), plan.Withdraw},
		{"it is withdrawn when its environment leaves the spec, and nothing says how to promote", opened(spec(func(s *pipelinesv1.PipelineSpec) {
			s.Environments, s.Promotion = s.Environments[:1], nil
		})), plan.Withdraw},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			var kind plan.ActionKind
			if next.Action != nil {
				kind = next.Action.Kind
			}
			g.Expect(kind).To(Equal(test.action))
			g.Expect(stateOf(next.Status, "staging")).To(Equal(pipelinesv1.PromotionCreated))
		})
	}
}

func TestAWithdrawalFromARepositoryThatTheSpecNoLongerNamesCanBeGivenUp(t *testing.T) {
	withdrawing := func(r *pipelinesv1.PromotionRecord) {
		r.Superseded, r.LastError = true, "not found"
		r.Repository = &pipelinesv1.RepositoryReference{URL: "https://git/former", BaseBranch: "main"}
	}
	at := func(url string) func(*plan.World) {
		return spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion.Strategy.PullRequest.URL = url })
	}
	elsewhere, force := at("https://git/fleet"), requested("now", true)
	// untried is a promotion that could not be made, and that another revision has just superseded.
	untried := func(w *plan.World) {
		promotion := w.Pipeline.Status.Environments["staging"].Promotion
		promotion.Superseded, promotion.LastError = false, "no such branch"
	}
	seenOpen := func(seen plan.PullRequest) func(*plan.World) {
		return func(w *plan.World) {
			promotion := w.Pipeline.Status.Environments["staging"].Promotion
			promotion.State, promotion.PullRequest = pipelinesv1.PromotionCreated, &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/7", Number: 7}
			pullRequest("staging", seen)(w)
		}
	}
	const (
		hint    = "; https://git/former is no longer named in the spec: restore access, or force the promotion (its pull request stays open)"
		givenUp = "abandoned by force: a pull request may still be open in https://git/former, because closing it failed: not found"
	)
	for _, test := range []struct {
		name    string
		changes []func(*plan.World)
		action  plan.ActionKind
		// ready is how the message of the condition ends, history the message of the last promotion that ended.
		ready, history string
	}{
		{"not before a person asks", []func(*plan.World){elsewhere}, plan.Withdraw, "failed: not found" + hint, ""},
		{"not for a mere reconcile request", []func(*plan.World){elsewhere, requested("now", false)}, plan.Withdraw, "failed: not found" + hint, ""},
		{"by force, and the promotion of today's revision begins", []func(*plan.World){elsewhere, force}, plan.OpenPullRequest, "promoting v2", givenUp},
		{"by force, for a notification", []func(*plan.World){spec(byNotification), force}, plan.Notify, "promoting v2", givenUp},
		{"by force, though its pull request is seen open", []func(*plan.World){elsewhere, force, seenOpen(plan.PullRequest{})}, plan.OpenPullRequest, "promoting v2", givenUp},
		{"not for an error of a look at its pull request", []func(*plan.World){elsewhere, force, untried, seenOpen(plan.PullRequest{Err: errors.New("bad gateway")})},
			plan.Withdraw, "withdrawing the promotion of v1", ""},
		{"not where the environment is no longer in the spec, for its history goes with it", []func(*plan.World){force, spec(func(s *pipelinesv1.PipelineSpec) {
			s.Environments, s.Promotion = s.Environments[:1], nil
		})}, plan.Withdraw, "promotion of v1: not found", ""},
		{"not where the run doesn't stand", []func(*plan.World){elsewhere, force, func(w *plan.World) { w.Targets["staging"] = states("v2") }}, "", "promotion of v1: not found", ""},
		{"not while the spec names the repository, where access can be restored", []func(*plan.World){at("https://git/former"), force}, plan.Withdraw, "failed: not found", ""},
		{"not while the spec names the repository in another way", []func(*plan.World){at("ssh://git@GIT:22/former.git/"), force}, plan.Withdraw, "failed: not found", ""},
		{"not while the host's rate limit lasts", []func(*plan.World){elsewhere, force, func(w *plan.World) {
			rateLimited(time.Minute)(w.Pipeline.Status.Environments["staging"].Promotion)
		}}, "", "rate limited by the Git host until 2026-03-27T12:01:00Z", ""},
		{"not before it was tried", []func(*plan.World){elsewhere, force, untried}, plan.Withdraw, "withdrawing the promotion of v1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(with(with(world("v2", "v1"), record("staging", "v1", "failed", withdrawing)), test.changes...))
			var kind plan.ActionKind
			if next.Action != nil {
				kind = next.Action.Kind
			}
			g.Expect(kind).To(Equal(test.action))
			g.Expect(apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition).Message).To(HaveSuffix(test.ready))
			var last pipelinesv1.PromotionRecord
			if status := next.Status.Environments["staging"]; status != nil && len(status.History) > 0 {
				last = status.History[0]
				g.Expect(last.State).To(Equal(pipelinesv1.PromotionAbandoned))
			}
			g.Expect(last.Message).To(Equal(test.history))
		})
	}
}

func TestTheStatusRemembersWhereAPullRequestIsOpened(t *testing.T) {
	for _, test := range []struct{ name, url, want string }{
		{"as it is", "https://git.example:8443/a/b.git", "https://git.example:8443/a/b.git"},
		{"without a password", "https://bot:s3cr3t@git.example/a/b", "https://git.example/a/b"},
		{"with the user that SSH needs", "ssh://gitea@git.example:2222/a/b", "ssh://gitea@git.example:2222/a/b"},
		{"not at all with a query, which no repository has", "https://git.example/a/b?token=s3cr3t", ""},
		{"not at all if it is no URL", "https://bot:s3cr3t@git.example:port/a/b", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{URL: test.url, BaseBranch: "main"}
			})))
			g.Expect(next.Action.Kind).To(Equal(plan.OpenPullRequest))
			repository := next.Status.Environments["staging"].Promotion.Repository
			if test.want == "" {
				g.Expect(repository).To(BeNil())
				return
			}
			g.Expect(repository).To(Equal(&pipelinesv1.RepositoryReference{URL: test.want, BaseBranch: "main"}))
		})
	}
}
