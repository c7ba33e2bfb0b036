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

// Package hold sets and reads what Sluice owns of a source, above all spec.suspend. It relies on the shared ownership
// of fields in server-side apply: a hold applies 'suspend: true' as the field manager gate-controller, and a release
// applies the same object without the field. If someone else suspended the source too, they also own the field, so the
// source stays suspended after the release.
package hold

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// Manager is the field manager that holds sources.
const Manager = gatingv1.HoldingManager

var (
	suspendPath   = fieldpath.MakePathOrDie("spec", "suspend")
	inheritedPath = fieldpath.MakePathOrDie("metadata", "annotations", gatingv1.InheritedGatesAnnotation)
	gatedByPath   = fieldpath.MakePathOrDie("metadata", "annotations", gatingv1.GatedByAnnotation)
	openForPath   = fieldpath.MakePathOrDie("metadata", "annotations", gatingv1.OpenForAnnotation)
	gatesOpenPath = fieldpath.MakePathOrDie("metadata", "annotations", gatingv1.GatesOpenAnnotation)
)

// NotOpen is the value of OpenForAnnotation while the gates are not open. It is never OpenFor an object. Without it, a
// value that someone else owns too would remain after the gates closed.
const NotOpen = "-"

// Claim is Sluice's ownership of a source's fields.
type Claim struct {
	// Suspend is the hold: Manager has set spec.suspend to true. An ExternalArtifact does not have that field. It is
	// held while OpenFor is NotOpen or absent.
	Suspend bool
	// Inherited is the value of InheritedGatesAnnotation.
	Inherited string
	// BySpec reports whether GatedByAnnotation is set.
	BySpec bool
	// OpenFor and GatesOpen are the values of OpenForAnnotation and GatesOpenAnnotation.
	OpenFor, GatesOpen string
}

// On returns the claim on a source.
func On(source client.Object) Claim {
	var claim Claim
	for _, entry := range source.GetManagedFields() {
		if !isOurs(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue
		}
		claim.Suspend = fields.Has(suspendPath)
		claim.BySpec = fields.Has(gatedByPath)
		annotations := source.GetAnnotations()
		if fields.Has(inheritedPath) {
			claim.Inherited = annotations[gatingv1.InheritedGatesAnnotation]
		}
		if fields.Has(openForPath) {
			claim.OpenFor = annotations[gatingv1.OpenForAnnotation]
		}
		if fields.Has(gatesOpenPath) {
			claim.GatesOpen = annotations[gatingv1.GatesOpenAnnotation]
		}
		if claim.OpenFor != "" || claim.GatesOpen != "" {
			claim.Suspend = claim.OpenFor == "" || claim.OpenFor == NotOpen
		}
	}
	return claim
}

// Apply changes the claim on a source, and updates source to what the API server returns. A hold is applied even if the
// source has changed since it was read. A release fails with a conflict in that case.
func Apply(ctx context.Context, c client.Client, source client.Object, claim Claim) error {
	kind, err := apiutil.GVKForObject(source, c.Scheme())
	if err != nil {
		return err
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	wanted.SetGroupVersionKind(kind)
	wanted.SetNamespace(source.GetNamespace())
	wanted.SetName(source.GetName())
	// Without the UID, Apply would create a source that was deleted a moment ago.
	wanted.SetUID(source.GetUID())
	if On(source).Suspend && !claim.Suspend {
		wanted.SetResourceVersion(source.GetResourceVersion())
	}
	annotations := map[string]string{
		gatingv1.InheritedGatesAnnotation: claim.Inherited,
		gatingv1.OpenForAnnotation:        claim.OpenFor,
		gatingv1.GatesOpenAnnotation:      claim.GatesOpen,
	}
	if claim.BySpec {
		annotations[gatingv1.GatedByAnnotation] = gatingv1.GatedBySpec
	}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	if len(annotations) > 0 {
		wanted.SetAnnotations(annotations)
	}
	if claim.Suspend && kind.Kind != gatingv1.ExternalArtifactKind {
		wanted.Object["spec"] = map[string]any{"suspend": true}
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(Manager), client.ForceOwnership)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, source)
}

// TrimManagedFields is a cache transform that removes all managed fields except the entry that On reads. Gates keep all
// of theirs, because they show whether a gate's reason still belongs to its state.
func TrimManagedFields(in any) (any, error) {
	obj, ok := in.(client.Object)
	if _, isGate := in.(*gatingv1.Gate); !ok || isGate {
		return in, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range obj.GetManagedFields() {
		if isOurs(entry) {
			kept = append(kept, entry)
		}
	}
	obj.SetManagedFields(kept)
	return in, nil
}

func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}
