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
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

var (
	now      = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	threeAgo = at(-3 * time.Hour)

	current = "v1.2.3@sha1:" + strings.Repeat("c", 40)
)

const pull = "https://github.com/acme/fleet/pull/7"

func at(offset time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(offset)} }

// world is a Pipeline with dev, staging and prod that promotes v1.2.3.
func world() *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "app", Generation: 1}}
	pipeline.Spec.AppRef = pipelinesv1.LocalAppReference{Kind: "Kustomization", Name: "app"}
	pipeline.Status = pipelinesv1.PipelineStatus{
		ObservedGeneration: 1, Revision: current, Environments: map[string]*pipelinesv1.EnvironmentStatus{},
	}
	for _, env := range []string{"dev", "staging", "prod"} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{Name: env})
		pipeline.Status.Environments[env] = &pipelinesv1.EnvironmentStatus{}
	}
	return pipeline
}

// stands sets the status of a run that has reached an environment, like pipeline-controller.
func stands(at string, state pipelinesv1.EnvironmentState, message string, since ...*metav1.Time) func(*pipelinesv1.Pipeline) {
	return func(pipeline *pipelinesv1.Pipeline) {
		pipeline.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Message: at + ": " + message}}
		now, text := pipelinesv1.EnvironmentCurrent, "runs v1.2.3@sha1:cccccccc"
		for _, env := range pipeline.Spec.Environments {
			status := pipeline.Status.Environments[env.Name]
			if env.Name == at {
				now, text = state, message
			}
			status.State, status.Message = now, text
			if env.Name == at {
				now, text = pipelinesv1.EnvironmentBehind, "waits for "+at+": "+message
				status.Since = append(since, nil)[0]
			}
		}
	}
}

// waitsFor lets the promotion into prod wait for gates.
func waitsFor(reason string, gates ...gatingv1.GateReference) func(*pipelinesv1.Pipeline) {
	return func(pipeline *pipelinesv1.Pipeline) {
		pipeline.Spec.Promotion = &pipelinesv1.Promotion{Gates: &gatingv1.GateReferences{Refs: gates}}
		pipeline.Status.Environments["prod"].Promotion = &pipelinesv1.PromotionRecord{
			Revision: current, State: pipelinesv1.PromotionUnapproved,
			Preconditions: []pipelinesv1.PreconditionStatus{{Type: pipelinesv1.GatesPrecondition, Reason: reason}},
		}
	}
}

