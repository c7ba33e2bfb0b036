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

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kuberecorder "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// world is a cluster with sources, the CRDs of which have the field spec.gates until they lose it.
type world struct {
	*WithT
	client.Client
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
	g.Expect(source.AddToScheme(scheme)).To(Succeed())
	mapper := meta.NewDefaultRESTMapper(nil)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithReturnManagedFields().WithObjects(objects...)
	for _, kind := range source.Kinds {
		gvk := source.GroupVersion.WithKind(kind.Name)
		mapper.Add(gvk, meta.RESTScopeNamespace)
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		builder.WithStatusSubresource(kind.New()).WithObjects(crd(resource.GroupResource().String()))
	}
	return &world{WithT: g, Client: builder.Build()}
}

// crd has spec.gates in the version that is read.
func crd(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("apiextensions.k8s.io/v1")
	obj.SetKind("CustomResourceDefinition")
	obj.SetName(name)
	version := map[string]any{"name": source.GroupVersion.Version}
	_ = unstructured.SetNestedMap(version, map[string]any{"type": "object"}, "schema", "openAPIV3Schema", "properties", "spec", "properties", "gates")
	_ = unstructured.SetNestedSlice(obj.Object, []any{version}, "spec", "versions")
	return obj
}

// reconcile has a source looked at until nothing is left to do, and returns it.
func (w *world) reconcile(t *testing.T, obj source.Source) source.Source {
	t.Helper()
	kind := source.Kinds[slices.IndexFunc(source.Kinds, func(kind source.Kind) bool {
		gvk, err := w.GroupVersionKindFor(obj)
		return err == nil && gvk.Kind == kind.Name
	})]
	r := &SourceReconciler{
		Client: w.Client, Live: w.Client, Kind: kind, Selector: labels.Everything(), NoCrossNamespaceRefs: true,
		Announcer: &Announcer{kubernetes: &kuberecorder.FakeRecorder{}, flux: &kuberecorder.FakeRecorder{}, pending: make(chan struct{}, mostPending)},
	}
	key := client.ObjectKeyFromObject(obj)
	for again := true; again; {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		w.Expect(err).NotTo(HaveOccurred())
		again = result != ctrl.Result{}
	}
	w.Expect(w.Get(t.Context(), key, obj)).To(Succeed())
	return obj
}

// edit changes an object as a person does.
func (w *world) edit(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	change()
	w.Expect(w.Update(t.Context(), obj)).To(Succeed())
}

// loseField takes spec.gates from a CRD, and from the source of its kind, as stock CRDs do.
func (w *world) loseField(t *testing.T, crdName string, of source.Source) {
	t.Helper()
	definition := crd(crdName)
	w.edit(t, definition, func() {
		_ = unstructured.SetNestedSlice(definition.Object, []any{map[string]any{"name": source.GroupVersion.Version}}, "spec", "versions")
	})
	w.edit(t, of, func() { of.Gated().Spec.Gates = nil })
}

func gate(name string, closed bool) *gatingv1.Gate {
	gate := &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: closed}}
	gate.Namespace, gate.Name = "default", name
	return gate
}

func repository(change func(*source.HelmRepository)) *source.HelmRepository {
	repository := &source.HelmRepository{}
	repository.Namespace, repository.Name, repository.UID = "default", "charts", types.UID("repository")
	repository.Generation = 1
	change(repository)
	return repository
}

func chart() *source.HelmChart {
	chart := &source.HelmChart{}
	chart.Namespace, chart.Name, chart.UID = "default", "app", types.UID("chart")
	chart.Generation = 1
	chart.Spec.SourceRef = &source.Reference{Kind: source.HelmRepositoryKind, Name: "charts"}
	return chart
}
