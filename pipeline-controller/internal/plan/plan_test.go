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
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func with(w plan.World, changes ...func(*plan.World)) plan.World {
	for _, change := range changes {
		change(&w)
	}
	return w
}

// environmentName gives an environment another name.
func environmentName(i int, name string) func(*plan.World) {
	return func(w *plan.World) {
		w.Targets[name] = w.Targets[w.Pipeline.Spec.Environments[i].Name]
		w.Pipeline.Spec.Environments[i].Name = name
	}
}

func TestNext(t *testing.T) {
	const none = ""

	for _, test := range []struct {
		name  string
		world plan.World
		// action is "<kind> <environment> <revision>", or none.
		action string
		// reason of the Ready condition.
		reason string
		// state of the promotion into staging, or else prod, afterwards; empty for no promotion.
		state pipelinesv1.PromotionState
	}{
		// The first environment.
		{
			name:  "a pipeline without environments has nothing to do",
			world: world(), action: none, reason: "UpToDate",
		},
		{
			name:  "a single environment has nothing to promote into",
			world: world("v1"), action: none, reason: "UpToDate",
		},
		{
			name:  "a first environment without targets keeps the run pending",
			world: world("", "v1"), action: none, reason: "EnvironmentNotReady",
		},
		{
			name:  "a first environment that is not ready keeps the run pending",
			world: world("v2!", "v1"), action: none, reason: "EnvironmentNotReady",
		},
		{
			name:  "a first environment that never applied anything keeps the run pending",
			world: with(world("v1", "v1"), func(w *plan.World) { w.Targets["dev"][0].Revision = "" }), action: none, reason: "EnvironmentNotReady",
		},
		{
			name:  "a first environment on two revisions keeps the run pending",
			world: world("v2 v1", "v1"), action: none, reason: "EnvironmentNotReady",
		},
		{
			name:  "a first environment that can't be read is not taken for one that runs nothing",
			world: world("?", "v1"), action: none, reason: "TargetNotReadable",
		},
		{
			name:  "one unreadable target among ready ones keeps the first environment unknown",
			world: world("v2 ?", "v1"), action: none, reason: "TargetNotReadable",
		},

		// The environments after it.
		{
			name:  "all environments on the revision are up to date",
			world: world("v1", "v1", "v1"), action: none, reason: "UpToDate",
		},
		{
			name:  "an environment on an older revision needs a promotion",
			world: world("v2", "v1", "v1"), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "the run goes past environments that have the revision",
			world: world("v2", "v2", "v1"), action: "OpenPullRequest prod v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "an environment that never applied anything needs a promotion",
			world: world("v1", "!"), action: "OpenPullRequest staging v1", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "an environment that is unhealthy on an old revision is promoted into, which may fix it",
			world: world("v2", "v1!"), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "an environment with a target that can't be read stops the run",
			world: world("v2", "v1 ?"), action: none, reason: "TargetNotReadable",
		},
		{
			name:  "a target that can't be read is unknown even when another one runs the revision",
			world: world("v2", "v2 ?"), action: none, reason: "TargetNotReadable",
		},
		{
			name:  "an environment with one target on the revision is rolling out",
			world: world("v2", "v2 v1"), action: none, reason: "RollingOut",
		},
		{
			name:  "an environment that runs the revision but isn't ready is rolling out",
			world: world("v2", "v2!", "v1"), action: none, reason: "RollingOut",
		},
		{
			name:  "an environment without targets is passed over",
			world: world("v2", "", "v1"), action: "OpenPullRequest prod v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "two environments that are the same object are a no-op",
			world: world("v2", "v2"), action: none, reason: "UpToDate",
		},
		{
			name: "revisions are the same when their digests are, regardless of their names",
			world: world("main@sha1:0123456789012345678901234567890123456789",
				"v1@sha1:0123456789012345678901234567890123456789"), action: none, reason: "UpToDate",
		},
		{
			name: "an environment's own promotion replaces the pipeline's",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Environments[1].Promotion = &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{Notification: &pipelinesv1.NotificationPromotion{}}}
			})), action: "Notify staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name: "an environment's own promotion does not inherit the pipeline's gates",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Environments[1].Promotion = &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{Notification: &pipelinesv1.NotificationPromotion{}}}
			})), action: "Notify staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name: "an environment's own promotion without a strategy has the pipeline's",
			world: with(world("v2", "v1"), spec(byNotification), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Environments[1].Promotion = &pipelinesv1.Promotion{}
			})), action: "Notify staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name: "the rest of it is the environment's own",
			world: with(world("v2", "v1"), gate("freeze", true), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Environments[1].Promotion = &pipelinesv1.Promotion{Gates: &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}}
			})), action: none, reason: "WaitingForPreconditions", state: "unapproved",
		},
		{
			name: "a promotion without a strategy, and without a pipeline's to take it from, is an error of the spec",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion, s.Environments[1].Promotion = nil, &pipelinesv1.Promotion{}
			})), action: none, reason: "InvalidSpec",
		},
		{
			name:  "a pipeline without any promotion only looks on",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion = nil })), action: none, reason: "NoPromotion",
		},
		{
			name:   "a promotion without a strategy is an error of the spec",
			world:  with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion.Strategy = pipelinesv1.Strategy{} })),
			action: none, reason: "InvalidSpec",
		},
		{
			name: "a promotion with two strategies is an error of the spec",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion.Strategy.Notification = &pipelinesv1.NotificationPromotion{}
			})), action: none, reason: "InvalidSpec",
		},
		{
			name: "a path that leads out of the repository is an error of the spec",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
				s.Promotion.Strategy.PullRequest.Path = "../other"
			})), action: none, reason: "InvalidSpec",
		},
		{
			name:  "a name of an environment that could carry text, from before the schema refused it, is an error of the spec",
			world: with(world("v2", "v1"), environmentName(1, "staging broken, call 555-0100")), action: none, reason: "InvalidSpec",
		},
		{
			name:   "names of environments with upper case, dashes, dots, underscores, colons and letters of other scripts are fine",
			world:  with(world("v1", "v1", "v1"), environmentName(0, "DEV-EU_1.a"), environmentName(1, "eu:west+1"), environmentName(2, "prüfung-生产")),
			action: none, reason: "UpToDate",
		},
		{
			name:  "a suspended pipeline promotes nothing",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })), action: none, reason: "Suspended",
		},

		// Preconditions.
		{
			name:  "a closed gate holds the promotion",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true)), action: none, reason: "WaitingForPreconditions", state: "unapproved",
		},
		{
			name:  "a gate that doesn't exist holds the promotion and is an error",
			world: with(world("v2", "v1"), gates("all", "freeze")), action: none, reason: "GateNotFound", state: "unapproved",
		},
		{
			name:  "one open gate is enough where one is asked for",
			world: with(world("v2", "v1"), gates("oneOf", "freeze", "bypass"), gate("freeze", true), gate("bypass", false)), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a manual promotion waits for approval",
			world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion.Manual = true })), action: none, reason: "WaitingForPreconditions", state: "unapproved",
		},
		{
			name:  "a promotion continues once its gate has opened",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", false), record("staging", "v2", "unapproved")), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a gate that closes before the first attempt holds it",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true), record("staging", "v2", "unattempted")), action: none, reason: "WaitingForPreconditions", state: "unattempted",
		},
		{
			name:  "a gate that closes after a failed attempt holds the next one",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true), record("staging", "v2", "failed")), action: none, reason: "WaitingForPreconditions", state: "failed",
		},

		// A promotion under way.
		{
			name:  "an attempt whose end was never recorded is made again",
			world: with(world("v2", "v1"), record("staging", "v2", "unattempted", attempted(1))), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a failed attempt waits for its backoff",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(time.Minute))), action: none, reason: "PromotionFailed", state: "failed",
		},
		{
			name:  "a failed attempt is repeated after its backoff",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(0))), action: "OpenPullRequest staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "a person's request ends the wait for the backoff",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(time.Minute)), requested("now", false)), action: "OpenPullRequest staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "an open pull request is waited for",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{})), action: none, reason: "PullRequestOpen", state: "created",
		},
		{
			name:  "a merged pull request has succeeded",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Merged: true})), action: none, reason: "Promoted", state: "succeeded",
		},
		{
			name:  "a pull request that was closed unmerged is abandoned",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Closed: "closed without being merged"})), action: none, reason: "PromotionAbandoned", state: "abandoned",
		},
		{
			name:  "a pull request that can't be read is neither merged nor closed",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Err: errors.New("timeout")})), action: none, reason: "PullRequestUnknown", state: "created",
		},
		{
			name:  "a promotion that has succeeded is not repeated while its revision isn't running",
			world: with(world("v2", "v1"), record("staging", "v2", "succeeded")), action: none, reason: "Promoted", state: "succeeded",
		},
		{
			name:  "an abandoned promotion is not repeated",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned")), action: none, reason: "PromotionAbandoned", state: "abandoned",
		},
		{
			name:  "an abandoned promotion is not repeated for a mere reconcile request",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned"), requested("now", false)), action: none, reason: "PromotionAbandoned", state: "abandoned",
		},
		{
			name:  "an abandoned promotion is repeated when a person forces it",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned"), requested("now", true)), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a change of the spec ends the wait for the backoff, because it may have fixed the error",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(time.Minute)), func(w *plan.World) { w.Pipeline.Generation = 4 }), action: "OpenPullRequest staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "nobody's request ends the wait for a rate limit",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", rateLimited(time.Minute)), requested("now", false)), action: none, reason: "PromotionFailed", state: "failed",
		},
		{
			name:  "a rate limit ends by itself",
			world: with(world("v2", "v1"), record("staging", "v2", "failed", rateLimited(0))), action: "OpenPullRequest staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "by force, a pull request that can't be read is withdrawn first, so there are never two",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Err: errors.New("not found")}), requested("now", true)), action: "Withdraw staging v2", reason: "Promoting", state: "created",
		},
		{
			name:  "by force an open pull request is withdrawn, and a new one is opened then",
			world: with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{}), requested("now", true)), action: "Withdraw staging v2", reason: "Promoting", state: "created",
		},
		{
			name:  "the promotion is started again once that is done",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned", superseded)), action: "OpenPullRequest staging v2", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a gate that closed after a failed attempt is what the run waits for, not the error",
			world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true), record("staging", "v2", "failed", nextAttempt(time.Minute))), action: none, reason: "WaitingForPreconditions", state: "failed",
		},
		{
			name: "a force is taken once",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned"), requested("now", true),
				func(w *plan.World) {
					w.Pipeline.Status.LastHandledReconcileAt, w.Pipeline.Status.LastHandledForceAt = "now", "now"
				}), action: none, reason: "PromotionAbandoned", state: "abandoned",
		},
		{
			name:  "a promotion that was never attempted is forgotten once the environment runs the revision by itself",
			world: with(world("v2", "v2"), record("staging", "v2", "unapproved")), action: none, reason: "UpToDate",
		},
		{
			name:  "an attempt whose end was never recorded has succeeded once the environment runs the revision",
			world: with(world("v2", "v2"), spec(byNotification), record("staging", "v2", "failed", nextAttempt(time.Minute))), action: none, reason: "UpToDate", state: "succeeded",
		},
		{
			name:  "a pull request that such an attempt may have left is closed",
			world: with(world("v2", "v2"), record("staging", "v2", "failed", nextAttempt(time.Minute))), action: "Withdraw staging v2", reason: "UpToDate", state: "failed",
		},
		{
			name:  "a pull request is followed to its end though the environment already runs the revision",
			world: with(world("v2", "v2"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Merged: true})), action: none, reason: "UpToDate", state: "succeeded",
		},

		// A new revision.
		{
			name:  "a new revision needs a new approval",
			world: with(world("v3", "v1"), gates("all", "freeze"), gate("freeze", true), record("staging", "v2", "unapproved")), action: none, reason: "WaitingForPreconditions", state: "unapproved",
		},
		{
			name:  "a new revision starts a new promotion after one that succeeded",
			world: with(world("v3", "v2"), record("staging", "v2", "succeeded")), action: "OpenPullRequest staging v3", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "a new revision starts a new promotion after one that was abandoned",
			world: with(world("v3", "v1"), record("staging", "v2", "abandoned")), action: "OpenPullRequest staging v3", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "an open pull request of another revision is withdrawn before a new one is opened",
			world: with(world("v3", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{})), action: "Withdraw staging v2", reason: "Promoting", state: "created",
		},
		{
			name:  "a pull request that Sluice has closed is withdrawn to the end, since its branch may be there still",
			world: with(world("v3", "v1"), record("staging", "v2", "created", superseded), pullRequest("staging", plan.PullRequest{Closed: "closed without being merged"})), action: "Withdraw staging v2", reason: "Promoting", state: "created",
		},
		{
			name:  "a failed attempt of another revision may have left a pull request, so it is withdrawn",
			world: with(world("v3", "v1"), record("staging", "v2", "failed", nextAttempt(0))), action: "Withdraw staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "while a withdrawal is in backoff no new pull request is opened beside it",
			world: with(world("v3", "v1"), record("staging", "v2", "created", superseded, nextAttempt(time.Minute))), action: none, reason: "PromotionFailed", state: "created",
		},
		{
			name:  "a withdrawal does not wait for what the superseded promotion was waiting for",
			world: with(world("v3", "v1"), runBefore("v2"), record("staging", "v2", "failed", nextAttempt(time.Minute))), action: "Withdraw staging v2", reason: "Promoting", state: "failed",
		},
		{
			name:  "a promotion of another revision is withdrawn though the environment runs the new one by itself",
			world: with(world("v3", "v3"), record("staging", "v2", "failed", nextAttempt(0))), action: "Withdraw staging v2", reason: "UpToDate", state: "failed",
		},
		{
			name:  "the pull request of the last environment that left the spec is withdrawn",
			world: with(world(), record("prod", "v2", "created"), pullRequest("prod", plan.PullRequest{})), action: "Withdraw prod v2", reason: "UpToDate", state: "created",
		},
		{
			name:  "promotions of other revisions are withdrawn in environments that the run has not come to",
			world: with(world("v3", "v3!", "v1"), record("prod", "v2", "created"), pullRequest("prod", plan.PullRequest{})), action: "Withdraw prod v2", reason: "RollingOut", state: "created",
		},
		{
			name:  "a merge that is seen together with the new revision is a success, not withdrawn",
			world: with(world("v3", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Merged: true})), action: "OpenPullRequest staging v3", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "while the first environment is unsettled pull requests of the run before are left alone",
			world: with(world("v3!", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{})), action: none, reason: "EnvironmentNotReady", state: "created",
		},
		{
			name:  "while the pipeline is suspended pull requests are left alone",
			world: with(world("v3", "v1"), record("staging", "v2", "created"), spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })), action: none, reason: "Suspended", state: "created",
		},
		{
			name:  "a superseded notification has nothing to withdraw",
			world: with(world("v3", "v1"), spec(byNotification), record("staging", "v2", "failed")), action: "Notify staging v3", reason: "Promoting", state: "unattempted",
		},
		{
			name:  "the pull request of an environment that left the spec is withdrawn",
			world: with(world("v3"), record("prod", "v2", "created"), pullRequest("prod", plan.PullRequest{})), action: "Withdraw prod v2", reason: "UpToDate", state: "created",
		},
		{
			name:  "the pull request of an environment that left the spec is withdrawn though it is for the current revision",
			world: with(world("v2"), record("prod", "v2", "created"), pullRequest("prod", plan.PullRequest{})), action: "Withdraw prod v2", reason: "UpToDate", state: "created",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			before := test.world.Pipeline.DeepCopy()
			next := plan.Next(test.world)

			action := none
			if next.Action != nil {
				action = fmt.Sprintf("%s %s %s", next.Action.Kind, next.Action.Environment, next.Action.Revision)
			}
			g.Expect(action).To(Equal(test.action))

			ready := apimeta.FindStatusCondition(next.Status.Conditions, meta.ReadyCondition)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Reason).To(Equal(test.reason), ready.Message)
			g.Expect(ready.Message).NotTo(BeEmpty())

			g.Expect(stateOf(next.Status, "staging", "prod")).To(Equal(test.state))
			g.Expect(test.world.Pipeline).To(Equal(before), "what was read is never changed")
			g.Expect(plan.Next(test.world)).To(Equal(next), "the same world gives the same plan")
		})
	}
}