func TestLine(t *testing.T) {
	const named = "v1.2.3@sha1:cccccccc"
	waitsForApproval := func(p *pipelinesv1.Pipeline) { p.Status.Environments["prod"].WaitingApproval.Revision = current }

	for _, tt := range []struct {
		name    string
		env     string
		changes []func(*pipelinesv1.Pipeline)
		want    string
	}{
		{
			name:    "it says where the environment stands",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "PullRequestOpen", named+" waits for pull request "+pull+" to be merged")},
			want:    "prod: " + named + " waits for pull request " + pull + " to be merged",
		},
		{
			name: "or what must be corrected in the spec first",
			env:  "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("none", "", ""), func(p *pipelinesv1.Pipeline) {
				p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: meta.StalledCondition, Message: "GitRepository flux-system/fleet follows branch main"})
			}},
			want: "prod: GitRepository flux-system/fleet follows branch main",
		},
		{
			name:    "and since when",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: gate freeze is closed (end of quarter)", threeAgo)},
			want:    "prod: " + named + " waits: gate freeze is closed (end of quarter) (since 2026-05-04T09:00:00Z, 3h)",
		},
		{
			name:    "an environment whose turn has not come waits for the one that the revision stands at, for as long as that does",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("staging", "RollingOut", named+" is rolling out: Kustomization staging/app: broken", threeAgo)},
			want:    "prod: waits for staging: " + named + " is rolling out: Kustomization staging/app: broken (since 2026-05-04T09:00:00Z, 3h)",
		},
		{
			name:    "approval is required, and the command is printed",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: 1 of 2 approvals, by ada", threeAgo), waitsForApproval},
			want: "prod: " + named + " waits: 1 of 2 approvals, by ada (since 2026-05-04T09:00:00Z, 3h); " +
				"to approve: flux approve promotion app --env prod -n flux-system",
		},
		{
			name:    "a gate is closed, and this is how to let the revision pass",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: gate freeze is closed", threeAgo), waitsFor("GateClosed", "platform/freeze")},
			want: "prod: " + named + " waits: gate freeze is closed (since 2026-05-04T09:00:00Z, 3h); " +
				"if it is urgent: flux pass gate freeze -n platform --revision " + current + " --reason TEXT",
		},
		{
			name:    "a gate is closed and approval is required, and both commands are printed",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits"), waitsForApproval, waitsFor("GateClosed", "freeze")},
			want: "prod: " + named + " waits; to approve: flux approve promotion app --env prod -n flux-system; " +
				"if it is urgent: flux pass gate freeze -n flux-system --revision " + current + " --reason TEXT",
		},
		{
			name:    "a missing gate can't be passed",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: gate freeze not found"), waitsFor("GateNotFound", "freeze")},
			want:    "prod: " + named + " waits: gate freeze not found",
		},
		{
			name:    "of several gates, the message names those that are closed",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: gate freeze is closed; gate sign-off is open"), waitsFor("GateClosed", "freeze", "sign-off")},
			want:    "prod: " + named + " waits: gate freeze is closed; gate sign-off is open",
		},
		{
			name: "an approval of the environment before it is missing",
			env:  "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("staging", "Waiting", named+" waits: 0 of 2 approvals"), func(p *pipelinesv1.Pipeline) {
				p.Status.Environments["staging"].WaitingApproval.Revision = current
			}},
			want: "prod: waits for staging: " + named + " waits: 0 of 2 approvals; to approve: flux approve promotion app --env staging -n flux-system",
		},
		{
			name:    "the pull request was closed, and this is what can be done",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Abandoned", named+" is not promoted: pull request "+pull+" was closed")},
			want: "prod: " + named + " is not promoted: pull request " + pull + " was closed; " +
				"to force it: flux pipeline reconcile app --force -n flux-system",
		},
		{
			name:    "an environment that the revision has passed runs it",
			env:     "staging",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Waiting", named+" waits: gate freeze is closed")},
			want:    "staging: runs " + named,
		},
		{
			name:    "pipeline-controller has not seen the pipeline",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) { p.Status = pipelinesv1.PipelineStatus{ObservedGeneration: -1} }},
			want:    "prod: pipeline-controller has not reconciled the pipeline yet: check that it is running",
		},
		{
			name: "the pipeline is too large to have a status of its environments",
			env:  "prod",
			changes: []func(*pipelinesv1.Pipeline){func(p *pipelinesv1.Pipeline) {
				p.Status.Environments = nil
				p.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Message: "the Pipeline has 65 environments"}}
			}},
			want: "prod: the Pipeline has 65 environments",
		},
		{
			name: "the pipeline was changed since it was reconciled",
			env:  "prod",
			changes: []func(*pipelinesv1.Pipeline){
				func(p *pipelinesv1.Pipeline) { p.Generation = 2 }, stands("prod", "Waiting", named+" waits: gate freeze is closed"),
			},
			want: "prod: " + named + " waits: gate freeze is closed; pipeline-controller has not seen the last change of the pipeline yet",
		},
		{
			name:    "what others wrote stays on one line and does not color the terminal",
			env:     "prod",
			changes: []func(*pipelinesv1.Pipeline){stands("prod", "Unknown", "Kustomization prod/app can't be read: \x1b[31mfirst\n\n\tsecond")},
			want:    "prod: Kustomization prod/app can't be read: [31mfirst second",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pipeline := world()
			for _, change := range tt.changes {
				change(pipeline)
			}
			NewWithT(t).Expect(why.Line(pipeline, tt.env, now)).To(Equal(tt.want))
		})
	}
}

func TestLagging(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*pipelinesv1.Pipeline)
		want   string
	}{
		{name: "it is the first environment that doesn't run the revision", change: stands("staging", "Promoting", "promoting v2"), want: "staging"},
		{name: "an environment without targets is passed over", want: "prod", change: func(p *pipelinesv1.Pipeline) {
			stands("prod", "Waiting", "v2 waits")(p)
			p.Status.Environments["staging"].State = pipelinesv1.EnvironmentSkipped
		}},
		{name: "it is the last one where all run it", change: stands("prod", "Current", "runs v2"), want: "prod"},
		{name: "it is the first one where nothing travels", change: stands("dev", "NotReady", "Kustomization dev/app is not ready"), want: "dev"},
		{name: "there is none in a pipeline without environments", change: func(p *pipelinesv1.Pipeline) { p.Spec.Environments = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pipeline := world()
			tt.change(pipeline)
			NewWithT(t).Expect(why.Lagging(pipeline)).To(Equal(tt.want))
		})
	}
}

func TestApproveCommandIsForAShell(t *testing.T) {
	g := NewWithT(t)
	g.Expect(why.ApproveCommand(world(), "EU-prod_1.a")).To(Equal("flux approve promotion app --env EU-prod_1.a -n flux-system"))
	g.Expect(why.ApproveCommand(world(), "it's prod; rm -rf")).To(Equal(`flux approve promotion app --env 'it'\''s prod; rm -rf' -n flux-system`))
}
