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

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("A gate of another namespace", Ordered, func() {
	const tenant = "tenant-a"

	gate := func(ctx context.Context, name string, closed bool, accessFrom string) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t%s}}",
			name, closed, accessFrom)
	}
	label := func(ctx context.Context, namespace, patch string) {
		GinkgoHelper()
		Expect(world.Client.Patch(ctx, object("v1", "Namespace", "", namespace),
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":%s}}`, patch)))).To(Succeed())
	}
	source := func(ctx context.Context, name, refs string) *unstructured.Unstructured {
		GinkgoHelper()
		apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: %s}, spec: {interval: 24h, url: '%s', ref: {branch: main}, gates: {refs: [%s]}}}",
			sourceAPI, name, tenant, world.RepositoryURL("app"), refs)
		return object(sourceAPI, sourcev1.GitRepositoryKind, tenant, name)
	}
	beHeld := func(reason, message string) OmegaMatcher {
		return And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", reason), HaveField("Message", ContainSubstring(message)))
	}
	beReleased := HaveField("Status", BeEquivalentTo("True"))

	BeforeAll(func(ctx SpecContext) {
		apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {tenant: a}}}", tenant)
	})

	It("holds a source only as its spec.accessFrom and the labels of the source's namespace say", func(ctx SpecContext) {
		gate(ctx, "shared", false, "")
		app := source(ctx, "app", "flux-system/shared")
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beHeld("AccessDenied",
			"gate flux-system/shared: access denied: its spec.accessFrom doesn't allow namespace tenant-a"))
		Eventually(ctx, field(app, "spec", "suspend")).Should(Equal(true))
		Expect(field(app, "status", "artifact")(ctx)).To(BeNil())

		By("allowing another tenant")
		gate(ctx, "shared", false, ", accessFrom: {namespaceSelectors: [{matchLabels: {tenant: b}}]}")
		Consistently(ctx, condition(app, gatingv1.GatesOpenCondition), "1s").Should(beHeld("AccessDenied", ""))

		By("allowing this one")
		gate(ctx, "shared", false, ", accessFrom: {namespaceSelectors: [{matchLabels: {tenant: b}}, {matchLabels: {tenant: a}}]}")
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beReleased)
		Eventually(ctx, condition(app, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		shared := object(gatingAPI, gatingv1.GateKind, flux, "shared")
		Eventually(ctx, field(shared, "status", "sources")).Should(BeEquivalentTo(1))

		By("removing the label from the namespace, and adding it again")
		label(ctx, tenant, `{"tenant":null}`)
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beHeld("AccessDenied", "namespace tenant-a"))
		label(ctx, tenant, `{"tenant":"a"}`)
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beReleased)

		By("closing the gate")
		gate(ctx, "shared", true, ", accessFrom: {namespaceSelectors: [{matchLabels: {tenant: a}}]}")
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beHeld("GateClosed", "gate flux-system/shared is closed"))
		Eventually(ctx, field(shared, "status", "held")).Should(BeEquivalentTo(1))
	})

	It("is a precondition of a promotion only as its spec.accessFrom says", func(ctx SpecContext) {
		gate(ctx, "release", true, "")
		_, err := world.Git.CreateRepository("shop")
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Release("shop", "v1.0.0")).To(Succeed())
		Expect(world.Release("shop", "v2.0.0")).To(Succeed())
		for namespace, version := range map[string]string{"tenant-b": "v2.0.0", "tenant-b-prod": "v1.0.0"} {
			apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop, namespace: %[1]s}
spec: {interval: 24h, url: '%[2]s', ref: {tag: %[3]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: %[1]s}
spec: {interval: 24h, path: ./deploy, prune: true, targetNamespace: %[1]s, sourceRef: {kind: GitRepository, name: shop}}
`, namespace, world.RepositoryURL("shop"), version)
		}
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: shop, namespace: tenant-b}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: shop}
  environments:
  - {name: dev, targets: [{namespace: tenant-b}]}
  - {name: prod, targets: [{namespace: tenant-b-prod}]}
  promotion:
    gates: {refs: [flux-system/release]}
    strategy: {notification: {}}
`)
		shop := object(pipelinesAPI, pipelinesv1.PipelineKind, "tenant-b", "shop")
		Eventually(ctx, condition(shop, meta.ReadyCondition)).Should(beHeld("AccessDenied", "its spec.accessFrom doesn't allow namespace tenant-b"))

		By("allowing every namespace")
		gate(ctx, "release", true, ", accessFrom: {namespaceSelectors: [{}]}")
		Eventually(ctx, condition(shop, meta.ReadyCondition)).Should(And(HaveField("Reason", "WaitingForPreconditions"),
			HaveField("Message", ContainSubstring("gate flux-system/release is closed"))))
		release := object(gatingAPI, gatingv1.GateKind, flux, "release")
		Eventually(ctx, field(release, "status", "pipelines")).Should(BeEquivalentTo(1))

		By("allowing namespaces with a label, and labelling this one")
		gate(ctx, "release", true, ", accessFrom: {namespaceSelectors: [{matchLabels: {tenant: b}}]}")
		Eventually(ctx, condition(shop, meta.ReadyCondition)).Should(HaveField("Reason", "AccessDenied"))
		label(ctx, "tenant-b", `{"tenant":"b"}`)
		Eventually(ctx, condition(shop, meta.ReadyCondition)).Should(HaveField("Reason", "WaitingForPreconditions"))
	})

	It("is refused by controllers with cross-namespace references disabled", func(ctx SpecContext) {
		gate(ctx, "everyones", false, ", accessFrom: {namespaceSelectors: [{}]}")
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
		strict, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: "gate-controller-strict", Binary: "gate-controller", ServiceAccount: "gate-controller", Args: []string{"--no-cross-namespace-refs"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(strict.Stop)

		app := source(ctx, "strict", "flux-system/everyones")
		Eventually(ctx, condition(app, gatingv1.GatesOpenCondition)).Should(beHeld("AccessDenied", "cross-namespace references are disabled"))
		Eventually(ctx, field(app, "spec", "suspend")).Should(Equal(true))

		By("naming it in an annotation of a source without spec.gates")
		apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: strict-2, namespace: %s, annotations: {gating.toolkit.fluxcd.io/gates: flux-system/everyones}}, spec: {interval: 24h, url: '%s', ref: {branch: main}}}",
			sourceAPI, tenant, world.RepositoryURL("app"))
		Eventually(ctx, condition(object(sourceAPI, sourcev1.GitRepositoryKind, tenant, "strict-2"), gatingv1.GatesOpenCondition)).Should(beHeld("AccessDenied", ""))
	})
})
