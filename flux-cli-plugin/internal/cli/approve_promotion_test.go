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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var (
	current  = "v1.2.3@sha1:" + strings.Repeat("c", 40)
	previous = "v1.2.2@sha1:" + strings.Repeat("b", 40)
	next     = "v1.2.4@sha1:" + strings.Repeat("d", 40)
)

const pull = "https://github.com/acme/fleet/pull/7"

// Output before the confirmation.
var (
	shown = `► approving a promotion of pipeline app in flux-system namespace
  environment:    prod
  revision:       v1.2.2@sha1:bbbbbbbb → ` + current + `
`
	shownOne = shown + `  approvals:      0 of 1
  also waits for: nothing else
`
)

// waiting is a Pipeline whose promotion into prod waits for one approval, after changes.
func waiting(changes ...func(*pipelinesv1.Pipeline)) *pipelinesv1.Pipeline {
	pipeline := newPipeline()
	promotion := &pipelinesv1.Promotion{Manual: true}
	pipeline.Spec.Promotion = promotion
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = current
	prod.Promotion = &pipelinesv1.PromotionRecord{
		Revision: current, State: pipelinesv1.PromotionUnapproved, StartTime: *at(-time.Hour), Message: "waits: waiting for approval",
		Preconditions: []pipelinesv1.PreconditionStatus{
			{Type: "Approval", Reason: "ApprovalMissing", Message: "waiting for approval", LastTransitionTime: at(-time.Hour)},
		},
	}
	evaluated(pipeline)
	for _, change := range changes {
		change(pipeline)
	}
	return pipeline
}

// evaluated marks the promotion into prod as waiting, or as in progress if all preconditions are met.
func evaluated(pipeline *pipelinesv1.Pipeline) {
	prod := pipeline.Status.Environments["prod"]
	var unmet []string
	var since *metav1.Time
	for _, precondition := range prod.Promotion.Preconditions {
		if at := precondition.LastTransitionTime; !precondition.Met {
			unmet = append(unmet, precondition.Message)
			if since == nil || at.Before(since) {
				since = at
			}
		}
	}
	stand(pipeline, "prod", "Promoting", "Unknown", "promotion of v1.2.3@sha1:cccccccc is queued")
	if len(unmet) > 0 {
		stand(pipeline, "prod", "Waiting", "True", "v1.2.3@sha1:cccccccc waits: "+strings.Join(unmet, "; "))
	}
	prod.Since = since
}

// gated adds a closed gate to the promotion.
func gated(pipeline *pipelinesv1.Pipeline) {
	record := pipeline.Status.Environments["prod"].Promotion
	record.Preconditions = append([]pipelinesv1.PreconditionStatus{
		{Type: "Gates", Reason: "GateClosed", Message: "gate change-freeze is closed (end of quarter)", LastTransitionTime: at(-3 * time.Hour)},
	}, record.Preconditions...)
	evaluated(pipeline)
}

// twoRequired requires a second approval, after that of bob.
func twoRequired(pipeline *pipelinesv1.Pipeline) {
	pipeline.Spec.Promotion.Approvals = &pipelinesv1.Approvals{Required: 2}
	pipeline.Status.Environments["prod"].Promotion.Approvers = []string{"bob"}
}

// approved meets the precondition with an approval by ada.
func approved(pipeline *pipelinesv1.Pipeline) {
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = ""
	prod.Promotion.Approvers = append(prod.Promotion.Approvers, "ada")
	preconditions := prod.Promotion.Preconditions
	preconditions[len(preconditions)-1].Met = true
	evaluated(pipeline)
}

func created(pipeline *pipelinesv1.Pipeline) {
	record := pipeline.Status.Environments["prod"].Promotion
	record.State = pipelinesv1.PromotionCreated
	record.PullRequest = &pipelinesv1.PullRequestStatus{URL: pull, Number: 7}
	record.Message = "pull request " + pull + " waits to be merged"
	stand(pipeline, "prod", "PullRequestOpen", "True", "v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged")
}

func superseded(pipeline *pipelinesv1.Pipeline) {
	pipeline.Status.Revision = next
	prod := pipeline.Status.Environments["prod"]
	prod.WaitingApproval.Revision = next
	prod.Promotion.Revision = next
}

// stagingWaitsToo makes the promotion of another revision into staging wait for approval.
func stagingWaitsToo(pipeline *pipelinesv1.Pipeline) {
	pipeline.Status.Environments["staging"].WaitingApproval.Revision = next
}

