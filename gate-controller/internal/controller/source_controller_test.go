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
	"errors"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

var errRefused = errors.New("admission webhook denied the request")

func TestAHoldThatIsRefused(t *testing.T) {
	freeze := gate("freeze", false)
	chart := chart()
	chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	w := newWorld(t, freeze, chart)
	w.Expect(conditions.IsTrue(w.reconcile(t, chart), gatingv1.GatesOpenCondition)).To(BeTrue())
	told := func() metav1.Condition { return *conditions.Get(chart, gatingv1.GatesOpenCondition) }

	attempts := 0
	w.beforeApply = func() error {
		attempts++
		now := &source.HelmChart{}
		w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), now)).To(Succeed())
		w.Expect(conditions.IsFalse(now, gatingv1.GatesOpenCondition)).To(BeTrue(), "closed before the hold, and whatever becomes of it")
		return errRefused
	}
	w.edit(t, freeze, func() { freeze.Spec.Closed = true })
	w.Expect(w.tryReconcile(t, chart)).To(MatchError(errRefused), "so that it is tried again")
	w.Expect(chart.Spec.Suspend).To(BeFalse())
	w.Expect(told().Reason).To(Equal(gatingv1.HoldFailedReason))
	w.Expect(told().Message).To(Equal("setting spec.suspend failed: admission webhook denied the request; gate freeze is closed" + gatingv1.NewArtifactsBlocked))
	w.Expect(w.events.Events).To(Receive(Equal("Warning HoldFailed refused: " + strings.TrimSuffix(told().Message, gatingv1.NewArtifactsBlocked))))

	w.Expect(w.tryReconcile(t, chart)).To(MatchError(errRefused))
	w.Expect(attempts).To(Equal(2))
	w.Expect(w.events.Events).NotTo(Receive(), "that is no news")

	w.beforeApply = nil
	w.Expect(w.reconcile(t, chart).Gated().Spec.Suspend).To(BeTrue())
	w.Expect(told().Reason).To(Equal(gatingv1.GateClosedReason))
	w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))
}

func TestAnImageUpdateAutomationIsSuspendedAndNothingElse(t *testing.T) {
	freeze := gate("freeze", true)
	automation := &source.ImageUpdateAutomation{}
	automation.Namespace, automation.Name, automation.UID, automation.Generation = "default", "app", "automation", 1
	automation.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	automation.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	w := newWorld(t, freeze, automation)
	w.beforeApply = func() error { return errRefused }
	message := func() string { return conditions.GetMessage(automation, gatingv1.GatesOpenCondition) }
	w.Expect(w.tryReconcile(t, automation)).To(MatchError(errRefused))
	w.Expect(message()).To(Equal("setting spec.suspend failed: admission webhook denied the request; gate freeze is closed; image updates are not suspended"))

	w.beforeApply = nil
	w.Expect(w.reconcile(t, automation).Gated().Spec.Suspend).To(BeTrue())
	w.Expect(message()).To(Equal("gate freeze is closed; image updates are suspended"))

	w.edit(t, freeze, func() { freeze.Spec.Closed = false })
	w.Expect(w.reconcile(t, automation).Gated().Spec.Suspend).To(BeFalse())
	w.Expect(message()).To(Equal("gate freeze is open"))
	w.Expect(automation.Annotations).NotTo(HaveKey(meta.ReconcileRequestAnnotation), "the release itself triggers its controller")
}

func TestANewSourceHasItsConditionBeforeItIsSuspended(t *testing.T) {
	chart := chart()
	chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
	w := newWorld(t, gate("freeze", true), chart)
	w.beforeApply = func() error {
		now := &source.HelmChart{}
		w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(chart), now)).To(Succeed())
		w.Expect(conditions.IsFalse(now, gatingv1.GatesOpenCondition)).To(BeTrue())
		return nil
	}
	w.Expect(w.reconcile(t, chart).Gated().Spec.Suspend).To(BeTrue())
	w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))
	w.Expect(w.events.Events).NotTo(Receive(), "it is reported once")
	w.Expect(conditions.GetObservedGeneration(chart, gatingv1.GatesOpenCondition)).To(Equal(chart.Generation), "the hold has made that generation")
}

func TestAReleaseThatIsRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		release func(t *testing.T, w *world, freeze *gatingv1.Gate, chart *source.HelmChart)
		event   string
		why     string
	}{
		{"the gate was opened", func(t *testing.T, w *world, freeze *gatingv1.Gate, _ *source.HelmChart) {
			w.edit(t, freeze, func() { freeze.Spec.Closed = false })
		}, "Normal AllGatesOpen", "gate freeze is open"},
		{"the gate was taken off the source", func(t *testing.T, w *world, _ *gatingv1.Gate, chart *source.HelmChart) {
			w.edit(t, chart, func() { chart.Annotations = nil })
		}, "Warning GatesRemoved", "gates removed; last written by field manager "},
	} {
		t.Run(test.name, func(t *testing.T) {
			freeze := gate("freeze", true)
			chart := chart()
			chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
			w := newWorld(t, freeze, chart)
			w.Expect(w.reconcile(t, chart).Gated().Spec.Suspend).To(BeTrue())
			w.Expect(w.events.Events).To(Receive())

			w.beforeApply = func() error { return errRefused }
			test.release(t, w, freeze, chart)
			w.Expect(w.tryReconcile(t, chart)).To(MatchError(errRefused))
			w.Expect(chart.Spec.Suspend).To(BeTrue())
			told := conditions.Get(chart, gatingv1.GatesOpenCondition)
			w.Expect(told.Status).To(Equal(metav1.ConditionFalse))
			w.Expect(told.Reason).To(Equal(gatingv1.ReleaseFailedReason))
			w.Expect(told.Message).To(And(HavePrefix("releasing the source failed: admission webhook denied the request; "+test.why), HaveSuffix(gatingv1.NewArtifactsBlocked)))
			w.Expect(w.events.Events).To(Receive(Equal("Warning ReleaseFailed refused: " + strings.TrimSuffix(told.Message, gatingv1.NewArtifactsBlocked))))

			w.beforeApply = nil
			w.Expect(w.reconcile(t, chart).Gated().Spec.Suspend).To(BeFalse())
			w.Expect(w.events.Events).To(Receive(HavePrefix(test.event + " released: " + test.why)))
		})
	}
}

