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
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// sourceOf returns the source in the manifest, with the status and message of its condition GatesOpen.
func sourceOf(t *testing.T, manifest, gatesOpen string) client.Object {
	t.Helper()
	g := NewWithT(t)
	obj := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(manifest), obj)).To(Succeed())
	obj.SetAPIVersion(gatingv1.SourceGroupVersion.String())
	if gatesOpen != "" {
		status, message, _ := strings.Cut(gatesOpen, ": ")
		condition := map[string]any{"type": gatingv1.GatesOpenCondition, "status": status, "message": message}
		g.Expect(unstructured.SetNestedSlice(obj.Object, []any{condition}, "status", "conditions")).To(Succeed())
	}
	return obj
}

// withLoss adds the condition ArtifactLost to a source, whose message ends with a text.
func withLoss(t *testing.T, source client.Object, text string) client.Object {
	t.Helper()
	g, obj := NewWithT(t), source.(*unstructured.Unstructured)
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unstructured.SetNestedSlice(obj.Object, append(conditions, map[string]any{
		"type": gatingv1.ArtifactLostCondition, "status": "True",
		"message": "main@sha1:" + strings.Repeat("a", 40) + "@sha256:" + strings.Repeat("b", 64) + " was lost by source-controller; " + text,
	}), "status", "conditions")).To(Succeed())
	return obj
}

func TestGateGet(t *testing.T) {
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
	pipeline.Spec.Promotion.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"change-freeze"}}
	noSources := func(verb string, obj any) error {
		if _, ok := obj.(*unstructured.UnstructuredList); ok && verb == "list all" {
			return forbidden("sources", "", `User "ada" cannot list resource`)
		}
		return nil
	}

	noLists := func(verb string, _ any) error {
		if strings.HasPrefix(verb, "list") {
			return forbidden("objects", "", `User "ada" cannot list resource`)
		}
		return nil
	}

	testCommands(t, []commandTest{
		{
			name:    "get shows the sources and the promotions that name the gate",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen), pipeline}, sources...),
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   ├── GitRepository/flux-system/by-spec: held: gate change-freeze is closed (end of quarter)
│   ├── OCIRepository/flux-system/new: gate-controller has not reconciled it yet
│   ├── Bucket/flux-system/by-annotation: not held: gate sign-off is open
│   ├── HelmChart/flux-system/inherits: held: gate change-freeze is closed (end of quarter)
│   └── HelmChart/flux-system/inherits-one: held: gate change-freeze is closed (end of quarter)
└── promotions
    ├── Pipeline/flux-system/app: staging: does not wait
    └── Pipeline/flux-system/app: prod: v1.2.3@sha1:cccccccc waits: gate change-freeze is closed (end of quarter)
