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

package application

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What the controller may read in its own cluster without being given more:
//
// +kubebuilder:rbac:groups=kustomize.toolkit.fluxcd.io,resources=kustomizations,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;helmcharts;externalartifacts,verbs=get;list;watch

// kind is how the objects of a kind are read. What has no extractor is zero.
type kind struct {
	// revision is what an object runs, or has fetched; empty if there is none yet.
	revision extractor[string]
	// readiness is whether that is ready.
	readiness extractor[readiness]
	// sources are those of an application.
	sources extractor[sources]
	// follows is the branch that a source follows.
	follows extractor[Branch]
	// held says which gates hold a source.
	held extractor[string]
}

// extractor reads one thing from an object.
type extractor[T any] struct {
	// fields are the paths of all fields that read looks at, such as "status.history". An object has no others when it gets there, but for its
	// metadata.generation.
	fields []string
	read   func(obj *unstructured.Unstructured) T
}

// from reads the thing, which is zero without an extractor.
func (e extractor[T]) from(obj *unstructured.Unstructured) T {
	if e.read == nil {
		return *new(T)
	}
	return e.read(obj)
}

const sourceGroup = "source.toolkit.fluxcd.io"

// kinds has how applications are read, by their kind. One that is not listed is read as byDefault or workload says.
var kinds = map[schema.GroupKind]kind{
	{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}: {revision: lastAppliedRevision, readiness: readyCondition, sources: kustomizationSource},
	{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}:        {revision: chartVersion, readiness: readyCondition, sources: chartSource},
}

var (
	byDefault = kind{revision: lastAppliedRevision, readiness: readyCondition}
	// workload is a kind of Kubernetes' own, which has no Ready condition, and no revision but what an expression finds.
	workload = kind{readiness: kstatusReadiness}
)

// sourceKinds has how sources are read, by their kind.
var sourceKinds = map[string]kind{
	"GitRepository":    {revision: artifactRevision, readiness: readyCondition, follows: followedBranch, held: closedGates},
	"OCIRepository":    source,
	"Bucket":           source,
	"HelmChart":        source,
	"ExternalArtifact": source,
}

var source = kind{revision: artifactRevision, readiness: readyCondition, held: closedGates}

func kindOf(gk schema.GroupKind) kind {
	if listed, ok := kinds[gk]; ok {
		return listed
	}
	if listed, ok := sourceKinds[gk.Kind]; ok && gk.Group == sourceGroup {
		return listed
	}
	if IsWorkload(gk.Group) {
		return workload
	}
	return byDefault
}

// IsWorkload reports whether kinds of an API group are Kubernetes' own. Such an application has the revision that an expression finds, and
// is ready when kstatus says so.
func IsWorkload(group string) bool {
	return group != "" && !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

var lastAppliedRevision = extractor[string]{
	fields: []string{"status.lastAppliedRevision"},
	read: func(obj *unstructured.Unstructured) string {
		revision, _, _ := unstructured.NestedString(obj.Object, "status", "lastAppliedRevision")
		return revision
	},
}
