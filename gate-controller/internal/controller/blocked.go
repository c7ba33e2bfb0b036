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

// ArtifactBlockedReason means that source-controller fetched an artifact and the backstop refused it.
const ArtifactBlockedReason = "ArtifactBlocked"

// blockedArtifact returns how source-controller describes an artifact that was refused while the gates were closed. It
// is empty if none was refused.
func blockedArtifact(obj source.Source) string {
	stored := conditions.Get(obj, sourcev1.ArtifactInStorageCondition)
	if !conditions.IsFalse(obj, gatingv1.GatesOpenCondition) || stored == nil || stored.Status != metav1.ConditionTrue || published(obj.Gated().Status) {
		return ""
	}
	return plaintext.Cut(plaintext.Line(stored.Message), longestError)
}

// choose says how to make a source offer a revision that may pass. Buckets and HelmRepositories can't choose one.
func choose(obj source.Source) string {
	switch obj.(type) {
	case *source.GitRepository, *source.OCIRepository:
		return ": set spec.ref to one of them"
	case *source.HelmChart:
		return ": set spec.version to one of them"
	}
	return ""
}

// describeBlocked names the artifact that was refused, the one that is published, and what may pass instead.
func describeBlocked(artifact string, obj source.Source, passes []gatingv1.PassInForce) string {
	text := artifact + " was refused; nothing is published"
	if published := obj.Gated().Status.Artifact; published != nil {
		text = fmt.Sprintf("%s was refused; %s is still published", artifact, plaintext.Cut(published.Revision, longestError))
	}
	if len(passes) > 0 {
		text += fmt.Sprintf("; passes in force are for other revisions (%s)%s", plaintext.Cut(describePasses(passes), longestError), choose(obj))
	}
	return text
}

// blockedBy returns the end of the message of GatesOpen=False.
func blockedBy(artifact string, obj source.Source, gating *gating) string {
	if artifact != "" {
		return gatingv1.NewArtifactsBlocked + ": " + describeBlocked(artifact, obj, gating.passes)
	}
	return effect(obj, gating.Reason)
}

// effect says what the gates of a source do while they are not open, for a reason.
func effect(obj source.Source, reason string) string {
	switch {
	case !source.CommitsImages(obj):
		return gatingv1.NewArtifactsBlocked
	case reason == gatingv1.HoldFailedReason:
		return "; image updates are not suspended"
	}
	return "; image updates are suspended"
}

// announceBlocked emits the event for a refused artifact.
func (r *SourceReconciler) announceBlocked(obj source.Source, artifact string, gating *gating) {
	r.Event(obj, corev1.EventTypeNormal, ArtifactBlockedReason, fmt.Sprintf("blocked: %s: %s", describeBlocked(artifact, obj, gating.passes), gating.Message))
}

// blockedChanged passes updates that change which artifact is blocked.
func blockedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(source.Source)
		after, afterOK := e.ObjectNew.(source.Source)
		return beforeOK && afterOK && blockedArtifact(before) != blockedArtifact(after)
	}}
}
