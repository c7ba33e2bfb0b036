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
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// overridden returns a gate with an override that ends at the given time.
func overridden(name string, closed bool, until time.Time) *gatingv1.Gate {
	gate := gate(name, !closed)
	gate.Generation = 1
	gate.Spec.Override = &gatingv1.Override{Closed: closed, Until: metav1.NewTime(until)}
	return gate
}

// saying gives a gate the status that it had at a time.
func saying(gate *gatingv1.Gate, at time.Time) *gatingv1.Gate {
	describe(gate.DeepCopy(), gate, gate.StateAt(at))
	return gate
}

func TestASourceIsHeldAtTheMomentThatItsGateClosesByItself(t *testing.T) {
	closes := noon.Add(time.Hour)
	freeze := saying(overridden("freeze", false, closes), noon)
	app := repository(func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	w := newWorld(t, freeze, app)

	w.now = func() time.Time { return closes.Add(-30 * time.Second) }
	w.reconcile(t, app)
	w.Expect(conditions.IsTrue(app, gatingv1.GatesOpenCondition)).To(BeTrue())
	w.Expect(w.again).To(Equal(30 * time.Second))

	w.now = func() time.Time { return closes }
	w.reconcile(t, app)
	w.Expect(hold.On(app).Suspend).To(BeTrue())
	w.Expect(conditions.GetReason(app, gatingv1.GatesOpenCondition)).To(Equal(gatingv1.GateClosedReason))
	w.Expect(w.again).To(BeZero(), "the gate stays closed")
}

func TestASourceIsReleasedOnceTheStatusOfItsGateSaysThatItIsOpen(t *testing.T) {
	opens := noon.Add(time.Hour)
	freeze := saying(overridden("freeze", true, opens), noon)
	app := repository(func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	w := newWorld(t, freeze, app)
	w.now = func() time.Time { return noon }
	w.reconcile(t, app)
	w.Expect(hold.On(app).Suspend).To(BeTrue())

	w.now = func() time.Time { return opens }
	r := w.reconciler(t, app)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(app)})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.RequeueAfter).To(Equal(time.Second))
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(app), app)).To(Succeed())
	w.Expect(hold.On(app).Suspend).To(BeTrue(), "the backstop would refuse what it publishes")

	w.edit(t, freeze, func() { saying(freeze, opens) })
	w.reconcile(t, app)
	w.Expect(hold.On(app).Suspend).To(BeFalse())
	w.Expect(conditions.IsTrue(app, gatingv1.GatesOpenCondition)).To(BeTrue())
}

func TestTheStatusOfAGateTellsWhenItTurns(t *testing.T) {
	g := NewWithT(t)
	freeze := saying(overridden("freeze", true, noon.Add(time.Hour)), noon)
	g.Expect(freeze.Status.NextTransitionTime.Time).To(Equal(noon.Add(time.Hour)))
	g.Expect(conditions.GetMessage(freeze, gatingv1.OpenCondition)).To(Equal("the gate is closed by override until 2026-11-25T13:00:00Z"))
	g.Expect(announcedOpen(freeze, noon)).To(BeFalse())

	saying(freeze, noon.Add(time.Hour))
	g.Expect(freeze.Status.NextTransitionTime).To(BeNil())
	g.Expect(announcedOpen(freeze, noon)).To(BeTrue())
	freeze.Generation++
	g.Expect(announcedOpen(freeze, noon)).To(BeFalse(), "that was said of another spec")
}

func TestAGateWithInvalidWindowsIsStalledAndClosed(t *testing.T) {
	g := NewWithT(t)
	freeze := gate("freeze", false)
	freeze.Spec.ClosedDuring = []gatingv1.Window{{Name: "never", From: "0 0 30 2 *", To: "0 0 1 3 *"}}
	saying(freeze, noon)
	g.Expect(conditions.IsFalse(freeze, gatingv1.OpenCondition)).To(BeTrue())
	g.Expect(conditions.GetReason(freeze, meta.ReadyCondition)).To(Equal(gatingv1.InvalidWindowsReason))
	g.Expect(conditions.GetMessage(freeze, meta.StalledCondition)).To(Equal("window never is invalid: from never happens: none of its months has such a day"))

	freeze.Spec.ClosedDuring = nil
	saying(freeze, noon)
	g.Expect(conditions.Has(freeze, meta.StalledCondition)).To(BeFalse())
	g.Expect(conditions.IsTrue(freeze, gatingv1.OpenCondition)).To(BeTrue())
}

func TestAGateIsLookedAtWhenItTurns(t *testing.T) {
	r := &GateReconciler{Now: func() time.Time { return noon }}
	for _, test := range []struct {
		name string
		gate *gatingv1.Gate
		want time.Duration
	}{
		{"a gate that turns soon is checked exactly then", overridden("freeze", true, noon.Add(1500*time.Millisecond)), 1500 * time.Millisecond},
		{"a gate that turns later is checked in between, in case the clock is set", overridden("freeze", true, noon.Add(time.Hour)), time.Minute},
		{"a gate that has turned for the last time is evaluated again if the clock is set back", overridden("freeze", true, noon), time.Minute},
		{"a gate that only people turn is left alone", gate("freeze", true), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(r.lookAgain(test.gate, test.gate.StateAt(noon), still)).To(Equal(test.want))
		})
	}
}

func TestWhatAGateAnnouncesWakesItsSources(t *testing.T) {
	opens := noon.Add(time.Hour)
	for _, test := range []struct {
		name   string
		before *gatingv1.Gate
		change func(*gatingv1.Gate)
		want   bool
	}{
		{"that it has opened", saying(overridden("freeze", true, opens), noon), func(gate *gatingv1.Gate) { saying(gate, opens) }, true},
		{"that it opens at another time", saying(overridden("freeze", true, opens), noon), func(gate *gatingv1.Gate) {
			gate.Status.NextTransitionTime = &metav1.Time{Time: noon}
		}, true},
		{"what it holds does not", saying(overridden("freeze", true, opens), noon), func(gate *gatingv1.Gate) { gate.Status.Held = 1 }, false},
		{"nor what a gate without windows says: its sources were already woken", saying(gate("freeze", true), noon), func(gate *gatingv1.Gate) {
			conditions.MarkTrue(gate, gatingv1.OpenCondition, gatingv1.OpenReason, "")
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := test.before.DeepCopy()
			test.change(after)
			NewWithT(t).Expect(announcementChanged().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: after})).To(Equal(test.want))
		})
	}
}
