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
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GitopsClusterKind is the kind of a GitopsCluster.
const GitopsClusterKind = "GitopsCluster"

// GitopsClusterSpec defines where the kubeconfig of the cluster is. Exactly one field must be set.
type GitopsClusterSpec struct {
	// SecretRef names a Secret in the namespace of the GitopsCluster that contains a kubeconfig, under the key 'value',
	// 'value.yaml' or 'kubeconfig'.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`

	// CAPIClusterRef names a Cluster of Cluster API in the namespace of the GitopsCluster. Its kubeconfig is in the
	// Secret of the same name with the suffix '-kubeconfig'.
	// +optional
	CAPIClusterRef *meta.LocalObjectReference `json:"capiClusterRef,omitempty"`
}

// GitopsClusterStatus is the observed state of a GitopsCluster. Sluice does not write it. If the condition 'Ready' is
// False, Sluice does not connect to the cluster.
type GitopsClusterStatus struct {
	// Conditions of the GitopsCluster.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GitopsCluster represents a cluster that targets of Pipelines can refer to.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type GitopsCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines where the kubeconfig is.
	// +optional
	Spec GitopsClusterSpec `json:"spec,omitempty"`

	// Status is the observed state.
	// +optional
	Status GitopsClusterStatus `json:"status,omitempty"`
}

// GitopsClusterList is a list of GitopsClusters.
// +kubebuilder:object:root=true
type GitopsClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GitopsCluster `json:"items"`
}