func stateOf(status pipelinesv1.PipelineStatus, environments ...string) pipelinesv1.PromotionState {
	for _, env := range environments {
		if s := status.Environments[env]; s != nil && s.Promotion != nil {
			return s.Promotion.State
		}
	}
	return ""
}

func TestNextIsStable(t *testing.T) {
	for _, test := range []struct {
		name  string
		world plan.World
	}{
		{"waiting for a gate", with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true))},
		{"waiting for a merge", with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{}))},
		{"waiting for backoff", with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(10*time.Minute)))},
		{"up to date", world("v1", "v1")},
		{"pending", world("v2!", "v1")},
	} {
		t.Run(test.name+" changes nothing from one pass to the next", func(t *testing.T) {
			g := NewWithT(t)
			first := plan.Next(test.world)
			test.world.Pipeline.Status = first.Status
			test.world.Now = now.Add(time.Minute)
			g.Expect(plan.Next(test.world).Status).To(Equal(first.Status))
		})
	}
}

func TestPromotionPendingIsTrueExactlyWhileTheFirstEnvironmentIsNotSettled(t *testing.T) {
	for _, test := range []struct {
		world   plan.World
		pending bool
	}{
		{world("v2!", "v1"), true},
		{world("?", "v1"), true},
		{world("", "v1"), true},
		{with(world("v2!", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })), true},
		{world("v2", "v1"), false},
		{world("v2", "?"), false},
		{world(), false},
	} {
		g := NewWithT(t)
		status := plan.Next(test.world).Status
		g.Expect(apimeta.IsStatusConditionTrue(status.Conditions, pipelinesv1.PromotionPendingCondition)).To(Equal(test.pending))
		if test.pending {
			g.Expect(status.Revision).To(BeEmpty())
		}
	}
}

