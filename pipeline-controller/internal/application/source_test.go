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
package application_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

func TestTheSourcesOfAnApplication(t *testing.T) {
	git := application.Source{Kind: "GitRepository", Namespace: "flux-system", Name: "fleet"}
	chart := application.Source{Kind: "HelmChart", Namespace: "flux-system", Name: "prod-shop"}
	artifact := application.Source{Kind: "OCIRepository", Namespace: "prod", Name: "shop"}
	kustomization := func(spec string) string {
		return `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {namespace: prod, name: shop}, spec: ` + spec + `}`
	}
	release := func(spec string) string {
		return `{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {namespace: prod, name: shop}, spec: ` + spec + `}`
	}
	for _, test := range []struct {
		name, object      string
		fetched, revision application.Source
	}{
		{"a Kustomization has the revision of its source", kustomization(`{sourceRef: {kind: GitRepository, name: fleet, namespace: flux-system}}`), git, git},
		{"a source is in the namespace of its application unless another is named", kustomization(`{sourceRef: {kind: OCIRepository, name: shop}}`), artifact, artifact},
		{"a HelmRelease has the revision of the artifact that chartRef names", release(`{chartRef: {kind: OCIRepository, name: shop}}`), artifact, artifact},
		{"a chart of a HelmRepository has a version of its own", release(`{chart: {spec: {chart: shop, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}}`),
			chart, application.Source{}},
		{"and so it has with reconcileStrategy Revision", release(`{chart: {spec: {chart: shop, reconcileStrategy: Revision, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}}`),
			chart, application.Source{}},
		{"a chart in a Git repository has a version of its own", release(`{chart: {spec: {chart: ./shop, sourceRef: {kind: GitRepository, name: fleet, namespace: flux-system}}}}`),
			chart, application.Source{}},
		{"unless it has reconcileStrategy Revision", release(`{chart: {spec: {chart: ./shop, reconcileStrategy: Revision, sourceRef: {kind: GitRepository, name: fleet, namespace: flux-system}}}}`),
			chart, git},
		{"a kind that is not one of sources is none", kustomization(`{sourceRef: {kind: Secret, name: fleet}}`), application.Source{}, application.Source{}},
		{"a name that can't be one is none", kustomization(`{sourceRef: {kind: GitRepository, name: ../fleet}}`), application.Source{}, application.Source{}},
		{"an application without a source has none", kustomization(`{}`), application.Source{}, application.Source{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := decode(t, test.object, "")
			NewWithT(t).Expect([]application.Source{state.Source, state.RevisionSource}).To(Equal([]application.Source{test.fetched, test.revision}))
		})
	}
}

func TestASource(t *testing.T) {
	const conditions = `conditions: [{type: Ready, status: "True"}, {type: GatesOpen, status: "False", message: "gate change-freeze is closed; new artifacts are blocked"}]`
	git := func(spec string) string {
		return `{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {namespace: prod, name: fleet}, spec: ` + spec +
			`, status: {artifact: {revision: "v1@sha1:a"}, ` + conditions + `}}`
	}
	for _, test := range []struct {
		name, ref string
		follows   application.Branch
	}{
		{"follows the branch that it names", `{branch: main}`, application.Branch{URL: "https://git/fleet", Name: "main"}},
		{"follows master if it names none", `{}`, application.Branch{URL: "https://git/fleet", Name: "master"}},
		{"follows a branch that is named as a reference", `{branch: main, name: refs/heads/stable}`, application.Branch{URL: "https://git/fleet", Name: "stable"}},
		{"follows no branch with a tag", `{branch: main, tag: v1}`, application.Branch{}},
		{"follows no branch with a range of versions", `{semver: ">=1"}`, application.Branch{}},
		{"follows no branch with a reference to something else", `{name: refs/pull/1/head}`, application.Branch{}},
		{"follows no branch if it stays at a commit", `{branch: main, commit: 3b5e6f1}`, application.Branch{}},
	} {
		t.Run("a GitRepository "+test.name, func(t *testing.T) {
			state := decode(t, git(`{suspend: true, url: "https://git/fleet", ref: `+test.ref+`}`), "")
			NewWithT(t).Expect(state).To(Equal(application.State{
				Known: true, Ready: true, Revision: "v1@sha1:a", Suspended: true, Held: "gate change-freeze is closed", Follows: test.follows, Object: state.Object,
			}))
		})
	}
}

func TestASourceWhoseArtifactIsLost(t *testing.T) {
	g := NewWithT(t)
	bucket := func(status string) string {
		return `{apiVersion: source.toolkit.fluxcd.io/v1, kind: Bucket, metadata: {namespace: prod, name: fleet}, status: {conditions: [
			{type: ArtifactLost, status: "` + status + `", message: "sha256:` + strings.Repeat("a", 64) + `@sha256:` + strings.Repeat("b", 64) + ` was lost by source-controller; it is being restored until noon"}]}}`
	}
	g.Expect(decode(t, bucket("True"), "").Lost).To(Equal("drift is not corrected: sha256:aaaaaaaa was lost by source-controller; it is being restored until noon"))
	g.Expect(decode(t, bucket("False"), "").Lost).To(BeEmpty())
}
