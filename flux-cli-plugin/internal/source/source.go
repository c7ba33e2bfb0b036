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

// Package source reads the part of Flux's sources that is relevant for gates.
package source

import (
	"fmt"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// Source is the part of a Flux source that is relevant for gates.
type Source struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Gates   *gatingv1.GateReferences `json:"gates"`
		Suspend bool                     `json:"suspend"`
		Type    string                   `json:"type"`
		URL     string                   `json:"url"`
		Ref     map[string]string        `json:"ref"`
		Version string                   `json:"version"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Artifact   struct {
			Revision string `json:"revision"`
		} `json:"artifact"`
	} `json:"status"`
}

// Of reads a source. It reports false for an OCI HelmRepository, which has no artifact to hold; its charts have.
func Of(kind string, object *unstructured.Unstructured) (found Source, gated bool, _ error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &found); err != nil {
		return found, false, fmt.Errorf("reading %s %s/%s failed: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	found.Kind = kind
	if condition := gatingv1.GatesOpenFromAnnotations(found.Annotations); condition != nil && kind == gatingv1.ExternalArtifactKind {
		found.Status.Conditions = append(found.Status.Conditions, *condition)
	}
	return found, kind != gatingv1.HelmRepositoryKind || found.Spec.Type != sourcev1.HelmRepositoryTypeOCI, nil
}

// String returns the kind, the namespace and the name.
func (s *Source) String() string { return fmt.Sprintf("%s/%s/%s", s.Kind, s.Namespace, s.Name) }

// References returns the gates that the source refers to itself, and those that it inherits. Invalid annotations count
// as no gates.
func (s *Source) References() (own, inherited *gatingv1.GateReferences) {
	if own = s.Spec.Gates; own == nil {
		own, _ = gatingv1.ReferencesFromAnnotations(s.Annotations)
	}
	// The annotation is a list of gates, optionally preceded by a requirement.
	require, list, found := strings.Cut(s.Annotations[gatingv1.InheritedGatesAnnotation], " ")
	if !found {
		require, list = "", require
	}
	inherited, _ = gatingv1.ReferencesFromAnnotations(map[string]string{gatingv1.GatesAnnotation: list, gatingv1.RequireAnnotation: require})
	return own, inherited
}

// Refs returns the gates of references, which may be nil.
func Refs(refs *gatingv1.GateReferences) []gatingv1.GateReference {
	if refs == nil {
		return nil
	}
	return refs.Refs
}

// Names reports whether the source refers to the gate or inherits it.
func (s *Source) Names(gate client.ObjectKey) bool {
	own, inherited := s.References()
	return own.Name(gate, s.Namespace) || inherited.Name(gate, s.Namespace)
}

// Follows returns the field by which the source chooses a revision, and its value. Both are empty if there is none. The
// order is that of source-controller.
func (s *Source) Follows() (field, value string) {
	for _, field := range []string{"commit", "digest", "name", "semver", "tag", "branch"} {
		if value := s.Spec.Ref[field]; value != "" {
			return field, value
		}
	}
	if s.Spec.Version != "" {
		return "version", s.Spec.Version
	}
	return "", ""
}

// OthersThan returns the gates that must be open beside one.
func (s *Source) OthersThan(gate client.ObjectKey) []string {
	var others []string
	own, inherited := s.References()
	for _, refs := range []*gatingv1.GateReferences{own, inherited} {
		switch {
		case refs == nil:
		case !refs.Name(gate, s.Namespace):
			others = append(others, DescribeReferences(refs))
		case refs.Require != gatingv1.RequireOneOf:
			for _, ref := range refs.Refs {
				if ref.NamespacedName(s.Namespace) != gate {
					others = append(others, string(ref))
				}
			}
		}
	}
	return others
}

// GatesOpen returns the source's condition GatesOpen, or nil.
func (s *Source) GatesOpen() *metav1.Condition {
	return apimeta.FindStatusCondition(s.Status.Conditions, gatingv1.GatesOpenCondition)
}

// NotSeen is the message for a source that gate-controller has not reconciled.
const NotSeen = "gate-controller has not reconciled it yet"

// Describe reports whether gates hold the source, in words.
func (s *Source) Describe() string {
	condition := s.GatesOpen()
	switch {
	case condition == nil:
		return NotSeen
	case condition.Status == metav1.ConditionFalse:
		return "held: " + condition.Message
	default:
		return "not held: " + condition.Message
	}
}

// DescribeReferences lists the gates of references, and says if one of them is enough.
func DescribeReferences(refs *gatingv1.GateReferences) string {
	var names []string
	for _, ref := range Refs(refs) {
		names = append(names, string(ref))
	}
	list := strings.Join(names, ",")
	if len(names) > 1 && refs.Require == gatingv1.RequireOneOf {
		return "oneOf " + list
	}
	return list
}
