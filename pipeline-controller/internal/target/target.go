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

// Package target reads what an application object runs and whether it is ready.
package target

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-toolkit/sluice/api/revision"
)

// State is what is known of one target.
type State struct {
	// Known is false when the application object could not be read. Nothing may be concluded from such a target.
	Known bool
	// Ready is true if the application object's Ready condition is True for its current generation.
	Ready bool
	// Reconciling is true if that condition is Unknown: its controller is at work on it.
	Reconciling bool
	// Revision is the one that the application object runs; empty if it never applied any.
	Revision string
	// Message says why the target isn't known or isn't ready. Empty otherwise.
	Message string
	// Reason is one word for why the target isn't known, of those in pipelinesv1. Empty if it is.
	Reason string
	// Since is from when on the target has not been known for that reason. Zero where that isn't told.
	Since time.Time
	// Object refers to the application object, for events about it. It is zero if the target isn't known, and for objects of other
	// clusters, where nobody could be told of an event.
	Object corev1.ObjectReference
}

const (
	// longestMessage, in characters, bounds what is quoted of an application object's condition.
	longestMessage = 500
	// longestRevision, in bytes, is more than any tool writes.
	longestRevision = 500
	// trackedDigits is how many digits of an artifact's digest helm-controller puts into a chart's version.
	trackedDigits = 12
)

// Unknown is the state of a target that could not be read.
func Unknown(message string) State { return State{Message: cut(message)} }

// UnknownBecause is the state of a target that could not be read for a reason that has a name, and since when.
func UnknownBecause(reason, message string, since time.Time) State {
	state := Unknown(message)
	state.Reason, state.Since = reason, since
	return state
}

// revisionOf maps a kind to how its revision is read. Kinds that aren't listed have it in status.lastAppliedRevision.
var revisionOf = map[schema.GroupKind]func(obj *unstructured.Unstructured) string{
	{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}: helmReleaseRevision,
}

// StateOf takes an application object's state from what the API server holds of it.
func StateOf(obj *unstructured.Unstructured) State {
	extract, ok := revisionOf[obj.GroupVersionKind().GroupKind()]
	if !ok {
		extract = lastAppliedRevision
	}
	revision := extract(obj)
	if len(revision) > longestRevision {
		return Unknown("the revision in its status is too long to be one")
	}
	status, message := readiness(obj)
	return State{
		Known:       true,
		Ready:       status == metav1.ConditionTrue,
		Reconciling: status == metav1.ConditionUnknown,
		Revision:    revision,
		Message:     cut(message),
		Object: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
	}
}

func cut(message string) string {
	if runes := []rune(message); len(runes) > longestMessage {
		return string(runes[:longestMessage]) + "…"
	}
	return message
}

func lastAppliedRevision(obj *unstructured.Unstructured) string {
	revision, _, _ := unstructured.NestedString(obj.Object, "status", "lastAppliedRevision")
	return revision
}

// helmReleaseRevision reads the chart's version. v2beta1 and v2beta2 have lastAppliedRevision; v2 dropped it for a history
// of releases, newest first, of which only the deployed one runs.
func helmReleaseRevision(obj *unstructured.Unstructured) string {
	if revision := lastAppliedRevision(obj); revision != "" {
		return revision
	}
	history, _, _ := unstructured.NestedSlice(obj.Object, "status", "history")
	for _, entry := range history {
		release, ok := entry.(map[string]any)
		if ok && release["status"] == "deployed" {
			version, _ := release["chartVersion"].(string)
			artifact, _ := release["ociDigest"].(string)
			return chartRevision(version, artifact)
		}
	}
	return ""
}

// chartRevision is a chart's version, and the digest of the artifact of the OCIRepository that it comes from. helm-controller puts the first
// digits of that into the version, of which no tag of the repository knows. It tells the artifact's tag as well if that is no version.
// https://github.com/fluxcd/helm-controller/blob/v1.6.4/internal/controller/helmrelease_controller.go#L904
func chartRevision(version, artifact string) string {
	digest := revision.Digest(artifact)
	_, hex, _ := strings.Cut(digest, ":")
	if len(hex) < trackedDigits {
		return version
	}
	plain, tracked := strings.CutSuffix(version, "+"+hex[:trackedDigits])
	if !tracked {
		return version
	}
	if artifact != digest {
		return artifact
	}
	return plain + "@" + digest
}

// readiness reads the Ready condition, which counts only if it was made for the current generation: right after a change of
// the spec it still tells of the spec before.
func readiness(obj *unstructured.Unstructured) (status metav1.ConditionStatus, message string) {
	if !observed(obj.Object, obj.GetGeneration(), "status", "observedGeneration") {
		return metav1.ConditionFalse, "its latest change is not reconciled yet"
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		if !observed(condition, obj.GetGeneration(), "observedGeneration") {
			return metav1.ConditionFalse, "its latest change is not reconciled yet"
		}
		if condition["status"] == string(metav1.ConditionTrue) {
			return metav1.ConditionTrue, ""
		}
		message, _ := condition["message"].(string)
		if message == "" {
			message = "not ready"
		}
		if condition["status"] == string(metav1.ConditionUnknown) {
			return metav1.ConditionUnknown, message
		}
		return metav1.ConditionFalse, message
	}
	return metav1.ConditionFalse, "it has no Ready condition yet"
}

// observed tells whether the field is at the generation. A kind without the field has nothing to compare.
func observed(in map[string]any, generation int64, field ...string) bool {
	value, found, err := unstructured.NestedInt64(in, field...)
	return err != nil || !found || value == generation
}
