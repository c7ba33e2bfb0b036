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
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// newPipeline is a Pipeline from dev over staging to prod, through which v1.2.3 travels and has come to staging.
func newPipeline() *pipelinesv1alpha1.Pipeline {
	pipeline := &pipelinesv1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "app", Generation: 1}}
	pipeline.Spec.AppRef = pipelinesv1alpha1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "app"}
	pipeline.Status = pipelinesv1alpha1.PipelineStatus{
		ObservedGeneration: 1, Revision: current, Environments: map[string]*pipelinesv1alpha1.EnvironmentStatus{},
	}
	for _, env := range []struct{ name, revision string }{{"dev", current}, {"staging", current}, {"prod", previous}} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1alpha1.Environment{
			Name: env.name, Targets: []pipelinesv1alpha1.Target{{Namespace: env.name}},
		})
		pipeline.Status.Environments[env.name] = &pipelinesv1alpha1.EnvironmentStatus{
			Targets: []pipelinesv1alpha1.TargetStatus{{
				ClusterAppRef: pipelinesv1alpha1.ClusterAppReference{LocalAppReference: pipeline.Spec.AppRef},
				Namespace:     env.name, Ready: true, Revision: env.revision, ReadyRevision: env.revision,
			}},
		}
	}
	return pipeline
}

func setReady(pipeline *pipelinesv1alpha1.Pipeline, status metav1.ConditionStatus, reason, message string) {
	pipeline.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: status, Reason: reason, Message: message}}
}

// promoted is a Pipeline with a past: two promotions into prod, and one into an environment that has left the spec.
func promoted() *pipelinesv1alpha1.Pipeline {
	pipeline := waiting(approved, created)
	pipeline.Status.Environments["prod"].Promotion.Message = "pull request " + pull + " waits to be merged"
	pipeline.Status.Environments["prod"].History = []pipelinesv1alpha1.PromotionRecord{
		{
			Revision: previous, State: pipelinesv1alpha1.PromotionSucceeded, StartTime: *at(-48 * time.Hour), CompletionTime: at(-47 * time.Hour),
			Message: "pull request https://github.com/acme/fleet/pull/5 was merged", Approvers: []string{"ada", "bob"},
			PullRequest: &pipelinesv1alpha1.PullRequestStatus{URL: "https://github.com/acme/fleet/pull/5"},
		},
		{
			Revision: "1.0.0", State: pipelinesv1alpha1.PromotionAbandoned, StartTime: *at(-72 * time.Hour), CompletionTime: at(-71 * time.Hour),
			Message: "superseded by v1.2.2@sha1:bbbbbbbb",
		},
	}
	pipeline.Status.Environments["old"] = &pipelinesv1alpha1.EnvironmentStatus{Promotion: &pipelinesv1alpha1.PromotionRecord{
		Revision: previous, State: pipelinesv1alpha1.PromotionFailed, StartTime: *at(-time.Hour), Message: "the last attempt failed", LastError: "no such host",
	}}
	setReady(pipeline, "True", "PullRequestOpen", "prod: v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged")
	return pipeline
}

// inCluster is a Pipeline of a namespace whose only environment has one target in each of the clusters that are named.
func inCluster(namespace string, targets ...pipelinesv1alpha1.TargetStatus) *pipelinesv1alpha1.Pipeline {
	pipeline := &pipelinesv1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "clustered"}}
	pipeline.Spec.Environments = []pipelinesv1alpha1.Environment{{Name: "prod"}}
	pipeline.Status.Environments = map[string]*pipelinesv1alpha1.EnvironmentStatus{"prod": {Targets: targets}}
	return pipeline
}

// targetIn is a target in a cluster of the Pipeline's namespace or of another one, and why it can't be read.
func targetIn(namespace, cluster, reason string, since *metav1.Time) pipelinesv1alpha1.TargetStatus {
	target := pipelinesv1alpha1.TargetStatus{Reason: reason, Since: since}
	target.ClusterAppRef.ClusterRef = &pipelinesv1alpha1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Namespace: namespace, Name: cluster}
	if reason != "" {
		target.Error = "why it is " + reason
	}
	return target
}

// elsewhere is a suspended Pipeline of another namespace that nobody has looked at.
func elsewhere() *pipelinesv1alpha1.Pipeline {
	pipeline := &pipelinesv1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
	pipeline.Spec.Suspend = true
	return pipeline
}

