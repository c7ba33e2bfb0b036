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

	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

var (
	now      = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	threeAgo = at(-3 * time.Hour)

	current  = "v1.2.3@sha1:" + strings.Repeat("c", 40)
	previous = "v1.2.2@sha1:" + strings.Repeat("b", 40)
)

const pull = "https://github.com/acme/fleet/pull/7"

func at(offset time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(offset)} }

// world is a Pipeline from dev over staging to prod, through which v1.2.3 travels and has come to staging.
func world() *pipelinesv1alpha1.Pipeline {
	pipeline := &pipelinesv1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "app", Generation: 1}}
	pipeline.Spec.AppRef = pipelinesv1alpha1.LocalAppReference{Kind: "Kustomization", Name: "app"}
	pipeline.Status = pipelinesv1alpha1.PipelineStatus{
		ObservedGeneration: 1, Revision: current, Environments: map[string]*pipelinesv1alpha1.EnvironmentStatus{},
	}
	for _, env := range []struct{ name, revision string }{{"dev", current}, {"staging", current}, {"prod", previous}} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1alpha1.Environment{
			Name: env.name, Targets: []pipelinesv1alpha1.Target{{Namespace: env.name}},
		})
		pipeline.Status.Environments[env.name] = &pipelinesv1alpha1.EnvironmentStatus{
			Targets: []pipelinesv1alpha1.TargetStatus{{Namespace: env.name, Ready: true, Revision: env.revision, ReadyRevision: env.revision}},
		}
	}
	return pipeline
}

func ready(reason, message string) func(*pipelinesv1alpha1.Pipeline) {
	return func(pipeline *pipelinesv1alpha1.Pipeline) {
		pipeline.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Reason: reason, Message: message}}
	}
}

func promotion(env string, record pipelinesv1alpha1.PromotionRecord) func(*pipelinesv1alpha1.Pipeline) {
	return func(pipeline *pipelinesv1alpha1.Pipeline) {
		if record.Revision == "" {
			record.Revision = current
		}
		pipeline.Status.Environments[env].Promotion = &record
	}
}

func target(env string, state pipelinesv1alpha1.TargetStatus) func(*pipelinesv1alpha1.Pipeline) {
	return func(pipeline *pipelinesv1alpha1.Pipeline) {
		pipeline.Status.Environments[env].Targets[0] = state
	}
}

func unmet(preconditionType, reason, message string, since *metav1.Time) pipelinesv1alpha1.PreconditionStatus {
	return pipelinesv1alpha1.PreconditionStatus{Type: preconditionType, Reason: reason, Message: message, LastTransitionTime: since}
}

func waitsFor(preconditions ...pipelinesv1alpha1.PreconditionStatus) pipelinesv1alpha1.PromotionRecord {
	return pipelinesv1alpha1.PromotionRecord{State: pipelinesv1alpha1.PromotionUnapproved, Preconditions: preconditions}
}

