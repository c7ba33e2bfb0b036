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

// Package application reads the revision and the readiness of application objects.
//
// A Decoder decodes the fields that the extractors of a kind declare, and returns a State. Nothing else is decoded, so
// the size of a HelmRelease's values or of a Kustomization's inventory does not matter. The table in kinds.go defines
// how each kind is read.
package application

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// State is the observed state of one target.
type State struct {
	// Known is false if the application object could not be read. Nothing may be concluded from such a target.
	Known bool
	// Ready is true if the application object's Ready condition is True for its current generation.
	Ready bool
	// Reconciling is true if that condition is Unknown during reconciliation.
	Reconciling bool
	// Revision of the application object; empty if none was applied.
	Revision string
	// Suspended is the object's spec.suspend.
	Suspended bool
	// Source is the source that an application is fetched from, and RevisionSource the one that determines its
	// revision. Both may be zero.
	Source, RevisionSource Source
	// Follows is the branch that a GitRepository tracks. It is zero for other kinds.
	Follows Branch
	// Held explains which gates hold a source. It is empty if none does.
	Held string
	// Lost explains that source-controller has lost the artifact of a source. It is empty if it has not.
	Lost string
	// Message explains why the target is not known or not ready. It is empty otherwise.
	Message string
	// Reason is one of the reasons in pipelinesv1 if the target is not known. It is empty otherwise.
	Reason string
	// Since is the time from which the target has not been known for that reason. It may be zero.
	Since time.Time
	// Object refers to the application object, for events about it. It is zero if the target is not known, and for
	// objects of other clusters, where the controller records no events.
	Object corev1.ObjectReference
}

const (
	// longestMessage is the maximum length in characters of a quoted condition message.
	longestMessage = 500
	// longestRevision is a maximum length in bytes that no tool reaches.
	longestRevision = 500
)

// Unknown returns the state of a target that could not be read.
func Unknown(message string) State { return State{Message: cut(message)} }

// UnknownBecause returns the state of a target that could not be read for a reason, since a time.
func UnknownBecause(reason, message string, since time.Time) State {
	state := Unknown(message)
	state.Reason, state.Since = reason, since
	return state
}

// stateOf extracts the state of an application object, depending on its kind.
func stateOf(obj *unstructured.Unstructured, as kind, revision string) State {
	now, sources := as.readiness.from(obj), as.sources.from(obj)
	suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
	return State{
		Known:       true,
		Ready:       now.status == metav1.ConditionTrue,
		Reconciling: now.status == metav1.ConditionUnknown,
		Revision:    revision,
		Message:     cut(now.message),
		Suspended:   suspended,
		Source:      sources.fetched, RevisionSource: sources.revision,
		Follows: as.follows.from(obj),
		Held:    cut(as.held.from(obj)),
		Lost:    cut(as.lost.from(obj)),
		Object: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
	}
}

// checkRevision rejects invalid revisions, because revisions are written into pull requests, commits and events.
func checkRevision(revision, origin string) error {
	switch {
	case len(revision) > longestRevision:
		return fmt.Errorf("the revision %s is too long", origin)
	case !plaintext.IsWord(revision):
		return fmt.Errorf("the revision %s is not one word", origin)
	}
	return nil
}

// cut shortens untrusted text to one line that can be quoted.
func cut(message string) string {
	return plaintext.Cut(plaintext.Line(message), longestMessage)
}
