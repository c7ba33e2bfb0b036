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
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// pipelineOf returns a Pipeline with the spec given in YAML.
func pipelineOf(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "")
	obj.SetGenerateName("api-")
	var parsed map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &parsed)).To(Succeed())
	obj.Object["spec"] = parsed
	return obj
}

const helmRelease = "appRef: {apiVersion: helm.toolkit.fluxcd.io/v2beta1, kind: HelmRelease, name: podinfo}\n"

var _ = Describe("The Pipeline API", func() {
	DescribeTable("accepts the manifests of its predecessor's users", func(ctx SpecContext, spec string) {
		Expect(world.Client.Create(ctx, pipelineOf(spec), client.DryRunAll)).To(Succeed())
	},
		Entry("a Pipeline to look at only, without any promotion", helmRelease+`
environments:
- {name: dev, targets: [{namespace: dev}]}
- {name: prod, targets: [{namespace: prod}]}`),
		Entry("environments that are patched in later", helmRelease+`environments: []`),
		Entry("an environment without targets", helmRelease+`environments: [{name: dev, targets: []}]`),
		Entry("upper-case names with dashes", helmRelease+`environments: [{name: DEV-EU-1, targets: [{namespace: dev}]}]`),
		Entry("names with dots, underscores, colons, and letters of other scripts", helmRelease+`
environments: [{name: eu_1.a, targets: []}, {name: "eu:west", targets: []}, {name: 生产, targets: []}]`),
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
		Entry("promotions of environments that add to the Pipeline's strategy, and one that has its own", helmRelease+`
environments:
- {name: dev, targets: [{namespace: dev}], promotion: {}}
- {name: uat, targets: [{namespace: uat}], promotion: {strategy: {notification: {}}}}
- {name: prod, targets: [{namespace: prod}], promotion: {gates: {refs: [change-freeze]}}}
promotion: {strategy: {pull-request: {type: github, url: "https://github.com/group/fleet", baseBranch: main, secretRef: {name: s}}}}`),
		Entry("two strategies at once, which are an error of the status and not of the schema", helmRelease+`
environments: [{name: dev, targets: [{namespace: dev}]}]
promotion: {strategy: {notification: {}, pull-request: {type: bitbucket-server, url: "https://b", baseBranch: main, secretRef: {name: s}}}}`),
	)

	DescribeTable("accepts as many environments and targets as allowed", func(ctx SpecContext, environments, targets int) {
		Expect(world.Client.Create(ctx, pipelineWith(environments, targets), client.DryRunAll)).To(Succeed())
	},
		Entry("64 environments with 8 targets each", 64, 8),
		Entry("one environment with 512 targets", 1, 512),
	)

	DescribeTable("refuses more, and says so", func(ctx SpecContext, environments, targets int, message string) {
		Expect(world.Client.Create(ctx, pipelineWith(environments, targets), client.DryRunAll)).To(MatchError(ContainSubstring(message)))
	},
		Entry("65 environments", 65, 1, "spec.environments: Too many: 65: must have at most 64 items"),
		Entry("an environment with 513 targets", 1, 513, "spec.environments[0].targets: Too many: 513: must have at most 512 items"),
		Entry("57 environments with 9 targets each", 57, 9, "all environments together can have at most 512 targets"),
	)

	DescribeTable("refuses what makes no sense, and says why", func(ctx SpecContext, spec, message string) {
		err := world.Client.Create(ctx, pipelineOf(spec), client.DryRunAll)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("two environments of one name", helmRelease+`
environments:
- {name: dev, targets: [{namespace: a}]}
- {name: dev, targets: [{namespace: b}]}`, `Duplicate value: {"name":"dev"}`),
		Entry("an environment whose name is a sentence", helmRelease+`environments: [{name: prod is broken, targets: []}]`, "environments[0].name"),
		Entry("an environment whose name is a link", helmRelease+`environments: [{name: "https://example.com", targets: []}]`, "environments[0].name"),
		Entry("an environment whose name gives orders to a terminal", helmRelease+`environments: [{name: "prod\e[2J", targets: []}]`, "environments[0].name"),
		Entry("an environment whose name mentions someone", helmRelease+`environments: [{name: "@everyone", targets: []}]`, "environments[0].name"),
		Entry("an environment with a longer name than anyone reads", helmRelease+`environments: [{name: `+strings.Repeat("x", 129)+`, targets: []}]`, "environments[0].name"),
		Entry("a namespace that is longer than one can be", helmRelease+`
environments: [{name: dev, targets: [{namespace: `+strings.Repeat("x", 64)+`}]}]`, "environments[0].targets[0].namespace"),
		Entry("an application whose name is longer than one can be", strings.Replace(helmRelease, "podinfo", strings.Repeat("x", 254), 1)+`environments: []`,
			"the apiVersion can have at most 317 characters, the kind 63, and the name 253"),
		Entry("a cluster whose name is longer than one can be", helmRelease+`
environments: [{name: dev, targets: [{namespace: a, clusterRef: {kind: Secret, name: `+strings.Repeat("x", 254)+`}}]}]`,
			"the apiVersion can have at most 317 characters, the name 253, and the namespace 63"),
		Entry("a Secret whose name is longer than one can be", helmRelease+`
environments: []
promotion: {strategy: {pull-request: {type: github, url: "https://x", baseBranch: main, secretRef: {name: `+strings.Repeat("x", 254)+`}}}}`,
			"the name can have at most 253 characters"),
		Entry("an unknown requirement", helmRelease+`
environments: []
promotion: {gates: {require: some, refs: [a]}, strategy: {notification: {}}}`, `supported values: "all", "oneOf"`),
		Entry("a gate whose name can't be one", helmRelease+`
environments: []
promotion: {gates: {refs: ["Change Freeze"]}, strategy: {notification: {}}}`, "promotion.gates.refs[0]"),
		Entry("more gates than anyone can watch", helmRelease+`
environments: []
promotion: {gates: {refs: [`+strings.Join(manyNames(65), ",")+`]}, strategy: {notification: {}}}`, "must have at most 64 items"),
		Entry("a path that leads out of the repository", helmRelease+`
environments: []
promotion: {strategy: {pull-request: {url: "https://github.com/group/fleet", baseBranch: main, path: ../other, secretRef: {name: s}}}}`,
			"path must begin at the root of the repository and have no '..', such as ./apps/prod"),
		Entry("a promotion without a strategy", helmRelease+`
environments: []
promotion: {manual: true}`, "spec.promotion: Invalid value: strategy is required: pull-request or notification"),
		Entry("a promotion of an environment that has no strategy to take", helmRelease+`
environments: [{name: dev, targets: []}, {name: prod, targets: [], promotion: {manual: true}}]`,
			"an environment's promotion without a strategy takes that of spec.promotion, and there is none: add spec.promotion, or give the environment's promotion a strategy"),
		Entry("a strategy in the place where the first drafts had it", helmRelease+`
environments: []
promotion: {pull-request: {url: "https://github.com/group/fleet", baseBranch: main, secretRef: {name: s}}}`,
			"spec.promotion.pull-request: Invalid value: pull-request belongs to the strategy: write strategy: {pull-request: {url: ..., baseBranch: ..., secretRef: {name: ...}}}"),
		Entry("that of an environment, which would go unread beside the Pipeline's", helmRelease+`
environments: [{name: dev, targets: []}, {name: prod, targets: [], promotion: {pull-request: {url: "https://github.com/group/prod"}}}]
promotion: {strategy: {notification: {}}}`, "spec.environments[1].promotion.pull-request: Invalid value: pull-request belongs to the strategy"),
		Entry("a notification in that place", helmRelease+`
environments: [{name: dev, targets: []}, {name: prod, targets: [], promotion: {notification: {}}}]
promotion: {strategy: {notification: {}}}`, "spec.environments[1].promotion.notification: Invalid value: notification belongs to the strategy: write strategy: {notification: {}}"),
		Entry("a Git host that nobody has heard of", helmRelease+`
environments: []
promotion: {strategy: {pull-request: {type: sourceforge, url: "https://x", baseBranch: main, secretRef: {name: s}}}}`, `Unsupported value: "sourceforge"`),
	)

	It("refuses a strategy where the first drafts had it, and says where it belongs", func(ctx SpecContext) {
		manifest := filepath.Join(GinkgoT().TempDir(), "pipeline.yaml")
		Expect(os.WriteFile(manifest, []byte(`
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: draft, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
  environments: []
  promotion: {pull-request: {url: "https://github.com/group/fleet", secretRef: {name: s}}}
`), 0o600)).To(Succeed())
		for _, args := range [][]string{{"create"}, {"apply"}, {"apply", "--server-side"}} {
			_, err := run(ctx, "kubectl", append(args, "--filename", manifest)...)
			Expect(err).To(MatchError(ContainSubstring("pull-request belongs to the strategy: write strategy: {pull-request:")), "kubectl %v", args)
		}
	})

	It("promotes nothing in a Pipeline without a strategy, and says what to add", func(ctx SpecContext) {
		empty := pipelineOf(helmRelease + `
environments: [{name: dev, targets: [{namespace: default}]}, {name: prod, targets: [{namespace: default}], promotion: {strategy: {}}}]`)
		Expect(world.Client.Create(ctx, empty)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, empty)).To(Succeed()) })
		Eventually(ctx, condition(empty, meta.StalledCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "InvalidSpec"),
			HaveField("Message", "environment prod: its promotion has no strategy, and there is no spec.promotion to take it from: add one of them")))
	})

	It("promotes nothing in a Pipeline from before names of environments were restricted, and says what to correct", func(ctx SpecContext) {
		crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "pipelines.pipelines.weave.works")
		const name = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/environments/items/properties/name/pattern"
		pattern := func(ctx context.Context, operation string) {
			GinkgoHelper()
			Expect(world.Client.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, "[%s]", operation)))).To(Succeed())
		}
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		restored, _, err := unstructured.NestedFieldNoCopy(versionOf(crd), strings.Split(strings.TrimPrefix(name, "/spec/versions/0/"), "/")...)
		Expect(err).NotTo(HaveOccurred())
		pattern(ctx, fmt.Sprintf(`{"op":"remove","path":%q}`, name))
		old := pipelineOf(helmRelease + `environments: [{name: "prod is broken\e[2J", targets: [{namespace: default}]}]`)
		Eventually(ctx, func(ctx context.Context) error { return world.Client.Create(ctx, old) }).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, old)).To(Succeed()) })
		pattern(ctx, fmt.Sprintf(`{"op":"add","path":%q,"value":%q}`, name, restored))

		Eventually(ctx, condition(old, meta.StalledCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "InvalidSpec"),
			HaveField("Message", HavePrefix("invalid name of environments[0]: it must consist of letters, digits"))))
	})

	It("promotes nothing in a Pipeline from before their number was limited, and says what to do", func(ctx SpecContext) {
		crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "pipelines.pipelines.weave.works")
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		without := crd.DeepCopy()
		spec, _, err := unstructured.NestedMap(versionOf(without), "schema", "openAPIV3Schema", "properties", "spec")
		Expect(err).NotTo(HaveOccurred())
		removeRules(spec)
		delete(spec["properties"].(map[string]any)["environments"].(map[string]any), "maxItems")
		replace := func(ctx context.Context, value any) {
			GinkgoHelper()
			patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": value}})
			Expect(err).NotTo(HaveOccurred())
			Expect(world.Client.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
		}
		restored, _, err := unstructured.NestedMap(versionOf(crd), "schema", "openAPIV3Schema", "properties", "spec")
		Expect(err).NotTo(HaveOccurred())
		replace(ctx, spec)
		old := pipelineWith(5000, 1)
		Eventually(ctx, func(ctx context.Context) error { return world.Client.Create(ctx, old) }).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, old)).To(Succeed()) })
		replace(ctx, restored)

		Eventually(ctx, condition(old, meta.StalledCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "InvalidSpec"),
			HaveField("Message", "the Pipeline has 5000 environments, at most 64 are allowed: split it")))
		Expect(field(old, "status", "environments")(ctx)).To(BeNil())
	})

	It("comes with samples that a cluster accepts", func(ctx SpecContext) {
		_, err := run(ctx, "kubectl", "apply", "--dry-run=server", "-k", "../../config/samples")
		Expect(err).NotTo(HaveOccurred())
	})
})

// versionOf returns the first version of a CRD.
func versionOf(crd *unstructured.Unstructured) map[string]any {
	GinkgoHelper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	Expect(err).NotTo(HaveOccurred())
	return versions[0].(map[string]any)
}

// removeRules removes all rules in CEL from a schema.
func removeRules(schema map[string]any) {
	delete(schema, "x-kubernetes-validations")
	for _, value := range schema {
		if inner, ok := value.(map[string]any); ok {
			removeRules(inner)
		}
	}
}

// pipelineWith returns a Pipeline with a number of environments and targets, in clusters that don't exist.
func pipelineWith(environments, targets int) *unstructured.Unstructured {
	GinkgoHelper()
	spec := &strings.Builder{}
	fmt.Fprint(spec, helmRelease, "environments:\n")
	for i := range environments {
		fmt.Fprintf(spec, "- name: e%d\n  targets:\n", i)
		for j := range targets {
			fmt.Fprintf(spec, "  - {namespace: n%d, clusterRef: {kind: Secret, name: c%d-%[1]d}}\n", j, i)
		}
	}
	return pipelineOf(spec.String())
}

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "g" + strings.Repeat("x", i)
	}
	return names
}
