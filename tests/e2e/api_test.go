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

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// pipelineOf makes a Pipeline of the spec given in YAML.
func pipelineOf(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	obj := object("pipelines.weave.works/v1alpha1", "Pipeline", flux, "")
	obj.SetGenerateName("api-")
	var parsed map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &parsed)).To(Succeed())
	obj.Object["spec"] = parsed
	return obj
}

const helmRelease = "appRef: {apiVersion: helm.toolkit.fluxcd.io/v2beta1, kind: HelmRelease, name: podinfo}\n"

var _ = Describe("The Pipeline API", func() {
	DescribeTable("takes what users of the project before have", func(ctx SpecContext, spec string) {
		Expect(world.Client.Create(ctx, pipelineOf(spec), client.DryRunAll)).To(Succeed())
	},
		Entry("a Pipeline to look at only, without any promotion", helmRelease+`
environments:
- {name: dev, targets: [{namespace: dev}]}
- {name: prod, targets: [{namespace: prod}]}`),
		Entry("environments that are patched in later", helmRelease+`environments: []`),
		Entry("an environment without targets", helmRelease+`environments: [{name: dev, targets: []}]`),
		Entry("upper-case names with dashes", helmRelease+`environments: [{name: DEV-EU-1, targets: [{namespace: dev}]}]`),
		Entry("two environments that are the same object", helmRelease+`
environments:
- {name: dev, targets: [{namespace: default}]}
- {name: prod, targets: [{namespace: default}]}
promotion: {strategy: {notification: {}}}`),
		Entry("targets in clusters, with and without the cluster's namespace", helmRelease+`
environments:
- name: dev
  targets:
  - {namespace: podinfo-01-dev, clusterRef: {kind: GitopsCluster, name: dev, namespace: flux-system}}
  - {namespace: podinfo-01-dev, clusterRef: {apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, name: dev}}`),
		Entry("a manual promotion by pull request, with a key for approvals and one of its own for prod", helmRelease+`
environments:
- {name: dev, targets: [{namespace: dev}]}
- name: prod
  targets: [{namespace: prod}]
  promotion: {manual: true, strategy: {secretRef: {name: hmac}, notification: {}}}
promotion:
  manual: true
  strategy:
    secretRef: {name: hmac}
    pull-request: {type: gitlab, url: "https://gitlab.com/group/sub/fleet", baseBranch: main, secretRef: {name: promotion-credentials}}`),
		Entry("two strategies at once, which are an error of the status and not of the schema", helmRelease+`
environments: [{name: dev, targets: [{namespace: dev}]}]
promotion: {strategy: {notification: {}, pull-request: {type: bitbucket-server, url: "https://b", baseBranch: main, secretRef: {name: s}}}}`),
	)

	DescribeTable("refuses what can't be meant, and says so", func(ctx SpecContext, spec, message string) {
		err := world.Client.Create(ctx, pipelineOf(spec), client.DryRunAll)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("two environments of one name", helmRelease+`
environments:
- {name: dev, targets: [{namespace: a}]}
- {name: dev, targets: [{namespace: b}]}`, `Duplicate value: {"name":"dev"}`),
		Entry("an unknown requirement", helmRelease+`
environments: []
promotion: {gates: {require: some, refs: [a]}, strategy: {notification: {}}}`, `supported values: "all", "oneOf"`),
		Entry("a gate whose name can't be one", helmRelease+`
environments: []
promotion: {gates: {refs: ["Change Freeze"]}, strategy: {notification: {}}}`, "promotion.gates.refs[0]"),
		Entry("more gates than anybody can watch", helmRelease+`
environments: []
promotion: {gates: {refs: [`+strings.Join(manyNames(65), ",")+`]}, strategy: {notification: {}}}`, "must have at most 64 items"),
		Entry("a Git host that nobody has heard of", helmRelease+`
environments: []
promotion: {strategy: {pull-request: {type: sourceforge, url: "https://x", baseBranch: main, secretRef: {name: s}}}}`, `Unsupported value: "sourceforge"`),
	)

	It("comes with samples that a cluster takes", func(ctx SpecContext) {
		_, err := run(ctx, "kubectl", "apply", "--dry-run=server", "-k", "../../config/samples")
		Expect(err).NotTo(HaveOccurred())
	})
})

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "g" + strings.Repeat("x", i)
	}
	return names
}
