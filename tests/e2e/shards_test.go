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
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("Shards of gate-controller", func() {
	BeforeEach(func(ctx SpecContext) {
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
		for name, selector := range map[string]string{"one": "sharding.fluxcd.io/key=one", "rest": "!sharding.fluxcd.io/key"} {
			shard, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
				Name: "gate-controller-" + name, Binary: "gate-controller", ServiceAccount: "gate-controller", Args: []string{"--watch-label-selector=" + selector},
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(shard.Kill)
		}
	})

	It("hold a chart by the gates of another shard's repository, and tell together what a gate holds", func(ctx SpecContext) {
		up := startUpstream(ctx)
		Expect(up.PublishChart("shards", "app", "1.0.0")).To(Succeed())
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: shards, namespace: flux-system}
spec: {closed: true}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: shards, namespace: flux-system}
spec: {interval: 1s, url: '%s', gates: {refs: [shards]}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: {name: shards, namespace: flux-system, labels: {sharding.fluxcd.io/key: one}}
spec: {interval: 1s, chart: app, sourceRef: {kind: HelmRepository, name: shards}}
`, up.HelmURL("shards"))
		gate := object(gatingAPI, gatingv1.GateKind, flux, "shards")
		chart, repository := object(sourceAPI, sourcev1.HelmChartKind, flux, "shards"), object(sourceAPI, sourcev1.HelmRepositoryKind, flux, "shards")
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, chart)).To(Succeed())
			Expect(world.Client.Delete(ctx, repository)).To(Succeed())
		})
		Eventually(ctx, condition(chart, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(2))
		Expect(field(gate, "status", "sources")(ctx)).To(BeEquivalentTo(2))
		Expect(field(chart, "status", "artifact")(ctx)).To(BeNil())

		turnGate(ctx, "shards", false)
		Eventually(ctx, field(chart, "status", "artifact", "digest")).ShouldNot(BeNil())
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(0))
	})

	It("hold a chart by the gates of its repository when its labels are of no shard", func(ctx SpecContext) {
		up := startUpstream(ctx)
		Expect(up.PublishChart("no-shard", "app", "1.0.0")).To(Succeed())
		turnGate(ctx, "no-shard", false)
		apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: no-shard, namespace: flux-system}
spec: {interval: 1s, url: '%s', gates: {refs: [no-shard]}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: {name: no-shard, namespace: flux-system}
spec: {interval: 1s, chart: app, sourceRef: {kind: HelmRepository, name: no-shard}}
`, up.HelmURL("no-shard"))
		chart, repository := object(sourceAPI, sourcev1.HelmChartKind, flux, "no-shard"), object(sourceAPI, sourcev1.HelmRepositoryKind, flux, "no-shard")
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, chart)).To(Succeed())
			Expect(world.Client.Delete(ctx, repository)).To(Succeed())
		})
		revision := field(chart, "status", "artifact", "revision")
		Eventually(ctx, revision).Should(Equal("1.0.0"))

		By("labelling the chart, as a HelmRelease does, for a shard that there is not")
		Expect(world.Client.Patch(ctx, chart.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"sharding.fluxcd.io/key":"nobody"}}}`)))).To(Succeed())
		turnGate(ctx, "no-shard", true)
		Eventually(ctx, condition(chart, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))
		Eventually(ctx, heldAndObserved(chart)).Should(BeTrue())
		Expect(up.PublishChart("no-shard", "app", "1.1.0")).To(Succeed())
		Consistently(ctx, revision).Should(Equal("1.0.0"))

		turnGate(ctx, "no-shard", false)
		Eventually(ctx, revision).Should(Equal("1.1.0"))

		By("moving its repository to the other shard")
		Expect(world.Client.Patch(ctx, repository.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"sharding.fluxcd.io/key":"one"}}}`)))).To(Succeed())
		turnGate(ctx, "no-shard", true)
		Eventually(ctx, condition(chart, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "GateClosed"))
		turnGate(ctx, "no-shard", false)
		Eventually(ctx, condition(chart, gatingv1.GatesOpenCondition)).Should(HaveField("Reason", "AllGatesOpen"))
	})
})
