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

package cli

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var (
	current  = "v1.2.3@sha1:" + strings.Repeat("c", 40)
	previous = "v1.2.2@sha1:" + strings.Repeat("b", 40)
	next     = "v1.2.4@sha1:" + strings.Repeat("d", 40)
)

const pull = "https://github.com/acme/fleet/pull/7"

// What is shown before the person is asked.
const (
	shown = `► approving a promotion of pipeline app in flux-system namespace
  environment:    prod
  revision:       v1.2.2@sha1:bbbbbbbb → v1.2.3@sha1:cccccccc
`
	shownOne = shown + `  approvals:      0 of 1
  also waits for: nothing else
`
)

// waiting is a Pipeline whose promotion into prod waits for one approval, with changes.
func waiting(changes ...func(*pipelinesv1alpha1.Pipeline)) *pipelinesv1alpha1.Pipeline {
	pipeline := newPipeline()
	promotion := &pipelinesv1alpha1.Promotion{Manual: true}
	pipeline.Spec.Promotion = promotion
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = current
	prod.Promotion = &pipelinesv1alpha1.PromotionRecord{
		Revision: current, State: pipelinesv1alpha1.PromotionUnapproved, StartTime: *at(-time.Hour), Message: "waits: a person's approval is missing",
		Preconditions: []pipelinesv1alpha1.PreconditionStatus{
			{Type: "Approval", Reason: "ApprovalMissing", Message: "a person's approval is missing", LastTransitionTime: at(-time.Hour)},
		},
	}
	setReady(pipeline, "True", "WaitingForPreconditions", "prod: v1.2.3@sha1:cccccccc waits: a person's approval is missing")
	for _, change := range changes {
		change(pipeline)
	}
	return pipeline
}

// gated lets the promotion wait for a closed gate, too.
func gated(pipeline *pipelinesv1alpha1.Pipeline) {
	record := pipeline.Status.Environments["prod"].Promotion
	record.Preconditions = append([]pipelinesv1alpha1.PreconditionStatus{
		{Type: "Gates", Reason: "GateClosed", Message: "gate change-freeze is closed (end of quarter)", LastTransitionTime: at(-3 * time.Hour)},
	}, record.Preconditions...)
}

// twoRequired lets the promotion wait for a second approval, after that of bob.
func twoRequired(pipeline *pipelinesv1alpha1.Pipeline) {
	pipeline.Spec.Promotion.Approvals = &pipelinesv1alpha1.Approvals{Required: 2}
	pipeline.Status.Environments["prod"].Promotion.Approvers = []string{"bob"}
}

// approved meets the precondition, in the name of ada.
func approved(pipeline *pipelinesv1alpha1.Pipeline) {
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = ""
	prod.Promotion.Approvers = append(prod.Promotion.Approvers, "ada")
	preconditions := prod.Promotion.Preconditions
	preconditions[len(preconditions)-1].Met = true
}

func created(pipeline *pipelinesv1alpha1.Pipeline) {
	record := pipeline.Status.Environments["prod"].Promotion
	record.State = pipelinesv1alpha1.PromotionCreated
	record.PullRequest = &pipelinesv1alpha1.PullRequestStatus{URL: pull}
}

func superseded(pipeline *pipelinesv1alpha1.Pipeline) {
	pipeline.Status.Revision = next
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = next
	prod.Promotion.Revision = next
}

// controller does what pipeline-controller does once something is created.
func controller(t *testing.T, changes ...func(*pipelinesv1alpha1.Pipeline)) func(context.Context, client.Client, client.Object) {
	return func(ctx context.Context, kube client.Client, _ client.Object) {
		t.Helper()
		g := NewWithT(t)
		pipeline := &pipelinesv1alpha1.Pipeline{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: "flux-system", Name: "app"}, pipeline)).To(Succeed())
		for _, change := range changes {
			change(pipeline)
		}
		g.Expect(kube.Update(ctx, pipeline)).To(Succeed())
	}
}

