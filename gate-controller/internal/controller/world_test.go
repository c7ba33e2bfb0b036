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
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kuberecorder "k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

// world is a cluster with sources. Their CRDs have the field spec.gates until loseField removes it.
type world struct {
	*WithT
	client.Client
	// beforeApply, if set, runs before a source is held or released, which fails with its error.
	beforeApply func() error
	// cached, if set, changes a source that was read to what an outdated cache would return, or returns an error.
	cached func(source.Source) error
	// backstop is the answer to a new artifact.
	backstop error
	// neverOpen fails the test if a source gets GatesOpen=True.
	neverOpen bool
	// again is when a source that was left unchanged is reconciled again. It is 0 if only an event triggers that.
	again time.Duration
	// now is the clock.
	now func() time.Time
	// events are the recorded events.
	events *kuberecorder.FakeRecorder
	// requests are the requests to the API server, without events: writes, and reads that bypass the cache.
	requests []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
	g.Expect(source.AddToScheme(scheme)).To(Succeed())
	mapper := apimeta.NewDefaultRESTMapper(nil)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithReturnManagedFields().WithObjects(objects...)
	for _, kind := range source.Kinds {
		mapper.Add(kind.WithKind(kind.Name), apimeta.RESTScopeNamespace)
		builder.WithStatusSubresource(kind.New()).WithObjects(crd(definitionOf(kind)))
	}
	w := &world{WithT: g, now: time.Now, backstop: errors.New("denied request: new artifact blocked: gate default/freeze is closed"), events: kuberecorder.NewFakeRecorder(100)}
	w.Client = builder.WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			w.requests = append(w.requests, "apply")
			if w.beforeApply != nil {
				if err := w.beforeApply(); err != nil {
					return err
				}
			}
			return apply(ctx, c, obj.(applied), options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			w.requests = append(w.requests, "patch")
			return c.Patch(ctx, obj, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			w.requests = append(w.requests, "patch "+subresource)
			if slices.Contains(options, client.SubResourcePatchOption(client.DryRunAll)) {
				return w.backstop
			}
			err := c.SubResource(subresource).Patch(ctx, obj, patch, options...)
			g.Expect(w.neverOpen && conditions.IsTrue(obj.(source.Source), gatingv1.GatesOpenCondition)).To(BeFalse())
			return err
		},
	}).Build()
	return w
}

// applied is an object that is applied to a source.
type applied interface {
	client.Object
	runtime.ApplyConfiguration
	UnstructuredContent() map[string]any
}

// apply increments the generation of a source if it changes spec.suspend, and refuses too many annotations, as the API
// server does.
func apply(ctx context.Context, c client.Client, obj applied, options ...client.ApplyOption) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), stored); err != nil {
		return err
	}
	annotations := map[string]string{}
	maps.Copy(annotations, stored.GetAnnotations())
	delete(annotations, gatingv1.GatesOpenAnnotation)
	maps.Copy(annotations, obj.GetAnnotations())
	if err := validation.ValidateAnnotationsSize(annotations); err != nil {
		return apierrors.NewInvalid(stored.GroupVersionKind().GroupKind(), stored.GetName(), field.ErrorList{field.TooLong(field.NewPath("metadata", "annotations"), "", validation.TotalAnnotationSizeLimitB)})
	}
	before, _, _ := unstructured.NestedBool(stored.Object, "spec", "suspend")
	if err := c.Apply(ctx, obj, options...); err != nil {
		return err
	}
	if after, _, _ := unstructured.NestedBool(obj.UnstructuredContent(), "spec", "suspend"); after == before {
		return nil
	}
	next := client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op":"add","path":"/metadata/generation","value":%d}]`, stored.GetGeneration()+1))
	if err := c.Patch(ctx, stored, next); err != nil {
		return err
	}
	obj.SetGeneration(stored.GetGeneration())
	obj.SetResourceVersion(stored.GetResourceVersion())
	return nil
}

