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
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// artifactGenerators are the objects from which source-watcher makes ExternalArtifacts.
var artifactGenerators = schema.GroupKind{Group: "source.extensions.fluxcd.io", Kind: "ArtifactGenerator"}

// annotate writes the annotations that the backstop reads instead of a condition. source-watcher applies the whole list
// of conditions, so another one would conflict with it forever.
func (r *SourceReconciler) annotate(ctx context.Context, obj *source.ExternalArtifact, gating *gating) error {
	before, after := conditions.Get(obj, gatingv1.GatesOpenCondition), obj.DeepCopy()
	told := &metav1.Condition{
		Type: gatingv1.GatesOpenCondition, Status: metav1.ConditionTrue, Reason: gating.Reason, Message: gating.Message,
		ObservedGeneration: obj.Generation,
	}
	claim := hold.Claim{Suspend: !gating.Open, OpenFor: gatingv1.OpenFor(obj)}
	if !gating.Open {
		claim.OpenFor = hold.NotOpen
		told.Status, told.Message = metav1.ConditionFalse, gating.Message+effect(obj, gating.Reason)
	}
	conditions.Set(after, told)
	claim.GatesOpen = after.Annotations[gatingv1.GatesOpenAnnotation]
	if was := hold.On(obj); was != claim {
		err := hold.Apply(ctx, r.Client, obj, claim)
		if apierrors.IsInvalid(err) && !gating.Open {
			// Other annotations may leave no room for the condition, which the backstop does not need.
			claim.GatesOpen = ""
			err = hold.Apply(ctx, r.Client, obj, claim)
		}
		if err != nil {
			return r.notAnnotated(ctx, obj, gating, err)
		}
		if was != claim && (before == nil && !gating.Open || before != nil && (before.Status != told.Status || before.Reason != told.Reason)) {
			r.announce(ctx, obj, gating.Evaluation)
		}
	}
	if !gating.Open {
		return nil
	}
	return r.wakeGenerator(ctx, obj)
}

// notAnnotated reports that the annotations could not be written. Only an event can report it.
func (r *SourceReconciler) notAnnotated(ctx context.Context, obj source.Source, gating *gating, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return err
	}
	reason := gatingv1.HoldFailedReason
	if gating.Open {
		reason = gatingv1.ReleaseFailedReason
	}
	err = fmt.Errorf("setting the annotations failed: %w", err)
	r.announce(ctx, obj, but(gating.Evaluation, reason, plaintext.Cut(err.Error(), longestError)))
	return err
}

// removeAnnotations removes the annotations from an ExternalArtifact that has no gates. If someone else owns them too,
// a release leaves them, and they would count again once the same gates are named.
func (r *SourceReconciler) removeAnnotations(ctx context.Context, obj source.Source) error {
	if obj.GetAnnotations()[gatingv1.OpenForAnnotation] == "" && obj.GetAnnotations()[gatingv1.GatesOpenAnnotation] == "" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null}}}`, gatingv1.OpenForAnnotation, gatingv1.GatesOpenAnnotation)
	if err := r.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(hold.Manager)); err != nil {
		return fmt.Errorf("removing the annotations failed: %w", err)
	}
	return nil
}

// wakeGenerator requests a reconciliation by source-watcher if its last one has not succeeded, because the backstop may
// have refused the artifact. Otherwise source-watcher would wait up to 15 minutes after refusals.
func (r *SourceReconciler) wakeGenerator(ctx context.Context, obj *source.ExternalArtifact) error {
	ref := obj.Spec.SourceRef
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() != artifactGenerators {
		return nil
	}
	generator := &unstructured.Unstructured{}
	generator.SetAPIVersion(ref.APIVersion)
	generator.SetKind(ref.Kind)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: ref.Name}, generator)
	if apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the ArtifactGenerator failed: %w", err)
	}
	if conditions.IsTrue(conditions.UnstructuredGetter(generator), meta.ReadyCondition) {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, time.Now().Format(time.RFC3339Nano))
	if err := r.Patch(ctx, generator, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(waker)); err != nil {
		return fmt.Errorf("triggering source-watcher failed: %w", err)
	}
	return nil
}