func approvalBy(name string) *pipelinesv1alpha1.PromotionApproval {
	spec := pipelinesv1alpha1.PromotionApprovalSpec{Environment: "prod", Revision: current, ApprovedBy: name}
	spec.PipelineRef.Name = "app"
	return pipelinesv1alpha1.NewPromotionApproval("flux-system", spec)
}

func TestApprovePromotion(t *testing.T) {
	yes, no, nothing := "y\n", "\n", ""
	for _, tt := range []struct {
		name     string
		command  string
		pipeline *pipelinesv1alpha1.Pipeline
		others   []client.Object
		typed    *string
		after    func(context.Context, client.Client, client.Object)
		refuse   func(string, any) error
		want     string
		wantErr  string
		// wantMade are the approvals that are made, by what is in them.
		wantMade []pipelinesv1alpha1.PromotionApprovalSpec
	}{
		{
			name:     "the person is asked, and the pull request is told",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    &yes,
			after:    controller(t, approved, created),
			want: shownOne + `? approve it? [y/N] ✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "the same command is there beside the others about pipelines",
			command:  "flux-pipeline approve app --env prod --yes",
			pipeline: waiting(),
			after:    controller(t, approved, created),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a person who does not agree approves nothing",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    &no,
			want:     shownOne + "? approve it? [y/N] ",
			wantErr:  "nothing was approved",
		},
		{
			name:     "a terminal that is closed approves nothing",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    &nothing,
			want:     shownOne + "? approve it? [y/N] ",
			wantErr:  "nothing was approved",
		},
		{
			name:     "without a terminal there is nobody to ask",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			want:     shownOne,
			wantErr:  "there is no terminal to ask at: pass --yes and --revision " + current,
		},
		{
			name:     "a script names the revision, by any name of the same commit, and leaves a comment",
			command:  "flux-approve promotion app --env prod --yes --wait=false --comment change-4711 --revision main@" + current[len("v1.2.3@"):],
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada", Comment: "change-4711"}},
		},
		{
			name:     "a revision that isn't the waiting one is refused, with the one that is",
			command:  "flux-approve promotion app --env prod --yes --revision " + previous,
			pipeline: waiting(),
			wantErr:  "revision " + previous + " is not the one that waits for approval in environment prod of pipeline app, which is " + current,
		},
		{
			name:     "a revision that is cut short is refused",
			command:  "flux-approve promotion app --env prod --yes --revision v1.2.3@sha1:cccccccc",
			pipeline: waiting(),
			wantErr:  "revision v1.2.3@sha1:cccccccc is not the one that waits for approval in environment prod of pipeline app, which is " + current,
		},
		{
			name:     "the second approval of two is the one that promotes",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(twoRequired),
			after:    controller(t, approved, created),
			want: shown + `  approvals:      1 of 2, by bob
  also waits for: nothing else
✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:    "the first approval of two waits for the second no longer than to see it counted",
			command: "flux-approve promotion app --env prod --yes",
			pipeline: waiting(func(p *pipelinesv1alpha1.Pipeline) {
				p.Spec.Promotion.Approvals = &pipelinesv1alpha1.Approvals{Required: 2}
			}),
			after: controller(t, func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.Approvers, record.Preconditions[0].Message = []string{"ada"}, "1 of 2 approvals, by ada"
			}),
			want: shown + `  approvals:      0 of 2
  also waits for: nothing else
✔ promotion approved by ada
◎ waiting for pipeline reconciliation
◎ prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T11:00:00Z (60m): 1 of 2 approvals, by ada (flux approve promotion app --env prod -n flux-system)
`,
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a closed gate is shown before, and is not waited for",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(gated),
			after:    controller(t, approved),
			want: shown + `  approvals:      0 of 1
  also waits for: gate change-freeze is closed (end of quarter)
✔ promotion approved by ada
◎ waiting for pipeline reconciliation
◎ prod: v1.2.3@sha1:cccccccc has been waiting since 2026-05-04T09:00:00Z (3h): gate change-freeze is closed (end of quarter)
`,
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "approving twice is approving once, and no error",
			command:  "flux-approve promotion app --env prod --yes --wait=false",
			pipeline: waiting(),
			others:   []client.Object{approvalBy("ada")},
			want:     shownOne + "✔ promotion is approved by ada already\n",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "what is sent is shown on demand",
			command:  "flux-approve promotion app --env prod --yes --wait=false --verbose",
			pipeline: waiting(),
			want: shownOne + `✚ {"kind":"PromotionApproval","apiVersion":"pipelines.weave.works/v1alpha1","metadata":{"name":"` + approvalBy("ada").Name +
				`","namespace":"flux-system"},"spec":{"pipelineRef":{"name":"app"},"environment":"prod","revision":"` + current + `","approvedBy":"ada"}}` +
				"\n✔ promotion approved by ada\n",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a revision that is superseded while it is approved is told to be",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after:    controller(t, superseded),
			want:     shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr:  "promotion is approved, but v1.2.4@sha1:dddddddd has taken the place of v1.2.3@sha1:cccccccc",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "an attempt that fails is told, with the next one",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after: controller(t, approved, func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Attempts, record.LastError, record.NextAttemptTime = pipelinesv1alpha1.PromotionFailed, 1, "no such host", at(10*time.Second)
			}),
			want: shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr: "promotion is approved, but prod: v1.2.3@sha1:cccccccc failed to be promoted once, " +
				"next try at 2026-05-04T12:00:10Z (in 10s): no such host",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a controller that does not answer within the time is missed",
			command:  "flux-approve promotion app --env prod --yes --timeout 10ms",
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr: "promotion is approved, but pipeline-controller has not seen it yet: does it run? " +
				"(kubectl get deployments --all-namespaces --field-selector metadata.name=pipeline-controller)",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a promotion that is still under way at the end of the time is told to be",
			command:  "flux-approve promotion app --env prod --yes --timeout 10ms",
			pipeline: waiting(),
			after: controller(t, approved, func(p *pipelinesv1alpha1.Pipeline) {
				p.Status.Environments["prod"].Promotion.State = pipelinesv1alpha1.PromotionUnattempted
				setReady(p, "Unknown", "Promoting", "prod: promoting v1.2.3@sha1:cccccccc")
			}),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
◎ promoting v1.2.3@sha1:cccccccc into prod
`,
			wantErr:  "promotion is approved and has not come to its end yet: prod: promoting v1.2.3@sha1:cccccccc",
			wantMade: []pipelinesv1alpha1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "where nothing waits, it is said why",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(approved, created),
			wantErr: "nothing waits for approval in environment prod of pipeline app: " +
				"prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged",
		},
		{
			name:     "where the revision has not come so far, it is said where it stands",
			command:  "flux-approve promotion app --env staging --yes",
			pipeline: waiting(),
			wantErr:  "nothing waits for approval in environment staging of pipeline app: staging: runs v1.2.3@sha1:cccccccc, nothing to do",
		},
		{
			name:     "an environment is asked for, with what waits",
			command:  "flux-approve promotion app",
			pipeline: waiting(),
			wantErr:  "--env is required: what waits for approval is v1.2.3@sha1:cccccccc in prod",
		},
		{
			name:     "an environment is asked for even though nothing waits",
			command:  "flux-approve promotion app",
			pipeline: waiting(approved),
			wantErr:  "--env is required: nothing waits for approval in pipeline app",
		},
		{
			name:     "an environment that is missing is told with those that are there",
			command:  "flux-approve promotion app --env production",
			pipeline: waiting(),
			wantErr:  "pipeline app has no environment production, it has: dev, staging, prod",
		},
		{
			name:     "a pipeline that is missing is told with those that are there",
			command:  "flux-approve promotion shop --env prod",
			pipeline: waiting(),
			wantErr:  "pipeline shop not found in flux-system namespace, which has: app",
		},
		{
			name:     "one who may not approve gets the API server's words",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			refuse: func(verb string, obj any) error {
				if approval, ok := obj.(*pipelinesv1alpha1.PromotionApproval); ok && verb == "create" {
					return forbidden("promotionapprovals", approval.Name, "ada may not approve promotions of Pipeline flux-system/app")
				}
				return nil
			},
			want: shownOne,
			wantErr: `approving the promotion failed: promotionapprovals.pipelines.weave.works "` + approvalBy("ada").Name +
				`" is forbidden: ada may not approve promotions of Pipeline flux-system/app`,
		},
		{
			name:     "one who may not even see the pipeline gets the API server's words",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			refuse: func(verb string, obj any) error {
				if _, ok := obj.(*pipelinesv1alpha1.Pipeline); ok {
					return forbidden("pipelines", "app", `User "ada" cannot get resource`)
				}
				return nil
			},
			wantErr: `reading pipeline app failed: pipelines.pipelines.weave.works "app" is forbidden: User "ada" cannot get resource`,
		},
		{
			name:     "a name is asked for",
			command:  "flux-approve promotion --env prod",
			pipeline: waiting(),
			wantErr:  "pipeline name is required",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var made []pipelinesv1alpha1.PromotionApprovalSpec
			for _, obj := range tt.others {
				made = append(made, obj.(*pipelinesv1alpha1.PromotionApproval).Spec)
			}
			world := cluster{
				objects: append(tt.others, tt.pipeline), typed: tt.typed, refuse: tt.refuse,
				after: func(ctx context.Context, kube client.Client, obj client.Object) {
					made = append(made, obj.(*pipelinesv1alpha1.PromotionApproval).Spec)
					if tt.after != nil {
						tt.after(ctx, kube, obj)
					}
				},
			}

			stdout, stderr, err := world.run(t, strings.Fields(tt.command)...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(stderr).To(Equal(tt.want))
			g.Expect(stdout).To(BeEmpty())

			for i := range tt.wantMade {
				tt.wantMade[i].PipelineRef.Name = "app"
			}
			g.Expect(made).To(Equal(tt.wantMade))
		})
	}
}

