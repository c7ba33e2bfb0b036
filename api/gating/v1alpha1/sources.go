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
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluice-toolkit/sluice/api/revision"
)

var (
	// SourceGroupVersion is the group and version of the sources that gates can hold.
	SourceGroupVersion = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}
	// ImageGroupVersion is the group and version of ImageUpdateAutomations.
	ImageGroupVersion = schema.GroupVersion{Group: "image.toolkit.fluxcd.io", Version: "v1"}
)

// The kinds of Flux sources that gates can hold.
const (
	GitRepositoryKind = "GitRepository"
	OCIRepositoryKind = "OCIRepository"
	BucketKind        = "Bucket"
	// HelmCharts inherit the gates of their HelmRepository.
	HelmRepositoryKind = "HelmRepository"
	HelmChartKind      = "HelmChart"
)

// ExternalArtifactKind is the kind of the artifacts that an ArtifactGenerator makes. They can't be suspended, so the
// backstop alone holds them.
const ExternalArtifactKind = "ExternalArtifact"

// ImageUpdateAutomationKind is the kind of the objects that commit new images to Git. They publish no artifact, so the
// hold alone stops them.
const ImageUpdateAutomationKind = "ImageUpdateAutomation"

// SourceKinds are the kinds of sources that gates hold by suspending them.
var SourceKinds = []string{GitRepositoryKind, OCIRepositoryKind, BucketKind, HelmRepositoryKind, HelmChartKind}

// SourceConditions are the conditions that gate-controller sets on sources.
var SourceConditions = []string{GatesOpenCondition, RevisionPassesCondition, ArtifactLostCondition}

// HeldKinds returns all kinds that gates can hold: the sources, ExternalArtifacts and ImageUpdateAutomations.
func HeldKinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, kind := range SourceKinds {
		kinds = append(kinds, SourceGroupVersion.WithKind(kind))
	}
	return append(kinds, SourceGroupVersion.WithKind(ExternalArtifactKind), ImageGroupVersion.WithKind(ImageUpdateAutomationKind))
}

// DescribeLoss explains the condition ArtifactLost of a source to people. It returns "" unless the condition is True.
func DescribeLoss(conditions []metav1.Condition) string {
	loss := apimeta.FindStatusCondition(conditions, ArtifactLostCondition)
	if loss == nil || loss.Status != metav1.ConditionTrue {
		return ""
	}
	artifact, rest, _ := strings.Cut(loss.Message, " ")
	return "drift is not corrected: " + revision.Short(artifact[:max(0, strings.LastIndex(artifact, "@"))]) + " " + rest
}