func TestStatusTellsWhatWaitsForWhat(t *testing.T) {
	g := NewWithT(t)
	w := with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion.Manual = true }))
	w.Gates["freeze"].Gate.Annotations = map[string]string{gatingv1.ReasonAnnotation: "release party"}

	status := plan.Next(w).Status
	ready := apimeta.FindStatusCondition(status.Conditions, meta.ReadyCondition)
	g.Expect(ready.Message).To(Equal("staging: v2 waits: gate freeze is closed (release party); waiting for approval"))
	g.Expect(status.Environments["staging"].WaitingApproval.Revision).To(Equal("v2"))
	g.Expect(status.Environments["staging"].Promotion.Preconditions).To(HaveLen(2))
	g.Expect(status.Environments["dev"].Targets[0].Revision).To(Equal("v2"))
	g.Expect(status.Revision).To(Equal("v2"))
}

func TestEqualRevisionsKeepTheirRecord(t *testing.T) {
	g := NewWithT(t)
	const digest = "sha1:0123456789012345678901234567890123456789"
	w := with(world("v1@"+digest, "v0"), record("staging", "main@"+digest, "succeeded"))
	next := plan.Next(w)
	g.Expect(next.Action).To(BeNil())
	g.Expect(next.Status.Environments["staging"].Promotion.Revision).To(Equal("main@" + digest))
}

