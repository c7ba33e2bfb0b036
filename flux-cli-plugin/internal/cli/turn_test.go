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
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// inForce has an override for another hour.
func inForce(closed bool) func(*gatingv1.Gate) {
	return func(gate *gatingv1.Gate) {
		gate.Spec.Override = &gatingv1.Override{Closed: closed, Until: *at(time.Hour), Reason: "INC-1"}
	}
}

// atNoon is closed while the commands run.
func atNoon(gate *gatingv1.Gate) {
	gate.Spec.ClosedDuring = []gatingv1.Window{{Name: "noon", From: "0 11 * * *", To: "0 13 * * *"}}
}

func TestOverrides(t *testing.T) {
	for _, test := range []struct {
		name    string
		gate    *gatingv1.Gate
		command []string
		want    *gatingv1.Override
		closed  bool
		log     string
	}{
		{
			name: "open --for overrides a window", gate: newGate("flux-system", "freeze", atNoon),
			command: []string{"flux-open", "gate", "freeze", "--wait=false", "--for=2h", "--reason=INC-4711"},
			want:    &gatingv1.Override{Until: *at(2 * time.Hour), Reason: "INC-4711"},
			log:     "► opening gate freeze in flux-system namespace\n✔ gate opened\n",
		},
		{
			name: "close --until also overrides it, in the reader's time zone", gate: newGate("flux-system", "freeze"),
			command: []string{"flux-close", "gate", "freeze", "--wait=false", "--until=2026-05-04T18:00"},
			want:    &gatingv1.Override{Closed: true, Until: *at(6 * time.Hour)},
			log:     "► closing gate freeze in flux-system namespace\n✔ gate closed\n",
		},
		{
			name: "--until accepts a time of any zone", gate: newGate("flux-system", "freeze"),
			command: []string{"flux-close", "gate", "freeze", "--wait=false", "--until=2026-05-04T18:00:30+02:00"},
			want:    &gatingv1.Override{Closed: true, Until: *at(4*time.Hour + 30*time.Second)},
			log:     "► closing gate freeze in flux-system namespace\n✔ gate closed\n",
		},
		{
			name: "a plain open clears an override, even if the switch is already open", gate: newGate("flux-system", "freeze", inForce(true)),
			command: []string{"flux-open", "gate", "freeze", "--wait=false"},
			log:     "► opening gate freeze in flux-system namespace\n✔ gate opened\n",
		},
		{
			name: "a plain close clears an override", gate: newGate("flux-system", "freeze", inForce(false)),
			command: []string{"flux-close", "gate", "freeze", "--wait=false"}, closed: true,
			log: "► closing gate freeze in flux-system namespace\n✔ gate closed\n",
		},
		{
			name: "a plain open says so when a window keeps the gate closed", gate: newGate("flux-system", "freeze", frozen, atNoon),
			command: []string{"flux-open", "gate", "freeze", "--wait=false"},
			log: "► opening gate freeze in flux-system namespace\n✔ gate opened\n" +
				"⚠️ gate freeze is still closed by window noon until 2026-05-04T13:00:00Z: to override this, run 'flux open gate freeze -n flux-system --for 2h'\n",
		},
		{
			name: "a plain open says so too when there is nothing to turn", gate: newGate("flux-system", "freeze", atNoon),
			command: []string{"flux-open", "gate", "freeze", "--wait=false"},
			log:     "⚠️ gate freeze is still closed by window noon until 2026-05-04T13:00:00Z: to override this, run 'flux open gate freeze -n flux-system --for 2h'\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			var kube client.Client
			_, log, err := cluster{objects: []client.Object{test.gate}, dialed: func(c client.Client) { kube = c }}.run(t, test.command...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(log).To(Equal(test.log))
			turned := &gatingv1.Gate{}
			g.Expect(kube.Get(context.Background(), client.ObjectKeyFromObject(test.gate), turned)).To(Succeed())
			g.Expect(turned.Spec.Closed).To(Equal(test.closed))
			if strings.Contains(test.log, "✔") {
				g.Expect(turned.Annotations).To(HaveKeyWithValue(gatingv1.TurnedByAnnotation, "ada"))
			}
			if test.want == nil {
				g.Expect(turned.Spec.Override).To(BeNil())
				return
			}
			g.Expect(turned.Spec.Override.Until.Time).To(BeTemporally("==", test.want.Until.Time))
			test.want.Until = turned.Spec.Override.Until
			g.Expect(turned.Spec.Override).To(Equal(test.want))
		})
	}
}

func TestTimesThatNoOverrideCanHave(t *testing.T) {
	gate := []client.Object{newGate("flux-system", "freeze")}
	testCommands(t, []commandTest{
		{name: "no time at all", command: "flux-open gate freeze --for 0s", objects: gate, wantErr: "--for must be at least 1s, such as 2h"},
		{name: "a time in the past", command: "flux-open gate freeze --until 2026-05-04T11:59", objects: gate,
			wantErr: "--until must be in the future: it is 2026-05-04T12:00:00Z now"},
		{name: "what is no time", command: "flux-open gate freeze --until tomorrow", objects: gate,
			wantErr: "--until must be a time such as 2026-12-24T06:00, or 2026-12-24T06:00:00Z"},
		{name: "two times", command: "flux-open gate freeze --for 2h --until 2026-12-24T06:00", objects: gate,
			wantErr: "if any flags in the group [for until] are set none of the others can be; [for until] were all set"},
	})
}

func TestAGateIsTurnedWithoutANameToo(t *testing.T) {
	g := NewWithT(t)
	var kube client.Client
	_, log, err := cluster{
		objects: []client.Object{newGate("flux-system", "freeze")},
		dialed:  func(c client.Client) { kube = c },
		refuse: func(_ string, obj any) error {
			if _, ok := obj.(*authenticationv1.SelfSubjectReview); ok {
				return errors.New("not today")
			}
			return nil
		},
	}.run(t, "flux-close", "gate", "freeze", "--wait=false", "--reason=INC-4711")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(log).To(Equal("► closing gate freeze in flux-system namespace\n" +
		"⚠️ the gate does not record who turned it: looking up your user name failed: not today\n✔ gate closed\n"))
	turned := &gatingv1.Gate{}
	g.Expect(kube.Get(context.Background(), client.ObjectKey{Namespace: "flux-system", Name: "freeze"}, turned)).To(Succeed())
	g.Expect(turned.Spec.Closed).To(BeTrue())
	g.Expect(turned.Annotations).To(Equal(map[string]string{gatingv1.ReasonAnnotation: "INC-4711"}))
}
