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
	"slices"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		{"it is an OCI repository whose CRD has lost the field", func(r *source.HelmRepository) { bySpec(r); r.Spec.Type = sourcev1.HelmRepositoryTypeOCI }, func(t *testing.T, w *world, r *source.HelmRepository) {
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

			w.edit(t, repository, func() { repository.Spec.Type = sourcev1.HelmRepositoryTypeOCI })
			w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(Equal(test.person))
		})
	}
}

func TestAHeldSourceWhoseCRDHasLostTheFieldIsResumed(t *testing.T) {
	gates := &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	for _, kind := range source.Kinds {
		if !slices.Contains(gatingv1.SourceKinds, kind.Name) {
			continue // its gates are in annotations
		}
		t.Run(kind.Name, func(t *testing.T) {
			obj := kind.New()
			obj.SetNamespace("default")
			obj.SetName("app")
			obj.SetUID("app")
			obj.SetGeneration(1)
			obj.Gated().Spec.Gates = gates
			w := newWorld(t, gate("freeze", true), obj)
			w.Expect(w.reconcile(t, obj).Gated().Spec.Suspend).To(BeTrue())
			definition := definitionOf(kind)
			w.loseField(t, definition, obj)
			testStaysClosed(t, w, obj, definition)
		})
	}
	t.Run("HelmChart of a HelmRepository", func(t *testing.T) {
		repository := repository(func(r *source.HelmRepository) { r.Spec.Gates = gates })
		w := newWorld(t, gate("freeze", true), repository, chart())
		chart := w.reconcile(t, chart())
		w.Expect(chart.Gated().Spec.Suspend).To(BeTrue())
		const definition = "helmrepositories.source.toolkit.fluxcd.io"
		w.loseField(t, definition, repository)
		testStaysClosed(t, w, chart, definition)
	})
	t.Run("that has open gates in an annotation too", func(t *testing.T) {
		repository := repository(func(r *source.HelmRepository) {
			r.Annotations = map[string]string{gatingv1.GatesAnnotation: "open"}
			r.Spec.Gates = gates
		})
		w := newWorld(t, gate("freeze", true), gate("open", false), repository)
		w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(BeTrue())
		const definition = "helmrepositories.source.toolkit.fluxcd.io"
		w.loseField(t, definition, repository)
		testStaysClosed(t, w, repository, definition)
	})
}

// testStaysClosed resumes a held source while its CRD lacks the field, and after the field is back.
func testStaysClosed(t *testing.T, w *world, obj source.Source, definition string) {
	t.Helper()
	for _, field := range []string{"lost", "back"} {
		if field == "back" {
			w.giveFieldBack(t, definition)
		}
		w.edit(t, obj, func() { obj.Gated().Spec.Suspend = false })
		w.reconcile(t, obj)
		w.Expect(obj.Gated().Spec.Suspend).To(BeTrue(), "with the field %s", field)
		w.Expect(conditions.IsFalse(obj, gatingv1.GatesOpenCondition)).To(BeTrue())
		w.Expect(conditions.GetReason(obj, gatingv1.GatesOpenCondition)).To(Equal(GatesFieldLostReason))
	}
}

func TestAnOpenSourceWhoseCRDHasLostTheFieldStaysOpen(t *testing.T) {
	repository := repository(func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	w := newWorld(t, gate("freeze", false), repository)
	w.Expect(conditions.IsTrue(w.reconcile(t, repository), gatingv1.GatesOpenCondition)).To(BeTrue())
	w.loseField(t, "helmrepositories.source.toolkit.fluxcd.io", repository)
	w.reconcile(t, repository)
	w.Expect(conditions.IsTrue(repository, gatingv1.GatesOpenCondition)).To(BeTrue())
	w.Expect(conditions.GetReason(repository, gatingv1.GatesOpenCondition)).To(Equal(GatesFieldLostReason))
	w.Expect(repository.Spec.Suspend).To(BeFalse())
}

func TestGatesThatAreLeftCloseASourceWhoseCRDHasLostTheField(t *testing.T) {
	repository := repository(func(r *source.HelmRepository) {
		r.Annotations = map[string]string{gatingv1.GatesAnnotation: "left"}
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	w := newWorld(t, gate("freeze", false), gate("left", true), repository)
	w.Expect(conditions.IsTrue(w.reconcile(t, repository), gatingv1.GatesOpenCondition)).To(BeTrue())
	w.loseField(t, "helmrepositories.source.toolkit.fluxcd.io", repository)
	w.Expect(w.reconcile(t, repository).Gated().Spec.Suspend).To(BeTrue())
	w.Expect(conditions.IsFalse(repository, gatingv1.GatesOpenCondition)).To(BeTrue())
}

// A field that a CRD hid returns with the CRD if no one has written the object meanwhile. There is no event for that.
func TestGatesThatTheCacheMissesCount(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects func() (obj source.Source, all []client.Object)
	}{
		{"of a source", func() (source.Source, []client.Object) {
			repository := repository(func(r *source.HelmRepository) {
				r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
			})
			return repository, []client.Object{repository}
		}},
		{"of a chart's OCI repository", func() (source.Source, []client.Object) {
			repository := repository(func(r *source.HelmRepository) {
				r.Spec.Type = sourcev1.HelmRepositoryTypeOCI
				r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
			})
			chart := chart()
			return chart, []client.Object{chart, repository}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			freeze := gate("freeze", false)
			obj, all := test.objects()
			w := newWorld(t, append(all, freeze)...)
			w.Expect(conditions.IsTrue(w.reconcile(t, obj), gatingv1.GatesOpenCondition)).To(BeTrue())

			w.cached = func(obj source.Source) error {
				obj.Gated().Spec.Gates = nil
				return nil
			}
			w.reconcile(t, obj)
			w.Expect(conditions.GetReason(obj, gatingv1.GatesOpenCondition)).To(Equal(gatingv1.AllGatesOpenReason))
			w.Expect(w.again).To(Equal(recheckInterval), "nothing else shows that the gate is closed")
			w.edit(t, freeze, func() { freeze.Spec.Closed = true })
			w.Expect(w.reconcile(t, obj).Gated().Spec.Suspend).To(BeTrue())
			w.Expect(conditions.GetReason(obj, gatingv1.GatesOpenCondition)).To(Equal(gatingv1.GateClosedReason))
		})
	}
}

// The cache of HelmRepositories may be behind that of HelmCharts.
func TestAChartWhoseRepositoryTheCacheMisses(t *testing.T) {
	repository := repository(func(r *source.HelmRepository) {
		r.Spec.Gates = &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	})
	chart := chart()
	chart.Annotations = map[string]string{gatingv1.GatesAnnotation: "open"}
	w := newWorld(t, gate("freeze", true), gate("open", false), repository, chart)
	w.cached = func(obj source.Source) error {
		if obj.GetName() == repository.Name {
			return apierrors.NewNotFound(schema.GroupResource{}, obj.GetName())
		}
		return nil
	}
	w.neverOpen = true
	w.Expect(w.reconcile(t, chart).Gated().Spec.Suspend).To(BeTrue())
}
