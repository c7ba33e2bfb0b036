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
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func TestEveryEnvironmentSaysWhereItStands(t *testing.T) {
	for _, test := range []struct {
		name  string
		world plan.World
		// want is "<state>: <message>" of each environment, and settled the message of the condition Settled.
		want    []string
		settled string
	}{
		{
			name: "all run the revision", world: world("v1", "v1", "v1"), settled: "every environment runs v1",
			want: []string{"Current: runs v1, which is promoted from here", "Current: runs v1", "Current: runs v1"},
		},
		{
			name: "one without targets is passed over", world: world("v1", "", "v1"), settled: "every environment runs v1",
			want: []string{"Current: runs v1, which is promoted from here", "Skipped: has no targets and is skipped", "Current: runs v1"},
		},
		{
			name: "the first one is not ready", world: world("v1!", "v1", "v1"), settled: "dev: Kustomization dev/app is not ready: health check failed",
			want: []string{
				"NotReady: Kustomization dev/app is not ready: health check failed",
				"Behind: waits for dev: Kustomization dev/app is not ready: health check failed",
				"Behind: waits for dev: Kustomization dev/app is not ready: health check failed",
			},
		},
		{
			name: "one between can't be read", world: world("v1", "?", ""), settled: "staging: Kustomization staging/app can't be read: connection refused",
			want: []string{
				"Current: runs v1, which is promoted from here",
				"Unknown: Kustomization staging/app can't be read: connection refused",
				"Behind: waits for staging: Kustomization staging/app can't be read: connection refused",
			},
		},
		{
			name: "a gate is closed", world: with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true)), settled: "staging: v2 waits: gate freeze is closed",
			want: []string{"Current: runs v2, which is promoted from here", "Waiting: v2 waits: gate freeze is closed"},
		},
		{
			name: "a gate is missing", world: with(world("v2", "v1"), gates("all", "freeze")), settled: "staging: v2 waits: gate freeze not found",
			want: []string{"Current: runs v2, which is promoted from here", "Failed: v2 waits: gate freeze not found"},
		},
		{
			name: "it is being promoted", world: world("v2", "v1"), settled: "staging: promoting v2",
			want: []string{"Current: runs v2, which is promoted from here", "Promoting: promoting v2"},
		},
		{
			name: "the pull request is open", world: with(world("v2", "v1"), record("staging", "v2", "created")),
			settled: "staging: v2 waits for pull request https://git/pulls/7 to be merged",
			want:    []string{"Current: runs v2, which is promoted from here", "PullRequestOpen: v2 waits for pull request https://git/pulls/7 to be merged"},
		},
		{
			name:    "the pull request can't be read",
			world:   with(world("v2", "v1"), record("staging", "v2", "created"), pullRequest("staging", plan.PullRequest{Err: errors.New("not found")})),
			settled: "staging: pull request https://git/pulls/7 can't be read: not found",
			want:    []string{"Current: runs v2, which is promoted from here", "Failed: pull request https://git/pulls/7 can't be read: not found"},
		},
		{
			name: "it was promoted, and has yet to arrive",
			world: with(world("v2", "v1"), record("staging", "v2", "succeeded", func(r *pipelinesv1.PromotionRecord) {
				r.Message = "pull request https://git/pulls/7 was merged"
			})),
			settled: "staging: v2 was promoted and is not rolled out yet: pull request https://git/pulls/7 was merged",
			want: []string{"Current: runs v2, which is promoted from here",
				"Promoted: v2 was promoted and is not rolled out yet: pull request https://git/pulls/7 was merged"},
		},
		{
			name: "the pull request was closed",
			world: with(world("v2", "v1"), record("staging", "v2", "abandoned", func(r *pipelinesv1.PromotionRecord) {
				r.Message = "pull request https://git/pulls/7 was closed"
			})),
			settled: "staging: v2 is not promoted: pull request https://git/pulls/7 was closed; force the promotion to open another",
			want:    []string{"Current: runs v2, which is promoted from here", "Abandoned: v2 is not promoted: pull request https://git/pulls/7 was closed; force the promotion to open another"},
		},
		{
			name: "no promotion is configured", world: with(world("v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion = nil })),
			settled: "staging: v2 is not promoted: the Pipeline has no promotion for this environment",
			want: []string{"Current: runs v2, which is promoted from here",
				"NotPromoted: v2 is not promoted: the Pipeline has no promotion for this environment"},
		},
		{
			name: "a suspended Pipeline still reports what runs", settled: "prod: nothing is promoted while the Pipeline is suspended",
			world: with(world("v2", "v2", "v1"), spec(func(s *pipelinesv1.PipelineSpec) { s.Suspend = true })),
			want: []string{"Current: runs v2, which is promoted from here", "Current: runs v2",
				"Suspended: nothing is promoted while the Pipeline is suspended"},
		},
		{
			name: "so does one whose spec is wrong", settled: "every environment runs v2",
			world: with(world("v2", "v2"), spec(func(s *pipelinesv1.PipelineSpec) { s.Promotion.Strategy = pipelinesv1.Strategy{} })),
			want:  []string{"Current: runs v2, which is promoted from here", "Current: runs v2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			status := plan.Next(test.world).Status
			var stand []string
			for _, env := range test.world.Pipeline.Spec.Environments {
				now := status.Environments[env.Name]
				stand = append(stand, string(now.State)+": "+now.Message)
				g.Expect(now.Since).NotTo(BeNil(), env.Name)
			}
			g.Expect(stand).To(Equal(test.want))
			settled := apimeta.FindStatusCondition(status.Conditions, pipelinesv1.SettledCondition)
			g.Expect(settled.Message).To(Equal(test.settled))
			g.Expect(settled.Status == metav1.ConditionTrue).To(Equal(settled.Reason == pipelinesv1.UpToDateReason))
		})
	}
}

