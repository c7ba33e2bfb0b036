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
	"fmt"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// monorepoApp is an application of the monorepo, and where its version in an environment is found.
type monorepoApp struct {
	name, kind, expr string
	// file sets the version of an environment. content is its text.
	file, content string
}

// monorepoApps are the ways to set versions in one repository for all environments.
var monorepoApps = []monorepoApp{
	{
		name: "tagged", kind: "kustomize.toolkit.fluxcd.io/v1, kind: Kustomization", expr: "object.spec.images[0].newTag", file: "clusters/tagged-%s.yaml",
		content: `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: tagged, namespace: mono-%[1]s}
spec:
  interval: 24h
  sourceRef: {kind: GitRepository, name: mono, namespace: flux-system}
  path: ./apps/base
  targetNamespace: mono-%[1]s
  namePrefix: tagged-
  prune: true
  images:
  - name: registry.example.com/shop
    newTag: %[2]s # {"$promotion": "flux-system:tagged:%[1]s"}
`,
	},
	{
		name: "substituted", kind: "kustomize.toolkit.fluxcd.io/v1, kind: Kustomization", expr: "object.spec.postBuild.substitute.version", file: "clusters/substituted-%s.yaml",
		content: `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: substituted, namespace: mono-%[1]s}
spec:
  interval: 24h
  sourceRef: {kind: GitRepository, name: mono, namespace: flux-system}
  path: ./apps/substituted
  targetNamespace: mono-%[1]s
  prune: true
  postBuild:
    substitute:
      version: %[2]s # {"$promotion": "flux-system:substituted:%[1]s"}
`,
	},
	{
		name: "shop", kind: "apps/v1, kind: Deployment", expr: "object.spec.template.spec.containers[0].image.split(':')[1]", file: "apps/%s/kustomization.yaml",
		content: `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: mono-%[1]s
resources: [../base]
images:
- name: registry.example.com/shop
  newTag: %[2]s # {"$promotion": "flux-system:shop:%[1]s"}
`,
	},
}

func (a monorepoApp) fileIn(env, version string) (path, content string) {
	return fmt.Sprintf(a.file, env), fmt.Sprintf(a.content, env, version)
}

const monorepoBase = `apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: registry.example.com/shop}]}
`

// allowWorkloads allows pipeline-controller to read workloads, as the component does. forbidWorkloads reverts that.
func allowWorkloads(ctx context.Context) {
	GinkgoHelper()
	Expect(world.Cluster.ApplyKustomization(ctx, kustomizationWith(GinkgoT().TempDir(), "workloads"))).To(Succeed())
}

func forbidWorkloads(ctx SpecContext) {
	binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "sluice-pipeline-controller-workloads")
	Expect(client.IgnoreNotFound(world.Client.Delete(ctx, binding))).To(Succeed())
}

var _ = Describe("A monorepo, with one GitRepository and a Kustomization for each environment", Ordered, func() {
	environments := []string{"dev", "staging", "prod"}

	// set commits a version of all applications for an environment.
	set := func(env, version string) {
		GinkgoHelper()
		files := map[string]string{}
		for _, app := range monorepoApps {
			path, content := app.fileIn(env, version)
			files[path] = content
		}
		Expect(world.Commit("mono", fmt.Sprintf("Run %s in %s", version, env), files)).To(Succeed())
	}
	pipeline := func(ctx context.Context, name, more string, app monorepoApp) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system}
spec:
  appRef: {apiVersion: %s, name: %s}
  %s
  environments:
  - {name: dev, targets: [{namespace: mono-dev}]}
  - {name: staging, targets: [{namespace: mono-staging}]}
  - {name: prod, targets: [{namespace: mono-prod}], promotion: {gates: {refs: [mono-freeze]}, strategy: {pull-request: %[5]s}}}
  promotion: {strategy: {pull-request: %[5]s}}
`, name, app.kind, app.name, more, fmt.Sprintf("{type: gitea, url: '%s', baseBranch: main, secretRef: {name: fleet-credentials}}", world.RepositoryURL("mono")))
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)) })
	}

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("mono")
		Expect(err).NotTo(HaveOccurred())
		files := map[string]string{
			"apps/base/deployment.yaml": monorepoBase, "apps/base/kustomization.yaml": "resources: [deployment.yaml]\n",
			"apps/substituted/deployment.yaml": strings.NewReplacer("name: shop}", "name: substituted}", "registry.example.com/shop}", "'registry.example.com/shop:${version}'}").Replace(monorepoBase),
		}
		for _, env := range environments {
			files["clusters/shop-"+env+".yaml"] = fmt.Sprintf(`apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: mono-%[1]s}
