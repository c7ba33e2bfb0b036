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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("A Pipeline that Flux applies and waits for", Ordered, func() {
	const pipelineFile = `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: settling, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: settling}
  environments:
  - {name: dev, targets: [{namespace: settling-dev}]}
  - {name: prod, targets: [{namespace: settling-prod}]}
  promotion: {manual: true, strategy: %s}
`
	pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "settling")
	delivery := object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", flux, "settling-delivery")

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("settling")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0"} {
			Expect(world.Release("settling", version)).To(Succeed())
		}
		deploy(ctx, "settling", "settling-dev", "v2.0.0")
		deploy(ctx, "settling", "settling-prod", "v1.0.0")
		Expect(world.Commit("settling", "Add the pipeline", map[string]string{
			"delivery/pipeline.yaml": fmt.Sprintf(pipelineFile, "{notification: {}}"),
		})).To(Succeed())
		apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: settling-delivery, namespace: flux-system}
spec: {interval: 24h, url: '%s', ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: settling-delivery, namespace: flux-system}
spec: {interval: 24h, retryInterval: 5s, path: ./delivery, prune: true, wait: true, timeout: 20s, sourceRef: {kind: GitRepository, name: settling-delivery}}
`, world.RepositoryURL("settling"))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, delivery)).To(Succeed())
		})
	})

	It("is healthy while it waits for a person, and not settled", func(ctx SpecContext) {
		Eventually(ctx, field(pipeline, "status", "environments", "prod", "state")).Should(Equal("Waiting"))
		Eventually(ctx, condition(delivery, "Ready")).Should(HaveField("Status", metav1.ConditionTrue))
		Eventually(ctx, condition(pipeline, "Settled")).Should(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Message", MatchRegexp(`^prod: v2\.0\.0@sha1:[0-9a-f]{8} waits: `))))
		_, err := run(ctx, "flux", "pipeline", "wait", "settling", "--timeout=5s")
		Expect(err).To(MatchError(ContainSubstring("exit status 3")))
		Eventually(ctx, metricsOf(world.PipelineController)).Should(ContainSubstring(
			`sluice_pipeline_environment{environment="prod",name="settling",namespace="flux-system",state="Waiting"} 1`))
	})

	It("is settled once every environment runs the revision", func(ctx SpecContext) {
		_, err := run(ctx, "flux", "approve", "promotion", "settling", "--env=prod", "--yes")
		Expect(err).NotTo(HaveOccurred())
		deploy(ctx, "settling", "settling-prod", "v2.0.0")
		said, err := run(ctx, "flux", "pipeline", "wait", "settling", "--revision=v2.0.0")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(MatchRegexp(`✔ prod: runs v2\.0\.0@sha1:[0-9a-f]{8}`))
		Expect(condition(pipeline, "Settled")(ctx)).To(HaveField("Status", metav1.ConditionTrue))
	})

	It("fails the Kustomization that applies an invalid spec, and says why", func(ctx SpecContext) {
		Expect(world.Commit("settling", "Break the pipeline", map[string]string{
			"delivery/pipeline.yaml": fmt.Sprintf(pipelineFile, "{notification: {}, pull-request: {url: 'https://git.example/fleet', baseBranch: main, secretRef: {name: none}}}"),
		})).To(Succeed())
		_, err := run(ctx, "flux", "reconcile", "source", "git", "settling-delivery")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, condition(delivery, "Ready")).Should(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Message", ContainSubstring("Pipeline/flux-system/settling status: 'Failed'"))))
		Eventually(ctx, condition(pipeline, "Stalled")).Should(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring("must have exactly one of"))))
	})
})
