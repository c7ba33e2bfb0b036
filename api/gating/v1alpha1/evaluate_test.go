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
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEvaluate(t *testing.T) {
	open, closed := gate(false, ""), gate(true, "")

	for _, tt := range []struct {
		name  string
		refs  *GateReferences
		found Found
		want  Evaluation
	}{
		{
			name: "no references at all are open",
			refs: nil,
			want: Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"},
		},
		{
			name: "an empty list of references is open",
			refs: references(RequireAll),
			want: Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"},
		},
		{
			name: "one of no gates is open too",
			refs: references(RequireOneOf),
			want: Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"},
		},
		{
			name:  "gates that nothing refers to hold nothing back",
			refs:  references(RequireAll),
			found: Found{"a": {Gate: closed}},
			want:  Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "no gates are referenced"},
		},
		{
			name:  "all gates open is open and names them in their order",
			refs:  references(RequireAll, "b", "a"),
			found: Found{"a": {Gate: open}, "b": {Gate: open}},
			want:  Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "gate b is open; gate a is open"},
		},
		{
			name:  "one closed gate among all closes, and is named first",
			refs:  references(RequireAll, "a", "b"),
			found: Found{"a": {Gate: open}, "b": {Gate: closed}},
			want:  Evaluation{Reason: GateClosedReason, Message: "gate b is closed; gate a is open"},
		},
		{
			name:  "a missing gate among all closes",
			refs:  references(RequireAll, "a", "b"),
			found: Found{"a": {Gate: open}},
			want:  Evaluation{Reason: GateNotFoundReason, Message: "gate b not found; gate a is open"},
		},
		{
			name:  "a gate that was looked up and is nil is missing",
			refs:  references(RequireAll, "a"),
			found: Found{"a": {Gate: nil}},
			want:  Evaluation{Reason: GateNotFoundReason, Message: "gate a not found"},
		},
		{
			name:  "a missing gate is named before a closed one",
			refs:  references(RequireAll, "a", "b", "c"),
			found: Found{"a": {Gate: open}, "b": {Gate: closed}},
			want: Evaluation{Reason: GateNotFoundReason,
				Message: "gate c not found; gate b is closed; gate a is open"},
		},
		{
			name:  "without a requirement all gates are required",
			refs:  references("", "a", "b"),
			found: Found{"a": {Gate: open}, "b": {Gate: closed}},
			want:  Evaluation{Reason: GateClosedReason, Message: "gate b is closed; gate a is open"},
		},
		{
			name:  "an unknown requirement opens no more than all does",
			refs:  references("any", "a", "b"),
			found: Found{"a": {Gate: open}, "b": {Gate: closed}},
			want:  Evaluation{Reason: GateClosedReason, Message: "gate b is closed; gate a is open"},
		},
		{
			name:  "one open gate is enough for oneOf, and is named first",
			refs:  references(RequireOneOf, "a", "b"),
			found: Found{"a": {Gate: closed}, "b": {Gate: open}},
			want:  Evaluation{Open: true, Reason: OneGateOpenReason, Message: "gate b is open; gate a is closed"},
		},
		{
			name:  "under oneOf an open gate opens although another one is missing, which is named",
			refs:  references(RequireOneOf, "a", "b", "c"),
			found: Found{"b": {Gate: open}, "c": {Gate: closed}},
			want: Evaluation{Open: true, Reason: OneGateOpenReason,
				Message: "gate b is open; gate a not found; gate c is closed"},
		},
		{
			name:  "oneOf closed gates is closed",
			refs:  references(RequireOneOf, "a", "b"),
			found: Found{"a": {Gate: closed}, "b": {Gate: closed}},
			want:  Evaluation{Reason: GateClosedReason, Message: "gate a is closed; gate b is closed"},
		},
		{
			name:  "oneOf a closed and a missing gate is closed for the missing one",
			refs:  references(RequireOneOf, "a", "b"),
			found: Found{"a": {Gate: closed}},
			want:  Evaluation{Reason: GateNotFoundReason, Message: "gate b not found; gate a is closed"},
		},
		{
			name:  "a gate to which access is denied closes, and is named before a closed one",
			refs:  references(RequireAll, "a", "b", "ops/c"),
			found: Found{"a": {Gate: open}, "b": {Gate: closed}, "ops/c": {Denied: "not allowed"}},
			want: Evaluation{Reason: AccessDeniedReason,
				Message: "gate ops/c: access denied: not allowed; gate b is closed; gate a is open"},
		},
		{
			name:  "a missing gate is named before one to which access is denied",
			refs:  references(RequireAll, "ops/c", "a"),
			found: Found{"ops/c": {Denied: "not allowed"}},
			want: Evaluation{Reason: GateNotFoundReason,
				Message: "gate a not found; gate ops/c: access denied: not allowed"},
		},
		{
			name:  "under oneOf an open gate opens although access to another one is denied, which is named",
			refs:  references(RequireOneOf, "ops/c", "a"),
			found: Found{"a": {Gate: open}, "ops/c": {Denied: "not allowed"}},
			want: Evaluation{Open: true, Reason: OneGateOpenReason,
				Message: "gate a is open; gate ops/c: access denied: not allowed"},
		},
		{
			name:  "a gate's reason is given with its state",
			refs:  references(RequireAll, "a", "b"),
			found: Found{"a": {Gate: gate(true, "release week")}, "b": {Gate: gate(false, "signed off")}},
			want: Evaluation{Reason: GateClosedReason,
				Message: "gate a is closed (release week); gate b is open (signed off)"},
		},
		{
			name:  "a blank reason is no reason",
			refs:  references(RequireAll, "a"),
			found: Found{"a": {Gate: gate(true, " \n")}},
			want:  Evaluation{Reason: GateClosedReason, Message: "gate a is closed"},
		},
		{
			name:  "a long reason is cut between characters",
			refs:  references(RequireAll, "a"),
			found: Found{"a": {Gate: gate(true, strings.Repeat("é", 201))}},
			want: Evaluation{Reason: GateClosedReason,
				Message: "gate a is closed (" + strings.Repeat("é", 200) + "…)"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(Evaluate(tt.refs, tt.found, noon)).To(Equal(tt.want))
		})
	}
}

