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
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	fix   = "main@sha1:" + strings.Repeat("a", 40)
	newer = "main@sha1:" + strings.Repeat("b", 40)
)

func in(hours int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(hours) * time.Hour))
}

// pass is a pass for the gate ops/freeze, granted an hour ago.
func pass(revision, by string, expires metav1.Time) GatePass {
	return GatePass{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "freeze-" + by, CreationTimestamp: in(-1)},
		Spec:       GatePassSpec{GateRef: meta.LocalObjectReference{Name: "freeze"}, Revision: revision, GrantedBy: by, Expires: expires},
	}
}

func changed(pass GatePass, change func(*GatePass)) GatePass {
	change(&pass)
	return pass
}

func TestPassesInForce(t *testing.T) {
	many := func(n int) (passes []GatePass) {
		for i := range n {
			passes = append(passes, changed(pass(fmt.Sprintf("1.0.%d", i), "ann", in(2)), func(p *GatePass) {
				p.CreationTimestamp = metav1.NewTime(in(-1).Add(time.Duration(-i) * time.Minute))
			}))
		}
		return passes
	}
	var granted []PassInForce
	for i := range MaxPasses {
		granted = append(granted, PassInForce{fmt.Sprintf("1.0.%d", MaxPasses+4-i), in(2)})
	}

	for _, tt := range []struct {
		name     string
		required int32
		passes   []GatePass
		want     []PassInForce
	}{
		{name: "without passes nothing passes"},
		{name: "one person is enough by default", passes: []GatePass{pass(fix, "ann", in(2))}, want: []PassInForce{{fix, in(2)}}},
		{name: "a pass that expires now is over", passes: []GatePass{pass(fix, "ann", in(0))}},
		{name: "a pass that is being deleted is revoked",
			passes: []GatePass{changed(pass(fix, "ann", in(2)), func(p *GatePass) { p.DeletionTimestamp = new(in(0)) })}},
		{name: "a pass for another gate does not count",
			passes: []GatePass{changed(pass(fix, "ann", in(2)), func(p *GatePass) { p.Spec.GateRef.Name = "other" })}},
		{name: "a pass in another namespace does not count",
			passes: []GatePass{changed(pass(fix, "ann", in(2)), func(p *GatePass) { p.Namespace = "team-a" })}},
		{name: "a pass for a deleted gate of the same name does not count",
			passes: []GatePass{changed(pass(fix, "ann", in(2)), func(p *GatePass) { p.CreationTimestamp = in(-3) })}},
		{name: "one of two required people is not enough", required: 2, passes: []GatePass{pass(fix, "ann", in(2))}},
		{name: "one person who grants twice is one person", required: 2, passes: []GatePass{pass(fix, "ann", in(2)), pass(fix, "ann", in(3))}},
		{name: "two people are enough until the first of their passes ends", required: 2,
			passes: []GatePass{pass(fix, "ann", in(3)), pass(fix, "bob", in(2))}, want: []PassInForce{{fix, in(2)}}},
		{name: "a third person's pass replaces the one that ends first", required: 2,
			passes: []GatePass{pass(fix, "ann", in(3)), pass(fix, "bob", in(1)), pass(fix, "eve", in(2))}, want: []PassInForce{{fix, in(2)}}},
		{name: "the longest pass of a person counts", required: 2,
			passes: []GatePass{pass(fix, "ann", in(1)), pass(fix, "ann", in(3)), pass(fix, "bob", in(2))}, want: []PassInForce{{fix, in(2)}}},
		{name: "two people who let different revisions pass do not agree", required: 2, passes: []GatePass{pass(fix, "ann", in(2)), pass(newer, "bob", in(2))}},
		{name: "two people who name the same commit differently do not agree", required: 2,
			passes: []GatePass{pass(fix, "ann", in(2)), pass(strings.TrimPrefix(fix, "main@"), "bob", in(2))}},
		{name: "an expired pass of the second person does not count", required: 2, passes: []GatePass{pass(fix, "ann", in(2)), pass(fix, "bob", in(-1))}},
		{name: "several revisions may pass, in the order of their names if granted at the same time",
			passes: []GatePass{pass(newer, "ann", in(2)), pass(fix, "ann", in(3))}, want: []PassInForce{{fix, in(3)}, {newer, in(2)}}},
		{name: "sixteen revisions may pass, those that were granted first", passes: many(MaxPasses + 5), want: granted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := &Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "freeze", CreationTimestamp: in(-2)}}
			if tt.required > 0 {
				gate.Spec.Passes = &Passes{Required: tt.required}
			}
			NewWithT(t).Expect(PassesInForce(gate, tt.passes, noon)).To(Equal(tt.want))
		})
	}
}

func TestGranters(t *testing.T) {
	gate := &Gate{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "freeze"}}
	passes := []GatePass{
		pass(fix, "eve", in(2)), pass(fix, "ann", in(2)), pass(fix, "eve", in(3)),
		pass(newer, "bob", in(2)), pass(fix, "dan", in(0)), changed(pass(fix, "pat", in(2)), func(p *GatePass) { p.Spec.GateRef.Name = "other" }),
	}
	g := NewWithT(t)
	g.Expect(gate.Granters(passes, fix, noon)).To(Equal([]string{"eve", "ann"}))
	g.Expect(gate.Granters(passes, "v1", noon)).To(BeEmpty())
}

