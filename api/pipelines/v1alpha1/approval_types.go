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
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// PromotionApprovalKind is the kind of a PromotionApproval.
	PromotionApprovalKind = "PromotionApproval"

	// ApprovalPipelineField selects the PromotionApprovals of a Pipeline, in lists of them.
	ApprovalPipelineField = "spec.pipelineRef.name"

	// ApproveVerb on a Pipeline is what RBAC has to allow those who approve its promotions.
	ApproveVerb = "approve"
)

// PromotionApprovalSpec says who approves what. It can't be changed.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval can't be changed: delete it, and approve anew"
type PromotionApprovalSpec struct {
	// PipelineRef names the Pipeline, in the namespace of the approval.
	// +required
	PipelineRef meta.LocalObjectReference `json:"pipelineRef"`

	// Environment that may be promoted into.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{N}][\p{L}\p{M}\p{N}_.:+-]*$`
	// +required
	Environment string `json:"environment"`

	// Revision that may be promoted, exactly as status.environments[].waitingApproval.revision of the Pipeline names it. Another name of
	// the same digest is not approved by that. It has no non-printable characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$`
	// +required
	Revision string `json:"revision"`

	// ApprovedBy is the user name of who approves, as the API server knows it ('kubectl auth whoami'). Nobody can approve in
	// another's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	ApprovedBy string `json:"approvedBy"`

	// Comment for those who read it later.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Comment string `json:"comment,omitempty"`
}

// PromotionApproval is one person's approval of the promotion of one revision into one environment. It belongs to its Pipeline,
// and is deleted when another revision takes the place of the approved one.
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=sluice
// +kubebuilder:selectablefield:JSONPath=`.spec.pipelineRef.name`
// +kubebuilder:printcolumn:name="Pipeline",type=string,JSONPath=`.spec.pipelineRef.name`
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Approved By",type=string,JSONPath=`.spec.approvedBy`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PromotionApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who approves what.
	// +required
	Spec PromotionApprovalSpec `json:"spec"`
}

// PromotionApprovalList is a list of PromotionApprovals.
// +kubebuilder:object:root=true
type PromotionApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PromotionApproval `json:"items"`
}

// NewPromotionApproval makes the approval of a promotion. Its name follows from who approves what, so that approving twice is
// approving once.
func NewPromotionApproval(namespace string, spec PromotionApprovalSpec) *PromotionApproval {
	return &PromotionApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: approvalName(spec)},
		Spec:       spec,
	}
}

// Concerns reports whether the approval is one of the Pipeline's, and not of a deleted one of the same name, with which Kubernetes will
// delete it.
func (a *PromotionApproval) Concerns(pipeline *Pipeline) bool {
	if a.Namespace != pipeline.Namespace || a.Spec.PipelineRef.Name != pipeline.Name {
		return false
	}
	return !slices.ContainsFunc(a.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == GroupVersion.String() && owner.Kind == PipelineKind && owner.Name == pipeline.Name && owner.UID != pipeline.UID
	})
}

// Repeats reports whether the approval is of the same promotion by the same person as another one, whatever their comments.
func (s PromotionApprovalSpec) Repeats(other PromotionApprovalSpec) bool {
	s.Comment = other.Comment
	return s == other
}

// approvalName hashes each part with its length before it, so that no two approvals share a name.
func approvalName(spec PromotionApprovalSpec) string {
	hash := sha256.New()
	for _, part := range []string{spec.PipelineRef.Name, spec.Environment, spec.Revision, spec.ApprovedBy} {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	const hashed, longestName = 20, 253
	suffix := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil)))[:hashed]
	pipeline := strings.TrimRight(spec.PipelineRef.Name[:min(len(spec.PipelineRef.Name), longestName-hashed-1)], "-.")
	return pipeline + "-" + suffix
}
