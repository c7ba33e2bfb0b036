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

// Package source contains the parts of Flux's sources that gate-controller reads. Its types have the field spec.gates,
// which stock Flux lacks, and few others. That saves memory, and other fields cannot be written by accident.
// +kubebuilder:object:generate=true
package source

import (
	"encoding/json"

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// Kind is one of the kinds of sources that gates can hold.
// +kubebuilder:object:generate=false
type Kind struct {
	schema.GroupVersion
	// Name of the kind.
	Name string
	// New returns an empty source of the kind, and NewList an empty list.
	New     func() Source
	NewList func() client.ObjectList
}

// HelmCharts is the kind that inherits the gates of its HelmRepository.
var HelmCharts = Kind{gatingv1.SourceGroupVersion, gatingv1.HelmChartKind, func() Source { return &HelmChart{} }, func() client.ObjectList { return &HelmChartList{} }}

// Kinds are all kinds that gates can hold.
var Kinds = []Kind{
	{gatingv1.SourceGroupVersion, gatingv1.GitRepositoryKind, func() Source { return &GitRepository{} }, func() client.ObjectList { return &GitRepositoryList{} }},
	{gatingv1.SourceGroupVersion, gatingv1.OCIRepositoryKind, func() Source { return &OCIRepository{} }, func() client.ObjectList { return &OCIRepositoryList{} }},
	{gatingv1.SourceGroupVersion, gatingv1.BucketKind, func() Source { return &Bucket{} }, func() client.ObjectList { return &BucketList{} }},
	{gatingv1.SourceGroupVersion, gatingv1.HelmRepositoryKind, func() Source { return &HelmRepository{} }, func() client.ObjectList { return &HelmRepositoryList{} }},
	HelmCharts,
	{gatingv1.SourceGroupVersion, gatingv1.ExternalArtifactKind, func() Source { return &ExternalArtifact{} }, func() client.ObjectList { return &ExternalArtifactList{} }},
	{gatingv1.ImageGroupVersion, gatingv1.ImageUpdateAutomationKind, func() Source { return &ImageUpdateAutomation{} }, func() client.ObjectList { return &ImageUpdateAutomationList{} }},
}

// KindsOf returns the kinds without those that are optional in Flux and that the cluster does not serve.
func KindsOf(mapper meta.RESTMapper) ([]Kind, error) {
	var kinds []Kind
	for _, kind := range Kinds {
		_, err := mapper.RESTMapping(kind.WithKind(kind.Name).GroupKind(), kind.Version)
		switch {
		case err == nil || !kind.optional():
			kinds = append(kinds, kind)
		case !meta.IsNoMatchError(err):
			return nil, err
		}
	}
	return kinds, nil
}

// optional reports whether Flux may be installed without the kind.
func (k Kind) optional() bool {
	return k.Name == gatingv1.ImageUpdateAutomationKind || k.Name == gatingv1.ExternalArtifactKind
}

// AddToScheme adds the kinds to a scheme, in place of Flux's own types.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, kind := range Kinds {
		scheme.AddKnownTypes(kind.GroupVersion, kind.New(), kind.NewList())
	}
	metav1.AddToGroupVersion(scheme, gatingv1.SourceGroupVersion)
	metav1.AddToGroupVersion(scheme, gatingv1.ImageGroupVersion)
	return nil
}

// Source is a Flux source that gates can hold.
// +kubebuilder:object:generate=false
type Source interface {
	client.Object
	conditions.Setter
	// Gated returns the part of the source that gates concern.
	Gated() *Body
}

