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
	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("A revision that was promoted", Ordered, func() {
	const revision = `v2\.0\.0@sha1:[0-9a-f]{8}`
	prod := func(of ...string) func(SpecContext) (any, error) {
		read := field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "held-up"), append([]string{"status", "environments", "prod"}, of...)...)
		return func(ctx SpecContext) (any, error) { return read(ctx) }
	}
	approve := func(ctx SpecContext) {
		GinkgoHelper()
		_, err := run(ctx, "flux", "approve", "promotion", "held-up", "--env=prod", "--yes")
		Expect(err).NotTo(HaveOccurred())
	}

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("held-up")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0"} {
			Expect(world.Release("held-up", version)).To(Succeed())
		}
		deploy(ctx, "held-up", "held-up-dev", "v2.0.0")
		deploy(ctx, "held-up", "held-up-prod", "v1.0.0")
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: held-up, namespace: flux-system}
spec: {closed: true}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: held-up, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: held-up}
  environments:
  - {name: dev, targets: [{namespace: held-up-dev}]}
  - {name: prod, targets: [{namespace: held-up-prod}]}
  promotion: {approvals: {required: 1}, strategy: {notification: {}}}
`)
		Eventually(ctx, prod("waitingApproval", "revision")).Should(MatchRegexp("^v2"))
	})

	It("is held by the gate of its source, and all commands say so", func(ctx SpecContext) {
		source := object(sourceAPI, "GitRepository", flux, "held-up-prod")
		patch := []byte(`{"metadata":{"annotations":{"gating.toolkit.fluxcd.io/gates":"held-up"}}}`)
		Expect(world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		approve(ctx)
		held := revision + ` was promoted and is not rolled out yet: GitRepository flux-system/held-up-prod is held: gate held-up is closed`
		Eventually(ctx, prod("message")).Should(MatchRegexp("^" + held + "$"))
		for _, look := range [][]string{{"kubectl", "get", "pipelines", "held-up", "-n", flux}, {"flux", "pipeline", "why", "held-up"}} {
			said, err := run(ctx, look[0], look[1:]...)
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(MatchRegexp("prod: " + held))
		}

		By("naming that gate in the promotion too")
		patch = []byte(`{"spec":{"promotion":{"gates":{"refs":["held-up"]}}}}`)
		Expect(world.Client.Patch(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "held-up"), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		said, err := run(ctx, "flux", "gate", "get", "held-up")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(MatchRegexp("Pipeline/flux-system/held-up: prod: " + held))
	})

	It("arrives once the gate is open", func(ctx SpecContext) {
		_, err := run(ctx, "flux", "open", "gate", "held-up")
		Expect(err).NotTo(HaveOccurred())
		deploy(ctx, "held-up", "held-up-prod", "v2.0.0")
		Eventually(ctx, prod("state")).Should(Equal("Current"))
	})

	It("is rolled back, which is reported and promotes nothing", func(ctx SpecContext) {
		deploy(ctx, "held-up", "held-up-prod", "v1.0.0")
		rolledBack := "rolled back from " + revision + `: Kustomization held-up-prod/held-up runs v1\.0\.0@sha1:[0-9a-f]{8}; force the promotion to promote ` + revision + ` again`
		Eventually(ctx, prod("state")).Should(Equal("RolledBack"))
		Expect(prod("message")(ctx)).To(MatchRegexp("^" + rolledBack + "$"))
		Eventually(ctx, ready("held-up")).Should(And(HaveField("Reason", "RolledBack"), HaveField("Message", MatchRegexp("^prod: "+rolledBack+"$"))))
		promotion, err := record("held-up", "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(promotion.RollbackTime).NotTo(BeNil())
		said, err := run(ctx, "flux", "pipeline", "history", "held-up")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(MatchRegexp(`; rolled back to v1\.0\.0@sha1:[0-9a-f]{8} at `))
	})

	It("is promoted again if a person forces it, and others approve it again", func(ctx SpecContext) {
		before, err := record("held-up", "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		reconcile(ctx, "held-up", "again", meta.ForceRequestAnnotation)
		Eventually(ctx, ready("held-up")).Should(HaveField("Message", MatchRegexp("^prod: "+revision+" waits: .*approval")))
		after, err := record("held-up", "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.StartTime.After(before.StartTime.Time)).To(BeTrue())
		approve(ctx)
		Eventually(ctx, record("held-up", "prod")).Should(haveState(pipelinesv1.PromotionSucceeded))
	})
})
