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

package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberecorder "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

// passed returns a closed gate that lets a revision pass until an hour after noon.
func passed(name, revision string) *gatingv1.Gate {
	gate := gate(name, true)
	gate.Generation, gate.Status.ObservedGeneration = 1, 1
	gate.Status.Passes = []gatingv1.PassInForce{{Revision: revision, Expires: metav1.NewTime(noon.Add(time.Hour))}}
	return gate
}

func TestASourceIsReleasedForARevisionUntilItIsPublishedOrThePassEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		ends func(t *testing.T, w *world, freeze *gatingv1.Gate, chart *source.HelmChart)
	}{
		{"it is published", func(t *testing.T, w *world, _ *gatingv1.Gate, chart *source.HelmChart) {
			chart.Status.Artifact = &source.Artifact{Revision: "1.2.3"}
			w.Expect(w.Status().Update(t.Context(), chart)).To(Succeed())
		}},
		{"the pass expires", func(_ *testing.T, w *world, _ *gatingv1.Gate, _ *source.HelmChart) {
			w.now = func() time.Time { return noon.Add(time.Hour) }
		}},
		{"the pass is revoked", func(t *testing.T, w *world, freeze *gatingv1.Gate, _ *source.HelmChart) {
			w.edit(t, freeze, func() { freeze.Status.Passes = nil })
		}},
		{"the gate is edited", func(t *testing.T, w *world, freeze *gatingv1.Gate, _ *source.HelmChart) {
			w.edit(t, freeze, func() { freeze.Generation++ })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			freeze, chart := passed("freeze", "1.2.3"), chart()
			chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
			w := newWorld(t, freeze, chart)
			w.now = func() time.Time { return noon }
			w.edit(t, freeze, func() { freeze.Status.Passes[0].Revision = "1.2.2" })
			chart.Status.Artifact = &source.Artifact{Revision: "1.2.2"}
			w.Expect(w.Status().Update(t.Context(), chart)).To(Succeed())
			w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue(), "a revision that is published needs no pass")
			w.Expect(conditions.Has(chart, gatingv1.RevisionPassesCondition)).To(BeFalse())

			w.edit(t, freeze, func() { freeze.Status.Passes[0].Revision = "1.2.3" })
			w.reconcile(t, chart)
			w.Expect(hold.On(chart).Suspend).To(BeFalse())
			w.Expect(w.again).To(Equal(time.Hour))
			w.Expect(conditions.IsFalse(chart, gatingv1.GatesOpenCondition)).To(BeTrue(), "the gates stay closed")
			passes := conditions.Get(chart, gatingv1.RevisionPassesCondition)
			w.Expect(passes.Message).To(Equal("1.2.3 until 2026-11-25T13:00:00Z"))
			w.Expect(passes.ObservedGeneration).To(Equal(chart.Generation))

			test.ends(t, w, freeze, chart)
			w.beforeApply = func() error {
				now := &source.HelmChart{}
				w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), now)).To(Succeed())
				w.Expect(conditions.Has(now, gatingv1.RevisionPassesCondition)).To(BeFalse(), "it is removed before the hold, which may fail")
				return nil
			}
			w.Expect(hold.On(w.reconcile(t, chart)).Suspend).To(BeTrue())
			w.Expect(conditions.IsFalse(chart, gatingv1.GatesOpenCondition)).To(BeTrue())
			w.Expect(conditions.GetObservedGeneration(chart, gatingv1.GatesOpenCondition)).To(Equal(chart.Generation))
		})
	}
}

// opensUntil returns a closed gate that an override opens until a time, as its status says.
func opensUntil(name string, end time.Time) *gatingv1.Gate {
	gate := gate(name, true)
	gate.Spec.Override = &gatingv1.Override{Until: metav1.NewTime(end)}
	gate.Status.Conditions = []metav1.Condition{{Type: gatingv1.OpenCondition, Status: metav1.ConditionTrue}}
	return gate
}