// Body is the part of a source that gates concern. It is the same for all kinds.
type Body struct {
	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec is the part of a source's spec that gate-controller reads.
type Spec struct {
	// Gates hold the source while they are closed. The field exists if config/components/gated-sources has patched
	// Flux's CRDs.
	Gates *gatingv1.GateReferences `json:"gates,omitempty"`
	// Suspend stops source-controller from fetching.
	Suspend bool `json:"suspend,omitempty"`
	// Type of a HelmRepository is 'default' or 'oci'.
	Type string `json:"type,omitempty"`
	// SourceRef names the source of a HelmChart, and the generator of an ExternalArtifact.
	SourceRef *Reference `json:"sourceRef,omitempty"`
}

// Reference names another object in the same namespace.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Status is the part of a source's status that gate-controller reads. It writes only the conditions of
// gatingv1.SourceConditions.
type Status struct {
	ObservedGeneration     int64              `json:"observedGeneration,omitempty"`
	LastHandledReconcileAt string             `json:"lastHandledReconcileAt,omitempty"`
	Conditions             []metav1.Condition `json:"conditions,omitempty"`
	Artifact               *Artifact          `json:"artifact,omitempty"`
}

// Artifact is the part of a source's artifact that gate-controller reads.
type Artifact struct {
	Revision string `json:"revision"`
	Digest   string `json:"digest,omitempty"`
	URL      string `json:"url"`
}

// Gated returns the body. The kinds embed Body, so this makes each of them a Source.
func (b *Body) Gated() *Body { return b }

// GetConditions returns the conditions of the source.
func (b *Body) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the conditions of the source.
func (b *Body) SetConditions(conditions []metav1.Condition) { b.Status.Conditions = conditions }

// References returns the gates of a source: those in its spec, else those in its annotations, else nil. It returns an
// error if the annotations are invalid.
func References(source Source) (*gatingv1.GateReferences, error) {
	if gates := source.Gated().Spec.Gates; gates != nil {
		return gates, nil
	}
	return gatingv1.ReferencesFromAnnotations(source.GetAnnotations())
}

// HasNoArtifact reports whether the source is an OCI HelmRepository. It fetches nothing, because its charts read the
// registry directly, so suspending it holds nothing. Its status must not be written: source-controller resets it, and
// the two controllers would write it in a loop.
func HasNoArtifact(source Source) bool {
	_, isRepository := source.(*HelmRepository)
	return isRepository && source.Gated().Spec.Type == sourcev1.HelmRepositoryTypeOCI
}

// CommitsImages reports whether the source is an ImageUpdateAutomation, which commits to Git and publishes no artifact.
func CommitsImages(source Source) bool {
	_, commits := source.(*ImageUpdateAutomation)
	return commits
}

// IsExternal reports whether the source is an ExternalArtifact, whose gates are reported in annotations.
func IsExternal(source Source) bool {
	_, external := source.(*ExternalArtifact)
	return external
}

// HelmRepositoryOf returns the name of a HelmChart's HelmRepository. It is empty for all other sources.
func HelmRepositoryOf(source Source) string {
	ref := source.Gated().Spec.SourceRef
	if _, isChart := source.(*HelmChart); !isChart || ref == nil || ref.Kind != gatingv1.HelmRepositoryKind {
		return ""
	}
	return ref.Name
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

// OCIRepository is Flux's OCIRepository.
// +kubebuilder:object:root=true
type OCIRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// OCIRepositoryList is a list of OCIRepositories.
// +kubebuilder:object:root=true
type OCIRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OCIRepository `json:"items"`
}

// Bucket is Flux's Bucket.
// +kubebuilder:object:root=true
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// BucketList is a list of Buckets.
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bucket `json:"items"`
}

// HelmRepository is Flux's HelmRepository.
// +kubebuilder:object:root=true
type HelmRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// HelmRepositoryList is a list of HelmRepositories.
// +kubebuilder:object:root=true
type HelmRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HelmRepository `json:"items"`
}

// HelmChart is Flux's HelmChart.
// +kubebuilder:object:root=true
type HelmChart struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// HelmChartList is a list of HelmCharts.
// +kubebuilder:object:root=true
type HelmChartList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HelmChart `json:"items"`
}

// ExternalArtifact is Flux's ExternalArtifact.
// +kubebuilder:object:root=true
type ExternalArtifact struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// GetConditions returns the condition GatesOpen, which is in an annotation.
func (a *ExternalArtifact) GetConditions() []metav1.Condition {
	if condition := gatingv1.GatesOpenFromAnnotations(a.Annotations); condition != nil {
		return []metav1.Condition{*condition}
	}
	return nil
}

// SetConditions writes the condition GatesOpen into its annotation. It ignores others.
func (a *ExternalArtifact) SetConditions(conditions []metav1.Condition) {
	delete(a.Annotations, gatingv1.GatesOpenAnnotation)
	condition := meta.FindStatusCondition(conditions, gatingv1.GatesOpenCondition)
	if condition == nil {
		return
	}
	text, _ := json.Marshal(condition) // a struct of strings and a time
	metav1.SetMetaDataAnnotation(&a.ObjectMeta, gatingv1.GatesOpenAnnotation, string(text))
}

// ExternalArtifactList is a list of ExternalArtifacts.
// +kubebuilder:object:root=true
type ExternalArtifactList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalArtifact `json:"items"`
}

// ImageUpdateAutomation is Flux's ImageUpdateAutomation. It has no artifact.
// +kubebuilder:object:root=true
type ImageUpdateAutomation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Body              `json:",inline"`
}

// ImageUpdateAutomationList is a list of ImageUpdateAutomations.
// +kubebuilder:object:root=true
type ImageUpdateAutomationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageUpdateAutomation `json:"items"`
}