// definitionOf returns the name of a kind's CRD.
func definitionOf(kind source.Kind) string {
	resource, _ := apimeta.UnsafeGuessKindToResource(kind.WithKind(kind.Name))
	return resource.GroupResource().String()
}

// crd returns a CRD with spec.gates in the version that gate-controller reads.
func crd(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("apiextensions.k8s.io/v1")
	obj.SetKind("CustomResourceDefinition")
	obj.SetName(name)
	_ = unstructured.SetNestedSlice(obj.Object, []any{versionWithGates()}, "spec", "versions")
	return obj
}

func versionWithGates() map[string]any {
	version := map[string]any{"name": gatingv1.SourceGroupVersion.Version}
	_ = unstructured.SetNestedMap(version, map[string]any{"type": "object"}, "schema", "openAPIV3Schema", "properties", "spec", "properties", "gates")
	return version
}

// reconcile reconciles a source until nothing is left to do, and returns it.
func (w *world) reconcile(t *testing.T, obj source.Source) source.Source {
	t.Helper()
	w.Expect(w.tryReconcile(t, obj)).To(Succeed())
	return obj
}

// tryReconcile reconciles a source until nothing is left to do, or an error, and then reads it.
func (w *world) tryReconcile(t *testing.T, obj source.Source) error {
	t.Helper()
	r := w.reconciler(t, obj)
	key := client.ObjectKeyFromObject(obj)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	for err == nil && result.RequeueAfter == time.Second {
		result, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	}
	w.again = result.RequeueAfter
	w.Expect(w.Get(t.Context(), key, obj)).To(Succeed())
	return err
}

// reconciler returns the reconciler of a source's kind.
func (w *world) reconciler(t *testing.T, obj source.Source) *SourceReconciler {
	t.Helper()
	kind := source.Kinds[slices.IndexFunc(source.Kinds, func(kind source.Kind) bool {
		gvk, err := w.GroupVersionKindFor(obj)
		return err == nil && gvk.Kind == kind.Name
	})]
	return &SourceReconciler{
		Client: outdated{w.Client, w.cached}, Live: live{w}, Kind: kind, Kinds: source.Kinds, Selector: labels.Everything(), NoCrossNamespaceRefs: true, Now: w.now,
		Announcer: announce.To(w.Scheme(), w.events, &kuberecorder.FakeRecorder{}),
	}
}

// live reads past the cache.
type live struct{ *world }

func (l live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	l.requests = append(l.requests, "get")
	return l.Client.Get(ctx, key, obj, options...)
}

// outdated is a client with an outdated cache.
type outdated struct {
	client.Client
	cached func(source.Source) error
}

func (o outdated) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	err := o.Client.Get(ctx, key, obj, options...)
	if read, ok := obj.(source.Source); ok && err == nil && o.cached != nil {
		return o.cached(read)
	}
	return err
}

// edit changes an object as a user does.
func (w *world) edit(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	change()
	w.Expect(w.Update(t.Context(), obj)).To(Succeed())
}

// loseField removes spec.gates from a CRD, and from the source of its kind, as stock CRDs do.
func (w *world) loseField(t *testing.T, definition string, of source.Source) {
	t.Helper()
	w.setVersion(t, definition, map[string]any{"name": gatingv1.SourceGroupVersion.Version})
	w.edit(t, of, func() { of.Gated().Spec.Gates = nil })
}

// giveFieldBack adds spec.gates to a CRD again.
func (w *world) giveFieldBack(t *testing.T, definition string) {
	t.Helper()
	w.setVersion(t, definition, versionWithGates())
}

func (w *world) setVersion(t *testing.T, definition string, version map[string]any) {
	t.Helper()
	obj := crd(definition)
	w.edit(t, obj, func() { _ = unstructured.SetNestedSlice(obj.Object, []any{version}, "spec", "versions") })
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
	chart.Spec.SourceRef = &source.Reference{Kind: gatingv1.HelmRepositoryKind, Name: "charts"}
	return chart
}
