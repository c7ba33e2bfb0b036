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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/standin"
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

	It("hold a chart by the gates of another shard's repository, and report together what a gate holds", func(ctx SpecContext) {
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

		By("labelling the chart, as a HelmRelease does, for a shard that does not exist")
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

var _ = Describe("Shards of pipeline-controller", func() {
	It("promote the Pipelines that they select, each once, and take over one when its label changes", func(ctx SpecContext) {
		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
		shards := map[string]*localcluster.Process{}
		for name, selector := range map[string]string{"one": "sharding.fluxcd.io/key=one", "rest": "!sharding.fluxcd.io/key"} {
			shard, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
				Name: "pipeline-controller-" + name, Binary: "pipeline-controller", ServiceAccount: "pipeline-controller",
				Args: []string{"--watch-label-selector=" + selector, "--approval-addr=", "--events-addr=" + world.Cluster.EventsAddr},
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(shard.Kill)
			shards[name] = shard
		}
		runs := func(namespace, revision string) {
			GinkgoHelper()
			key := client.ObjectKey{Namespace: namespace, Name: "sharded"}
			Expect(standin.Application{Key: key, Revision: revision, Ready: metav1.ConditionTrue}.Put(ctx, world.Client)).To(Succeed())
		}
		for _, namespace := range []string{"sharded-dev", "sharded-prod"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
		}
		runs("sharded-dev", "v2")
		runs("sharded-prod", "v1")
		for name, labels := range map[string]string{
			"sharded-one": "sharding.fluxcd.io/key: one", "sharded-rest": "", "sharded-nobody": "sharding.fluxcd.io/key: nobody",
		} {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system, labels: {%s}}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: sharded}
  environments:
  - {name: dev, targets: [{namespace: sharded-dev}]}
  - {name: prod, targets: [{namespace: sharded-prod}]}
  promotion: {strategy: {notification: {}}}
`, name, labels)
			DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)) })
		}
		promotedOnce := And(haveState(pipelinesv1.PromotionSucceeded), HaveField("Attempts", BeEquivalentTo(1)))
		environment := func(pipeline string) string {
			return `sluice_pipeline_environment{environment="prod",name="` + pipeline + `"`
		}

		for _, name := range []string{"one", "rest"} {
			Eventually(ctx, record("sharded-"+name, "prod")).Should(promotedOnce)
			Eventually(ctx, metricsOf(shards[name])).Should(ContainSubstring(environment("sharded-" + name)))
		}
		Expect(metrics(ctx, shards["one"])).NotTo(ContainSubstring(environment("sharded-rest")))
		Expect(metrics(ctx, shards["rest"])).NotTo(ContainSubstring(environment("sharded-one")))
		nobodys := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "sharded-nobody")
		Consistently(ctx, field(nobodys, "status", "environments")).Should(BeNil())

		By("labelling the Pipeline of no shard for an existing one")
		Expect(world.Client.Patch(ctx, nobodys.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"sharding.fluxcd.io/key":"one"}}}`)))).To(Succeed())
		Eventually(ctx, record("sharded-nobody", "prod")).Should(promotedOnce)

		By("moving a Pipeline to the other shard, which knows what was promoted")
		moved := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "sharded-rest")
		Expect(world.Client.Patch(ctx, moved.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"sharding.fluxcd.io/key":"one"}}}`)))).To(Succeed())
		Eventually(ctx, metricsOf(shards["one"])).Should(ContainSubstring(environment("sharded-rest")))
		Eventually(ctx, metricsOf(shards["rest"])).ShouldNot(ContainSubstring(environment("sharded-rest")))
		Consistently(ctx, record("sharded-rest", "prod")).Should(promotedOnce)
	})
})
