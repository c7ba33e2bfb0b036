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

// RBAC for the controller's own cluster by default:
//
// +kubebuilder:rbac:groups=kustomize.toolkit.fluxcd.io,resources=kustomizations,verbs=get;list;watch
// +kubebuilder:rbac:groups=helm.toolkit.fluxcd.io,resources=helmreleases,verbs=get;list;watch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;helmcharts;externalartifacts,verbs=get;list;watch

// kind defines how objects of a kind are read. Missing extractors are zero.
type kind struct {
	// revision that an object runs or has fetched; empty if there is none yet.
	revision extractor[string]
	// readiness of that revision.
	readiness extractor[readiness]
	// sources of an application.
	sources extractor[sources]
	// follows is the branch that a source tracks.
	follows extractor[Branch]
	// held explains which gates hold a source, and lost that its artifact is lost.
	held, lost extractor[string]
}

// extractor reads one value from an object.
type extractor[T any] struct {
	// fields are the paths of all fields that read uses, such as "status.history". The object contains only these
	// fields and metadata.generation.
	fields []string
	read   func(obj *unstructured.Unstructured) T
}

// from reads the value. It is zero without an extractor.
func (e extractor[T]) from(obj *unstructured.Unstructured) T {
	if e.read == nil {
		return *new(T)
	}
	return e.read(obj)
}

const sourceGroup = "source.toolkit.fluxcd.io"

// kinds contains how applications are read, by kind. For other kinds, byDefault or workload applies.
var kinds = map[schema.GroupKind]kind{
	{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization"}: {revision: lastAppliedRevision, readiness: readyCondition, sources: kustomizationSource},
	{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease"}:        {revision: chartVersion, readiness: readyCondition, sources: chartSource},
}

var (
	byDefault = kind{revision: lastAppliedRevision, readiness: readyCondition}
	// workload is for Kubernetes' own kinds. They have no Ready condition, and their revision is that of an expression.
	workload = kind{readiness: kstatusReadiness}
)

// sourceKinds contains how sources are read, by kind.
var sourceKinds = map[string]kind{
	"GitRepository":    {revision: artifactRevision, readiness: readyCondition, follows: followedBranch, held: closedGates, lost: lostArtifact},
	"OCIRepository":    source,
	"Bucket":           source,
	"HelmChart":        source,
	"ExternalArtifact": source,
}

var source = kind{revision: artifactRevision, readiness: readyCondition, held: closedGates, lost: lostArtifact}

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

// IsWorkload reports whether the API group contains Kubernetes' own kinds. The revision of such an application is
// determined by an expression, and its readiness by kstatus.
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