`,
		},
		{
			name:    "get shows whose drift is not corrected because source-controller has lost the artifact, and what to do",
			command: "flux-gate get change-freeze",
			objects: []client.Object{
				newGate("flux-system", "change-freeze", frozen, func(gate *gatingv1.Gate) { gate.Status.Lost = 2 }),
				withLoss(t, sourceOf(t, "{kind: GitRepository, metadata: {namespace: flux-system, name: app}, spec: {gates: {refs: [change-freeze]}}}", heldBy),
					"the source offers another artifact: stored artifact for revision 'v2': let its revision pass with 'flux pass gate', or open the gate; next attempt at 2026-05-04T12:10:00Z"),
				withLoss(t, sourceOf(t, "{kind: Bucket, metadata: {namespace: flux-system, name: app}, spec: {gates: {refs: [change-freeze]}}}", heldBy), "it is being restored until 2026-05-04T12:05:00Z"),
				sources[7],
			},
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── drift is not corrected: source-controller has lost 2 artifacts
├── sources
│   ├── GitRepository/flux-system/app: held: gate change-freeze is closed (end of quarter)
│   │   └── drift is not corrected: main@sha1:aaaaaaaa was lost by source-controller; the source offers another artifact: stored artifact for revision 'v2': let its revision pass with 'flux pass gate', or open the gate; next attempt at 2026-05-04T12:10:00Z
│   └── Bucket/flux-system/app: held: gate change-freeze is closed (end of quarter)
│       └── drift is not corrected: main@sha1:aaaaaaaa was lost by source-controller; it is being restored until 2026-05-04T12:05:00Z
└── no pipeline names it
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
			name:    "get shows those of the gate's namespace to a user who may not list others",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen, forAll)}, sources[:4]...),
			refuse:  noSources,
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   └── GitRepository/flux-system/by-spec: held: gate change-freeze is closed (end of quarter)
└── no pipeline names it
`,
			wantLog: "⚠️ you may not list GitRepository, OCIRepository, Bucket, HelmRepository, HelmChart, ExternalArtifact, ImageUpdateAutomation in all namespaces: showing namespace flux-system only\n",
		},
		{
			name:    "get shows the gate's status to a user who may list nothing",
			command: "flux-gate get change-freeze",
			objects: append([]client.Object{newGate("flux-system", "change-freeze", frozen, forAll, func(gate *gatingv1.Gate) {
				gate.Status.Sources, gate.Status.Held, gate.Status.HeldPromotions = 3, 3, 1
			}), pipeline}, sources[:4]...),
			refuse: noLists,
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── sources
│   └── you may not list GitRepository, OCIRepository, Bucket, HelmRepository, HelmChart, ExternalArtifact, ImageUpdateAutomation in flux-system namespace; by the gate's status: 2 of 3 sources held
└── promotions
    └── you may not list Pipeline in flux-system namespace; by the gate's status: 1 promotion held
`,
		},
		{
			name:    "get shows a gate that gate-controller has not seen to a user who may list nothing",
			command: "flux-gate get new",
			objects: []client.Object{newGate("flux-system", "new")},
			refuse:  noLists,
			wantOut: `
Gate/flux-system/new: open
├── sources
│   └── you may not list GitRepository, OCIRepository, Bucket, HelmRepository, HelmChart, ExternalArtifact, ImageUpdateAutomation in flux-system namespace
└── promotions
    └── you may not list Pipeline in flux-system namespace
`,
		},
		{
			name:    "get fails if a list fails for another reason",
			command: "flux-gate get new",
			objects: []client.Object{newGate("flux-system", "new")},
			refuse: func(verb string, _ any) error {
				if verb == "list" {
					return errors.New("no route to host")
				}
				return nil
			},
			wantErr: "listing kind GitRepository failed: no route to host",
		},
		{
			name:    "get shows the next changes, in the reader's time zone and in the gate's",
			command: "flux-gate get nightly",
			objects: []client.Object{newGate("flux-system", "nightly", atNight, func(gate *gatingv1.Gate) {
				gate.Spec.ClosedDuring[0].TimeZone = "Asia/Tokyo"
				gate.Spec.Override = &gatingv1.Override{Until: *at(90 * time.Minute), Reason: "INC-4711"}
			})},
			wantOut: `
Gate/flux-system/nightly: open by override until 2026-05-04T13:30:00Z: INC-4711
├── next changes
│   ├── Mon 2026-05-04 13:30 UTC, 22:30 in Asia/Tokyo: closes by window night
│   ├── Mon 2026-05-04 23:00 UTC, Tue 08:00 in Asia/Tokyo: opens
│   ├── Tue 2026-05-05 11:00 UTC, 20:00 in Asia/Tokyo: closes by window night
│   ├── Tue 2026-05-05 23:00 UTC, Wed 08:00 in Asia/Tokyo: opens
│   └── Wed 2026-05-06 11:00 UTC, 20:00 in Asia/Tokyo: closes by window night
├── no source names it
└── no pipeline names it
`,
		},
		{
			name:    "get shows a gate that nothing names and gate-controller has not seen",
			command: "flux-gate get new",
			objects: []client.Object{newGate("flux-system", "new")},
			wantOut: `
Gate/flux-system/new: open
├── no source names it
└── no pipeline names it
`,
		},
		{
			name:    "get names the existing ones instead",
			command: "flux-gate get missing",
			objects: []client.Object{newGate("flux-system", "change-freeze")},
			wantErr: "gate missing not found in flux-system namespace, which has: change-freeze",
		},
	})
}
