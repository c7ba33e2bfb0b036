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
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/acl"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1alpha1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func newGate(namespace, name string, changes ...func(*gatingv1alpha1.Gate)) *gatingv1alpha1.Gate {
	gate := &gatingv1alpha1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
	for _, change := range changes {
		change(gate)
	}
	return gate
}

// frozen is closed, for a reason, and was seen by gate-controller three hours ago.
func frozen(gate *gatingv1alpha1.Gate) {
	gate.Spec.Closed = true
	gate.Annotations = map[string]string{gatingv1alpha1.ReasonAnnotation: "end of\nquarter"}
	gate.Status = gatingv1alpha1.GateStatus{ObservedGeneration: 1, LastTransitionTime: at(-3 * time.Hour), Held: 2}
}

// forAll lets the objects of all namespaces refer to the gate.
func forAll(gate *gatingv1alpha1.Gate) {
	gate.Spec.AccessFrom = &acl.AccessFrom{NamespaceSelectors: []acl.NamespaceSelector{{}}}
}

// sourceOf is a source by its manifest, whose condition GatesOpen is of the status, and has a message.
func sourceOf(t *testing.T, manifest, gatesOpen string) client.Object {
	t.Helper()
	g := NewWithT(t)
	obj := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(manifest), obj)).To(Succeed())
	obj.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	if gatesOpen != "" {
		status, message, _ := strings.Cut(gatesOpen, ": ")
		condition := map[string]any{"type": "GatesOpen", "status": status, "message": message}
		g.Expect(unstructured.SetNestedSlice(obj.Object, []any{condition}, "status", "conditions")).To(Succeed())
	}
	return obj
}

func TestGateCommands(t *testing.T) {
	const heldBy = "False: gate change-freeze is closed (end of quarter)"
	sources := []client.Object{
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: flux-system, name: by-spec}, spec: {gates: {refs: [change-freeze]}}}", heldBy),
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: flux-system, name: ungated}, spec: {}}", ""),
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: team, name: of-the-same-name}, spec: {gates: {refs: [change-freeze]}}}", ""),
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: team, name: foreign}, spec: {gates: {refs: [flux-system/change-freeze]}}}", heldBy),
		sourceOf(t, `{kind: Bucket, metadata: {namespace: flux-system, name: by-annotation, annotations:
			{gating.toolkit.fluxcd.io/gates: "sign-off, change-freeze", gating.toolkit.fluxcd.io/require: oneOf}}}`, "True: gate sign-off is open"),
		sourceOf(t, `{kind: Bucket, metadata: {namespace: flux-system, name: spec-counts, annotations:
			{gating.toolkit.fluxcd.io/gates: change-freeze}}, spec: {gates: {refs: [sign-off]}}}`, heldBy),
		sourceOf(t, "{kind: OCIRepository, metadata: {namespace: flux-system, name: new}, spec: {gates: {refs: [change-freeze]}}}", ""),
		sourceOf(t, "{kind: HelmRepository, metadata: {namespace: flux-system, name: oci}, spec: {type: oci, gates: {refs: [change-freeze]}}}", ""),
		sourceOf(t, `{kind: HelmChart, metadata: {namespace: flux-system, name: inherits, annotations:
			{gating.toolkit.fluxcd.io/inherited-gates: "oneOf sign-off,change-freeze"}}}`, heldBy),
		sourceOf(t, `{kind: HelmChart, metadata: {namespace: flux-system, name: inherits-one, annotations:
			{gating.toolkit.fluxcd.io/inherited-gates: change-freeze}}}`, heldBy),
	}
	pipeline := waiting(gated)
	pipeline.Spec.Promotion.Gates = &gatingv1alpha1.GateReferences{Refs: []gatingv1alpha1.GateReference{"change-freeze"}}
	noSources := func(verb string, obj any) error {
		if _, ok := obj.(*unstructured.UnstructuredList); ok && verb == "list all" {
			return forbidden("sources", "", `User "ada" cannot list resource`)
		}
		return nil
	}

	for _, tt := range []struct {
		name    string
		command string
		objects []client.Object
		refuse  func(string, any) error
		wantOut string
		wantLog string
		wantErr string
	}{
		{
			name:    "list shows the gates of the namespace, each on a line",
			command: "flux-gate list",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen), newGate("flux-system", "new"), newGate("team", "other")},
			wantOut: `
NAME            STATE    SINCE       HELD        REASON
change-freeze   closed   3h          2           end of quarter
new             open     <unknown>   <unknown>   -
`,
		},
		{
			name:    "list shows those of all namespaces on demand",
			command: "flux-gate list -A",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen), newGate("team", "other")},
			wantOut: `
NAMESPACE     NAME            STATE    SINCE       HELD        REASON
flux-system   change-freeze   closed   3h          2           end of quarter
team          other           open     <unknown>   <unknown>   -
`,
		},
		{
			name:    "list says so where there are none",
			command: "flux-gate list",
			objects: []client.Object{newGate("team", "other")},
			wantLog: "✗ no gates found in flux-system namespace\n",
		},
		{
			name:    "list says so where there are none in any namespace",
			command: "flux-gate list -A",
			wantLog: "✗ no gates found in any namespace\n",
		},
		{
			name:    "list takes no names",
			command: "flux-gate list change-freeze",
			wantErr: `unknown command "change-freeze" for "flux gate list"`,
		},
		{
			name:    "get shows the sources and the promotions that name the gate",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen), pipeline}, sources...),
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   ├── GitRepository/flux-system/by-spec: held: gate change-freeze is closed (end of quarter)
│   ├── OCIRepository/flux-system/new: gate-controller has not looked at it yet
│   ├── Bucket/flux-system/by-annotation: not held: gate sign-off is open
│   ├── HelmChart/flux-system/inherits: held: gate change-freeze is closed (end of quarter)
│   └── HelmChart/flux-system/inherits-one: held: gate change-freeze is closed (end of quarter)
└── promotions
    ├── Pipeline/flux-system/app: staging: does not wait
    └── Pipeline/flux-system/app: prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)
