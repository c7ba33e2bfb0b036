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
	"encoding/base64"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

// The manifests correspond to those of github.com/weaveworks/pipeline-controller at commit 2ca1d66. That repository has
// no license, so they are not copies: they have the same kinds, fields, API versions and important names. Flux 2.9
// serves HelmReleases as v2 only, while 'appRef' names v2beta1.
var _ = Describe("A manifest of the predecessor", func() {
	// runs sets the chart version that a HelmRelease runs. Nothing reconciles it.
	runs := func(ctx context.Context, namespace, name, version string) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
		release := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		made, err := controllerutil.CreateOrPatch(ctx, world.Client, release, func() error {
			release.Spec = helmv2.HelmReleaseSpec{Suspend: true, ChartRef: &helmv2.CrossNamespaceSourceReference{Kind: "OCIRepository", Name: "none"}}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		if made == controllerutil.OperationResultCreated {
			DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, release)).To(Succeed()) })
		}
		before := release.DeepCopy()
		now := metav1.Now()
		release.Status.ObservedGeneration = release.Generation
		release.Status.History = helmv2.Snapshots{{
			Name: name, Namespace: namespace, ChartName: name, ChartVersion: version, Version: 1, Status: "deployed",
			Digest: "sha256:0", ConfigDigest: "sha256:0", FirstDeployed: now, LastDeployed: now,
		}}
		release.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: "InstallSucceeded",
			ObservedGeneration: release.Generation, LastTransitionTime: now}}
		Expect(world.Client.Status().Patch(ctx, release, client.MergeFrom(before))).To(Succeed())
	}
	deleteAfterwards := func(namespace, name string) {
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, name))).To(Succeed())
		})
	}

	It("of config/testdata/pipeline.yaml, with the same object in all environments, promotes nothing", func(ctx SpecContext) {
		runs(ctx, "default", "podinfo", "6.0.0")
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: podinfo-test
  namespace: default
spec:
  appRef:
    apiVersion: helm.toolkit.fluxcd.io/v2beta1
    kind: HelmRelease
    name: podinfo
  promotion:
    strategy:
      notification: {}
  environments:
    - name: dev
      targets:
        - namespace: default
    - name: prod
      targets:
        - namespace: default
`)
		deleteAfterwards("default", "podinfo-test")
		readyNow := condition(object(pipelinesAPI, pipelinesv1.PipelineKind, "default", "podinfo-test"), meta.ReadyCondition)
		Eventually(ctx, readyNow).Should(HaveField("Message", "every environment runs 6.0.0"))
		runs(ctx, "default", "podinfo", "6.0.1")
		Eventually(ctx, readyNow).Should(HaveField("Message", "every environment runs 6.0.1"))
		Expect(field(object(pipelinesAPI, pipelinesv1.PipelineKind, "default", "podinfo-test"), "status", "environments", "prod", "promotion")(ctx)).To(BeNil())
	})

	// asItIs applies an unchanged Pipeline that promotes by pull request, and expects that its Secret is missing.
	asItIs := func(ctx context.Context, host string) {
		GinkgoHelper()
		runs(ctx, "dev-"+host, "podinfo", "6.0.1")
		runs(ctx, "prod-"+host, "podinfo", "6.0.0")
		apply(ctx, predecessorsPullRequests, host)
		deleteAfterwards(flux, "podinfo-"+host)
		Eventually(ctx, ready("podinfo-"+host)).Should(And(HaveField("Reason", "PromotionFailed"),
			HaveField("Message", ContainSubstring("Secret flux-system/%s-promotion-credentials", host))))
	}

	It("of e2e/testdata/pipelines/gitlab says which Secret it lacks", func(ctx SpecContext) { asItIs(ctx, "gitlab") })

	It("of e2e/testdata/pipelines/github promotes by pull request, once it has its Secret and an address that exists", func(ctx SpecContext) {
		asItIs(ctx, "github")
		// podinfo-prod/release.yaml in the promoted repository.
		const release = `apiVersion: helm.toolkit.fluxcd.io/v2beta1
kind: HelmRelease
metadata:
  name: podinfo
  namespace: prod-github
spec:
  interval: 1m
  chart:
    spec:
      chart: podinfo
      version: "6.0.0" # {"$promotion": "flux-system:podinfo-github:prod"}
      sourceRef:
        kind: HelmRepository
        name: podinfo
      interval: 1m
`
		const repository = "predecessors"
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		Expect(github.AddRepository(owner, repository)).To(Succeed())
		_, err := github.CommitFiles(owner, repository, "main", map[string]string{"podinfo-prod/release.yaml": release}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: github-promotion-credentials, namespace: flux-system}
stringData: {username: git, password: %[1]s, token: %[1]s}
data: {ca.crt: %[2]s}
`, token, base64.StdEncoding.EncodeToString(github.CA()))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object("v1", "Secret", flux, "github-promotion-credentials"))).To(Succeed())
		})
		apply(ctx, strings.Replace(predecessorsPullRequests, "https://%[1]s.example.com/weaveworks/pipeline-controller-e2e", github.RepositoryURL(owner, repository), 1), "github")

		Eventually(ctx, record("podinfo-github", "prod")).Should(And(haveState(pipelinesv1.PromotionCreated), HaveField("Revision", "6.0.1")))
		pulls, err := github.PullRequests(owner, repository)
		Expect(err).NotTo(HaveOccurred())
		Expect(pulls).To(ConsistOf(HaveField("Title", "Promote flux-system/podinfo-github in prod to 6.0.1")))
		after, err := github.ReadFile(owner, repository, pulls[0].Head, "podinfo-prod/release.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(release, `"6.0.0"`, `"6.0.1"`, 1)))
	})

	It("of controllers/leveltriggered/promote_test.go promotes a revision into all environments, one after the other", func(ctx SpecContext) {
		for _, env := range []string{"dev", "staging", "prod"} {
			runs(ctx, "predecessor-"+env, "app", "v1.0.0")
		}
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: predecessor, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2beta1, kind: HelmRelease, name: app}
  environments:
  - {name: dev, targets: [{namespace: predecessor-dev}]}
  - {name: staging, targets: [{namespace: predecessor-staging}]}
  - {name: prod, targets: [{namespace: predecessor-prod}]}
  promotion: {strategy: {notification: {}}}
`)
		deleteAfterwards(flux, "predecessor")
		for _, version := range []string{"v1.0.1", "v1.0.2"} {
			runs(ctx, "predecessor-dev", "app", version)
			for _, env := range []string{"staging", "prod"} {
				Eventually(ctx, record("predecessor", env)).Should(And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Revision", version)))
				runs(ctx, "predecessor-"+env, "app", version)
			}
			Eventually(ctx, ready("predecessor")).Should(HaveField("Message", "every environment runs "+version))
		}
	})

	It("of controllers/leveltriggered/promote_test.go is pending until all targets of its first environment are ready on one revision", func(ctx SpecContext) {
		for _, namespace := range []string{"predecessor-one", "predecessor-after"} {
			runs(ctx, namespace, "app", "v1.0.0")
		}
		runs(ctx, "predecessor-two", "app", "v0.9.0")
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: predecessor-pending, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2beta1, kind: HelmRelease, name: app}
  environments:
  - {name: dev, targets: [{namespace: predecessor-one}, {namespace: predecessor-two}]}
  - {name: staging, targets: [{namespace: predecessor-after}]}
  promotion: {strategy: {notification: {}}}
`)
		deleteAfterwards(flux, "predecessor-pending")
		pending := condition(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "predecessor-pending"), pipelinesv1.PromotionPendingCondition)
		Eventually(ctx, pending).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "EnvironmentNotReady")))
		runs(ctx, "predecessor-two", "app", "v1.0.0")
		Eventually(ctx, pending).ShouldNot(HaveField("Status", BeEquivalentTo("True")))
	})

	It("of controllers/pipeline_controller_test.go says which cluster it lacks", func(ctx SpecContext) {
		Expect(world.Cluster.ApplyKustomization(ctx, kustomizationWith(GinkgoT().TempDir(), "gitops-clusters"))).To(Succeed())
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: predecessor-cluster, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2beta1, kind: HelmRelease, name: app}
  environments:
  - name: test
    targets: [{namespace: flux-system, clusterRef: {kind: GitopsCluster, name: predecessor-nowhere, namespace: flux-system}}]
`)
		deleteAfterwards(flux, "predecessor-cluster")
		Eventually(ctx, ready("predecessor-cluster")).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "TargetNotReadable"),
			HaveField("Message", ContainSubstring("GitopsCluster flux-system/predecessor-nowhere not found"))))
	})

	It("of controllers/pipeline_controller_test.go, without an API version of its application, is accepted, and says what it lacks", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: predecessor-unversioned, namespace: flux-system}
spec:
  appRef: {apiVersion: "", kind: HelmRelease, name: app}
  environments:
  - {name: test, targets: [{namespace: flux-system}]}
`)
		deleteAfterwards(flux, "predecessor-unversioned")
		Eventually(ctx, ready("predecessor-unversioned")).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("apiVersion"))))
	})
})

// predecessorsPullRequests takes the type of the Git host.
const predecessorsPullRequests = `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: podinfo-%[1]s
  namespace: flux-system
spec:
  appRef:
    apiVersion: helm.toolkit.fluxcd.io/v2beta1
    kind: HelmRelease
    name: podinfo
  environments:
    - name: dev
      targets:
        - namespace: dev-%[1]s
    - name: prod
      targets:
        - namespace: prod-%[1]s
  promotion:
    strategy:
      pull-request:
        type: "%[1]s"
        baseBranch: "main"
        url: "https://%[1]s.example.com/weaveworks/pipeline-controller-e2e"
        secretRef:
          name: "%[1]s-promotion-credentials"
`
