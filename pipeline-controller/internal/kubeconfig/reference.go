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

package kubeconfig

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Kinds of objects that represent a cluster, in addition to GitopsCluster.
const (
	// capiKind is a Cluster of Cluster API.
	capiKind  = "Cluster"
	capiGroup = "cluster.x-k8s.io"
	// secretKind is a Secret with a kubeconfig, as in Flux's own spec.kubeConfig.secretRef.
	secretKind = "Secret"
	// configMapKind is a ConfigMap for workload identity, as in Flux's spec.kubeConfig.configMapRef.
	configMapKind = "ConfigMap"
)

// groupOf maps each kind that represents a cluster to its API group.
var groupOf = map[string]string{
	gitopsv1.GitopsClusterKind: gitopsv1.GroupVersion.Group,
	capiKind:                   capiGroup,
	secretKind:                 "",
	configMapKind:              "",
}

// Reference refers to an object that represents a cluster. The zero value refers to none.
type Reference struct {
	Kind string
	types.NamespacedName
}

func (r Reference) String() string { return r.Kind + " " + r.NamespacedName.String() }

// ReferenceOf resolves the clusterRef of a Pipeline in a namespace. References to other namespaces can be disabled. Its
// error is a *Refusal.
func ReferenceOf(clusterRef *pipelinesv1.CrossNamespaceClusterReference, namespace string, noCrossNamespaceRefs bool) (Reference, error) {
	ref := Reference{Kind: clusterRef.Kind, NamespacedName: types.NamespacedName{Namespace: clusterRef.Namespace, Name: clusterRef.Name}}
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	group, known := groupOf[ref.Kind]
	if !known {
		return ref, refuse(pipelinesv1.InvalidTargetReason, "clusterRef: unsupported kind %s", ref.Kind)
	}
	if version, err := schema.ParseGroupVersion(clusterRef.APIVersion); clusterRef.APIVersion != "" && (err != nil || version.Group != group) {
		return ref, refuse(pipelinesv1.InvalidTargetReason, "clusterRef: kind %s is not one of %s", ref.Kind, clusterRef.APIVersion)
	}
	if !IsName(ref.Namespace) || !IsName(ref.Name) {
		return ref, refuse(pipelinesv1.InvalidTargetReason, "clusterRef: its namespace or name is invalid")
	}
	switch {
	case ref.Namespace == namespace:
	case group == "":
		return ref, refuse(pipelinesv1.AccessDeniedReason, "clusterRef: access denied: a %s must be in the namespace of the Pipeline: move one of them", ref.Kind)
	case noCrossNamespaceRefs:
		return ref, refuse(pipelinesv1.AccessDeniedReason, "clusterRef: access denied: cross-namespace references are disabled: move the %s or the Pipeline, so both are in one namespace", ref.Kind)
	}
	return ref, nil
}

// IsName reports whether the name of an object or namespace is valid, so it can be part of a path.
func IsName(name string) bool {
	return name != "" && len(validation.IsDNS1123Subdomain(name)) == 0
}
