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

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestLastWriter(t *testing.T) {
	at := func(seconds int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 5, 4, 12, 0, seconds, 0, time.UTC)}
	}
	const unknown = "last written by an unknown field manager"
	for _, test := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		{"is the one whose write is the latest", []metav1.ManagedFieldsEntry{
			{Manager: "flux", Time: at(12)}, {Manager: "kustomize-controller", Time: at(11)},
		}, "last written by field manager flux at 2026-05-04T12:00:12Z"},
		{"is one of those that wrote in the same second", []metav1.ManagedFieldsEntry{
			{Manager: "flux", Time: at(12)}, {Manager: "kustomize-controller", Time: at(12)},
		}, "last written by field manager flux or kustomize-controller at 2026-05-04T12:00:12Z"},
		{"is not gate-controller itself, and not who writes the status", []metav1.ManagedFieldsEntry{
			{Manager: "flux", Time: at(11)}, {Manager: hold.Manager, Time: at(12)}, {Manager: waker, Time: at(12)},
			{Manager: "source-controller", Subresource: "status", Time: at(12)}, {Manager: "of unknown time"},
		}, "last written by field manager flux at 2026-05-04T12:00:11Z"},
		{"may have written in the second of the hold", []metav1.ManagedFieldsEntry{{Manager: "flux", Time: at(10)}},
			"last written by field manager flux at 2026-05-04T12:00:10Z"},
		{"is nobody who wrote before the hold: kubectl leaves no trace when it takes off the annotation that it has set",
			[]metav1.ManagedFieldsEntry{{Manager: "kustomize-controller", Time: at(9)}}, unknown},
		{"is nobody on record", nil, unknown},
		{"is shown on one line", []metav1.ManagedFieldsEntry{{Manager: "a\nb", Time: at(12)}},
			"last written by field manager a b at 2026-05-04T12:00:12Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(lastWriter(test.entries, *at(10))).To(Equal(test.want))
		})
	}
}

func TestGatesOfARepositoryThatAreRemovedWhileTheyHoldItsChart(t *testing.T) {
	for _, test := range []struct {
		name   string
		remove func(*testing.T, *world, *source.HelmRepository)
		want   string
	}{
		{"by someone who leaves no trace", func(t *testing.T, w *world, r *source.HelmRepository) {
			w.edit(t, r, func() { r.Annotations = nil })
		}, "gates removed from its HelmRepository; last written by an unknown field manager"},
		{"with the HelmRepository itself", func(t *testing.T, w *world, r *source.HelmRepository) {
			w.Expect(w.Delete(t.Context(), r)).To(Succeed())
		}, "gates removed from its HelmRepository; HelmRepository charts not found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			repository := repository(func(r *source.HelmRepository) { r.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"} })
			w := newWorld(t, gate("freeze", true), repository, chart())
			w.Expect(w.reconcile(t, chart()).Gated().Spec.Suspend).To(BeTrue())
			w.Expect(w.events.Events).To(Receive())

			test.remove(t, w, repository)
			w.Expect(w.reconcile(t, chart()).Gated().Spec.Suspend).To(BeFalse())
			w.Expect(w.events.Events).To(Receive(Equal("Warning GatesRemoved released: " + test.want)))
		})
	}
}

// 'flux create source' writes the whole spec, so it removes spec.suspend together with spec.gates.
func TestGatesThatAreRemovedTogetherWithTheHold(t *testing.T) {
	repository := repository(func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	w := newWorld(t, gate("freeze", true), repository)
	w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(BeTrue())
	w.Expect(w.events.Events).To(Receive())

	w.edit(t, repository, func() { repository.Spec.Gates, repository.Spec.Suspend = nil, false })
	w.reconcile(t, repository)
	w.Expect(w.events.Events).To(Receive(HavePrefix("Warning GatesRemoved released: gates removed; ")))
	w.reconcile(t, repository)
	w.Expect(w.events.Events).NotTo(Receive(), "that is no news")
}