spec: {interval: 24h, path: ./apps/%[1]s, prune: true, sourceRef: {kind: GitRepository, name: mono, namespace: flux-system}}
`, env)
		}
		Expect(world.Commit("mono", "Add the applications", files)).To(Succeed())
		for _, env := range environments {
			set(env, "1.0.0")
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: mono-%s}}", env)
		}
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: mono-freeze, namespace: flux-system}
spec: {closed: true}
`)
		syncFrom(ctx, "mono", flux, "2s", "./clusters", "")
		for _, app := range monorepoApps {
			pipeline(ctx, app.name, "revision: {expr: \""+app.expr+"\"}", app)
		}
	})

	It("says which rule is missing where workloads may not be read", func(ctx SpecContext) {
		Eventually(ctx, ready("shop")).Should(And(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", pipelinesv1.TargetNotReadableReason),
			HaveField("Message", MatchRegexp(`^dev: Deployment mono-dev/shop can't be read: the controller may not \w+ objects of kind Deployment\.apps in namespace mono-dev: `+
				`allow it to get, list and watch them, see config/components/workloads$`))))
		allowWorkloads(ctx)
	})
	AfterAll(forbidWorkloads)

	It("takes its version from the expression, not from the source that all environments share", func(ctx SpecContext) {
		for _, app := range monorepoApps {
			Eventually(ctx, ready(app.name)).Should(HaveField("Message", "every environment runs 1.0.0"), app.name)
		}
	})

	It("is promoted to staging by one pull request for each application", func(ctx SpecContext) {
		set("dev", "1.1.0")
		for _, app := range monorepoApps {
			Eventually(ctx, record(app.name, "staging")).Should(haveState(pipelinesv1.PromotionCreated), app.name)
			promotion, err := record(app.name, "staging")(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(promotion.Revision).To(Equal("1.1.0"))
			path, want := app.fileIn("staging", "1.1.0")
			Expect(world.ReadFile("mono", promotion.PullRequest.HeadCommit, path)).To(Equal(want), "only the marked value's bytes change")
			mergeInGitea(ctx, "mono", promotion.PullRequest.Number)
		}
	})

	It("waits for the gate before prod, though every merge is a new revision of the source", func(ctx SpecContext) {
		for _, app := range monorepoApps {
			Eventually(ctx, ready(app.name)).Should(HaveField("Message", "prod: 1.1.0 waits: gate mono-freeze is closed"), app.name)
		}
		Expect(pullRequestsIn("mono")).To(HaveLen(len(monorepoApps)))

		By("changing what prod runs, which Flux must still correct")
		deployment := object("apps/v1", "Deployment", "mono-prod", "tagged-shop")
		replicas := field(deployment, "spec", "replicas")
		Expect(world.Client.Patch(ctx, deployment.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))).To(Succeed())
		request(ctx, object(kustomizeAPI, "Kustomization", "mono-prod", "tagged"))
		Eventually(ctx, replicas).Should(BeEquivalentTo(0))
	})

	It("arrives in prod once the gate is open", func(ctx SpecContext) {
		_, err := run(ctx, "flux", "open", "gate", "mono-freeze")
		Expect(err).NotTo(HaveOccurred())
		for _, app := range monorepoApps {
			Eventually(ctx, record(app.name, "prod")).Should(haveState(pipelinesv1.PromotionCreated), app.name)
			promotion, err := record(app.name, "prod")(ctx)
			Expect(err).NotTo(HaveOccurred())
			mergeInGitea(ctx, "mono", promotion.PullRequest.Number)
		}
		for _, app := range monorepoApps {
			Eventually(ctx, ready(app.name)).Should(HaveField("Message", "every environment runs 1.1.0"), app.name)
		}
		Expect(pullRequestsIn("mono")).To(HaveLen(2 * len(monorepoApps)))
	})

	It("is refused without an expression, since all environments report the source's revision", func(ctx SpecContext) {
		pipeline(ctx, "shared-source", "suspend: false", monorepoApps[0])
		shared := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "shared-source")
		for _, of := range []string{meta.ReadyCondition, meta.StalledCondition} {
			Eventually(ctx, condition(shared, of)).Should(And(HaveField("Reason", pipelinesv1.SharedSourceReason), HaveField("Message",
				"environments dev and staging take their revision from the same source, GitRepository flux-system/mono: "+
					"set spec.revision.expr, such as object.spec.images[0].newTag, or give each environment its own source")), of)
		}
		set("dev", "1.2.0")
		Eventually(ctx, record("tagged", "staging")).Should(And(HaveField("Revision", "1.2.0"), haveState(pipelinesv1.PromotionCreated)))
		Expect(record("shared-source", "staging")(ctx)).To(BeZero())
	})

	DescribeTable("is refused with an expression", func(ctx SpecContext, app monorepoApp, expr string, refused OmegaMatcher) {
		app.expr = expr
		name := "expression"
		more := "suspend: false"
		if expr != "" {
			more = fmt.Sprintf("revision: {expr: %q}", expr)
		}
		pipeline(ctx, name, more, app)
		Eventually(ctx, ready(name)).Should(refused)
	},
		Entry("that is none", monorepoApps[0], "object.spec.", And(HaveField("Reason", pipelinesv1.InvalidSpecReason), HaveField("Message", HavePrefix("spec.revision.expr is not valid: ERROR: <input>:1:13: Syntax error")))),
		Entry("of a field that the object does not have", monorepoApps[0], "object.spec.images[1].newTag", And(HaveField("Reason", pipelinesv1.TargetNotReadableReason),
			HaveField("Message", "dev: Kustomization mono-dev/tagged can't be read: spec.revision.expr: index out of bounds: 1"))),
		Entry("that is missing, for a kind without a revision of its own", monorepoApps[2], "", And(HaveField("Reason", pipelinesv1.InvalidSpecReason),
			HaveField("Message", "kind Deployment has no revision: set spec.revision.expr"))),
	)

	It("is refused if the first environment follows the branch that promotions are merged into", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: loop, namespace: mono-dev}
