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

	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestAChartWhoseRepositoryLosesItsGates(t *testing.T) {
	bySpec := func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	}
	byAnnotation := func(r *source.HelmRepository) { r.Annotations = map[string]string{gatingv1.GatesAnnotation: "freeze"} }

	for _, test := range []struct {
		name       string
		repository func(*source.HelmRepository)
		lose       func(*testing.T, *world, *source.HelmRepository)
		held       bool
		reason     string
	}{
		{"they were taken out of its spec", bySpec, func(t *testing.T, w *world, r *source.HelmRepository) {
			w.edit(t, r, func() { r.Spec.Gates = nil })
		}, false, ""},
		{"its annotation was taken off", byAnnotation, func(t *testing.T, w *world, r *source.HelmRepository) {
			w.edit(t, r, func() { r.Annotations = nil })
		}, false, ""},
		{"its annotation was taken off, in a cluster with stock CRDs", byAnnotation, func(t *testing.T, w *world, r *source.HelmRepository) {
			w.loseField(t, "helmrepositories.source.toolkit.fluxcd.io", r)
			w.edit(t, r, func() { r.Annotations = nil })
		}, false, ""},
		{"its CRD has lost the field", bySpec, func(t *testing.T, w *world, r *source.HelmRepository) {
			w.loseField(t, "helmrepositories.source.toolkit.fluxcd.io", r)
		}, true, GatesFieldLostReason},
		{"it is an OCI repository whose CRD has lost the field", func(r *source.HelmRepository) { bySpec(r); r.Spec.Type = "oci" }, func(t *testing.T, w *world, r *source.HelmRepository) {
			w.loseField(t, "helmrepositories.source.toolkit.fluxcd.io", r)
		}, true, GatesFieldLostReason},
	} {
		t.Run(test.name, func(t *testing.T) {
			repository := repository(test.repository)
			w := newWorld(t, gate("freeze", true), repository, chart())
			w.Expect(w.reconcile(t, chart()).Gated().Spec.Suspend).To(BeTrue())

			test.lose(t, w, repository)
			after := w.reconcile(t, chart())
			w.Expect(after.Gated().Spec.Suspend).To(Equal(test.held))
			w.Expect(conditions.GetReason(after, gatingv1.GatesOpenCondition)).To(Equal(test.reason))
		})
	}
}

func TestARepositoryThatBecomesAnOCIRepositoryIsNotSuspended(t *testing.T) {
	for _, test := range []struct {
		name   string
		person bool
	}{
		{"by its gates", false},
		{"unless a person has suspended it", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			repository := repository(func(r *source.HelmRepository) {
				r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
				r.Spec.Suspend = test.person
			})
			w := newWorld(t, gate("freeze", true), repository)
			w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(BeTrue())

			w.edit(t, repository, func() { repository.Spec.Type = "oci" })
			w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(Equal(test.person))
		})
	}
}