func TestLine(t *testing.T) {
	type changes []func(*pipelinesv1alpha1.Pipeline)
	frozen := unmet("Gates", "GateClosed", "gate change-freeze is closed (end of quarter)", threeAgo)

	for _, tt := range []struct {
		name    string
		env     string
		changes changes
		want    string
	}{
		{
			name: "the environment before it is not ready",
			env:  "prod",
			changes: changes{
				target("staging", pipelinesv1alpha1.TargetStatus{Revision: current, Error: "health check failed"}),
				ready("RollingOut", "staging: v1.2.3@sha1:cccccccc is rolling out: Kustomization staging/app: health check failed"),
			},
			want: "prod: waits for staging: v1.2.3@sha1:cccccccc is rolling out: Kustomization staging/app: health check failed",
		},
		{
			name: "the environment before it is itself waiting",
			env:  "prod",
			changes: changes{
				target("staging", pipelinesv1alpha1.TargetStatus{Ready: true, Revision: previous}),
				promotion("staging", pipelinesv1alpha1.PromotionRecord{State: "created", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PullRequestOpen", "staging: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged"),
			},
			want: "prod: waits for staging: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged",
		},
		{
			name: "the first environment is not ready, so that nothing travels",
			env:  "prod",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Status.Revision = "" },
				target("dev", pipelinesv1alpha1.TargetStatus{Revision: current, Error: "build failed"}),
				ready("EnvironmentNotReady", "dev: Kustomization dev/app is not ready: build failed"),
			},
			want: "prod: waits for dev: Kustomization dev/app is not ready: build failed",
		},
		{
			name: "the first environment is asked about itself",
			env:  "dev",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Status.Revision = "" },
				ready("EnvironmentNotReady", "dev: its targets run different revisions, v1 and v2"),
			},
			want: "dev: its targets run different revisions, v1 and v2",
		},
		{
			name: "a gate is closed, for a reason and since a time",
			env:  "prod",
			changes: changes{
				promotion("prod", waitsFor(frozen)),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"),
			},
			want: "prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): gate change-freeze is closed (end of quarter)",
		},
		{
			name: "a gate is missing",
			env:  "prod",
			changes: changes{
				promotion("prod", waitsFor(unmet("Gates", "GateNotFound", "gate change-freeze does not exist", threeAgo))),
				ready("GateNotFound", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze does not exist"),
			},
			want: "prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): gate change-freeze does not exist",
		},
		{
			name: "an approval is missing, and this is how to give it",
			env:  "prod",
			changes: changes{
				promotion("prod", waitsFor(unmet("Approval", "ApprovalMissing", "a person's approval is missing", threeAgo))),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: a person's approval is missing"),
			},
			want: "prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): a person's approval is missing " +
				"(flux approve promotion app --env prod -n flux-system)",
		},
		{
			name: "one of two approvals is missing, and a gate was closed before",
			env:  "prod",
			changes: changes{
				promotion("prod", waitsFor(frozen, unmet("Approval", "ApprovalMissing", "1 of 2 approvals, by ada", at(-time.Minute)))),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter); 1 of 2 approvals, by ada"),
			},
			want: "prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): gate change-freeze is closed (end of quarter); " +
				"1 of 2 approvals, by ada (flux approve promotion app --env prod -n flux-system)",
		},
		{
			name: "a precondition without a time has been waited for all the same",
			env:  "prod",
			changes: changes{
				promotion("prod", waitsFor(unmet("Gates", "GateClosed", "gate change-freeze is closed", nil))),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed",
		},
		{
			name: "the pull request is open",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "created", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged",
		},
		{
			name: "the pull request is open, and waits for a gate",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "created", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged, which is to wait: gate freeze is closed"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged, which is to wait: gate freeze is closed",
		},
		{
			name: "the pull request is open, and the Git host does not merge it",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "created", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged as soon as the Git host lets it: 405 a review is missing"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged as soon as the Git host lets it: 405 a review is missing",
		},
		{
			name: "the pull request can't be closed to start the promotion anew",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "created", Superseded: true, PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PromotionFailed", "prod: withdrawing the promotion of v1.2.3@sha1:cccccccc failed: 403"),
			},
			want: "prod: withdrawing the promotion of v1.2.3@sha1:cccccccc failed: 403",
		},
		{
			name: "the pull request is open, and the Ready condition tells of another environment's trouble",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "created", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull}}),
				ready("PromotionFailed", "staging: promotion of v1.2.1: no such host"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged",
		},
		{
			name: "the pull request can't be read",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{
					State: "created", LastError: "unauthorized", PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: pull},
				}),
				ready("PullRequestUnknown", "prod: pull request "+pull+" can't be read: unauthorized"),
			},
			want: "prod: pull request " + pull + " can't be read: unauthorized",
		},
		{
			name: "the pull request was closed unmerged",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "abandoned", Message: "pull request " + pull + " was closed without being merged"}),
				ready("PromotionAbandoned", "prod: v1.2.3@sha1:cccccccc is not promoted: pull request "+pull+" was closed without being merged"),
			},
			want: "prod: v1.2.3@sha1:cccccccc is not promoted: pull request " + pull + " was closed without being merged; " +
				"the next revision will be, or this one by the annotations reconcile.fluxcd.io/requestedAt and reconcile.fluxcd.io/forceAt, with one new value for both",
		},
		{
			name: "it failed, with the error and the next try",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "failed", Attempts: 3, LastError: "no such host", NextAttemptTime: at(40 * time.Second)}),
				ready("PromotionFailed", "prod: promoting v1.2.3@sha1:cccccccc failed, next try at 2026-05-04T12:00:40Z: no such host"),
			},
			want: "prod: v1.2.3@sha1:cccccccc failed to be promoted 3 times, next try at 2026-05-04T12:00:40Z (in 40s): no such host",
		},
		{
			name: "it failed, and the Git host wants to be left alone for longer",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{
					State: "failed", Attempts: 1, LastError: "rate limit", NextAttemptTime: at(10 * time.Second), RateLimitedUntil: at(time.Hour),
				}),
				ready("PromotionFailed", "prod: promoting v1.2.3@sha1:cccccccc failed, next try at 2026-05-04T13:00:00Z: rate limit"),
			},
			want: "prod: v1.2.3@sha1:cccccccc failed to be promoted once, next try at 2026-05-04T13:00:00Z (in 60m): rate limit",
		},
		{
			name: "it failed, and the next try is a moment overdue",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "failed", Attempts: 1, LastError: "no such host", NextAttemptTime: at(-time.Second)}),
				ready("PromotionFailed", "prod: promoting v1.2.3@sha1:cccccccc failed, next try at 2026-05-04T11:59:59Z: no such host"),
			},
			want: "prod: v1.2.3@sha1:cccccccc failed to be promoted once, the next try is due: no such host",
		},
		{
			name: "it failed, and a gate was closed afterwards",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{
					State: "failed", Attempts: 2, LastError: "no such host", Preconditions: []pipelinesv1alpha1.PreconditionStatus{frozen},
				}),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"),
			},
			want: "prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): gate change-freeze is closed (end of quarter); " +
				"failed to be promoted 2 times, is being tried again: no such host",
		},
		{
			name: "the promotion of the revision before it can't be withdrawn",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{Revision: previous, State: "created", LastError: "no such host"}),
				ready("PromotionFailed", "prod: withdrawing the promotion of v1.2.2@sha1:bbbbbbbb failed: no such host"),
			},
			want: "prod: withdrawing the promotion of v1.2.2@sha1:bbbbbbbb failed: no such host",
		},
		{
			name: "it is being promoted",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "unattempted", Attempts: 1}),
				ready("Promoting", "prod: promoting v1.2.3@sha1:cccccccc"),
			},
			want: "prod: promoting v1.2.3@sha1:cccccccc",
		},
		{
			name: "it was promoted and is not there yet",
			env:  "prod",
			changes: changes{
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "succeeded", Message: "pull request " + pull + " was merged"}),
				ready("Promoted", "prod: v1.2.3@sha1:cccccccc was promoted and has yet to be rolled out"),
			},
			want: "prod: v1.2.3@sha1:cccccccc was promoted and has yet to be rolled out: pull request " + pull + " was merged",
		},
		{
			name: "it is rolling out",
			env:  "prod",
			changes: changes{
				target("prod", pipelinesv1alpha1.TargetStatus{Revision: current, Error: "dependency is not ready"}),
				promotion("prod", pipelinesv1alpha1.PromotionRecord{State: "succeeded", Message: "pull request " + pull + " was merged"}),
				ready("RollingOut", "prod: v1.2.3@sha1:cccccccc is rolling out: Kustomization prod/app: dependency is not ready"),
			},
			want: "prod: v1.2.3@sha1:cccccccc is rolling out: Kustomization prod/app: dependency is not ready",
		},
		{
			name: "its target can't be read",
			env:  "prod",
			changes: changes{
				target("prod", pipelinesv1alpha1.TargetStatus{Error: "not found"}),
				ready("TargetNotReadable", "prod: Kustomization prod/app can't be read: not found"),
			},
			want: "prod: Kustomization prod/app can't be read: not found",
		},
		{
			name: "the target of a steady environment before it can't be read, though it was ready on the revision",
			env:  "prod",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Spec.Environments[1].Steady = pipelinesv1alpha1.SteadyEver },
				target("staging", pipelinesv1alpha1.TargetStatus{Error: "no route to host", ReadyRevision: current}),
				ready("TargetNotReadable", "staging: Kustomization staging/app in cluster eu can't be read: no route to host"),
			},
			want: "prod: waits for staging: Kustomization staging/app in cluster eu can't be read: no route to host",
		},
		{
			name: "an environment that is never all ready at once counts by what it was ready on",
			env:  "staging",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Spec.Environments[1].Steady = pipelinesv1alpha1.SteadyEver },
				target("staging", pipelinesv1alpha1.TargetStatus{Revision: current, ReadyRevision: current, Error: "progressing"}),
				ready("PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged"),
			},
			want: "staging: runs v1.2.3@sha1:cccccccc, nothing to do",
		},
		{
			name: "the pipeline is suspended",
			env:  "prod",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Spec.Suspend = true },
				ready("Suspended", "suspended: nothing is promoted"),
			},
			want: "prod: the pipeline is suspended, nothing is promoted while its spec.suspend is true",
		},
		{
			name: "the pipeline has no promotion for it",
			env:  "prod",
			changes: changes{
				ready("NoPromotion", "prod does not run v1.2.3@sha1:cccccccc, and no promotion is configured"),
			},
			want: "prod: v1.2.3@sha1:cccccccc is not promoted, the pipeline has no promotion for this environment",
		},
		{
			name: "the pipeline's spec is wrong",
			env:  "prod",
			changes: changes{
				ready("InvalidSpec", "environment prod: the promotion's strategy must have exactly one of 'pull-request' and 'notification'"),
			},
			want: "prod: nothing is promoted until the pipeline's spec is corrected: environment prod: " +
				"the promotion's strategy must have exactly one of 'pull-request' and 'notification'",
		},
		{
			name: "nothing is to be done, as it runs the revision",
			env:  "prod",
			changes: changes{
				target("prod", pipelinesv1alpha1.TargetStatus{Ready: true, Revision: current}),
				ready("UpToDate", "every environment runs v1.2.3@sha1:cccccccc"),
			},
			want: "prod: runs v1.2.3@sha1:cccccccc, nothing to do",
		},
		{
			name: "nothing is to be done in an environment that the revision has passed",
			env:  "staging",
			changes: changes{
				promotion("prod", waitsFor(frozen)),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"),
			},
			want: "staging: runs v1.2.3@sha1:cccccccc, nothing to do",
		},
		{
			name: "nothing is ever promoted into the first environment",
			env:  "dev",
			changes: changes{
				ready("UpToDate", "every environment runs v1.2.3@sha1:cccccccc"),
			},
			want: "dev: runs v1.2.3@sha1:cccccccc, nothing to do: what it runs is what travels",
		},
		{
			name: "an environment without targets is passed over",
			env:  "staging",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) {
					p.Spec.Environments[1].Targets, p.Status.Environments["staging"].Targets = nil, nil
				},
				ready("PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged"),
			},
			want: "staging: it has no targets, and is passed over",
		},
		{
			name: "nobody has looked at the pipeline",
			env:  "prod",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) {
					p.Status = pipelinesv1alpha1.PipelineStatus{ObservedGeneration: -1}
				},
			},
			want: "prod: pipeline-controller has not looked at the pipeline yet: does it run?",
		},
		{
			name: "the pipeline was changed since it was looked at",
			env:  "prod",
			changes: changes{
				func(p *pipelinesv1alpha1.Pipeline) { p.Generation = 2 },
				promotion("prod", waitsFor(unmet("Gates", "GateClosed", "gate change-freeze is closed", nil))),
				ready("WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed"),
			},
			want: "prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed; pipeline-controller has not seen the last change of the pipeline yet",
		},
		{
			name: "what others wrote stays on one line and does not color the terminal",
			env:  "prod",
			changes: changes{
				target("prod", pipelinesv1alpha1.TargetStatus{Error: "broken"}),
				ready("TargetNotReadable", "prod: Kustomization prod/app can't be read: \x1b[31mfirst\n\n\tsecond"),
			},
			want: "prod: Kustomization prod/app can't be read: [31mfirst second",
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
		change func(*pipelinesv1alpha1.Pipeline)
		want   string
	}{
		{
			name:   "it is the first environment that doesn't run the revision",
			change: target("staging", pipelinesv1alpha1.TargetStatus{Ready: true, Revision: previous}),
			want:   "staging",
		},
		{
			name:   "it is the last one where all run it",
			change: target("prod", pipelinesv1alpha1.TargetStatus{Ready: true, Revision: current}),
			want:   "prod",
		},
		{
			name:   "it is the first one where nothing travels",
			change: func(p *pipelinesv1alpha1.Pipeline) { p.Status.Revision = "" },
			want:   "dev",
		},
		{
			name:   "there is none in a pipeline without environments",
			change: func(p *pipelinesv1alpha1.Pipeline) { p.Spec.Environments = nil },
		},
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
