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

// Package source holds what the gate-controller reads of Flux's sources. The types here are views of those of
// source-controller: they have the field spec.gates, which stock Flux lacks, and little else, so that little is held in memory
// and nothing that isn't known here can be written by accident.
// +kubebuilder:object:generate=true
package source

import (
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// GroupVersion is the one of the sources that are gated.
var GroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// AddToScheme adds the sources to a scheme, in place of source-controller's own types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GitRepository{}, &GitRepositoryList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Source is a Flux source that gates can hold back.
// +kubebuilder:object:generate=false
type Source interface {
	client.Object
	conditions.Setter
	// Gated returns the part of the source that gating is about.
	Gated() *Body
}

// Body is the part of a source that gating is about. It is the same for all kinds.
type Body struct {
	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec is the part of a source's spec that is read.
type Spec struct {
	// Gates that hold the source back. The field exists where config/components/gated-sources patched Flux's CRDs.
	Gates *gatingv1.GateReferences `json:"gates,omitempty"`
	// Suspend stops source-controller from fetching.
	Suspend bool `json:"suspend,omitempty"`
}

// Status is the part of a source's status that is read, and written: the condition GatesOpen.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Gated returns itself; kinds embed it.
func (b *Body) Gated() *Body { return b }

// GetConditions returns the conditions of the source.
func (b *Body) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the source.
func (b *Body) SetConditions(conditions []metav1.Condition) { b.Status.Conditions = conditions }

// References returns the gates of a source: those of its spec, else those of its annotations, else nil. The error says what
// is wrong with the annotations.
func References(source Source) (*gatingv1.GateReferences, error) {
	if gates := source.Gated().Spec.Gates; gates != nil {
		return gates, nil
	}
	return gatingv1.ReferencesFromAnnotations(source.GetAnnotations())
}

// GitRepository is Flux's GitRepository.
// +kubebuilder:object:root=true
type GitRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// GitRepositoryList is a list of GitRepositories.
// +kubebuilder:object:root=true
type GitRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitRepository `json:"items"`
}
