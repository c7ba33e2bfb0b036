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

// Package hold is Sluice's claim on spec.suspend of a source. It rests on the shared ownership of fields in server-side apply:
// a hold applies 'suspend: true' in the name of the gate-controller, a release applies the same object without the field.
// Whoever else has suspended the source owns the field too, so that it stays suspended when the hold is released.
package hold

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Manager is the field manager in whose name sources are held.
const Manager = "gate-controller"

var suspend = fieldpath.MakePathOrDie("spec", "suspend")

// Held tells whether the hold is on the source: whether spec.suspend is owned in the name of Manager.
func Held(source client.Object) bool {
	for _, entry := range source.GetManagedFields() {
		if !isHold(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err == nil && fields.Has(suspend) {
			return true
		}
	}
	return false
}

// Place puts the hold on the source, which is then as the API server has it.
func Place(ctx context.Context, c client.Client, source client.Object) error {
	return apply(ctx, c, source, map[string]any{"suspend": true})
}

// Release takes the hold off the source, which is then as the API server has it.
func Release(ctx context.Context, c client.Client, source client.Object) error {
	return apply(ctx, c, source, nil)
}

func apply(ctx context.Context, c client.Client, source client.Object, spec map[string]any) error {
	kind, err := apiutil.GVKForObject(source, c.Scheme())
	if err != nil {
		return err
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	wanted.SetGroupVersionKind(kind)
	wanted.SetNamespace(source.GetNamespace())
	wanted.SetName(source.GetName())
	// Apply would create a source that was deleted a moment ago; with the UID it fails instead.
	wanted.SetUID(source.GetUID())
	if spec != nil {
		wanted.Object["spec"] = spec
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(Manager), client.ForceOwnership)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, source)
}

// TrimManagedFields is a cache transform that keeps of the managed fields only the entry that Held reads.
func TrimManagedFields(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range obj.GetManagedFields() {
		if isHold(entry) {
			kept = append(kept, entry)
		}
	}
	obj.SetManagedFields(kept)
	return in, nil
}

func isHold(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}