func TestAnUnreadableTargetIsLookedAtAgain(t *testing.T) {
	g := NewWithT(t)
	g.Expect(plan.Next(world("v1", "?")).RequeueAfter).To(Equal(plan.UnknownTargetPoll))
	g.Expect(plan.Next(world("v1", "v1")).RequeueAfter).To(BeZero())
}

func TestAWallClockThatIsPutBackDoesNotMakeAWaitLonger(t *testing.T) {
	const none, put = "", 24 * time.Hour
	step := func(in time.Duration) func(*pipelinesv1.PromotionRecord) {
		return func(r *pipelinesv1.PromotionRecord) {
			r.PullRequest.Reporting = &pipelinesv1.StepStatus{Attempts: 1, NextAttemptTime: &metav1.Time{Time: now.Add(in)}}
			r.PullRequest.HeadCommit = "c"
		}
	}
	seen := pullRequest("staging", plan.PullRequest{HeadCommit: "c"})

	for _, test := range []struct {
		name   string
		world  plan.World
		action plan.ActionKind
	}{
		{"the longest wait between attempts", with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(15*time.Minute))), none},
		{"a wait that was begun tomorrow", with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(put))), plan.OpenPullRequest},
		{"a rate limit that was met in two days", with(world("v2", "v1"), record("staging", "v2", "failed", rateLimited(48*time.Hour))), plan.OpenPullRequest},
		{"the longest wait for a step", with(world("v2", "v1"), seen, record("staging", "v2", "created", step(15*time.Minute))), none},
		{"a wait for a step that was begun tomorrow", with(world("v2", "v1"), seen, record("staging", "v2", "created", step(put))), plan.ReportPreconditions},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			if test.action == none {
				g.Expect(next.Action).To(BeNil())
				g.Expect(next.RequeueAfter).To(Equal(15 * time.Minute))
				return
			}
			g.Expect(next.Action).To(HaveField("Kind", test.action))
		})
	}
}