func TestPipelineCommands(t *testing.T) {
	broken := newPipeline()
	broken.Status.Environments["prod"].Targets = append(broken.Status.Environments["prod"].Targets,
		pipelinesv1alpha1.TargetStatus{
			ClusterAppRef: pipelinesv1alpha1.ClusterAppReference{
				LocalAppReference: broken.Spec.AppRef, ClusterRef: &pipelinesv1alpha1.CrossNamespaceClusterReference{Name: "eu"},
			},
			Namespace: "prod", Error: "no route\nto host",
		})
	setReady(broken, "False", "TargetNotReadable", "prod: Kustomization prod/app in cluster eu can't be read: no route\nto host")

	for _, tt := range []struct {
		name    string
		command string
		objects []client.Object
		refuse  func(string, any) error
		wantOut string
		wantErr string
		// wantLog is what goes to standard error.
		wantLog string
	}{
		{
			name:    "list shows the pipelines of the namespace, each on a line",
			command: "flux-pipeline list",
			objects: []client.Object{broken, elsewhere()},
			wantOut: `
NAME   REVISION               SUSPENDED   READY   MESSAGE
app    v1.2.3@sha1:cccccccc   False       False   prod: Kustomization prod/app in cluster eu can't be read: no route to host
`,
		},
		{
			name:    "list shows those of all namespaces on demand",
			command: "flux-pipeline list -A",
			objects: []client.Object{waiting(), elsewhere()},
			wantOut: `
NAMESPACE     NAME   REVISION               SUSPENDED   READY     MESSAGE
flux-system   app    v1.2.3@sha1:cccccccc   False       True      prod: v1.2.3@sha1:cccccccc waits: a person's approval is missing
team          shop   -                      True        Unknown   pipeline-controller has not looked at it yet
`,
		},
		{
			name:    "list says so where there are none",
			command: "flux-pipeline list",
			objects: []client.Object{elsewhere()},
			wantLog: "✗ no pipelines found in flux-system namespace\n",
		},
		{
			name:    "list says so where there are none in any namespace",
			command: "flux-pipeline list --all-namespaces",
			wantLog: "✗ no pipelines found in any namespace\n",
		},
		{
			name:    "list gives the API server's words to one who may not",
			command: "flux-pipeline list -A",
			refuse: func(verb string, _ any) error {
				if verb == "list all" {
					return forbidden("pipelines", "", `User "ada" cannot list resource`)
				}
				return nil
			},
			wantErr: `listing pipelines failed: pipelines.pipelines.weave.works is forbidden: User "ada" cannot list resource`,
		},
		{
			name:    "get clusters tells of each cluster that a pipeline names whether it is reached",
			command: "flux-pipeline get clusters -A",
			objects: []client.Object{
				newPipeline(),
				inCluster("flux-system", targetIn("", "well", "", nil), targetIn("", "well", pipelinesv1alpha1.ObjectNotFoundReason, at(-time.Hour)),
					targetIn("", "dead", pipelinesv1alpha1.UnreachableReason, at(-time.Hour)), targetIn("", "new", pipelinesv1alpha1.ConnectingReason, at(0))),
				inCluster("team", targetIn("flux-system", "dead", pipelinesv1alpha1.UnreachableReason, at(-2*time.Hour)),
					targetIn("", "dead", pipelinesv1alpha1.SecretNotFoundReason, at(0)), targetIn("", "dead", pipelinesv1alpha1.ConnectingReason, at(-time.Hour))),
			},
			wantOut: `
CLUSTER                          REACHABLE   REASON           SINCE                  TARGETS   MESSAGE
GitopsCluster/flux-system/dead   False       Unreachable      ` + timeOf(at(-2*time.Hour)) + `   2         why it is Unreachable
GitopsCluster/flux-system/new    Unknown     Connecting       ` + timeOf(at(0)) + `   1         why it is Connecting
GitopsCluster/flux-system/well   True        -                -                      2         -
GitopsCluster/team/dead          False       SecretNotFound   ` + timeOf(at(0)) + `   2         why it is SecretNotFound
`,
		},
		{
			name:    "get clusters says so where no pipeline of the namespace names one",
			command: "flux-pipeline get clusters",
			objects: []client.Object{newPipeline(), inCluster("team", targetIn("", "well", "", nil))},
			wantLog: "✗ no clusters found in flux-system namespace\n",
		},
		{
			name:    "get shows environments, targets and promotions",
			command: "flux-pipeline get app",
			objects: []client.Object{promoted()},
			wantOut: `
Pipeline/flux-system/app: prod: v1.2.3@sha1:cccccccc waits for pull request https://github.com/acme/fleet/pull/7 to be merged
├── dev
│   └── Kustomization/dev/app: v1.2.3@sha1:cccccccc, ready
├── staging
│   └── Kustomization/staging/app: v1.2.3@sha1:cccccccc, ready
└── prod
    ├── Kustomization/prod/app: v1.2.2@sha1:bbbbbbbb, ready
    └── promotion of v1.2.3@sha1:cccccccc: created, pull request https://github.com/acme/fleet/pull/7 waits to be merged, approved by ada
`,
		},
		{
			name:    "get shows what is wrong with a target in another cluster",
			command: "flux-pipeline get app",
			objects: []client.Object{broken},
			wantOut: `
Pipeline/flux-system/app: prod: Kustomization prod/app in cluster eu can't be read: no route to host
├── dev
│   └── Kustomization/dev/app: v1.2.3@sha1:cccccccc, ready
├── staging
│   └── Kustomization/staging/app: v1.2.3@sha1:cccccccc, ready
└── prod
    ├── Kustomization/prod/app: v1.2.2@sha1:bbbbbbbb, ready
    └── Kustomization/prod/app in cluster eu: no revision, not ready: no route to host
`,
		},
		{
			name:    "get shows a pipeline that nobody has looked at",
			command: "flux-pipeline get shop -n team",
			objects: []client.Object{elsewhere()},
			wantOut: "\nPipeline/team/shop: pipeline-controller has not looked at it yet\n",
		},
		{
			name:    "get names those that are there instead",
			command: "flux-pipeline get shop",
			objects: []client.Object{waiting()},
			wantErr: "pipeline shop not found in flux-system namespace, which has: app",
		},
		{
			name:    "why answers for the first environment that lags",
			command: "flux-pipeline why app",
			objects: []client.Object{promoted()},
			wantOut: "\nprod: v1.2.3@sha1:cccccccc waits for pull request https://github.com/acme/fleet/pull/7 to be merged\n",
		},
		{
			name:    "why answers for the environment that is named",
			command: "flux-pipeline why app --env staging",
			objects: []client.Object{promoted()},
			wantOut: "\nstaging: runs v1.2.3@sha1:cccccccc, nothing to do\n",
		},
		{
			name:    "why names the environments there are",
			command: "flux-pipeline why app --env production",
			objects: []client.Object{promoted()},
			wantErr: "pipeline app has no environment production, it has: dev, staging, prod",
		},
		{
			name:    "why has nothing to answer for without environments",
			command: "flux-pipeline why shop -n team",
			objects: []client.Object{elsewhere()},
			wantErr: "pipeline shop has no environments",
		},
		{
			name:    "history shows the promotions of all environments, the newest of each first",
			command: "flux-pipeline history app",
			objects: []client.Object{promoted()},
			wantOut: `
ENVIRONMENT   REVISION               STATE       STARTED                ENDED                  APPROVED BY   PULL REQUEST                           MESSAGE
prod          v1.2.3@sha1:cccccccc   created     2026-05-04T11:00:00Z   -                      ada           https://github.com/acme/fleet/pull/7   pull request waits to be merged
prod          v1.2.2@sha1:bbbbbbbb   succeeded   2026-05-02T12:00:00Z   2026-05-02T13:00:00Z   ada, bob      https://github.com/acme/fleet/pull/5   pull request was merged
prod          1.0.0                  abandoned   2026-05-01T12:00:00Z   2026-05-01T13:00:00Z   -             -                                      superseded by v1.2.2@sha1:bbbbbbbb
old           v1.2.2@sha1:bbbbbbbb   failed      2026-05-04T11:00:00Z   -                      -             -                                      the last attempt failed: no such host
`,
		},
		{
			name:    "history shows those of one environment on demand, also of one that has left the spec",
			command: "flux-pipeline history app --env old",
			objects: []client.Object{promoted()},
			wantOut: `
ENVIRONMENT   REVISION               STATE    STARTED                ENDED   APPROVED BY   PULL REQUEST   MESSAGE
old           v1.2.2@sha1:bbbbbbbb   failed   2026-05-04T11:00:00Z   -       -             -              the last attempt failed: no such host
`,
		},
		{
			name:    "history says so where there is none",
			command: "flux-pipeline history shop -n team",
			objects: []client.Object{elsewhere()},
			wantLog: "✗ pipeline shop has not promoted anything yet\n",
		},
		{
			name:    "history names the environments there are",
			command: "flux-pipeline history app --env production",
			objects: []client.Object{promoted()},
			wantErr: "pipeline app has no environment production, it has: dev, staging, prod",
		},
		{
			name:    "a name is asked for",
			command: "flux-pipeline why",
			wantErr: "pipeline name is required",
		},
		{
			name:    "the names of pipelines are completed, with what travels through them",
			command: "flux-pipeline __complete why a",
			objects: []client.Object{waiting(), elsewhere()},
			wantOut: "\napp\tv1.2.3@sha1:cccccccc\n:4\n",
			wantLog: "Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			stdout, stderr, err := cluster{objects: tt.objects, refuse: tt.refuse}.run(t, strings.Fields(tt.command)...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(stdout).To(Equal(strings.TrimPrefix(tt.wantOut, "\n")))
			g.Expect(stderr).To(Equal(tt.wantLog))
		})
	}
}
