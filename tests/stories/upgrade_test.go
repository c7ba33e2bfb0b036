//go:build e2e_node

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

package stories

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("An upgrade", Ordered, func() {
	const (
		story = "cart"
		gate  = "cart-freeze"
		prod  = story + "-prod"
	)
	var (
		images   map[string]string
		revision string
	)
	image := func(ctx SpecContext, controller string) string {
		return podOf(ctx, controller).Spec.Containers[0].Image
	}

	BeforeAll(func(ctx SpecContext) {
		install(ctx, previousVersion)
		startFleet(ctx, story, `
  - {name: prod, targets: [{namespace: cart-prod}]}
`, story+"-dev", prod)
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: true}}", gate)
		DeferCleanup(func(ctx SpecContext) { remove(ctx, "gate/"+gate) })
		upon.commit("held", map[string]string{"deploy/app.yaml": application("v1.0.0")})
		deploy(ctx, "cart-held", "held")
		DeferCleanup(func(ctx SpecContext) { undeploy(ctx, "cart-held") })
		Eventually(ctx, runs("cart-held")).Should(Equal("v1.0.0"))
	})

	It("finds a source that is held and a pull request that is open", func(ctx SpecContext) {
		gated(ctx, "cart-held", gate)
		Eventually(ctx, held("cart-held")).Should(BeTrue())
		var err error
		revision, err = fetched("cart-held")(ctx)
		Expect(err).NotTo(HaveOccurred())
		upon.commit("held", map[string]string{"deploy/app.yaml": application("v2.0.0")})

		Eventually(ctx, runs(prod)).Should(Equal("v1.0.0"))
		upon.release(story, "v1.1.0")
		Eventually(ctx, record(story, "prod")).Should(haveState(pipelinesv1.PromotionCreated))
		images = map[string]string{}
		for _, controller := range controllers {
			images[controller] = image(ctx, controller)
		}
	})

	It("runs other images", func(ctx SpecContext) {
		install(ctx, thisVersion)
		for _, controller := range controllers {
			Expect(image(ctx, controller)).NotTo(Equal(images[controller]))
		}
	})

	It("has lost nothing and opened nothing", func(ctx SpecContext) {
		Expect(held("cart-held")(ctx)).To(BeTrue())
		Consistently(ctx, fetched("cart-held")).Should(Equal(revision))
		Expect(upon.pullRequests(fleetOf(story))).To(ConsistOf(HaveField("State", BeEquivalentTo("open"))))
		Expect(record(story, "prod")(ctx)).To(haveState(pipelinesv1.PromotionCreated))
	})

	It("continues from there", func(ctx SpecContext) {
		mergePromotion(ctx, story, "prod", 1)
		Eventually(ctx, runs(prod)).Should(Equal("v1.1.0"))
		fluxCLI(ctx, "open", "gate", gate)
		Eventually(ctx, runs("cart-held")).Should(Equal("v2.0.0"))
	})
})
