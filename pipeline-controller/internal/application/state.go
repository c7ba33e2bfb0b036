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

// Package application reads what an application object runs and whether it is ready.
//
// A Decoder takes from the JSON of an object the fields that the extractors of its kind declare, and makes a State of them. Nothing else is
// decoded: what a HelmRelease's values or a Kustomization's inventory weighs is never held. How the objects of a kind are read is a row of the
// table in kinds.go.
package application

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-toolkit/sluice/api/plaintext"
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
	// Suspended is true if its spec.suspend is.
	Suspended bool
	// Source is what an application is fetched from, and RevisionSource the source whose revision is the application's. Zero if there is none.
	Source, RevisionSource Source
	// Follows is the branch that a GitRepository follows. Zero for anything else.
	Follows Branch
	// Held says which gates hold a source. Empty if none does.
	Held string
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
)

// Unknown is the state of a target that could not be read.
func Unknown(message string) State { return State{Message: cut(message)} }

// UnknownBecause is the state of a target that could not be read for a reason that has a name, and since when.
func UnknownBecause(reason, message string, since time.Time) State {
	state := Unknown(message)
	state.Reason, state.Since = reason, since
	return state
}

// stateOf takes an application object's state from its fields, as its kind says.
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
		Object: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
	}
}

// checkRevision refuses what is no revision: it would get into pull requests, commits and events.
func checkRevision(revision, origin string) error {
	switch {
	case len(revision) > longestRevision:
		return fmt.Errorf("the revision %s is too long", origin)
	case !plaintext.IsWord(revision):
		return fmt.Errorf("the revision %s is not one word", origin)
	}
	return nil
}

// cut makes one line of what others wrote, of a length that can be quoted.
func cut(message string) string {
	return plaintext.Cut(plaintext.Line(message), longestMessage)
}
