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
	"context"
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

// source is a Flux source.
type source struct {
	sourceFields
	object *unstructured.Unstructured
}

// sourceFields is the part of a Flux source that is relevant for gates.
type sourceFields struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Gates   *gatingv1.GateReferences `json:"gates"`
		Suspend bool                     `json:"suspend"`
		Type    string                   `json:"type"`
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

// sources lists all sources that gates can hold. OCI HelmRepositories have no artifact to hold; their charts have.
func (l *lister) sources(ctx context.Context) ([]source, error) {
	var all []source
	for _, held := range gatingv1.HeldKinds() {
		kind, objects := held.Kind, &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(held.GroupVersion().WithKind(kind + "List"))
		if err := l.list(ctx, kind, objects); err != nil {
			return nil, err
		}
		for i := range objects.Items {
			found := source{sourceFields{TypeMeta: metav1.TypeMeta{Kind: kind}}, &objects.Items[i]}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.object.Object, &found.sourceFields); err != nil {
				return nil, fmt.Errorf("reading %s %s/%s failed: %w", kind, objects.Items[i].GetNamespace(), objects.Items[i].GetName(), err)
			}
			if condition := gatingv1.GatesOpenFromAnnotations(found.Annotations); condition != nil && kind == gatingv1.ExternalArtifactKind {
				found.Status.Conditions = append(found.Status.Conditions, *condition)
			}
			if kind != gatingv1.HelmRepositoryKind || found.Spec.Type != sourcev1.HelmRepositoryTypeOCI {
				all = append(all, found)
			}
		}
	}
	return all, nil
}

func (s *source) String() string { return fmt.Sprintf("%s/%s/%s", s.Kind, s.Namespace, s.Name) }

// references returns the gates that the source refers to itself, and those that it inherits. Invalid annotations count
// as no gates.
func (s *source) references() (own, inherited *gatingv1.GateReferences) {
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

func refsOf(refs *gatingv1.GateReferences) []gatingv1.GateReference {
	if refs == nil {
		return nil
	}
	return refs.Refs
}

// names reports whether the source refers to the gate or inherits it.
func (s *source) names(gate client.ObjectKey) bool {
	own, inherited := s.references()
	return own.Name(gate, s.Namespace) || inherited.Name(gate, s.Namespace)
}

// follows returns the field by which the source chooses a revision, and its value. Both are empty if there is none. The
// order is that of source-controller.
func (s *source) follows() (field, value string) {
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

// othersThan returns the gates that must be open beside one.
func (s *source) othersThan(gate client.ObjectKey) []string {
	var others []string
	own, inherited := s.references()
	for _, refs := range []*gatingv1.GateReferences{own, inherited} {
		switch {
		case refs == nil:
		case !refs.Name(gate, s.Namespace):
			others = append(others, describeReferences(refs))
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

// gatesOpen returns the source's condition GatesOpen, or nil.
func (s *source) gatesOpen() *metav1.Condition {
	return apimeta.FindStatusCondition(s.Status.Conditions, gatingv1.GatesOpenCondition)
}

// notSeen is the message for a source that gate-controller has not reconciled.
const notSeen = "gate-controller has not reconciled it yet"

// describe reports whether gates hold the source, in words.
func (s *source) describe() string {
	condition := s.gatesOpen()
	switch {
	case condition == nil:
		return notSeen
	case condition.Status == metav1.ConditionFalse:
		return "held: " + condition.Message
	default:
		return "not held: " + condition.Message
	}
}
