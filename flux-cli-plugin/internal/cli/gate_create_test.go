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
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

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
			wantLog: "► creating gate change-freeze in flux-system namespace\n✔ gate created; it is open\n",
		},
		{
			name:       "a gate is closed at first on demand, with its reason on one line",
			args:       []string{"flux-gate", "create", "change-freeze", "--closed", "--reason", "release\nweek"},
			wantClosed: true,
			wantReason: "release week",
			wantLog:    "► creating gate change-freeze in flux-system namespace\n✔ gate created; it is closed\n",
		},
		{
			name: "what is sent is shown on demand",
			args: []string{"flux-gate", "create", "change-freeze", "--verbose"},
			wantLog: "► creating gate change-freeze in flux-system namespace\n" +
				`✚ {"kind":"Gate","apiVersion":"gating.toolkit.fluxcd.io/v1alpha1","metadata":{"name":"change-freeze","namespace":"flux-system","annotations":{"gating.toolkit.fluxcd.io/turned-by":"ada"}},` +
				`"spec":{"closed":false},"status":{"sources":0,"held":0,"heldPromotions":0,"pending":0,"refused":0,"lost":0,"pipelines":0}}` + "\n✔ gate created; it is open\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var created *gatingv1.Gate
			_, stderr, err := cluster{after: func(_ context.Context, _ client.Client, obj client.Object) {
				created = obj.(*gatingv1.Gate)
			}}.run(t, tt.args...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stderr).To(Equal(tt.wantLog))
			g.Expect(created.Namespace + "/" + created.Name).To(Equal("flux-system/change-freeze"))
			g.Expect(created.Spec.Closed).To(Equal(tt.wantClosed))
			g.Expect(created.Reason()).To(Equal(tt.wantReason))
		})
	}
}

func TestGateCreateRefuses(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "create refuses an existing gate, and says how to turn it",
			command: "flux-gate create change-freeze --closed",
			objects: []client.Object{newGate("flux-system", "change-freeze")},
			wantLog: "► creating gate change-freeze in flux-system namespace\n",
			wantErr: "gate change-freeze already exists in flux-system namespace; use 'flux open gate' and 'flux close gate'",
		},
		{
			name:    "create prints the API server's error for a user without the right",
			command: "flux-gate create change-freeze",
			refuse: func(string, any) error {
				return forbidden("gates", "change-freeze", `User "ada" cannot create resource`)
			},
			wantLog: "► creating gate change-freeze in flux-system namespace\n" +
				"⚠️ the gate does not record who turned it: looking up your user name failed: " +
				`gates.pipelines.weave.works "change-freeze" is forbidden: User "ada" cannot create resource` + "\n",
			wantErr: `creating gate change-freeze failed: gates.pipelines.weave.works "change-freeze" is forbidden: User "ada" cannot create resource`,
		},
		{
			name:    "create asks for a name",
			command: "flux-gate create --closed",
			wantErr: "gate name is required",
		},
	})
}
