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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

const (
	// TurnedByAnnotation on a Gate is the name of the user who changed it. The Flux CLI plugin applies it together with
	// the switch or the override. A policy of the API server allows only the caller's own name.
	TurnedByAnnotation = "gating.toolkit.fluxcd.io/turned-by"

	// OverridingManager is the field manager of the Flux CLI plugin for overrides. With TurningManager, applying an
	// override would remove the switch from the fields that the plugin owns.
	OverridingManager = "flux-override"
)

var (
	closedPath   = fieldpath.MakePathOrDie("spec", "closed")
	overridePath = fieldpath.MakePathOrDie("spec", "override")
	turnedByPath = fieldpath.MakePathOrDie("metadata", "annotations", TurnedByAnnotation)
)

// Turner is who changed a gate: a user, else a field manager. Both are empty if it is unknown.
// +kubebuilder:object:generate=false
type Turner struct {
	// User is the user's name in the API server, on one line.
	User string
	// FieldManager is the field manager of the change. The caller chooses it.
	FieldManager string
}

// String returns the name, and says so if it is a field manager.
func (t Turner) String() string {
	if t.User == "" && t.FieldManager != "" {
		return "field manager " + t.FieldManager
	}
	return t.User
}

// turnerOf returns who set a field of the gate, and when its owner last wrote. The annotation names the user if one
// entry of the managed fields owns it together with the field: whoever sets the field by other means becomes its owner.
func (g *Gate) turnerOf(field fieldpath.Path) (Turner, time.Time) {
	var turner Turner
	var at time.Time
	for _, entry := range g.ManagedFields {
		fields := fieldsOf(entry)
		if !fields.Has(field) {
			continue
		}
		wrote := time.Time{}
		if entry.Time != nil {
			wrote = entry.Time.Time
		}
		if user := plaintext.Cut(plaintext.Line(g.Annotations[TurnedByAnnotation]), 200); user != "" && fields.Has(turnedByPath) {
			return Turner{User: user}, wrote
		}
		if turner.FieldManager == "" || wrote.After(at) {
			turner, at = Turner{FieldManager: plaintext.Line(entry.Manager)}, wrote
		}
	}
	return turner, at
}

// fieldsOf returns the fields of an entry. They are empty for a subresource, and if they can't be read.
func fieldsOf(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	fields := &fieldpath.Set{}
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return fields
	}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return &fieldpath.Set{}
	}
	return fields
}