func TestWhatTakesMoreThanOnePass(t *testing.T) {
	digest := "sha1:" + strings.Repeat("a", 40)
	for _, test := range []struct {
		name      string
		gates     []*gatingv1.Gate
		own       string
		inherited []gatingv1.GateReference
		want      string
	}{
		{name: "every closed gate of the source must let it pass", own: "a,b", gates: []*gatingv1.Gate{passed("a", "1.2.3"), gate("b", true)}},
		{name: "all of them may", own: "a,b", gates: []*gatingv1.Gate{passed("a", "1.2.3"), passed("b", "1.2.3")}, want: "1.2.3 until 2026-11-25T13:00:00Z"},
		{name: "they must let the same revision pass", own: "a,b", gates: []*gatingv1.Gate{passed("a", "1.2.3"), passed("b", "1.2.4")}},
		{name: "open gates need not", own: "a,b", gates: []*gatingv1.Gate{passed("a", "1.2.3"), gate("b", false)}, want: "1.2.3 until 2026-11-25T13:00:00Z"},
		{name: "inherited gates must too", own: "a", inherited: []gatingv1.GateReference{"b"}, gates: []*gatingv1.Gate{passed("a", "1.2.3"), gate("b", true)}},
		{name: "inherited gates may too", own: "a", inherited: []gatingv1.GateReference{"b"},
			gates: []*gatingv1.Gate{passed("a", "1.2.3"), passed("b", "1.2.3")}, want: "1.2.3 until 2026-11-25T13:00:00Z"},
		{name: "one may name the digest, another the whole revision", own: "a,b",
			gates: []*gatingv1.Gate{passed("a", digest), passed("b", "main@"+digest)}, want: "main@" + digest + " until 2026-11-25T13:00:00Z"},
		{name: "a pass ends with the state of another gate", own: "a,b",
			gates: []*gatingv1.Gate{passed("a", "1.2.3"), opensUntil("b", noon.Add(time.Minute))}, want: "1.2.3 until 2026-11-25T12:01:00Z"},
		{name: "a missing gate lets nothing pass", own: "a,b", gates: []*gatingv1.Gate{passed("a", "1.2.3")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			chart := chart()
			chart.Annotations = map[string]string{gatingv1.GatesAnnotation: test.own}
			w := newWorld(t, chart, repository(func(r *source.HelmRepository) {
				if test.inherited != nil {
					r.Spec.Gates = &gatingv1.GateReferences{Refs: test.inherited}
				}
			}))
			w.now = func() time.Time { return noon }
			for _, gate := range test.gates {
				w.Expect(w.Create(t.Context(), gate)).To(Succeed())
			}
			w.reconcile(t, chart)
			w.Expect(conditions.GetMessage(chart, gatingv1.RevisionPassesCondition)).To(Equal(test.want))
			w.Expect(hold.On(chart).Suspend).To(Equal(test.want == ""))
		})
	}
}

func TestFewRevisionsAreEvaluatedForManyPasses(t *testing.T) {
	for _, test := range []struct {
		name    string
		require gatingv1.Requirement
		open    int
		want    int
	}{
		{"all must let them pass: only those of the first closed gate", gatingv1.RequireAll, 0, 16},
		{"open gates let everything pass", gatingv1.RequireAll, 10, 16},
		{"one is enough", gatingv1.RequireOneOf, 0, mostCandidates},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			refs, found := &gatingv1.GateReferences{Require: test.require}, gatingv1.Found{}
			for i := range 64 {
				gate := passed(fmt.Sprint("gate-", i), "")
				gate.Status.Passes = nil
				gate.Spec.Closed = i >= test.open
				for j := range 16 {
					gate.Status.Passes = append(gate.Status.Passes, gatingv1.PassInForce{Revision: fmt.Sprintf("%d.%d", i, j), Expires: metav1.NewTime(noon.Add(time.Hour))})
				}
				refs.Refs = append(refs.Refs, gatingv1.GateReference(gate.Name))
				found[refs.Refs[i]] = gatingv1.Finding{Gate: gate}
			}
			evaluated := 0
			evaluate := func(rev string) gatingv1.Evaluation {
				evaluated++
				if test.require == gatingv1.RequireAll {
					g.Expect(rev).To(HavePrefix(fmt.Sprint(test.open, ".")), "of the first closed gate")
				}
				return gatingv1.Evaluation{}
			}
			passing(evaluate, candidates(refs, fixed(found, noon), chart(), noon), time.Time{})
			g.Expect(evaluated).To(Equal(test.want))
		})
	}
}

