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

// LocalAppReference names an application object; the namespace and the cluster come from a target.
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

// CrossNamespaceClusterReference names the object that stands for a cluster.
type CrossNamespaceClusterReference struct {
	// APIVersion of the object that stands for the cluster. Only its group is looked at.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the object that stands for the cluster: 'GitopsCluster', 'Cluster' of Cluster API, 'Secret', which holds a kubeconfig under
	// the key 'value', 'value.yaml' or 'kubeconfig', or 'ConfigMap', which has the keys that Flux's 'spec.kubeConfig.configMapRef' defines
	// for workload identity, 'serviceAccountName' among them.
	// +kubebuilder:validation:Enum=GitopsCluster;Cluster;Secret;ConfigMap
	// +required
	Kind string `json:"kind"`

	// Name of the object that stands for the cluster.
	// +required
	Name string `json:"name"`

	// Namespace of the object that stands for the cluster. Defaults to the namespace of the Pipeline. A Secret or ConfigMap is
	// taken from there only.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ClusterAppReference is an application object together with the cluster that it is in.
type ClusterAppReference struct {
	LocalAppReference `json:",inline"`

	// ClusterRef names the cluster. It is absent for the cluster that the Pipeline is in.
	// +optional
	ClusterRef *CrossNamespaceClusterReference `json:"clusterRef,omitempty"`
}
