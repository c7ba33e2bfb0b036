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

package leafcluster

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Kinds of objects that stand for a cluster, besides GitopsCluster.
const (
	// capiKind is a Cluster of Cluster API.
	capiKind  = "Cluster"
	capiGroup = "cluster.x-k8s.io"
	// secretKind is a Secret with a kubeconfig, as Flux's own spec.kubeConfig.secretRef takes it.
	secretKind = "Secret"
	// configMapKind is a ConfigMap that says how to connect by workload identity, as Flux's spec.kubeConfig.configMapRef takes it.
	configMapKind = "ConfigMap"
)

// groupOf has the API group of each kind that stands for a cluster.
var groupOf = map[string]string{
	gitopsv1.GitopsClusterKind: gitopsv1.GroupVersion.Group,
	capiKind:                   capiGroup,
	secretKind:                 "",
	configMapKind:              "",
}

// clusterKey identifies an object that stands for a cluster. The zero value is the management cluster.
type clusterKey struct {
	kind string
	types.NamespacedName
}

func (k clusterKey) String() string { return k.kind + " " + k.NamespacedName.String() }

// targetKey identifies an application object: its cluster, its kind as the Pipeline names it, its namespace and name.
type targetKey struct {
	cluster clusterKey
	kind    schema.GroupVersionKind
	object  types.NamespacedName
}

// locate finds out which object a target of a Pipeline is, or why it is none that may be looked at.
func (c *Clusters) locate(pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) (targetKey, *failure) {
	app := pipeline.Spec.AppRef
	key := targetKey{
		kind:   schema.FromAPIVersionAndKind(app.APIVersion, app.Kind),
		object: types.NamespacedName{Namespace: t.Namespace, Name: app.Name},
	}
	if err := checkKind(key.kind); err != nil {
		return key, failed(pipelinesv1.InvalidTargetReason, "%s", err)
	}
	if !isName(t.Namespace) || !isName(app.Name) {
		// A namespace that is none would be looked at as all of them.
		return key, failed(pipelinesv1.InvalidTargetReason, "the target has no valid namespace and name")
	}
	if t.ClusterRef == nil {
		if c.namespace != "" && c.namespace != t.Namespace {
			return key, failed(pipelinesv1.CrossNamespaceDeniedReason, "the controller looks at namespace %s only", c.namespace)
		}
		return key, nil
	}
	var refused *failure
	key.cluster, refused = c.locateCluster(pipeline.Namespace, t.ClusterRef)
	return key, refused
}

func (c *Clusters) locateCluster(namespace string, ref *pipelinesv1.CrossNamespaceClusterReference) (clusterKey, *failure) {
	key := clusterKey{kind: ref.Kind, NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}
	if key.Namespace == "" {
		key.Namespace = namespace
	}
	group, known := groupOf[ref.Kind]
	if !known {
		return key, failed(pipelinesv1.InvalidTargetReason, "clusterRef: no cluster is found by a kind %s", ref.Kind)
	}
	if version, err := schema.ParseGroupVersion(ref.APIVersion); ref.APIVersion != "" && (err != nil || version.Group != group) {
		return key, failed(pipelinesv1.InvalidTargetReason, "clusterRef: kind %s is not one of %s", ref.Kind, ref.APIVersion)
	}
	if !isName(key.Namespace) || !isName(key.Name) {
		return key, failed(pipelinesv1.InvalidTargetReason, "clusterRef: it has no valid namespace and name")
	}
	switch {
	case key.Namespace == namespace:
	case group == "":
		return key, failed(pipelinesv1.CrossNamespaceDeniedReason, "clusterRef: a %s is taken from the Pipeline's own namespace only", ref.Kind)
	case c.noCrossNamespaceRefs:
		return key, failed(pipelinesv1.CrossNamespaceDeniedReason, "clusterRef: the controller allows no references to other namespaces")
	}
	return key, nil
}

// watchKey returns which watch a target is seen by.
func (c *Clusters) watchKey(key targetKey) watchKey {
	if key.cluster == (clusterKey{}) {
		return watchKey{kind: key.kind, namespace: c.namespace}
	}
	return watchKey{kind: key.kind, namespace: key.object.Namespace}
}

// isName tells whether a namespace or name can be one, so that it can be part of a path.
func isName(name string) bool {
	return name != "" && len(validation.IsDNS1123Subdomain(name)) == 0
}