func TestTheMessagesOfPassesFitIntoConditions(t *testing.T) {
	freeze, chart := passed("freeze", "1.2.3"), chart()
	freeze.Status.Passes = nil
	for i := range 16 {
		freeze.Status.Passes = append(freeze.Status.Passes, gatingv1.PassInForce{
			Revision: fmt.Sprintf("%02d%s", i, strings.Repeat("😀", 398)), Expires: metav1.NewTime(noon.Add(time.Hour))})
	}
	chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	chart.Status.Conditions = []metav1.Condition{
		{Type: gatingv1.GatesOpenCondition, Status: metav1.ConditionFalse},
		{Type: sourcev1.ArtifactInStorageCondition, Status: metav1.ConditionTrue, Message: strings.Repeat("é", 5000)},
	}
	w := newWorld(t, freeze, chart)
	w.now = func() time.Time { return noon }
	w.reconcile(t, chart)
	w.Expect(strings.Count(conditions.GetMessage(chart, gatingv1.RevisionPassesCondition), " until ")).To(Equal(16))
	w.Expect(utf8.RuneCountInString(conditions.GetMessage(chart, gatingv1.RevisionPassesCondition))).To(BeNumerically("<", 32768))
	w.Expect(conditions.GetMessage(chart, gatingv1.GatesOpenCondition)).To(ContainSubstring("): set spec.version to one of them"))
	// With the messages of two sets of gates, of up to 10,000 characters each, it still fits.
	w.Expect(utf8.RuneCountInString(conditions.GetMessage(chart, gatingv1.GatesOpenCondition))).To(BeNumerically("<", 5000))
}

func TestNoRevisionPassesForAnImageUpdateAutomation(t *testing.T) {
	automation := &source.ImageUpdateAutomation{}
	automation.Namespace, automation.Name, automation.Generation = "default", "app", 1
	automation.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	w := newWorld(t, passed("freeze", "1.2.3"), automation)
	w.now = func() time.Time { return noon }
	w.Expect(hold.On(w.reconcile(t, automation)).Suspend).To(BeTrue(), "no backstop keeps it from committing other revisions")
}

func TestTheEndOfAPassIsToldWithItsCause(t *testing.T) {
	grant := func(revision, by string) gatingv1.GatePass {
		pass := gatingv1.GatePass{Spec: gatingv1.GatePassSpec{Revision: revision, GrantedBy: by, Expires: metav1.NewTime(noon.Add(time.Hour))}}
		pass.Namespace, pass.Spec.GateRef.Name = "default", "freeze"
		return pass
	}
	for _, test := range []struct {
		name     string
		now      time.Time
		required int32
		granted  []gatingv1.GatePass
		want     string
	}{
		{"it expired", noon.Add(time.Hour), 1, []gatingv1.GatePass{grant("1.2.3", "ann")}, "expired"},
		{"it was deleted", noon, 1, []gatingv1.GatePass{grant("1.2.4", "ann")}, "revoked"},
		{"more people are required now, or one of them has revoked theirs", noon, 2, []gatingv1.GatePass{grant("1.2.3", "ann")}, "1 of 2 people grant it"},
		{"other revisions have taken its place", noon, 1, []gatingv1.GatePass{grant("1.2.3", "ann")}, "16 others were granted before it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			r := &GateReconciler{Announcer: announce.To(w.Scheme(), w.events, &kuberecorder.FakeRecorder{}), Now: func() time.Time { return test.now }}
			before, after := passed("freeze", "1.2.3"), gate("freeze", true)
			after.Spec.Passes = &gatingv1.Passes{Required: test.required}
			r.announcePasses(before, after, test.granted)
			w.Expect(w.events.Events).To(Receive(Equal("Normal RevisionPasses no longer lets 1.2.3 pass: " + test.want)))
			w.Expect(w.events.Events).To(BeEmpty())
		})
	}
}