func TestEvaluateRevision(t *testing.T) {
	open, closed := gate(false, ""), gate(true, "")
	passing := func(revision string, expires metav1.Time) *Gate {
		gate := gate(true, "INC-1")
		gate.Generation, gate.Status.ObservedGeneration = 3, 3
		gate.Status.Passes = []PassInForce{{revision, expires}}
		return gate
	}
	edited := passing(fix, in(2))
	edited.Generation++
	reopens := passing(fix, in(2))
	reopens.Spec.Override = &Override{Closed: true, Until: in(1), Reason: "INC-1"}
	reopens.Spec.Closed = false
	message := "gate a is closed (INC-1), but lets " + fix + " pass until 2026-11-25T14:00:00Z"

	for _, tt := range []struct {
		name     string
		refs     *GateReferences
		found    Found
		revision string
		want     Evaluation
	}{
		{
			name: "the revision of a pass passes, until the pass ends", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(fix, in(2))}}, revision: fix,
			want: Evaluation{Open: true, Reason: RevisionPassesReason, Message: message, NextChange: in(2).Time, NextTransition: in(2).Time},
		},
		{
			name: "the commit alone names the revision", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(strings.TrimPrefix(fix, "main@"), in(2))}}, revision: fix,
			want: Evaluation{Open: true, Reason: RevisionPassesReason, Message: message, NextChange: in(2).Time, NextTransition: in(2).Time},
		},
		{
			name: "the same commit under another name does not pass", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(fix, in(2))}},
			revision: strings.Replace(fix, "main", "v2", 1), want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "the branch alone names no revision", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing("main", in(2))}}, revision: fix,
			want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "another revision does not pass", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(fix, in(2))}}, revision: newer,
			want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "no revision does not pass", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(fix, in(2))}},
			want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "a pass that ends now is over", refs: references(RequireAll, "a"), found: Found{"a": {Gate: passing(fix, in(0))}}, revision: fix,
			want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "an edit of the gate ends its passes", refs: references(RequireAll, "a"), found: Found{"a": {Gate: edited}}, revision: fix,
			want: Evaluation{Reason: GateClosedReason, Message: "gate a is closed (INC-1)"},
		},
		{
			name: "an open gate needs no pass", refs: references(RequireAll, "a"), found: Found{"a": {Gate: open}}, revision: fix,
			want: Evaluation{Open: true, Reason: AllGatesOpenReason, Message: "gate a is open"},
		},
		{
			name: "every closed gate needs a pass", refs: references(RequireAll, "a", "b"), found: Found{"a": {Gate: passing(fix, in(2))}, "b": {Gate: closed}}, revision: fix,
			want: Evaluation{Reason: GateClosedReason, Message: "gate b is closed; " + message, NextChange: in(2).Time},
		},
		{
			name: "a missing gate lets nothing pass", refs: references(RequireAll, "a", "b"), found: Found{"a": {Gate: passing(fix, in(2))}}, revision: fix,
			want: Evaluation{Reason: GateNotFoundReason, Message: "gate b not found; " + message, NextChange: in(2).Time},
		},
		{
			name: "a pass does not lift denied access to another gate", refs: references(RequireAll, "a", "b"),
			found: Found{"a": {Gate: passing(fix, in(2))}, "b": {Denied: "no"}}, revision: fix,
			want: Evaluation{Reason: AccessDeniedReason, Message: "gate b: access denied: no; " + message, NextChange: in(2).Time},
		},
		{
			name: "an open gate beside it stays open", refs: references(RequireAll, "b", "a"), found: Found{"a": {Gate: passing(fix, in(2))}, "b": {Gate: open}}, revision: fix,
			want: Evaluation{Open: true, Reason: RevisionPassesReason, Message: message + "; gate b is open", NextChange: in(2).Time, NextTransition: in(2).Time},
		},
		{
			name: "one gate that lets it pass is enough for oneOf", refs: references(RequireOneOf, "b", "a"),
			found: Found{"a": {Gate: passing(fix, in(2))}, "b": {Gate: closed}}, revision: fix,
			want: Evaluation{Open: true, Reason: RevisionPassesReason, Message: message + "; gate b is closed", NextChange: in(2).Time, NextTransition: in(2).Time},
		},
		{
			name: "under oneOf an open gate counts before a pass", refs: references(RequireOneOf, "a", "b"),
			found: Found{"a": {Gate: passing(fix, in(2))}, "b": {Gate: open}}, revision: fix,
			want: Evaluation{Open: true, Reason: OneGateOpenReason, Message: "gate b is open; " + message, NextChange: in(2).Time},
		},
		{
			name: "a gate that opens before the pass ends stays open for the revision", refs: references(RequireAll, "a"), found: Found{"a": {Gate: reopens}}, revision: fix,
			want: Evaluation{Open: true, Reason: RevisionPassesReason, NextChange: in(1).Time,
				Message: "gate a is closed by override until 2026-11-25T13:00:00Z (INC-1), but lets " + fix + " pass until 2026-11-25T14:00:00Z"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(EvaluateRevision(tt.refs, tt.found, tt.revision, noon)).To(Equal(tt.want))
		})
	}
}

func TestEvaluateIgnoresPasses(t *testing.T) {
	gate := gate(true, "")
	gate.Status.Passes = []PassInForce{{fix, in(2)}}
	NewWithT(t).Expect(Evaluate(references(RequireAll, "a"), Found{"a": {Gate: gate}}, noon)).
		To(Equal(Evaluation{Reason: GateClosedReason, Message: "gate a is closed"}))
}
