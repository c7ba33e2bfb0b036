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
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("A leaf cluster in which Flux reconciles", Ordered, func() {
	var (
		leaf  *localcluster.Cluster
		admin client.Client // of the leaf
	)
	overlay := func(env, version string) map[string]string {
		return map[string]string{env + "/kustomization.yaml": fmt.Sprintf(`resources: [../base]
images:
- name: registry.example.com/shop
  newTag: %[2]s # {"$promotion": "flux-system:leaf-flux:%[1]s"}
`, env, version)}
	}
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: leaf-flux-%s}}"
	const role = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: sluice, namespace: leaf-flux-prod}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sluice, namespace: leaf-flux-prod}
rules: %s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sluice, namespace: leaf-flux-prod}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice}
subjects: [{kind: ServiceAccount, name: sluice, namespace: leaf-flux-prod}]
`

	BeforeAll(func(ctx SpecContext) {
		var err error
		leaf, err = localcluster.Start(ctx, localcluster.Options{Flux: []localcluster.FluxController{localcluster.SourceController, localcluster.KustomizeController}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(leaf.Stop()).To(Succeed()) })
		admin, err = client.New(leaf.Config, client.Options{Scheme: world.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())

		_, err = world.Git.CreateRepository("leaf-flux")
		Expect(err).NotTo(HaveOccurred())
		for _, files := range []map[string]string{
			{"base/deployment.yaml": monorepoBase, "base/kustomization.yaml": "resources: [deployment.yaml]\n"}, overlay("dev", "1.0.0"), overlay("prod", "1.0.0"),
		} {
			Expect(world.Commit("leaf-flux", "Begin", files)).To(Succeed())
		}
		// The Flux of either cluster reconciles an environment's overlay.
		apply(ctx, namespace, "dev")
		syncFrom(ctx, "leaf-flux", "leaf-flux-dev", "2s", "./dev", "targetNamespace: leaf-flux-dev")
		Expect(leaf.Apply(ctx, fmt.Appendf(nil, namespace, "prod"))).To(Succeed())
		Expect(leaf.Apply(ctx, []byte(syncOf("leaf-flux", "leaf-flux-prod", "2s", "./prod", "targetNamespace: leaf-flux-prod")))).To(Succeed())
		Expect(leaf.Apply(ctx, fmt.Appendf(nil, role, "[]"))).To(Succeed())
		allowWorkloads(ctx)
		DeferCleanup(forbidWorkloads)

		request := &authenticationv1.TokenRequest{}
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = "leaf-flux-prod", "sluice"
		Expect(admin.SubResource("token").Create(ctx, account, request)).To(Succeed())
		secretOf(ctx, "leaf-flux", leafserver.Kubeconfig(leaf.Config.Host, leaf.Config.CAData, request.Status.Token))
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: leaf-flux, namespace: flux-system}
spec:
  appRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  revision: {expr: "object.spec.template.spec.containers[0].image.split(':')[1]"}
  environments:
  - {name: dev, targets: [{namespace: leaf-flux-dev}]}
  - {name: prod, targets: [{namespace: leaf-flux-prod, clusterRef: {kind: Secret, name: leaf-flux}}]}
  promotion: {strategy: {pull-request: {type: gitea, url: '%s', baseBranch: main, secretRef: {name: fleet-credentials}}}}
`, world.RepositoryURL("leaf-flux"))
		DeferCleanup(func(ctx SpecContext) {
			deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "leaf-flux"))
		})
	})

	It("must allow reading of its workloads", func(ctx SpecContext) {
		Eventually(ctx, ready("leaf-flux")).Should(HaveField("Message", Equal(
			"prod: Deployment leaf-flux-prod/shop in cluster leaf-flux can't be read: the kubeconfig's user may not list objects of kind Deployment.apps in namespace leaf-flux-prod: "+
				"allow it to get, list and watch them")))
		Expect(leaf.Apply(ctx, fmt.Appendf(nil, role, "[{apiGroups: [apps], resources: [deployments], verbs: [get, list, watch]}]"))).To(Succeed())
		Eventually(ctx, ready("leaf-flux")).Should(HaveField("Message", "every environment runs 1.0.0"))
	})

	It("runs a revision once its pull request is merged", func(ctx SpecContext) {
		Expect(world.Commit("leaf-flux", "Release", overlay("dev", "1.1.0"))).To(Succeed())
		Eventually(ctx, record("leaf-flux", "prod")).Should(haveState(pipelinesv1.PromotionCreated))
		promotion, err := record("leaf-flux", "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		mergeInGitea(ctx, "leaf-flux", promotion.PullRequest.Number)
		Eventually(ctx, ready("leaf-flux")).Should(HaveField("Message", "every environment runs 1.1.0"))
		Expect(pullRequestsIn("leaf-flux")).To(HaveLen(1))
	})
})