// controller updates the Pipeline when an approval is created, like pipeline-controller.
func controller(t *testing.T, changes ...func(*pipelinesv1.Pipeline)) func(context.Context, client.Client, client.Object) {
	return func(ctx context.Context, kube client.Client, _ client.Object) {
		t.Helper()
		g := NewWithT(t)
		pipeline := &pipelinesv1.Pipeline{}
		g.Expect(kube.Get(ctx, client.ObjectKey{Namespace: "flux-system", Name: "app"}, pipeline)).To(Succeed())
		for _, change := range changes {
			change(pipeline)
		}
		g.Expect(kube.Update(ctx, pipeline)).To(Succeed())
	}
}

func approvalBy(name string) *pipelinesv1.PromotionApproval {
	spec := pipelinesv1.PromotionApprovalSpec{Environment: "prod", Revision: current, ApprovedBy: name}
	spec.PipelineRef.Name = "app"
	return pipelinesv1.NewPromotionApproval("flux-system", spec)
}

func TestApprovePromotion(t *testing.T) {
	for _, tt := range []struct {
		name     string
		command  string
		pipeline *pipelinesv1.Pipeline
		others   []client.Object
		typed    *string
		after    func(context.Context, client.Client, client.Object)
		refuse   func(string, any) error
		want     string
		wantErr  string
		// wantMade are the specs of the approvals that are created.
		wantMade []pipelinesv1.PromotionApprovalSpec
	}{
		{
			name:     "the person is asked, and the pull request is printed",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    new("y\n"),
			after:    controller(t, approved, created),
			want: shownOne + `? approve it? [y/N] ✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "the same command exists beside the others about pipelines",
			command:  "flux-pipeline approve app --env prod --yes",
			pipeline: waiting(),
			after:    controller(t, approved, created),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a person who does not agree approves nothing",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    new("\n"),
			want:     shownOne + "? approve it? [y/N] ",
			wantErr:  "nothing was approved",
		},
		{
			name:     "a terminal that is closed approves nothing",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			typed:    new(""),
			want:     shownOne + "? approve it? [y/N] ",
			wantErr:  "nothing was approved",
		},
		{
			name:     "without a terminal, nobody can be asked",
			command:  "flux-approve promotion app --env prod",
			pipeline: waiting(),
			want:     shownOne,
			wantErr:  "confirmation needs a terminal: pass --yes and --revision " + current,
		},
		{
			name:     "another name of the same commit is refused, since the name is what is promoted",
			command:  "flux-approve promotion app --env prod --yes --revision main@" + current[len("v1.2.3@"):],
			pipeline: waiting(),
			wantErr: "revision main@" + current[len("v1.2.3@"):] +
				" does not wait for approval in environment prod of pipeline app: " + current + " does",
		},
		{
			name:     "a name that replaces the approved one before any attempt is reported",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after: controller(t, func(p *pipelinesv1.Pipeline) {
				renamed := "v1.2.3-evil@" + current[len("v1.2.3@"):]
				prod := p.Status.Environments["prod"]
				p.Status.Revision, prod.WaitingApproval.Revision, prod.Promotion.Revision = renamed, renamed, renamed
			}),
			want:     shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr:  "promotion is approved, but v1.2.3-evil@sha1:cccccccc replaced v1.2.3@sha1:cccccccc",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "what others wrote gives no orders to the terminal",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after: controller(t, approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Message = pipelinesv1.PromotionSucceeded, "\x1b[2J\nmerged\u202e"
				stand(p, "prod", "Promoted", "True", "v1.2.3@sha1:cccccccc was promoted and is not rolled out yet")
			}),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ v1.2.3@sha1:cccccccc is promoted into prod: [2J merged
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:    "a promotion that was attempted is approved by its own name, even if the run has another one now",
			command: "flux-approve promotion app --env prod --yes",
			pipeline: waiting(func(p *pipelinesv1.Pipeline) {
				p.Status.Revision = "main@" + current[len("v1.2.3@"):]
				p.Status.Environments["prod"].Promotion.Attempts = 1
			}),
			after: controller(t, approved, created),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
✔ pull request https://github.com/acme/fleet/pull/7 waits to be merged
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a script names the revision, or its digest, and leaves a comment",
			command:  "flux-approve promotion app --env prod --yes --wait=false --comment change-4711 --revision " + current[len("v1.2.3@"):],
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada", Comment: "change-4711"}},
		},
		{
			name:     "a revision that isn't the waiting one is refused, with the one that is",
			command:  "flux-approve promotion app --env prod --yes --revision " + previous,
			pipeline: waiting(),
			wantErr:  "revision " + previous + " does not wait for approval in environment prod of pipeline app: " + current + " does",
		},
		{
			name:     "a revision that is cut after less than seven digits is refused",
			command:  "flux-approve promotion app --env prod --yes --revision v1.2.3@sha1:cccccc",
			pipeline: waiting(),
			wantErr:  "revision v1.2.3@sha1:cccccc does not wait for approval in environment prod of pipeline app: " + current + " does",
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
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:    "it is printed if approvals by HTTP don't count",
			command: "flux-approve promotion app --env prod --yes --wait=false",
			pipeline: waiting(twoRequired, func(p *pipelinesv1.Pipeline) {
				p.Spec.Promotion.Approvals.HTTP = new(bool)
			}),
			want: shown + `  approvals:      1 of 2, by bob; approvals by HTTP don't count
  also waits for: nothing else
✔ promotion approved by ada
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:    "the first approval of two waits for the second no longer than to see it counted",
			command: "flux-approve promotion app --env prod --yes",
			pipeline: waiting(func(p *pipelinesv1.Pipeline) {
				p.Spec.Promotion.Approvals = &pipelinesv1.Approvals{Required: 2}
			}),
			after: controller(t, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.Approvers, record.Preconditions[0].Message = []string{"ada"}, "1 of 2 approvals, by ada"
				evaluated(p)
			}),
			want: shown + `  approvals:      0 of 2
  also waits for: nothing else
✔ promotion approved by ada
◎ waiting for pipeline reconciliation
◎ prod: v1.2.3@sha1:cccccccc waits: 1 of 2 approvals, by ada (since 2026-05-04T11:00:00Z, 60m); to approve: flux approve promotion app --env prod -n flux-system
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
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
◎ prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter) (since 2026-05-04T09:00:00Z, 3h)
`,
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "approving twice is approving once, and no error",
			command:  "flux-approve promotion app --env prod --yes --wait=false",
			pipeline: waiting(),
			others:   []client.Object{approvalBy("ada")},
			want:     shownOne + "✔ promotion is already approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "an approval of something else under the name of this one is not taken for it",
			command:  "flux-approve promotion app --env prod --yes --wait=false",
			pipeline: waiting(),
			others: []client.Object{func() client.Object {
				other := approvalBy("ada")
				other.Spec.ApprovedBy = "eve"
				return other
			}()},
			want:     shownOne,
			wantErr:  "PromotionApproval " + approvalBy("ada").Name + " already exists and approves something else: delete it",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "eve"}},
		},
		{
			name:     "what is sent is shown on demand",
			command:  "flux-approve promotion app --env prod --yes --wait=false --verbose",
			pipeline: waiting(),
			want: shownOne + `✚ {"kind":"PromotionApproval","apiVersion":"pipelines.weave.works/v1alpha1","metadata":{"name":"` + approvalBy("ada").Name +
				`","namespace":"flux-system"},"spec":{"pipelineRef":{"name":"app"},"environment":"prod","revision":"` + current + `","approvedBy":"ada"}}` +
				"\n✔ promotion approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a revision that is superseded while it is approved is reported",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after:    controller(t, superseded),
			want:     shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr:  "promotion is approved, but v1.2.4@sha1:dddddddd replaced v1.2.3@sha1:cccccccc",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "an attempt that fails is reported, with the next one",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			after: controller(t, approved, func(p *pipelinesv1.Pipeline) {
				record := p.Status.Environments["prod"].Promotion
				record.State, record.Attempts, record.LastError, record.NextAttemptTime = pipelinesv1.PromotionFailed, 1, "no such host", at(10*time.Second)
				stand(p, "prod", "Failed", "False", "promoting v1.2.3@sha1:cccccccc failed, next attempt at 2026-05-04T12:00:10Z: no such host")
			}),
			want: shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr: "promotion is approved, but prod: promoting v1.2.3@sha1:cccccccc failed, " +
				"next attempt at 2026-05-04T12:00:10Z: no such host",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a controller that does not answer within the time is missed",
			command:  "flux-approve promotion app --env prod --yes --timeout 10ms",
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n◎ waiting for pipeline reconciliation\n",
			wantErr: "promotion is approved, but pipeline-controller has not reconciled it yet: check that it is running " +
				"(kubectl get deployments --all-namespaces --field-selector metadata.name=pipeline-controller)",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a promotion that is still in progress at the timeout is reported",
			command:  "flux-approve promotion app --env prod --yes --timeout 10ms",
			pipeline: waiting(),
			after: controller(t, approved, func(p *pipelinesv1.Pipeline) {
				p.Status.Environments["prod"].Promotion.State = pipelinesv1.PromotionUnattempted
				stand(p, "prod", "Promoting", "Unknown", "promoting v1.2.3@sha1:cccccccc")
			}),
			want: shownOne + `✔ promotion approved by ada
◎ waiting for pipeline reconciliation
◎ promoting v1.2.3@sha1:cccccccc into prod
`,
			wantErr:  "promotion is approved and is still in progress: prod: promoting v1.2.3@sha1:cccccccc",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
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
			wantErr:  "nothing waits for approval in environment staging of pipeline app: staging: runs v1.2.3@sha1:cccccccc",
		},
		{
			name:     "a promotion that waits is approved as shown, and without its environment if no other one waits",
			command:  "flux-approve promotion app --yes --wait=false --revision v1.2.3@sha1:cccccccc",
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "a tag is enough",
			command:  "flux-approve promotion app --yes --wait=false --revision v1.2.3",
			pipeline: waiting(),
			want:     shownOne + "✔ promotion approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "of two environments that wait, the revision picks one",
			command:  "flux-approve promotion app --yes --wait=false --revision ccccccc",
			pipeline: waiting(stagingWaitsToo),
			want:     shownOne + "✔ promotion approved by ada\n",
			wantMade: []pipelinesv1.PromotionApprovalSpec{{Environment: "prod", Revision: current, ApprovedBy: "ada"}},
		},
		{
			name:     "an environment is asked for if several wait",
			command:  "flux-approve promotion app --yes",
			pipeline: waiting(stagingWaitsToo),
			wantErr:  "--env is required; waiting for approval: v1.2.4@sha1:dddddddd in staging, v1.2.3@sha1:cccccccc in prod",
		},
		{
			name:     "the error for a revision that does not wait names the one that does",
			command:  "flux-approve promotion app --yes --revision v1.2.2",
			pipeline: waiting(),
			wantErr:  "revision v1.2.2 does not wait for approval in pipeline app; waiting for approval: v1.2.3@sha1:cccccccc in prod",
		},
		{
			name:     "where nothing waits in any environment, it is said why",
			command:  "flux-approve promotion app",
			pipeline: waiting(approved, created),
			wantErr:  "nothing waits for approval in pipeline app: prod: v1.2.3@sha1:cccccccc waits for pull request " + pull + " to be merged",
		},
		{
			name:     "the error for a missing environment names the existing ones",
			command:  "flux-approve promotion app --env production",
			pipeline: waiting(),
			wantErr:  "pipeline app has no environment production: its environments are dev, staging, prod",
		},
		{
			name:     "the error for a missing pipeline names the existing ones",
			command:  "flux-approve promotion shop --env prod",
			pipeline: waiting(),
			wantErr:  "pipeline shop not found in flux-system namespace, which has: app",
		},
		{
			name:     "a user who may not approve gets the API server's error",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			refuse: func(verb string, obj any) error {
				if approval, ok := obj.(*pipelinesv1.PromotionApproval); ok && verb == "create" {
					return forbidden("promotionapprovals", approval.Name, "ada may not approve promotions of Pipeline flux-system/app")
				}
				return nil
			},
			want: shownOne,
			wantErr: `approving the promotion failed: promotionapprovals.pipelines.weave.works "` + approvalBy("ada").Name +
				`" is forbidden: ada may not approve promotions of Pipeline flux-system/app`,
		},
		{
			name:     "a user who may not get the pipeline gets the API server's error",
			command:  "flux-approve promotion app --env prod --yes",
			pipeline: waiting(),
			refuse: func(verb string, obj any) error {
				if _, ok := obj.(*pipelinesv1.Pipeline); ok {
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
			var made []pipelinesv1.PromotionApprovalSpec
			for _, obj := range tt.others {
				made = append(made, obj.(*pipelinesv1.PromotionApproval).Spec)
			}
			world := cluster{
				objects: append(tt.others, tt.pipeline), typed: tt.typed, refuse: tt.refuse,
				after: func(ctx context.Context, kube client.Client, obj client.Object) {
					made = append(made, obj.(*pipelinesv1.PromotionApproval).Spec)
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
	reads := 0
	_, _, err := cluster{
		objects: []client.Object{waiting()}, typed: new("yes\n"),
		after: func(context.Context, client.Client, client.Object) { t.Error("something was created") },
		read: func(obj client.Object) {
			if reads++; reads == 2 {
				superseded(obj.(*pipelinesv1.Pipeline))
			}
		},
	}.run(t, "flux-approve", "promotion", "app", "--env", "prod")
	g.Expect(err).To(MatchError("revision " + current + " does not wait for approval in environment prod of pipeline app: " + next + " does"))
}

func TestAnInterruptEndsTheQuestion(t *testing.T) {
	g := NewWithT(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	terminal, keyboard := io.Pipe()
	defer keyboard.Close()
	command := &approveCommand{}
	command.cluster = &clusterFlags{outside: outside{isTerminal: func(any) bool { return true }}}
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(terminal)
	cmd.SetErr(io.Discard)
	g.Expect(command.ask(cmd, &candidate{revision: current})).To(MatchError("nothing was approved"))
}