func TestARevisionThatIsSupersededWhileThePersonIsAskedIsNotApproved(t *testing.T) {
	g := NewWithT(t)
	yes, reads := "yes\n", 0
	_, _, err := cluster{
		objects: []client.Object{waiting()}, typed: &yes,
		after: func(context.Context, client.Client, client.Object) { t.Error("something was created") },
		read: func(obj client.Object) {
			if reads++; reads == 2 {
				superseded(obj.(*pipelinesv1alpha1.Pipeline))
			}
		},
	}.run(t, "flux-approve", "promotion", "app", "--env", "prod")
	g.Expect(err).To(MatchError("revision " + current + " is not the one that waits for approval in environment prod of pipeline app, which is " + next))
}

func TestAnInterruptEndsTheQuestion(t *testing.T) {
	g := NewWithT(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	terminal, keyboard := io.Pipe()
	defer keyboard.Close()
	command := &approveCommand{}
	command.cluster = &clusterFlags{outside: outside{isTerminal: func(io.Reader) bool { return true }}}
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(terminal)
	cmd.SetErr(io.Discard)
	g.Expect(command.ask(cmd, &candidate{revision: current})).To(MatchError("nothing was approved"))
}

func TestProgressOfAnApprovedPromotion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		changes  []func(*pipelinesv1alpha1.Pipeline)
		want     step
		wantText string
	}{
		{
			name: "an approval that is not counted yet is waited for",
			want: unseen,
		},
		{
			name:    "an approval of somebody else is not one's own",
			changes: []func(*pipelinesv1alpha1.Pipeline){twoRequired},
			want:    unseen,
		},
		{
			name:    "once nothing is missing, the outcome is waited for",
			changes: []func(*pipelinesv1alpha1.Pipeline){approved},
			want:    underWay,
		},
		{
			name: "a failure from before the approval is none of its own",
			changes: []func(*pipelinesv1alpha1.Pipeline){func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.LastError, record.NextAttemptTime = pipelinesv1alpha1.PromotionFailed, "no such host", at(time.Minute)
			}},
			want: unseen,
		},
		{
			name: "an attempt after one that failed is waited for",
			changes: []func(*pipelinesv1alpha1.Pipeline){approved, func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.LastError = pipelinesv1alpha1.PromotionFailed, "no such host"
			}},
			want: underWay,
		},
		{
			name:     "a pull request is the end of it",
			changes:  []func(*pipelinesv1alpha1.Pipeline){approved, created},
			want:     done,
			wantText: "pull request " + pull + " waits to be merged",
		},
		{
			name: "so is a notification",
			changes: []func(*pipelinesv1alpha1.Pipeline){approved, func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Message = pipelinesv1alpha1.PromotionSucceeded, "notified"
			}},
			want:     done,
			wantText: "v1.2.3@sha1:cccccccc is promoted into prod: notified",
		},
		{
			name: "a pull request that was closed already is told",
			changes: []func(*pipelinesv1alpha1.Pipeline){approved, func(p *pipelinesv1alpha1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Message = pipelinesv1alpha1.PromotionAbandoned, "closed"
				setReady(p, "True", "PromotionAbandoned", "prod: v1.2.3@sha1:cccccccc is not promoted: closed")
			}},
			want:     ended,
			wantText: "prod: v1.2.3@sha1:cccccccc is not promoted: closed; the next revision will be, or this one by the annotations reconcile.fluxcd.io/requestedAt and reconcile.fluxcd.io/forceAt, with one new value for both",
		},
		{
			name:     "a pipeline that is suspended is not waited for",
			changes:  []func(*pipelinesv1alpha1.Pipeline){func(p *pipelinesv1alpha1.Pipeline) { p.Spec.Suspend = true }},
			want:     waits,
			wantText: "prod: the pipeline is suspended, nothing is promoted while its spec.suspend is true",
		},
		{
			name: "an environment before it that became unready is not waited for",
			changes: []func(*pipelinesv1alpha1.Pipeline){func(p *pipelinesv1alpha1.Pipeline) {
				p.Status.Revision = ""
				setReady(p, "True", "EnvironmentNotReady", "dev: Kustomization dev/app is not ready: build failed")
			}},
			want:     waits,
			wantText: "prod: waits for dev: Kustomization dev/app is not ready: build failed",
		},
		{
			name: "a target that can't be read is not waited for",
			changes: []func(*pipelinesv1alpha1.Pipeline){func(p *pipelinesv1alpha1.Pipeline) {
				setReady(p, "False", "TargetNotReadable", "prod: Kustomization prod/app can't be read: not found")
			}},
			want:     waits,
			wantText: "prod: Kustomization prod/app can't be read: not found",
		},
		{
			name: "a record that is not there yet is waited for",
			changes: []func(*pipelinesv1alpha1.Pipeline){func(p *pipelinesv1alpha1.Pipeline) {
				p.Status.Environments["prod"].Promotion = nil
			}},
			want: unseen,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			approved := &candidate{pipeline: waiting(tt.changes...), env: "prod", revision: current}
			got, text := approved.progress("ada", now)
			g.Expect(got).To(Equal(tt.want))
			g.Expect(text).To(Equal(tt.wantText))
		})
	}
}

func TestEnvironmentsAreCompletedWithWhatWaitsInThem(t *testing.T) {
	g := NewWithT(t)
	stdout, _, err := cluster{objects: []client.Object{waiting()}}.run(t, "flux-approve", "__complete", "promotion", "app", "--env", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(Equal("dev\nstaging\nprod\tv1.2.3@sha1:cccccccc waits for approval\n:4\n"))
}
