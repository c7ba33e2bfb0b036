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
	"encoding/base64"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("A HelmRelease", Ordered, func() {
	It("of a chart from an OCIRepository is promoted by the tag that the repository knows", func(ctx SpecContext) {
		helm, err := world.Cluster.StartFlux(ctx, localcluster.HelmController)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(helm.Stop)
		up := startUpstream(ctx)
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
			release := object("helm.toolkit.fluxcd.io/v2", "HelmRelease", namespace, "app")
			DeferCleanup(func(ctx SpecContext) {
				Expect(world.Client.Delete(ctx, release)).To(Succeed())
				Eventually(ctx, field(release, "metadata", "uid")).Should(BeNil())
			})
		}

		const before = "tag: 1.0.0 # {\"$promotion\": \"flux-system:charts:two:tag\"}\n"
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		Expect(github.AddRepository(owner, "charts")).To(Succeed())
		_, err = github.CommitFiles(owner, "charts", "main", map[string]string{"app.yaml": before}, "Begin")
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
			Expect(world.Client.Delete(ctx, object(pipelinesv1.GroupVersion.String(), pipelinesv1.PipelineKind, flux, "charts"))).To(Succeed())
		})

		Eventually(ctx, record("charts", "two")).Should(haveState("created"))
		fetched, err := field(object(sourceAPI, "OCIRepository", "charts-one", "app"), "status", "artifact", "revision")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(record("charts", "two")(ctx)).To(HaveField("Revision", BeEquivalentTo(fetched)), "2.0.0@sha256:…")
		pulls, err := github.PullRequests(owner, "charts")
		Expect(err).NotTo(HaveOccurred())
		after, err := github.ReadFile(owner, "charts", pulls[0].Head, "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(after)).To(Equal(strings.Replace(before, "1.0.0", "2.0.0", 1)))

		By("doing what Flux does once that is merged")
		_, err = github.Merge(owner, "charts", 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Client.Patch(ctx, object(sourceAPI, "OCIRepository", "charts-two", "app"),
			client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ref":{"tag":"2.0.0"}}}`)))).To(Succeed())
		Eventually(ctx, ready("charts")).Should(HaveField("Reason", "UpToDate"))
		Eventually(ctx, record("charts", "two")).Should(haveState("succeeded"))
	})
})