func TestARateLimitThatIsOverWakesNobody(t *testing.T) {
	suspended := spec(func(spec *pipelinesv1.PipelineSpec) { spec.Suspend = true })
	held := func(w *plan.World) { gates("all", "freeze")(w); gate("freeze", true)(w) }

	for _, test := range []struct {
		name  string
		world plan.World
		want  time.Duration
	}{
		{"one that lasts is waited for", with(world("v2", "v1"), held, record("staging", "v2", "failed", rateLimited(time.Minute))), time.Minute},
		{"the promotion waits for a gate", with(world("v2", "v1"), held, record("staging", "v2", "failed", rateLimited(-time.Minute))), 0},
		{"the first environment has yet to settle", with(world("v2!", "v1"), runBefore("v2"), record("staging", "v2", "failed", rateLimited(-time.Minute))), 0},
		{"the pipeline is suspended", with(world("v2", "v1"), suspended, record("staging", "v2", "created", rateLimited(-time.Minute))), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(plan.Next(test.world).RequeueAfter).To(Equal(test.want))
		})
	}
}

func TestTargetsOfARemovedEnvironmentAreForgotten(t *testing.T) {
	g := NewWithT(t)
	w := with(world("v1", "v1"), record("gone", "v1", "succeeded"))
	g.Expect(plan.Next(w).Status.Environments).NotTo(HaveKey("gone"))
}

