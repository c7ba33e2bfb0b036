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

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// Markers of kustomize-controller on the objects that it applies, and the annotations and labels that disable it for an
// object.
var (
	kustomizationNameLabel      = kustomizev1.GroupVersion.Group + "/name"
	kustomizationNamespaceLabel = kustomizev1.GroupVersion.Group + "/namespace"
	kustomizationReconcile      = kustomizev1.GroupVersion.Group + "/reconcile"
	kustomizationSSA            = kustomizev1.GroupVersion.Group + "/ssa"
)

// warnOfGit prints a warning if the gate is managed in Git: kustomize-controller resets the fields that it applies at
// each reconciliation, whoever changed them.
func warnOfGit(log logger, gate *gatingv1.Gate) {
	name := gate.Labels[kustomizationNameLabel]
	if name == "" || leftAlone(gate.Labels) || leftAlone(gate.Annotations) {
		return
	}
	log.warningf("Kustomization %s/%s applies this gate from Git and reverts spec.closed: change it in Git too, or annotate the gate in Git with '%s: %s'",
		gate.Labels[kustomizationNamespaceLabel], name, kustomizationSSA, kustomizev1.IfNotPresentValue)
}

// leftAlone reports whether kustomize-controller skips the object. It reads these keys in labels as well as in
// annotations.
func leftAlone(metadata map[string]string) bool {
	ssa := metadata[kustomizationSSA]
	return strings.EqualFold(metadata[kustomizationReconcile], kustomizev1.DisabledValue) ||
		strings.EqualFold(ssa, kustomizev1.IgnoreValue) || strings.EqualFold(ssa, kustomizev1.IfNotPresentValue)
}
