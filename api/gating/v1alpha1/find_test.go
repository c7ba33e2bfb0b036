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

package v1alpha1

import (
	"errors"
	"testing"

	"github.com/fluxcd/pkg/apis/acl"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestFind(t *testing.T) {
	const denied = "its spec.accessFrom doesn't allow namespace team-a"
	ops := func(access *acl.AccessFrom) map[string]*Gate {
		return map[string]*Gate{"ops/freeze": {Spec: GateSpec{AccessFrom: access}}}
	}
	selecting := func(selectors ...map[string]string) *acl.AccessFrom {
		access := &acl.AccessFrom{}
		for _, labels := range selectors {
			access.NamespaceSelectors = append(access.NamespaceSelectors, acl.NamespaceSelector{MatchLabels: labels})
		}
		return access
	}

	for _, tt := range []struct {
		name       string
		ref        GateReference
		gates      map[string]*Gate
		noCross    bool
		wantGate   bool
		wantDenied string
	}{
		{name: "a gate of the own namespace needs no access", ref: "freeze", gates: map[string]*Gate{"team-a/freeze": {}}, wantGate: true},
		{name: "the own namespace may be written out", ref: "team-a/freeze", gates: map[string]*Gate{"team-a/freeze": {}}, noCross: true, wantGate: true},
		{name: "a missing gate is not found", ref: "freeze", gates: ops(nil)},
		{name: "a missing gate of another namespace is not found", ref: "ops/other", gates: ops(nil)},
		{name: "without accessFrom other namespaces are denied", ref: "ops/freeze", gates: ops(nil), wantDenied: denied},
		{name: "an accessFrom without selectors denies", ref: "ops/freeze", gates: ops(selecting()), wantDenied: denied},
		{name: "a selector without labels allows every namespace", ref: "ops/freeze", gates: ops(selecting(nil)), wantGate: true},
		{name: "a selector that matches allows", ref: "ops/freeze", gates: ops(selecting(map[string]string{"tenant": "a"})), wantGate: true},
		{name: "a selector that doesn't match denies", ref: "ops/freeze", gates: ops(selecting(map[string]string{"tenant": "b"})), wantDenied: denied},
		{name: "all labels of a selector must match", ref: "ops/freeze",
			gates: ops(selecting(map[string]string{"tenant": "a", "stage": "prod"})), wantDenied: denied},
		{name: "one selector of many is enough", ref: "ops/freeze",
			gates: ops(selecting(map[string]string{"tenant": "b"}, map[string]string{"tenant": "a"})), wantGate: true},
		{name: "no references across namespaces denies although the gate would allow it", ref: "ops/freeze", gates: ops(selecting(nil)), noCross: true,
			wantDenied: "cross-namespace references are disabled"},
		{name: "disabled cross-namespace references don't show what exists elsewhere", ref: "ops/other", gates: ops(nil), noCross: true,
			wantDenied: "cross-namespace references are disabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			finder := Finder{
				Gate:                 func(name types.NamespacedName) (*Gate, error) { return tt.gates[name.String()], nil },
				NamespaceLabels:      func(string) (map[string]string, error) { return map[string]string{"tenant": "a"}, nil },
				NoCrossNamespaceRefs: tt.noCross,
			}
			found, err := finder.Find("team-a", []GateReference{tt.ref})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(HaveKey(tt.ref))
			g.Expect(found[tt.ref].Gate != nil).To(Equal(tt.wantGate))
			g.Expect(found[tt.ref].Denied).To(Equal(tt.wantDenied))
		})
	}
}

func TestFindFailsRatherThanGuess(t *testing.T) {
	unreachable := errors.New("unreachable")
	shared := &Gate{Spec: GateSpec{AccessFrom: &acl.AccessFrom{NamespaceSelectors: []acl.NamespaceSelector{{}}}}}

	for _, tt := range []struct {
		name   string
		finder Finder
	}{
		{"when a gate can't be read", Finder{
			Gate: func(types.NamespacedName) (*Gate, error) { return nil, unreachable },
		}},
		{"when the labels of the namespace can't be read", Finder{
			Gate:            func(types.NamespacedName) (*Gate, error) { return shared, nil },
			NamespaceLabels: func(string) (map[string]string, error) { return nil, unreachable },
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.finder.Find("team-a", []GateReference{"ops/freeze"})
			NewWithT(t).Expect(err).To(MatchError(unreachable))
		})
	}
}

func TestAGateThatIsReferredToTwiceIsLookedUpOnce(t *testing.T) {
	g := NewWithT(t)
	looked := 0
	finder := Finder{Gate: func(types.NamespacedName) (*Gate, error) {
		looked++
		return &Gate{}, nil
	}}
	found, err := finder.Find("team-a", []GateReference{"freeze", "signoff", "freeze", "freeze"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveLen(2))
	g.Expect(looked).To(Equal(2))
}