func TestTargetStatusNamesTheApplication(t *testing.T) {
	g := NewWithT(t)
	w := world("v1")
	w.Pipeline.Spec.Environments[0].Targets[0].ClusterRef = &pipelinesv1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Name: "eu"}
	w.Targets["dev"] = []application.State{application.Unknown("no route")}
	shown := plan.Next(w).Status.Environments["dev"].Targets[0]
	g.Expect(shown.ClusterAppRef.Name).To(Equal("app"))
	g.Expect(shown.ClusterAppRef.ClusterRef.Name).To(Equal("eu"))
	g.Expect(shown.Error).To(Equal("no route"))
	g.Expect(shown.Ready).To(BeFalse())
}

func TestConditionsCarryTheGeneration(t *testing.T) {
	g := NewWithT(t)
	status := plan.Next(world("v2", "v1")).Status
	g.Expect(status.ObservedGeneration).To(BeEquivalentTo(3))
	for _, condition := range status.Conditions {
		g.Expect(condition.ObservedGeneration).To(BeEquivalentTo(3))
		g.Expect(condition.LastTransitionTime).To(Equal(metav1.NewTime(now)))
	}
	g.Expect(apimeta.IsStatusConditionTrue(status.Conditions, meta.ReconcilingCondition)).To(BeTrue())
	retried := plan.Next(with(world("v2", "v1"), record("staging", "v2", "failed", nextAttempt(time.Minute)))).Status
	g.Expect(apimeta.FindStatusCondition(retried.Conditions, meta.ReconcilingCondition)).To(And(
		HaveField("Status", metav1.ConditionTrue), HaveField("Reason", meta.ProgressingWithRetryReason)), "kstatus takes it for in progress")
	g.Expect(apimeta.FindStatusCondition(retried.Conditions, meta.ReadyCondition)).To(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", pipelinesv1.PromotionFailedReason)))
	g.Expect(apimeta.IsStatusConditionTrue(plan.Next(with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) {
		s.Promotion.Strategy = pipelinesv1.Strategy{}
	}))).Status.Conditions, meta.StalledCondition)).To(BeTrue())
}
