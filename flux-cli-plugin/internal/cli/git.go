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

package cli

import (
	"strings"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// What kustomize-controller writes on the objects that it applies, and what tells it to leave one alone.
const (
	kustomizationNameLabel      = "kustomize.toolkit.fluxcd.io/name"
	kustomizationNamespaceLabel = "kustomize.toolkit.fluxcd.io/namespace"
	kustomizationReconcile      = "kustomize.toolkit.fluxcd.io/reconcile"
	kustomizationSSA            = "kustomize.toolkit.fluxcd.io/ssa"
)

// warnOfGit says so where Git will have the last word about the gate: kustomize-controller forces the fields that it applies
// back to what Git says at each reconciliation, whoever changed them.
func warnOfGit(log logger, gate *gatingv1alpha1.Gate) {
	name := gate.Labels[kustomizationNameLabel]
	if name == "" || leftAlone(gate.Labels) || leftAlone(gate.Annotations) {
		return
	}
	log.warningf("Kustomization %s/%s applies this gate from Git, and its next reconciliation sets spec.closed to what Git says. "+
		"Change it there too, or keep it out of Git's hands: annotate the gate in Git with '%s: IfNotPresent', or list /spec/closed in the Kustomization's spec.ignore",
		gate.Labels[kustomizationNamespaceLabel], name, kustomizationSSA)
}

// leftAlone tells whether kustomize-controller, which reads these in labels as well as in annotations, skips the object.
func leftAlone(metadata map[string]string) bool {
	ssa := metadata[kustomizationSSA]
	return strings.EqualFold(metadata[kustomizationReconcile], "disabled") ||
		strings.EqualFold(ssa, "Ignore") || strings.EqualFold(ssa, "IfNotPresent")
}