func TestSinceIsWhenTheStateBegan(t *testing.T) {
	g := NewWithT(t)
	w := with(world("v2", "v1"), gates("all", "freeze"), gate("freeze", true))
	since := func(later time.Duration) metav1.Time {
		w.Now = now.Add(later)
		w.Pipeline.Status = plan.Next(w).Status
		return *w.Pipeline.Status.Environments["staging"].Since
	}
	began := metav1.NewTime(now)
	g.Expect(since(0)).To(Equal(began))
	g.Expect(since(time.Hour)).To(Equal(began), "it still waits")

	w.Targets["dev"] = states("v2!")
	g.Expect(since(2*time.Hour)).To(Equal(metav1.NewTime(now.Add(2*time.Hour))), "it waits for dev")
	w.Targets["dev"] = states("v2")
	g.Expect(since(3*time.Hour)).To(Equal(began), "the promotion has waited for the gate all the time")

	w.Targets["dev"] = states("v3")
	g.Expect(since(4*time.Hour)).To(Equal(metav1.NewTime(now.Add(4*time.Hour))), "that of v3 has not")
}

func TestARollback(t *testing.T) {
	// ran has the targets of staging last seen ready on a revision.
	ran := func(revision string) func(*plan.World) {
		return func(w *plan.World) {
			status := w.Pipeline.Status.Environments["staging"]
			for range w.Targets["staging"] {
				status.Targets = append(status.Targets, pipelinesv1.TargetStatus{
					ClusterAppRef: pipelinesv1.ClusterAppReference{LocalAppReference: w.Pipeline.Spec.AppRef}, Namespace: "staging", ReadyRevision: revision,
				})
			}
		}
	}
	arrived := func(r *pipelinesv1.PromotionRecord) { r.ArrivalTime = &earlier }
	rolledBack := func(r *pipelinesv1.PromotionRecord) {
		arrived(r)
		r.RollbackTime, r.RolledBackTo = &earlier, "v1"
	}
	for _, test := range []struct {
		name   string
		world  plan.World
		state  pipelinesv1.EnvironmentState
		since  metav1.Time
		action bool
	}{
		{"an environment that had arrived and runs another revision was rolled back",
			with(world("v2", "v1"), record("staging", "v2", "succeeded", arrived), ran("v2")), pipelinesv1.EnvironmentRolledBack, metav1.NewTime(now), false},
		{"since when is remembered",
			with(world("v2", "v0"), record("staging", "v2", "succeeded", rolledBack)), pipelinesv1.EnvironmentRolledBack, earlier, false},
		{"one in which another target still runs the revision was not",
			with(world("v2", "v2 v1"), record("staging", "v2", "succeeded", arrived), ran("v2")), pipelinesv1.EnvironmentRollingOut, metav1.NewTime(now), false},
		{"nor was one whose target is new to it",
			with(world("v2", "v1"), record("staging", "v2", "succeeded", arrived)), pipelinesv1.EnvironmentPromoted, metav1.NewTime(now), false},
		{"one that has not arrived yet was not",
			with(world("v2", "v1"), record("staging", "v2", "succeeded")), pipelinesv1.EnvironmentPromoted, metav1.NewTime(now), false},
		{"nor was one that is not ready on the revision any more",
			with(world("v2", "v2!"), record("staging", "v2", "succeeded", arrived), ran("v2")), pipelinesv1.EnvironmentRollingOut, metav1.NewTime(now), false},
		{"one that runs the revision again is not any more",
			with(world("v2", "v2"), record("staging", "v2", "succeeded", rolledBack)), pipelinesv1.EnvironmentCurrent, earlier, false},
		{"the next revision is promoted as ever",
			with(world("v3", "v1"), record("staging", "v2", "succeeded", rolledBack)), pipelinesv1.EnvironmentPromoting, metav1.NewTime(now), true},
		{"the same one is promoted again if a person says so",
			with(world("v2", "v1"), record("staging", "v2", "succeeded", rolledBack), requested("again", true)), pipelinesv1.EnvironmentPromoting, metav1.NewTime(now), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(test.world)
			g.Expect(next.Status.Environments["staging"]).To(And(HaveField("State", test.state), HaveField("Since", HaveValue(BeEquivalentTo(test.since)))))
			g.Expect(next.Action != nil).To(Equal(test.action))
			// The event depends on it.
			g.Expect(next.Status.Environments["staging"].Promotion.RollbackTime != nil).To(Equal(test.state == pipelinesv1.EnvironmentRolledBack))
			if test.state == pipelinesv1.EnvironmentRolledBack {
				g.Expect(next.Status.Environments["staging"].Message).To(HavePrefix("rolled back from v2: Kustomization staging/app runs v"))
			}
		})
	}
}

func TestAPromotionThatIsForcedAfterItsEndIsApprovedAgain(t *testing.T) {
	approved := []func(*plan.World){spec(manual), approval("staging", "v2", "ada"), requested("again", true)}
	for _, test := range []struct {
		name   string
		record func(*plan.World)
		again  bool
	}{
		{"one that succeeded", record("staging", "v2", "succeeded"), true},
		{"one that was abandoned", record("staging", "v2", "abandoned"), true},
		{"but not one that failed and is retried", record("staging", "v2", "failed", nextAttempt(time.Hour)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			next := plan.Next(with(world("v2", "v1"), append(approved, test.record)...))
			g.Expect(next.Status.Environments["staging"].WaitingApproval.Revision != "").To(Equal(test.again))
			g.Expect(len(next.StaleApprovals) == 1).To(Equal(test.again))
			g.Expect(next.Action != nil && next.Action.Kind == plan.OpenPullRequest).To(BeFalse(), "what an attempt left is withdrawn first")
		})
	}
}