func TestAMessageFitsIntoACondition(t *testing.T) {
	const condition = 32768 // characters
	refs, found := references(RequireAll), Found{}
	for i := range maxReferences {
		name := GateReference(fmt.Sprintf("%s/%s%02d", strings.Repeat("n", 63), strings.Repeat("é", 251), i))
		refs.Refs = append(refs.Refs, name)
		found[name] = Finding{Gate: gate(i == maxReferences-1, strings.Repeat("é", 300))}
	}
	g := NewWithT(t)
	message := Evaluate(refs, found, noon).Message
	// A HelmChart has its own gates and those of its HelmRepository, and its condition may contain an error too.
	g.Expect(2 * utf8.RuneCountInString(message)).To(BeNumerically("<", condition-2000))
	g.Expect(message).To(HavePrefix("gate "+string(refs.Refs[maxReferences-1])+" is closed"), "what holds things back comes first")
	named := strings.Count(message, " is ")
	g.Expect(named).To(BeNumerically(">", 10))
	g.Expect(message).To(HaveSuffix(fmt.Sprintf("; and %d more", maxReferences-named)))
}

func gate(closed bool, reason string) *Gate {
	g := &Gate{Spec: GateSpec{Closed: closed}}
	if reason != "" {
		g.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{ReasonAnnotation: reason}}
	}
	return g
}

func references(require Requirement, refs ...GateReference) *GateReferences {
	return &GateReferences{Require: require, Refs: refs}
}

func TestReasonIsOneLineOfWhatCanBeSeen(t *testing.T) {
	gate := &Gate{}
	gate.Annotations = map[string]string{ReasonAnnotation: " end of\nquarter\x1b[2J\u202e "}
	NewWithT(t).Expect(gate.Reason()).To(Equal("end of quarter[2J"))
}
