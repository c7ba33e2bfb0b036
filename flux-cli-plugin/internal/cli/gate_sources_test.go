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
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestGateSources(t *testing.T) {
	const heldBy = "False: gate change-freeze is closed (end of quarter)"
	sources := []client.Object{
		sourceOf(t, `{kind: GitRepository, metadata: {namespace: flux-system, name: app}, spec: {suspend: true, gates: {refs: [change-freeze]}},
			status: {artifact: {revision: "v1@sha1:0123456789012345678901234567890123456789"}}}`, ""),
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: flux-system, name: ungated}, spec: {}}", ""),
		sourceOf(t, "{kind: GitRepository, metadata: {namespace: team, name: foreign}, spec: {suspend: true, gates: {refs: [flux-system/change-freeze]}}}", heldBy),
		sourceOf(t, `{kind: Bucket, metadata: {namespace: flux-system, name: garbled, annotations: {gating.toolkit.fluxcd.io/gates: "A B"}}}`,
			"False: annotation gating.toolkit.fluxcd.io/gates must list gates as <name>"),
		sourceOf(t, `{kind: Bucket, metadata: {namespace: flux-system, name: one-is-enough, annotations:
			{gating.toolkit.fluxcd.io/gates: "sign-off, change-freeze", gating.toolkit.fluxcd.io/require: oneOf}}}`, "True: gate sign-off is open"),
		sourceOf(t, "{kind: HelmRepository, metadata: {namespace: flux-system, name: oci}, spec: {type: oci, gates: {refs: [change-freeze]}}}", ""),
		sourceOf(t, `{kind: HelmChart, metadata: {namespace: flux-system, name: inherits, annotations:
			{gating.toolkit.fluxcd.io/gates: own, gating.toolkit.fluxcd.io/inherited-gates: "oneOf sign-off,change-freeze"}}}`, heldBy),
	}
	refused := sourceOf(t, "{kind: OCIRepository, metadata: {namespace: flux-system, name: refused}, spec: {gates: {refs: [change-freeze]}}}",
		"False: setting spec.suspend failed: no").(*unstructured.Unstructured)
	conditions, _, _ := unstructured.NestedSlice(refused.Object, "status", "conditions")
	conditions[0].(map[string]any)["reason"] = "HoldFailed"
	_ = unstructured.SetNestedSlice(refused.Object, conditions, "status", "conditions")
	refuse := func(kinds ...string) func(string, any) error {
		return func(verb string, obj any) error {
			list, ok := obj.(*unstructured.UnstructuredList)
			for _, kind := range kinds {
				if ok && list.GetKind() == kind+"List" {
					return forbidden("sources", "", `User "ada" cannot list resource`)
				}
			}
			return nil
		}
	}

	testCommands(t, []commandTest{
		{
			name:    "sources shows all sources with gates, by whatever means they are named, and their state",
			command: "flux-gate sources",
			objects: append(sources, refused),
			wantOut: `
NAME                    GATES                                            STATE       SUSPENDED   PUBLISHED          MESSAGE
GitRepository/app       change-freeze                                    <unknown>   true        v1@sha1:01234567   gate-controller has not reconciled it yet
OCIRepository/refused   change-freeze                                    refused     false       -                  setting spec.suspend failed: no
Bucket/garbled          -                                                held        false       -                  annotation gating.toolkit.fluxcd.io/gates must list gates as <name>
Bucket/one-is-enough    oneOf sign-off,change-freeze                     released    false       -                  gate sign-off is open
HelmChart/inherits      own and inherited oneOf sign-off,change-freeze   held        false       -                  gate change-freeze is closed (end of quarter)
`,
		},
		{
			name:    "sources shows those whose artifact is lost, alone if they are selected",
			command: "flux-gate sources --status-selector artifactlost=true",
			objects: append(sources, withLoss(t, refused.DeepCopy(), "it is being restored until 2026-05-04T12:05:00Z")),
			wantOut: `
NAME                    GATES           STATE   SUSPENDED   PUBLISHED   MESSAGE
OCIRepository/refused   change-freeze   lost    false       -           drift is not corrected: main@sha1:aaaaaaaa was lost by source-controller; it is being restored until 2026-05-04T12:05:00Z; setting spec.suspend failed: no
`,
		},
		{
			name:    "sources shows those of all namespaces on demand",
			command: "flux-gate sources -A",
			objects: sources[:3],
			wantOut: `
NAMESPACE     NAME                    GATES                       STATE       SUSPENDED   PUBLISHED          MESSAGE
flux-system   GitRepository/app       change-freeze               <unknown>   true        v1@sha1:01234567   gate-controller has not reconciled it yet
team          GitRepository/foreign   flux-system/change-freeze   held        true        -                  gate change-freeze is closed (end of quarter)
`,
		},
		{
			name:    "sources shows a tenant the gates of other namespaces",
			command: "flux-gate sources -n team",
			objects: sources[:3],
			refuse:  refuse("Bucket", "HelmChart"),
			wantOut: `
NAME                    GATES                       STATE   SUSPENDED   PUBLISHED   MESSAGE
GitRepository/foreign   flux-system/change-freeze   held    true        -           gate change-freeze is closed (end of quarter)
`,
			wantLog: "⚠️ you may not list Bucket, HelmChart in team namespace\n",
		},
		{
			name:    "sources fails where nothing may be listed",
			command: "flux-gate sources",
			refuse:  refuse("GitRepository", "OCIRepository", "Bucket", "HelmRepository", "HelmChart", "ExternalArtifact", "ImageUpdateAutomation"),
			wantErr: "you may not list GitRepository, OCIRepository, Bucket, HelmRepository, HelmChart, ExternalArtifact, ImageUpdateAutomation in flux-system namespace",
		},
		{
			name:    "sources says if none has gates",
			command: "flux-gate sources",
			objects: sources[1:3],
			wantErr: "no gated sources found in flux-system namespace",
		},
		{
			name:    "sources shows those of a name, of any kind",
			command: "flux-gate sources inherits",
			objects: sources,
			wantOut: `
NAME                 GATES                                            STATE   SUSPENDED   PUBLISHED   MESSAGE
HelmChart/inherits   own and inherited oneOf sign-off,change-freeze   held    false       -           gate change-freeze is closed (end of quarter)
`,
		},
		{
			name:    "sources shows the one of a kind and a name",
			command: "flux-gate sources bucket/one-is-enough",
			objects: sources,
			wantOut: `
NAME                   GATES                          STATE      SUSPENDED   PUBLISHED   MESSAGE
Bucket/one-is-enough   oneOf sign-off,change-freeze   released   false       -           gate sign-off is open
`,
		},
		{
			name:    "sources fails if the kind has none of that name",
			command: "flux-gate sources Bucket/inherits",
			objects: sources,
			wantErr: "gated source Bucket/inherits not found in flux-system namespace",
		},
		{
			name:    "sources selects by the condition that gates set",
			command: "flux-gate sources --status-selector gatesopen=true --no-header",
			objects: sources,
			wantOut: "Bucket/one-is-enough   oneOf sign-off,change-freeze   released   false   -     gate sign-off is open\n",
		},
		{
			name:    "sources prints whole objects",
			command: "flux-gate sources app -o yaml",
			objects: sources,
			wantOut: `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: app
  namespace: flux-system
  resourceVersion: "999"
spec:
  gates:
    refs:
    - change-freeze
  suspend: true
status:
  artifact:
    revision: v1@sha1:0123456789012345678901234567890123456789
`,
		},
	})
}