`,
		},
		{
			name:    "get looks into other namespaces where the gate allows them to name it",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen, forAll)}, sources[:4]...),
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   ├── GitRepository/flux-system/by-spec: held: gate change-freeze is closed (end of quarter)
│   └── GitRepository/team/foreign: held: gate change-freeze is closed (end of quarter)
└── no pipeline names it
`,
		},
		{
			name:    "get shows those of the gate's namespace to one who may not look into others",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen, forAll)}, sources[:4]...),
			refuse:  noSources,
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   └── GitRepository/flux-system/by-spec: held: gate change-freeze is closed (end of quarter)
└── no pipeline names it
`,
			wantLog: `⚠️ you may not list kind GitRepository in all namespaces, so that only what is in flux-system namespace is shown of it
⚠️ you may not list kind OCIRepository in all namespaces, so that only what is in flux-system namespace is shown of it
⚠️ you may not list kind Bucket in all namespaces, so that only what is in flux-system namespace is shown of it
⚠️ you may not list kind HelmRepository in all namespaces, so that only what is in flux-system namespace is shown of it
⚠️ you may not list kind HelmChart in all namespaces, so that only what is in flux-system namespace is shown of it
`,
		},
		{
			name:    "get shows a gate that nobody names or has looked at",
			command: "flux-gate get new",
			objects: []client.Object{newGate("flux-system", "new")},
			wantOut: `