spec: {interval: 24h, path: ./apps/base, prune: true, targetNamespace: mono-dev, namePrefix: loop-, sourceRef: {kind: GitRepository, name: mono, namespace: flux-system}}
`)
		deploy(ctx, "app", "loop-staging", "v1.0.0")
		pullRequest := fmt.Sprintf("{type: gitea, url: '%s', baseBranch: main, merge: auto, secretRef: {name: fleet-credentials}}", world.RepositoryURL("mono"))
		apply(ctx, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: loop, namespace: loop-staging}
spec: {interval: 24h, path: ./deploy, prune: true, targetNamespace: loop-staging, namePrefix: loop-, sourceRef: {kind: GitRepository, name: loop-staging, namespace: flux-system}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: loop, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: loop}
  environments:
  - {name: dev, targets: [{namespace: mono-dev}]}
  - {name: staging, targets: [{namespace: loop-staging}]}
  promotion: {strategy: {pull-request: %s}}
`, pullRequest)
		loop := object(kustomizeAPI, kustomizev1.KustomizationKind, "mono-dev", "loop")
		DeferCleanup(func(ctx SpecContext) {
			deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "loop"), loop)
		})
		Eventually(ctx, ready("loop")).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", pipelinesv1.PromotionLoopReason), HaveField("Message",
			HavePrefix("GitRepository flux-system/mono of environment dev follows branch main, which promotions are merged into"))))
		// The others may still be opening theirs.
		Expect(pullRequestsIn("mono")).NotTo(ContainElement(HaveField("Title", ContainSubstring("flux-system/loop"))))
	})
})
