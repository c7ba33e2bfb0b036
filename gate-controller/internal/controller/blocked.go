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
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// ArtifactBlockedReason says that source-controller has fetched an artifact which the backstop keeps from being published.
const ArtifactBlockedReason = "ArtifactBlocked"

// blocked ends the message of a condition GatesOpen that is False. source-controller sets Ready before it writes the artifact.
const blocked = gatingv1.NewArtifactsBlocked + ", even if Ready names one"

// blockedArtifact is what source-controller says of an artifact that was refused while the gates of a source were closed. It is empty if none
// was.
func blockedArtifact(obj source.Source) string {
	stored := conditions.Get(obj, sourcev1.ArtifactInStorageCondition)
	if !conditions.IsFalse(obj, gatingv1.GatesOpenCondition) || stored == nil || stored.Status != metav1.ConditionTrue || published(obj.Gated().Status) {
		return ""
	}
	return plaintext.Cut(plaintext.Line(stored.Message), longestError)
}

// describeBlocked tells of the artifact that was refused, which Ready names, and of the one that is published.
func describeBlocked(artifact string, obj source.Source) string {
	if published := obj.Gated().Status.Artifact; published != nil {
		return fmt.Sprintf("%s was refused; %s stays published", artifact, published.Revision)
	}
	return artifact + " was refused; nothing is published"
}

// blockedBy ends the message of a condition GatesOpen that is False.
func blockedBy(obj source.Source) string {
	if artifact := blockedArtifact(obj); artifact != "" {
		return fmt.Sprintf("%s, though Ready names one: %s", gatingv1.NewArtifactsBlocked, describeBlocked(artifact, obj))
	}
	return blocked
}

// announceBlocked tells of an artifact that was refused.
func (r *SourceReconciler) announceBlocked(obj source.Source, artifact string, evaluation gatingv1.Evaluation) {
	r.Event(obj, corev1.EventTypeNormal, ArtifactBlockedReason, fmt.Sprintf("blocked: %s: %s", describeBlocked(artifact, obj), evaluation.Message))
}

// blockedChanged passes updates after which another artifact is blocked than before, or none.
func blockedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(source.Source)
		after, afterOK := e.ObjectNew.(source.Source)
		return beforeOK && afterOK && blockedArtifact(before) != blockedArtifact(after)
	}}
}