func TestGatesThatChangeDuringARelease(t *testing.T) {
	refs := func(gates ...gatingv1.GateReference) *gatingv1.GateReferences {
		return &gatingv1.GateReferences{Refs: gates}
	}
	for _, test := range []struct {
		name   string
		before bool
	}{
		{"of a source that is held", true},
		{"of a source that was never held", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			freeze := gate("freeze", test.before)
			repository := repository(func(r *source.HelmRepository) { r.Spec.Gates = refs("freeze") })
			w := newWorld(t, freeze, gate("closed", true), repository)
			if test.before {
				w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(BeTrue())
				w.edit(t, freeze, func() { freeze.Spec.Closed = false })
			}

			w.beforeApply = func() error {
				w.beforeApply = nil
				w.edit(t, repository, func() {
					repository.Spec.Gates = refs("closed")
					repository.Generation++
				})
				return nil
			}
			w.neverOpen = true
			w.reconcile(t, repository)
			w.Expect(w.beforeApply).To(BeNil(), "the gates were changed")
			w.Expect(repository.Spec.Suspend).To(BeTrue())
			w.Expect(conditions.GetMessage(repository, gatingv1.GatesOpenCondition)).To(Equal("gate closed is closed" + gatingv1.NewArtifactsBlocked))
		})
	}
}

func TestRequestsOfATurn(t *testing.T) {
	setGate := func(closed bool) func(*testing.T, *world, *source.GitRepository) {
		return func(t *testing.T, w *world, _ *source.GitRepository) {
			freeze := gate("freeze", false)
			w.edit(t, freeze, func() { freeze.Spec.Closed = closed })
		}
	}
	// artifact makes source-controller complete the generation of a release after a hold, and store a revision that was
	// refused.
	artifact := func(stored, published string) func(*source.GitRepository) {
		return func(obj *source.GitRepository) {
			obj.Status.Conditions = []metav1.Condition{
				{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: obj.Generation + 2},
				{Type: sourcev1.ArtifactInStorageCondition, Status: metav1.ConditionTrue, Message: "stored artifact for revision '" + stored + "'"},
			}
			obj.Status.Artifact = &source.Artifact{Revision: published}
		}
	}
	for _, test := range []struct {
		name   string
		closed bool
		status func(*source.GitRepository)
		then   func(*testing.T, *world, *source.GitRepository)
		want   []string
		event  string
	}{
		{"a gate that closes closes GatesOpen, and then suspends the source", false, nil, setGate(true),
			[]string{"patch status", "apply"}, "Normal GateClosed held: gate freeze is closed"},
		{"a gate that opens releases the source, and then opens GatesOpen", true, nil, setGate(false),
			[]string{"apply", "patch status"}, "Normal AllGatesOpen released: gate freeze is open"},
		{"a gate that opens wakes source-controller if its artifact was refused", true, artifact("v2", "v1"), setGate(false),
			[]string{"apply", "patch status", "patch"}, "Normal AllGatesOpen released: gate freeze is open"},
		{"a hold that someone has ended is placed again, and is no news", true, nil, func(t *testing.T, w *world, obj *source.GitRepository) {
			w.edit(t, obj, func() { obj.Spec.Suspend = false; obj.Generation++ })
		}, []string{"apply", "patch status"}, ""},
		{"a gate that stays as it is takes none", true, nil, setGate(true), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := &source.GitRepository{}
			app.Namespace, app.Name, app.UID, app.Generation = "default", "app", "app", 1
			app.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
			if test.status != nil {
				test.status(app)
			}
			w := newWorld(t, gate("freeze", test.closed), app)
			w.reconcile(t, app)
			for len(w.events.Events) > 0 {
				<-w.events.Events
			}

			test.then(t, w, app)
			w.requests = nil
			w.reconcile(t, app)
			w.Expect(w.requests).To(Equal(test.want))
			if test.event != "" {
				w.Expect(w.events.Events).To(Receive(Equal(test.event)))
			}
			w.Expect(w.events.Events).NotTo(Receive())
			w.Expect(conditions.GetObservedGeneration(app, gatingv1.GatesOpenCondition)).To(Equal(app.Generation))
		})
	}
}

func TestAHoldThatACrashComesBefore(t *testing.T) {
	for _, test := range []struct {
		name      string
		suspended bool
	}{
		{"of a source that nobody has suspended", false},
		{"of a source that a person has suspended", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := repository(func(r *source.HelmRepository) {
				r.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"}
				r.Spec.Suspend = test.suspended
			})
			w := newWorld(t, gate("freeze", true), app)
			_, err := w.reconciler(t, app).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(app)})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(w.requests).To(Equal([]string{"patch status"}))
			w.Expect(w.events.Events).NotTo(Receive(), "it is not held yet")

			w.Expect(hold.On(w.reconcile(t, app)).Suspend).To(BeTrue())
			w.Expect(w.requests).To(Equal([]string{"patch status", "apply"}), "what was written before the crash is not written again")
			w.Expect(w.events.Events).To(Receive(Equal("Normal GateClosed held: gate freeze is closed")))
			w.Expect(w.events.Events).NotTo(Receive())
		})
	}
}
