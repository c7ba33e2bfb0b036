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
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// waker is the field manager of the requests to source-controller. They are not part of the claim, which is removed
// together with the gates.
const waker = "gate-controller-wake"

// wake requests a reconciliation by source-controller if the backstop refused an artifact before GatesOpen was True.
// Otherwise source-controller would wait up to 15 minutes after refusals, because a changed condition does not trigger
// it. before is the previous condition GatesOpen.
func (r *SourceReconciler) wake(ctx context.Context, obj source.Source, before *metav1.Condition) error {
	if source.CommitsImages(obj) || obj.Gated().Spec.Suspend || !finished(obj) || !wasRefused(obj, !isOpenFor(before, obj.GetGeneration())) {
		return nil
	}
	asleep := obj.DeepCopyObject().(source.Source)
	annotations := map[string]string{meta.ReconcileRequestAnnotation: time.Now().Format(time.RFC3339Nano)}
	for key, value := range obj.GetAnnotations() {
		if key != meta.ReconcileRequestAnnotation {
			annotations[key] = value
		}
	}
	obj.SetAnnotations(annotations)
	if err := r.Patch(ctx, obj, client.MergeFrom(asleep), client.FieldOwner(waker)); err != nil {
		return fmt.Errorf("triggering source-controller: %w", err)
	}
	return nil
}

// finished reports whether source-controller has completed the current generation. It writes its conditions before the
// artifact, so they say so even if the artifact was refused. While it is still working, it needs no request to publish.
func finished(obj source.Source) bool {
	ready := conditions.Get(obj, meta.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == obj.GetGeneration() &&
		!conditions.Has(obj, meta.ReconcilingCondition)
}

// wasRefused reports whether the result of that work did not reach the status. opened means that GatesOpen has just
// become True. If it was True before, gate-controller may have stopped before it made the request, or a gate may have
// closed and opened while it was down. A pending request is not repeated in that case.
func wasRefused(obj source.Source, opened bool) bool {
	status := obj.Gated().Status
	requested := obj.GetAnnotations()[meta.ReconcileRequestAnnotation] != status.LastHandledReconcileAt
	switch {
	case status.ObservedGeneration < obj.GetGeneration():
		return opened || !requested
	case opened:
		return !published(status)
	}
	stored := apimeta.IsStatusConditionTrue(status.Conditions, sourcev1.ArtifactInStorageCondition)
	return stored && !published(status) && !requested
}

// published reports whether the conditions name the artifact in the status.
func published(status source.Status) bool {
	stored := apimeta.FindStatusCondition(status.Conditions, sourcev1.ArtifactInStorageCondition)
	return status.Artifact != nil && stored != nil && names(stored.Message, status.Artifact.Revision)
}

// names reports whether a message of source-controller names a revision. It puts revisions in quotes. A digest alone
// names every revision that ends with it.
func names(message, revision string) bool {
	return strings.Contains(message, "'"+revision+"'") || strings.Contains(message, "@"+revision+"'")
}

// isOpenFor reports whether a condition GatesOpen is True for a generation.
func isOpenFor(condition *metav1.Condition, generation int64) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == generation
}
