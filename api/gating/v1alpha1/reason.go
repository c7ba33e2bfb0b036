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
	// ReasonAnnotation on a Gate says in a person's words why it is open or closed.
	// Every message about the gate carries it.
	ReasonAnnotation = "gating.toolkit.fluxcd.io/reason"

	// HoldingManager is the field manager in whose name gate-controller holds sources.
	HoldingManager = "gate-controller"

	// TurningManager is the field manager of the Flux CLI's plugin. It applies the reason for turning a gate together with the switch.
	TurningManager = "flux"
)

var (
	closedPath = fieldpath.MakePathOrDie("spec", "closed")
	reasonPath = fieldpath.MakePathOrDie("metadata", "annotations", ReasonAnnotation)
)

// Reason returns what ReasonAnnotation says, on one line and cut to 200 characters so that any annotation fits into the
// messages that quote it. It is empty when nobody gave a reason, and when TurningManager gave it for an earlier turn of the gate.
func (g *Gate) Reason() string {
	if g.turnedSince() {
		return ""
	}
	return plaintext.Cut(plaintext.Line(g.Annotations[ReasonAnnotation]), 200)
}

// turnedSince reports whether somebody has turned the gate since TurningManager gave a reason, such as Flux, by what Git says. Whoever sets the
// switch to something else takes its ownership, and leaves that of the reason.
func (g *Gate) turnedSince() bool {
	for _, entry := range g.ManagedFields {
		if entry.Manager != TurningManager || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err == nil && fields.Has(reasonPath) && !fields.Has(closedPath) {
			return true
		}
	}
	return false
}
