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
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTurnedBy(t *testing.T) {
	wrote := func(at time.Time, manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.NewTime(at)), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return wrote(noon.Add(-time.Hour), manager, fields)
	}
	const (
		name         = `"f:metadata":{"f:annotations":{"f:gating.toolkit.fluxcd.io/turned-by":{}}}`
		closed       = `{"f:spec":{"f:closed":{}}}`
		override     = `{"f:spec":{"f:override":{}}}`
		withClosed   = `{` + name + `,"f:spec":{"f:closed":{}}}`
		withOverride = `{` + name + `,"f:spec":{"f:override":{}}}`
	)
	overridden := GateSpec{Closed: true, Override: &Override{Until: metav1.NewTime(noon.Add(time.Hour))}}
	ended := GateSpec{Override: &Override{Closed: true, Until: metav1.NewTime(noon.Add(-time.Minute))}}
	for _, test := range []struct {
		name    string
		spec    GateSpec
		entries []metav1.ManagedFieldsEntry
		want    string
		state   string
	}{
		{"it is the user while one entry owns the name and the switch", GateSpec{Closed: true}, []metav1.ManagedFieldsEntry{entry("flux", withClosed)},
			"jane", "closed by jane"},
		{"it is so even if Git sets the switch to the same value", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed), wrote(noon, "kustomize-controller", closed)}, "jane", "closed by jane"},
		{"an open gate does not read 'open by'", GateSpec{}, []metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "jane", "open"},
		{"it is the field manager once someone else has turned the switch", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{entry("flux", "{"+name+"}"), entry("kubectl-patch", closed)}, "field manager kubectl-patch", "closed"},
		{"it is the field manager if two entries of one manager own the name and the switch", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{entry("flux", "{"+name+"}"), entry("flux", closed)}, "field manager flux", "closed"},
		{"it is the field manager that has written last", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{wrote(noon, "new", closed), entry("old", closed)}, "field manager new", "closed"},
		{"it is the field manager if the name goes with the override, which does not count", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{entry("flux-override", withOverride), entry("flux", closed)}, "field manager flux", "closed"},
		{"an override in force is its user's", overridden, []metav1.ManagedFieldsEntry{entry("kustomize-controller", closed), entry("flux-override", withOverride)},
			"jane", "open by override until 2026-11-25T13:00:00Z"},
		{"an override that closes names who set it", GateSpec{Override: &Override{Closed: true, Until: metav1.NewTime(noon.Add(time.Hour))}},
			[]metav1.ManagedFieldsEntry{entry("flux-override", withOverride)}, "jane", "closed by override of jane until 2026-11-25T13:00:00Z"},
		{"an override in force is not that of who has turned the switch", overridden,
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed), entry("kubectl-edit", override)}, "field manager kubectl-edit", "open by override until 2026-11-25T13:00:00Z"},
		{"a window is nobody's", GateSpec{ClosedDuring: []Window{{Name: "noon", From: "0 11 * * *", To: "0 13 * * *"}}},
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "", "closed by window noon until 2026-11-25T13:00:00Z"},
		{"a gate that opened at the end of a window was opened by nobody", GateSpec{ClosedDuring: []Window{{Name: "morning", From: "30 11 * * *", To: "45 11 * * *"}}},
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "", "open until 2026-11-26T11:30:00Z"},
		{"a gate with windows that was opened since the last one is who opened it", GateSpec{ClosedDuring: []Window{{Name: "morning", From: "30 09 * * *", To: "45 09 * * *"}}},
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "jane", "open until 2026-11-26T09:30:00Z"},
		{"a gate that opened at the end of an override was opened by nobody", ended, []metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "", "open"},
		{"invalid windows are nobody's", GateSpec{OpenDuring: []Window{{Name: "never", From: "0 0 30 2 *", To: "0 0 1 3 *"}}},
			[]metav1.ManagedFieldsEntry{entry("flux", withClosed)}, "",
			"closed because window never is invalid: from never happens: none of its months has such a day"},
		{"a write of the status turns nothing", GateSpec{Closed: true},
			[]metav1.ManagedFieldsEntry{{Manager: "forger", Subresource: "status", FieldsV1: metav1.NewFieldsV1(withClosed)}}, "", "closed"},
		{"it is nobody if nothing shows it, as after a restore", GateSpec{Closed: true}, nil, "", "closed"},
		{"it is nobody if the record can't be read", GateSpec{Closed: true}, []metav1.ManagedFieldsEntry{entry("flux", "{"), {Manager: "flux"}}, "", "closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			gate := Gate{Spec: test.spec, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{TurnedByAnnotation: "jane"}, ManagedFields: test.entries}}
			state := gate.StateAt(noon)
			g.Expect(state.By.String()).To(Equal(test.want))
			g.Expect(state.String()).To(Equal(test.state))
		})
	}
}

func TestATurnerIsOnOneLine(t *testing.T) {
	gate := Gate{ObjectMeta: metav1.ObjectMeta{
		Annotations:   map[string]string{TurnedByAnnotation: "jane\n" + strings.Repeat("e", 300)},
		ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:gating.toolkit.fluxcd.io/turned-by":{}}},"f:spec":{"f:closed":{}}}`)}},
	}}
	NewWithT(t).Expect(gate.StateAt(noon).By.User).To(And(HavePrefix("jane eee"), Not(ContainSubstring("\n")), HaveLen(200+len("…"))))
}
