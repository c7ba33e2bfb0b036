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
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// GatesAnnotation on a Flux source names its gates, separated by commas. It is used if the source has no
	// spec.gates.
	GatesAnnotation = "gating.toolkit.fluxcd.io/gates"
	// RequireAnnotation goes with GatesAnnotation: 'all' (default) or 'oneOf'.
	RequireAnnotation = "gating.toolkit.fluxcd.io/require"

	// InheritedGatesAnnotation on a HelmChart names the gates of its HelmRepository, which hold the chart too.
	// gate-controller sets it.
	InheritedGatesAnnotation = "gating.toolkit.fluxcd.io/inherited-gates"
	// GatedByAnnotation marks a source with gates in its spec, and a HelmChart whose HelmRepository has them there.
	// gate-controller sets it to GatedBySpec. It shows that a source had gates after its CRD lost the field.
	GatedByAnnotation = "gating.toolkit.fluxcd.io/gated-by"
	// GatedBySpec is the value of GatedByAnnotation.
	GatedBySpec = "spec.gates"

	// OpenForAnnotation on an ExternalArtifact allows new artifacts while its value is OpenFor the object.
	// gate-controller sets it while the gates are open.
	OpenForAnnotation = "gating.toolkit.fluxcd.io/open-for"
	// GatesOpenAnnotation on an ExternalArtifact is its condition GatesOpen, as JSON. source-watcher applies the whole
	// list of conditions, so gate-controller cannot add one.
	GatesOpenAnnotation = "gating.toolkit.fluxcd.io/gates-open"
)

// OpenFor returns the value of OpenForAnnotation while the gates of an object are open. It contains what was evaluated,
// so it does not count after the object was recreated, or its gates were changed. The backstop has the same expression.
func OpenFor(obj metav1.Object) string {
	annotations := obj.GetAnnotations()
	return fmt.Sprintf("%s/%d %s %s", obj.GetUID(), obj.GetGeneration(), annotations[RequireAnnotation], annotations[GatesAnnotation])
}

// GatesOpenFromAnnotations reads GatesOpenAnnotation. It returns nil if it is absent or invalid.
func GatesOpenFromAnnotations(annotations map[string]string) *metav1.Condition {
	condition := &metav1.Condition{}
	if err := json.Unmarshal([]byte(annotations[GatesOpenAnnotation]), condition); err != nil || condition.Type != GatesOpenCondition {
		return nil
	}
	return condition
}

// Requirement is how many of the referenced gates must be open.
// +kubebuilder:validation:Enum=all;oneOf
type Requirement string

const (
	// RequireAll requires every gate to be open.
	RequireAll Requirement = "all"
	// RequireOneOf requires at least one gate to be open.
	RequireOneOf Requirement = "oneOf"
)

// GateReference is the name of a Gate in the namespace of the object that refers to it, or '<namespace>/<name>' of a
// Gate in another namespace whose spec.accessFrom allows access.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`
type GateReference string

// NamespacedName returns the full name of the gate for a reference of an object in the namespace.
func (r GateReference) NamespacedName(namespace string) types.NamespacedName {
	if other, name, found := strings.Cut(string(r), "/"); found {
		return types.NamespacedName{Namespace: other, Name: name}
	}
	return types.NamespacedName{Namespace: namespace, Name: string(r)}
}

// GateReferences names the gates that hold an object, and how many of them must be open.
type GateReferences struct {
	// Require is 'all' if every gate must be open (the default), or 'oneOf' if one open gate is enough.
	// +kubebuilder:default=all
	// +optional
	Require Requirement `json:"require,omitempty"`

	// Refs are the names of gates in the namespace of the object, or '<namespace>/<name>' of gates in other namespaces
	// whose spec.accessFrom allows access. If it is empty, nothing is held.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Refs []GateReference `json:"refs,omitempty"`
}

// Name reports whether an object in the namespace refers to the gate. A nil GateReferences refers to none.
func (r *GateReferences) Name(gate types.NamespacedName, namespace string) bool {
	return r != nil && slices.ContainsFunc(r.Refs, func(ref GateReference) bool { return ref.NamespacedName(namespace) == gate })
}

// maxReferences is how many gates an object can refer to, in its spec or by annotations.
const maxReferences = 64

var validReference = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// ReferencesFromAnnotations reads GatesAnnotation and RequireAnnotation. It returns nil if the first is absent or
// empty. If they are invalid, it returns an error that says what to write.
func ReferencesFromAnnotations(annotations map[string]string) (*GateReferences, error) {
	list := strings.TrimSpace(annotations[GatesAnnotation])
	if list == "" {
		return nil, nil
	}
	refs := &GateReferences{Require: Requirement(annotations[RequireAnnotation])}
	switch refs.Require {
	case RequireAll, RequireOneOf:
	case "":
		refs.Require = RequireAll
	default:
		return nil, fmt.Errorf("annotation %s must be 'all' or 'oneOf'", RequireAnnotation)
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !validReference.MatchString(name) {
			return nil, fmt.Errorf("annotation %s must list gates as <name> or <namespace>/<name>, separated by commas", GatesAnnotation)
		}
		if !slices.Contains(refs.Refs, GateReference(name)) {
			refs.Refs = append(refs.Refs, GateReference(name))
		}
		if len(refs.Refs) > maxReferences {
			return nil, fmt.Errorf("annotation %s names more than %d gates", GatesAnnotation, maxReferences)
		}
	}
	if len(refs.Refs) == 0 {
		return nil, fmt.Errorf("annotation %s names no gate", GatesAnnotation)
	}
	return refs, nil
}
