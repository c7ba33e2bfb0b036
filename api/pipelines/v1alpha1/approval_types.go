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

	// ApprovalPipelineField is the field selector for the PromotionApprovals of a Pipeline.
	ApprovalPipelineField = "spec.pipelineRef.name"

	// ApproveVerb is the RBAC verb on a Pipeline that users need to approve its promotions.
	ApproveVerb = "approve"
)

// PromotionApprovalSpec defines what is approved, and by whom. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval is immutable: delete it, then approve again"
type PromotionApprovalSpec struct {
	// PipelineRef names the Pipeline, in the namespace of the approval.
	// +required
	PipelineRef meta.LocalObjectReference `json:"pipelineRef"`

	// Environment that the approved revision is promoted into.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{N}][\p{L}\p{M}\p{N}_.:+-]*$`
	// +required
	Environment string `json:"environment"`

	// Revision that is approved, exactly as in status.environments[].waitingApproval.revision of the Pipeline. It does
	// not approve another name of the same digest. It must not contain non-printable characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$`
	// +required
	Revision string `json:"revision"`

	// ApprovedBy is the user name of the approver, as the API server reports it ('kubectl auth whoami'). Approving in
	// the name of another user is denied.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	ApprovedBy string `json:"approvedBy"`

	// Comment on the approval.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Comment string `json:"comment,omitempty"`
}

// PromotionApproval is one user's approval of the promotion of one revision into one environment. It is owned by its
// Pipeline, and is deleted when another revision replaces the approved one.
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

	// Spec defines what is approved, and by whom.
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

// NewPromotionApproval returns the approval of a promotion. Its name is derived from the spec, so approving twice has
// no further effect.
func NewPromotionApproval(namespace string, spec PromotionApprovalSpec) *PromotionApproval {
	return &PromotionApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: approvalName(spec)},
		Spec:       spec,
	}
}

// Concerns reports whether the approval belongs to the Pipeline. An approval that is owned by a deleted Pipeline of the
// same name does not: Kubernetes deletes it with its owner.
func (a *PromotionApproval) Concerns(pipeline *Pipeline) bool {
	if a.Namespace != pipeline.Namespace || a.Spec.PipelineRef.Name != pipeline.Name {
		return false
	}
	return !slices.ContainsFunc(a.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == GroupVersion.String() && owner.Kind == PipelineKind && owner.Name == pipeline.Name && owner.UID != pipeline.UID
	})
}

// Repeats reports whether both approvals are of the same promotion by the same user. Comments are ignored.
func (s PromotionApprovalSpec) Repeats(other PromotionApprovalSpec) bool {
	s.Comment = other.Comment
	return s == other
}

// approvalName hashes each part after its length, so no two approvals share a name.
func approvalName(spec PromotionApprovalSpec) string {
	hash := sha256.New()
	for _, part := range []string{spec.PipelineRef.Name, spec.Environment, spec.Revision, spec.ApprovedBy} {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // writing to a hash never fails
		hash.Write([]byte(part))
	}
	const hashed, longestName = 20, 253
	suffix := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil)))[:hashed]
	pipeline := strings.TrimRight(spec.PipelineRef.Name[:min(len(spec.PipelineRef.Name), longestName-hashed-1)], "-.")
	return pipeline + "-" + suffix
}
