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

// LocalAppReference names an application object. Its namespace and cluster are those of the target.
type LocalAppReference struct {
	// APIVersion of the application object, such as 'kustomize.toolkit.fluxcd.io/v1'.
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind of the application object, such as 'Kustomization' or 'HelmRelease'.
	// +required
	Kind string `json:"kind"`

	// Name of the application object. It is the same in every environment.
	// +required
	Name string `json:"name"`
}

// CrossNamespaceClusterReference names the object that represents a cluster.
type CrossNamespaceClusterReference struct {
	// APIVersion of the object that represents the cluster. Only its group is used.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the object that represents the cluster: 'GitopsCluster', 'Cluster' (Cluster API), 'Secret' or
	// 'ConfigMap'. A Secret contains a kubeconfig under the key 'value', 'value.yaml' or 'kubeconfig'. A ConfigMap has
	// the keys that Flux's 'spec.kubeConfig.configMapRef' defines for workload identity, including
	// 'serviceAccountName'.
	// +kubebuilder:validation:Enum=GitopsCluster;Cluster;Secret;ConfigMap
	// +required
	Kind string `json:"kind"`

	// Name of the object that represents the cluster.
	// +required
	Name string `json:"name"`

	// Namespace of the object that represents the cluster. Defaults to the namespace of the Pipeline, and must be that
	// namespace for a Secret or ConfigMap.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ClusterAppReference names an application object and its cluster.
type ClusterAppReference struct {
	LocalAppReference `json:",inline"`

	// ClusterRef names the cluster. It is absent for the cluster of the Pipeline.
	// +optional
	ClusterRef *CrossNamespaceClusterReference `json:"clusterRef,omitempty"`
}
