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
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// letsPass puts revisions into the status of a gate, as gate-controller does.
func letsPass(revisions ...string) func(*gatingv1.Gate) {
	return func(gate *gatingv1.Gate) {
		for _, rev := range revisions {
			gate.Status.Passes = append(gate.Status.Passes, gatingv1.PassInForce{Revision: rev, Expires: *at(time.Hour)})
		}
	}
}

func TestGatePasses(t *testing.T) {
	expired := passBy("eve", fix, -time.Minute)
	other := passBy("ada", fix, time.Hour)
	other.Name, other.Spec.GateRef.Name = "sign-off-ada", "sign-off"
	notGate := func(verb string, obj any) error {
		if _, ok := obj.(*gatingv1.Gate); ok {
			return forbidden("gates", "change-freeze", `User "ada" cannot get resource`)
		}
		return nil
	}

	testCommands(t, []commandTest{
		{
			name:    "passes says which are in force, and which have ended",
			command: "flux-gate passes",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen, letsPass(fix)), passBy("bob", fix, time.Hour), expired, passBy("kim", "main@"+fix, time.Hour), other},
			wantOut: `
GATE            REVISION             EXPIRES                    BY    REASON     STATE
change-freeze   sha1:ffffffff        Mon 2026-05-04 13:00 UTC   bob   INC-4711   in force
change-freeze   sha1:ffffffff        Mon 2026-05-04 11:59 UTC   eve   INC-4711   expired
change-freeze   main@sha1:ffffffff   Mon 2026-05-04 13:00 UTC   kim   INC-4711   pending
sign-off        sha1:ffffffff        Mon 2026-05-04 13:00 UTC   ada   INC-4711   <unknown>
`,
		},
		{
			name:    "passes counts the people where several are required, and lists those of one gate",
			command: "flux-gate passes change-freeze -o wide",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen, byTwo), passBy("bob", "1.2.3", time.Hour), other},
			wantOut: `
GATE            NAME                REVISION   EXPIRES                    BY    REASON     STATE
change-freeze   change-freeze-bob   1.2.3      Mon 2026-05-04 13:00 UTC   bob   INC-4711   1 of 2
`,
		},
		{
			name:    "a pass is not in force while gate-controller has not seen the last change of the gate",
			command: "flux-gate passes --no-header",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen, letsPass(fix), func(gate *gatingv1.Gate) { gate.Generation = 2 }), passBy("bob", fix, time.Hour)},
			wantOut: "change-freeze   sha1:ffffffff   Mon 2026-05-04 13:00 UTC   bob   INC-4711   pending\n",
		},
		{
			name:    "a pass does not count for a later gate of the same name",
			command: "flux-gate passes --no-header",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen, func(gate *gatingv1.Gate) { gate.CreationTimestamp = *at(-time.Minute) }), passBy("bob", fix, time.Hour)},
			wantOut: "change-freeze   sha1:ffffffff   Mon 2026-05-04 13:00 UTC   bob   INC-4711   older than its gate\n",
		},
		{
			name:    "passes are listed for those who may not get the gate",
			command: "flux-gate passes -A --no-header",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen), passBy("bob", fix, time.Hour)},
			refuse:  notGate,
			wantOut: "flux-system   change-freeze   sha1:ffffffff   Mon 2026-05-04 13:00 UTC   bob   INC-4711   <unknown>\n",
		},
		{
			name:    "it is not an error if there are none",
			command: "flux-gate passes",
			wantLog: "✗ no passes found in flux-system namespace\n",
		},
		{
			name:    "a user who may not list them gets the API server's error",
			command: "flux-gate passes",
			refuse: func(string, any) error {
				return forbidden("gatepasses", "", `User "ada" cannot list resource`)
			},
			wantErr: `listing passes failed: gatepasses.pipelines.weave.works is forbidden: User "ada" cannot list resource`,
		},
		{
			name:    "get shows the passes in force, with who granted them and why",
			command: "flux-gate get change-freeze",
			objects: []client.Object{newGate("flux-system", "change-freeze", frozen, letsPass(fix)), passBy("bob", fix, time.Hour), expired, other},
			wantOut: `
Gate/flux-system/change-freeze: closed since 2026-05-04T09:00:00Z (3h): end of quarter
├── passes in force
│   └── sha1:ffffffff until Mon 2026-05-04 13:00 UTC, by bob (INC-4711)
├── no source names it
└── no pipeline names it
`,
		},
	})
}
