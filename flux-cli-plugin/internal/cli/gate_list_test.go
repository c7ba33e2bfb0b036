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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// promotedBy is a Pipeline in the namespace whose promotions refer to the gate.
func promotedBy(namespace string, gate gatingv1.GateReference) *pipelinesv1.Pipeline {
	return &pipelinesv1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		Spec: pipelinesv1.PipelineSpec{
			Environments: []pipelinesv1.Environment{{Name: "dev"}, {Name: "prod"}},
			Promotion:    &pipelinesv1.Promotion{Gates: &gatingv1.GateReferences{Refs: []gatingv1.GateReference{gate}}},
		},
	}
}

func TestGateList(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "list shows the gates of the namespace, each on a line",
			command: "flux-gate list",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen), newGate("flux-system", "new"), newGate("flux-system", "nightly", atNight), newGate("team", "other")},
			wantOut: `
NAME            STATE    SINCE       UNTIL                      HELD        REASON
change-freeze   closed   3h          -                          2           end of quarter
new             open     <unknown>   -                          <unknown>   -
nightly         open     <unknown>   Mon 2026-05-04 18:00 UTC   <unknown>   -
`,
		},
		{
			name:    "list shows those of all namespaces on demand",
			command: "flux-gate list -A",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen), newGate("team", "other")},
			wantOut: `
NAMESPACE     NAME            STATE    SINCE       UNTIL   HELD        REASON
flux-system   change-freeze   closed   3h          -       2           end of quarter
team          other           open     <unknown>   -       <unknown>   -
`,
		},
		{
			name:    "list shows the gates of other namespaces that hold what is in the namespace, as far as they may be read",
			command: "flux-gate list -n team",
			objects: []client.Object{
				newGate("team", "own"), newGate("flux-system", "change-freeze", frozen), newGate("secret", "lock"), newGate("flux-system", "unnamed"),
				sourceOf(t, "{kind: GitRepository, metadata: {namespace: team, name: a}, spec: {gates: {refs: [own, flux-system/change-freeze]}}}", ""),
				sourceOf(t, `{kind: HelmChart, metadata: {namespace: team, name: b, annotations:
					{gating.toolkit.fluxcd.io/inherited-gates: "oneOf secret/lock,flux-system/change-freeze"}}}`, ""),
				sourceOf(t, "{kind: Bucket, metadata: {namespace: other, name: c}, spec: {gates: {refs: [flux-system/unnamed]}}}", ""),
				promotedBy("team", "flux-system/gone"),
			},
			wantOut: `
NAME                        STATE     SINCE       UNTIL   HELD        REASON
own                         open      <unknown>   -       <unknown>   -
flux-system/change-freeze   closed    3h          -       2           end of quarter
flux-system/gone            missing   -           -       -           -
secret/lock                 open      <unknown>   -       <unknown>   -
`,
		},
		{
			name:    "list names a gate of another namespace that may not be read",
			command: "flux-gate list -n team",
			objects: []client.Object{
				newGate("flux-system", "change-freeze", frozen),
				sourceOf(t, "{kind: GitRepository, metadata: {namespace: team, name: a}, spec: {gates: {refs: [flux-system/change-freeze]}}}", ""),
			},
			refuse: func(verb string, obj any) error {
				if _, ok := obj.(*gatingv1.Gate); ok && verb == "get" {
					return forbidden("gates", "change-freeze", `User "ada" cannot get resource`)
				}
				return nil
			},
			wantOut: `
NAME                        STATE       SINCE       UNTIL       HELD        REASON
flux-system/change-freeze   <unknown>   <unknown>   <unknown>   <unknown>   you may not get it: 'flux gate sources' shows what it holds
`,
		},
		{
			name:    "list shows the gates to a user who may list nothing else",
			command: "flux-gate list",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen)},
			refuse: func(verb string, obj any) error {
				if _, ok := obj.(*gatingv1.GateList); !ok && verb == "list" {
					return forbidden("objects", "", `User "ada" cannot list resource`)
				}
				return nil
			},
			wantOut: `
NAME            STATE    SINCE   UNTIL   HELD   REASON
change-freeze   closed   3h      -       2      end of quarter
`,
		},
		{
			name:    "list says if there are none",
			command: "flux-gate list",
			objects: []client.Object{newGate("team", "other")},
			wantErr: "no gates found in flux-system namespace",
		},
		{
			name:    "list says if there are none in any namespace",
			command: "flux-gate list -A",
			wantErr: "no gates found in any namespace",
		},
		{
			name:    "list accepts one name",
			command: "flux-gate list change-freeze sign-off",
			wantErr: "one gate name is expected, got 2 arguments: change-freeze sign-off",
		},
	})
}
