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
	"fmt"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

var _ = Describe("A HelmRelease", Ordered, func() {
	var up *upstream.Server

	BeforeAll(func(ctx SpecContext) {
		helm, err := world.Cluster.StartFlux(ctx, localcluster.HelmController)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(helm.Stop)
		up = startUpstream(ctx)
	})

	It("of a chart from an OCIRepository is promoted by the tag that the repository knows", func(ctx SpecContext) {
		for namespace, version := range map[string]string{"charts-one": "2.0.0", "charts-two": "1.0.0"} {
			Expect(up.PushChart("charts", "app", version)).To(Succeed())
			apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: app, namespace: %[1]s}
spec:
  interval: 24h
  url: '%[2]s/app'
  insecure: true
  ref: {tag: %[3]s}
  layerSelector: {mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: app, namespace: %[1]s}
spec: {interval: 24h, chartRef: {kind: OCIRepository, name: app}}
`, namespace, up.OCIURL("charts"), version)
			release := object(helmAPI, helmv2.HelmReleaseKind, namespace, "app")
			DeferCleanup(func(ctx SpecContext) {
				Expect(world.Client.Delete(ctx, release)).To(Succeed())
				Eventually(ctx, field(release, "metadata", "uid")).Should(BeNil())
			})
		}

		const before = "tag: 1.0.0 # {\"$promotion\": \"flux-system:charts:two:tag\"}\n"
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		Expect(github.AddRepository(owner, "charts")).To(Succeed())
		_, err := github.CommitFiles(owner, "charts", "main", map[string]string{"app.yaml": before}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: charts, namespace: flux-system}
stringData: {token: %s}
data: {ca.crt: %s}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: charts, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: app}
  environments:
  - {name: one, targets: [{namespace: charts-one}]}
  - {name: two, targets: [{namespace: charts-two}]}
  promotion: {strategy: {pull-request: {type: github, url: '%s', baseBranch: main, secretRef: {name: charts}}}}
`, token, base64.StdEncoding.EncodeToString(github.CA()), github.RepositoryURL(owner, "charts"))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "charts"))).To(Succeed())
		})

		Eventually(ctx, record("charts", "two")).Should(haveState("created"))
		fetched, err := field(object(sourceAPI, sourcev1.OCIRepositoryKind, "charts-one", "app"), "status", "artifact", "revision")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(record("charts", "two")(ctx)).To(HaveField("Revision", BeEquivalentTo(fetched)), "2.0.0@sha256:…")
		pulls, err := github.PullRequests(owner, "charts")
		Expect(err).NotTo(HaveOccurred())
		after, err := github.ReadFile(owner, "charts", pulls[0].Head, "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(before, "1.0.0", "2.0.0", 1)))

		By("doing what Flux does after the merge")
		_, err = github.Merge(owner, "charts", 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Client.Patch(ctx, object(sourceAPI, sourcev1.OCIRepositoryKind, "charts-two", "app"),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ref":{"tag":"2.0.0"}}}`)))).To(Succeed())
		Eventually(ctx, ready("charts")).Should(HaveField("Reason", "UpToDate"))
		Eventually(ctx, record("charts", "two")).Should(haveState("succeeded"))
	})

	// The first environment uses each version that is published. The second one has its version in Git.
	It("of a chart from a HelmRepository is promoted by its version, which Flux takes from Git", func(ctx SpecContext) {
		const name, marker = "podinfo-01", ` # {"$promotion": "flux-system:podinfo-01:prod"}`
		release := func(env, version, marker string) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata:
  name: podinfo-01-%[1]s
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: podinfo
  namespace: podinfo-01-%[1]s
spec:
  interval: 2s
  url: %[2]s
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: podinfo
  namespace: podinfo-01-%[1]s
spec:
  interval: 5m
  chart:
    spec:
      chart: podinfo
      version: "%[3]s"%[4]s
      sourceRef:
        kind: HelmRepository
        name: podinfo
      interval: 2s
`, env, up.HelmURL("podinfo"), version, marker)
		}
		installed := func(env string) func(context.Context) (any, error) {
			return field(object("v1", "ConfigMap", name+"-"+env, "podinfo"), "data", "version")
		}
		Expect(up.PublishChart("podinfo", "podinfo", "6.0.0")).To(Succeed())
		_, err := world.Git.CreateRepository(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Commit(name, "Run podinfo in dev and prod", map[string]string{
			"dev/podinfo.yaml": release("dev", "6.x", ""), "prod/podinfo.yaml": release("prod", "6.0.0", marker),
		})).To(Succeed())
		// The releases are deleted after the objects that created them.
		DeferCleanup(func(ctx SpecContext) {
			for _, env := range []string{"dev", "prod"} {
				deleteAll(ctx, object(helmAPI, helmv2.HelmReleaseKind, name+"-"+env, "podinfo"))
			}
		})
		syncFrom(ctx, name, flux, "2s", "./", "")
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
  environments:
  - {name: dev, targets: [{namespace: %[1]s-dev}]}
  - {name: prod, targets: [{namespace: %[1]s-prod}]}
  promotion: {strategy: {pull-request: {type: gitea, url: '%[2]s', baseBranch: main, path: ./prod, secretRef: {name: fleet-credentials}}}}
`, name, world.RepositoryURL(name))
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)) })
		Eventually(ctx, ready(name)).Should(HaveField("Message", "every environment runs 6.0.0"))

		Expect(up.PublishChart("podinfo", "podinfo", "6.0.1")).To(Succeed())
		Eventually(ctx, record(name, "prod")).Should(And(haveState("created"), HaveField("Revision", "6.0.1")))
		Expect(installed("dev")(ctx)).To(Equal("6.0.1"))
		Expect(installed("prod")(ctx)).To(Equal("6.0.0"))
		promotion, err := record(name, "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.ReadFile(name, promotion.PullRequest.HeadCommit, "prod/podinfo.yaml")).To(Equal(release("prod", "6.0.1", marker)), "the version changes, and not a byte besides")
		mergeInGitea(ctx, name, promotion.PullRequest.Number)
		Eventually(ctx, installed("prod")).Should(Equal("6.0.1"))
		Eventually(ctx, ready(name)).Should(HaveField("Message", "every environment runs 6.0.1"))
		Eventually(ctx, record(name, "prod")).Should(haveState("succeeded"))
	})
})
