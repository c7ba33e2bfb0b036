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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Source refers to a Flux source.
type Source struct {
	Kind, Namespace, Name string
}

func (s Source) String() string { return s.Kind + " " + s.Namespace + "/" + s.Name }

// SourceOf is the source of a target.
type SourceOf struct {
	Target pipelinesv1.Target
	Source Source
}

// GroupVersionKind returns the kind in the version that is read, and whether it is a known kind of source.
func (s Source) GroupVersionKind() (schema.GroupVersionKind, bool) {
	_, known := sourceKinds[s.Kind]
	return schema.GroupVersionKind{Group: sourceGroup, Version: "v1", Kind: s.Kind}, known
}

// sources are the sources of an application.
type sources struct {
	// fetched is the source that the application is fetched from.
	fetched Source
	// revision is the source that determines the application's revision. It is zero if the revision is something else,
	// such as a chart's version.
	revision Source
}

// kustomizationSource reads the source of a Kustomization.
var kustomizationSource = extractor[sources]{
	fields: []string{"spec.sourceRef"},
	read: func(obj *unstructured.Unstructured) sources {
		source := sourceAt(obj, "spec", "sourceRef")
		return sources{source, source}
	},
}

// chartSource reads the source of a HelmRelease's chart. The source determines the revision if chartRef refers to it,
// or if each of its revisions results in a new chart version.
var chartSource = extractor[sources]{
	fields: []string{"spec.chartRef", "spec.chart.spec.sourceRef", "spec.chart.spec.reconcileStrategy"},
	read: func(obj *unstructured.Unstructured) sources {
		if ref := sourceAt(obj, "spec", "chartRef"); ref != (Source{}) {
			return sources{ref, ref}
		}
		origin := sourceAt(obj, "spec", "chart", "spec", "sourceRef")
		if origin == (Source{}) {
			return sources{}
		}
		strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "chart", "spec", "reconcileStrategy")
		// This is how helm-controller names the HelmChart.
		chart := Source{Kind: "HelmChart", Namespace: origin.Namespace, Name: obj.GetNamespace() + "-" + obj.GetName()}
		if origin.Kind == "HelmRepository" || strategy != "Revision" {
			return sources{fetched: chart}
		}
		return sources{chart, origin}
	},
}

// sourceAt reads a reference to a source. It is zero if the reference is invalid.
func sourceAt(obj *unstructured.Unstructured, path ...string) Source {
	ref, _, _ := unstructured.NestedMap(obj.Object, path...)
	source := Source{Namespace: obj.GetNamespace()}
	source.Kind, _ = ref["kind"].(string)
	source.Name, _ = ref["name"].(string)
	if namespace, _ := ref["namespace"].(string); namespace != "" {
		source.Namespace = namespace
	}
	if _, known := source.GroupVersionKind(); !known && source.Kind != "HelmRepository" || len(validation.IsDNS1123Subdomain(source.Name)) > 0 || len(validation.IsDNS1123Label(source.Namespace)) > 0 {
		return Source{}
	}
	return source
}

// Branch is a branch of a Git repository.
type Branch struct {
	URL, Name string
}

// followedBranch reads the branch that a GitRepository tracks. It is zero if the GitRepository tracks tags or is pinned
// to a commit.
var followedBranch = extractor[Branch]{
	fields: []string{"spec.url", "spec.ref"},
	read: func(obj *unstructured.Unstructured) Branch {
		url, _, _ := unstructured.NestedString(obj.Object, "spec", "url")
		ref, _, _ := unstructured.NestedMap(obj.Object, "spec", "ref")
		at := func(field string) string { value, _ := ref[field].(string); return value }
		name, branch := at("name"), at("branch")
		switch {
		case len(url) > longestMessage, len(name)+len(branch) > longestMessage, at("commit") != "":
			return Branch{}
		case strings.HasPrefix(name, "refs/heads/"):
			return Branch{url, strings.TrimPrefix(name, "refs/heads/")}
		case name != "", at("semver") != "", at("tag") != "":
			return Branch{}
		case branch == "":
			branch = "master" // source-controller's default
		}
		return Branch{url, branch}
	},
}

// artifactRevision reads the revision that a source has fetched.
var artifactRevision = extractor[string]{
	fields: []string{"status.artifact.revision"},
	read: func(obj *unstructured.Unstructured) string {
		revision, _, _ := unstructured.NestedString(obj.Object, "status", "artifact", "revision")
		return revision
	},
}

// closedGates reads the message of a source's condition GatesOpen if that is False. Such a source publishes no new
// artifact.
var closedGates = extractor[string]{
	fields: []string{"status.conditions"},
	read: func(obj *unstructured.Unstructured) string {
		condition := conditionOf(obj, gatingv1.GatesOpenCondition)
		if condition["status"] != string(metav1.ConditionFalse) {
			return ""
		}
		message, _ := condition["message"].(string)
		gates, _, _ := strings.Cut(message, gatingv1.NewArtifactsBlocked)
		return gates
	},
}

// lostArtifact reads a source's condition ArtifactLost.
var lostArtifact = extractor[string]{
	fields: []string{"status.conditions"},
	read: func(obj *unstructured.Unstructured) string {
		condition := conditionOf(obj, gatingv1.ArtifactLostCondition)
		status, _ := condition["status"].(string)
		message, _ := condition["message"].(string)
		return gatingv1.DescribeLoss([]metav1.Condition{{Type: gatingv1.ArtifactLostCondition, Status: metav1.ConditionStatus(status), Message: message}})
	},
}
