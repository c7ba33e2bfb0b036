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

package v1alpha1

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

const (
	// ReasonAnnotation on a Gate says why it is open or closed. Every message about the gate contains it.
	ReasonAnnotation = "gating.toolkit.fluxcd.io/reason"

	// HoldingManager is the field manager that gate-controller holds sources with.
	HoldingManager = "gate-controller"

	// TurningManager is the field manager of the Flux CLI plugin. It applies the reason together with the switch.
	TurningManager = "flux"
)

var reasonPath = fieldpath.MakePathOrDie("metadata", "annotations", ReasonAnnotation)

// Reason returns ReasonAnnotation on one line, cut to 200 characters so that it fits into the messages that contain it.
// It is empty if there is none, or if TurningManager gave it for an earlier state of the gate.
func (g *Gate) Reason() string {
	if g.turnedSince() {
		return ""
	}
	return plaintext.Cut(plaintext.Line(g.Annotations[ReasonAnnotation]), 200)
}

// turnedSince reports whether someone else, such as Flux, has changed the switch since TurningManager gave a reason.
// They took over the ownership of the switch, but not that of the reason.
func (g *Gate) turnedSince() bool {
	for _, entry := range g.ManagedFields {
		if entry.Manager != TurningManager {
			continue
		}
		if fields := fieldsOf(entry); fields.Has(reasonPath) && !fields.Has(closedPath) {
			return true
		}
	}
	return false
}