Gate/flux-system/new: open
├── no source names it
└── no pipeline names it
`,
		},
		{
			name:    "get names those that are there instead",
			command: "flux-gate get missing",
			objects: []client.Object{newGate("flux-system", "change-freeze")},
			wantErr: "gate missing not found in flux-system namespace, which has: change-freeze",
		},
		{
			name:    "create refuses a gate that is there, and says how to turn it",
			command: "flux-gate create change-freeze --closed",
			objects: []client.Object{newGate("flux-system", "change-freeze")},
			wantLog: "► creating gate change-freeze in flux-system namespace\n",
			wantErr: "gate change-freeze exists already in flux-system namespace, turn it with 'flux open gate' and 'flux close gate'",
		},
		{
			name:    "create gives the API server's words to one who may not",
			command: "flux-gate create change-freeze",
			refuse: func(string, any) error {
				return forbidden("gates", "change-freeze", `User "ada" cannot create resource`)
			},
			wantLog: "► creating gate change-freeze in flux-system namespace\n",
			wantErr: `creating gate change-freeze failed: gates.pipelines.weave.works "change-freeze" is forbidden: User "ada" cannot create resource`,
		},
		{
			name:    "create asks for a name",
			command: "flux-gate create --closed",
			wantErr: "gate name is required",
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

func TestGateCreate(t *testing.T) {
	for _, tt := range []struct {
		name       string
		args       []string
		wantClosed bool
		wantReason string
		wantLog    string
	}{
		{
			name:    "a gate is open at first",
			args:    []string{"flux-gate", "create", "change-freeze"},
			wantLog: "► creating gate change-freeze in flux-system namespace\n✔ gate created, it is open\n",
		},
		{
			name:       "a gate is closed at first on demand, with its reason on one line",
			args:       []string{"flux-gate", "create", "change-freeze", "--closed", "--reason", "release\nweek"},
			wantClosed: true,
			wantReason: "release week",
			wantLog:    "► creating gate change-freeze in flux-system namespace\n✔ gate created, it is closed\n",
		},
		{
			name: "what is sent is shown on demand",
			args: []string{"flux-gate", "create", "change-freeze", "--verbose"},
			wantLog: "► creating gate change-freeze in flux-system namespace\n" +
				`✚ {"kind":"Gate","apiVersion":"gating.toolkit.fluxcd.io/v1alpha1","metadata":{"name":"change-freeze","namespace":"flux-system"},` +
				`"spec":{"closed":false},"status":{"sources":0,"held":0,"pipelines":0}}` + "\n✔ gate created, it is open\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var created *gatingv1alpha1.Gate
			_, stderr, err := cluster{after: func(_ context.Context, _ client.Client, obj client.Object) {
				created = obj.(*gatingv1alpha1.Gate)
			}}.run(t, tt.args...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stderr).To(Equal(tt.wantLog))
			g.Expect(created.Namespace + "/" + created.Name).To(Equal("flux-system/change-freeze"))
			g.Expect(created.Spec.Closed).To(Equal(tt.wantClosed))
			g.Expect(created.Reason()).To(Equal(tt.wantReason))
		})
	}
}

func TestAPullRequestThatSluiceMergesWaitsForGates(t *testing.T) {
	const waits = "v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"
	for _, test := range []struct {
		name  string
		state pipelinesv1alpha1.PromotionState
		merge pipelinesv1alpha1.MergeMode
		want  string
	}{
		{"a person merges it when they like", pipelinesv1alpha1.PromotionCreated, "", "does not wait"},
		{"Sluice merges it when its gates are open", pipelinesv1alpha1.PromotionCreated, pipelinesv1alpha1.MergeAuto, waits},
		{"it is merged", pipelinesv1alpha1.PromotionSucceeded, pipelinesv1alpha1.MergeAuto, "does not wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pipeline := waiting(gated, created)
			pipeline.Spec.Promotion.Strategy.PullRequest = &pipelinesv1alpha1.PullRequestPromotion{Merge: test.merge}
			pipeline.Status.Environments["prod"].Promotion.State = test.state
			NewWithT(t).Expect(heldByGates(pipeline, "prod")).To(Equal(test.want))
		})
	}
}

func TestAPromotionWithAPullRequestDoesNotWaitForGates(t *testing.T) {
	pipeline := waiting(gated, created)
	NewWithT(t).Expect(heldByGates(pipeline, "prod")).To(Equal("does not wait"))
	pipeline.Status.Environments["prod"].Promotion.State = pipelinesv1alpha1.PromotionFailed
	NewWithT(t).Expect(heldByGates(pipeline, "prod")).To(Equal("v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)"))
}
