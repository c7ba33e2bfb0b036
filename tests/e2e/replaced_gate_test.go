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
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/apiproxy"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

// ofGates matches requests for Gates.
func ofGates(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/apis/gating.toolkit.fluxcd.io/v1alpha1/gates")
}

var _ = Describe("A gate that is replaced while the controllers' watches are interrupted", func() {
	// replace deletes a gate and creates it again. It returns when the controller can learn of that only from a new
	// list.
	replace := func(ctx context.Context, proxy *apiproxy.Proxy, name string, closed bool) {
		GinkgoHelper()
		gate := object(gatingAPI, gatingv1.GateKind, flux, name)
		Expect(field(gate, "metadata", "generation")(ctx)).To(BeEquivalentTo(1))
		proxy.Interrupt(ofGates)
		Expect(world.Client.Delete(ctx, gate.DeepCopy())).To(Succeed())
		turnGate(ctx, name, closed)
		Expect(field(gate, "metadata", "generation")(ctx)).To(BeEquivalentTo(1))
		proxy.Resume()
	}

	It("closes its sources", func(ctx SpecContext) {
		proxy := behindProxy(ctx, world.GateController)
		g := newGroup(ctx, "replaced", lines(startUpstream(ctx))[:1])
		g.publish(ctx, 0)
		g.establish(ctx)

		replace(ctx, proxy, g.name, true)
		g.expectHeld(ctx, now(ctx, g.sources())...)
		gate := object(gatingAPI, gatingv1.GateKind, flux, g.name)
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(1))
		g.sentinel.close()
		g.publish(ctx, 1)
		request(ctx, g.sources()[0])
		Expect(g.sentinel.leaks()).To(BeEmpty())

		By("replacing it by an open one")
		g.sentinel.open()
		replace(ctx, proxy, g.name, false)
		Eventually(ctx, content(g.sources()[0])).Should(ContainSubstring(version(1)))
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(0))
	})

	It("lets the promotions continue that wait for it", func(ctx SpecContext) {
		proxy := behindProxy(ctx, world.PipelineController, "--approval-addr=127.0.0.1:0")
		turnGate(ctx, "replaced-promotion", true)
		for namespace, version := range map[string]string{"replaced-one": "v2.0.0", "replaced-two": "v1.0.0"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
			key := client.ObjectKey{Namespace: namespace, Name: "app"}
			Expect(standin.Application{Key: key, Revision: version, Ready: metav1.ConditionTrue}.Put(ctx, world.Client)).To(Succeed())
		}
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: replaced, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments:
  - {name: one, targets: [{namespace: replaced-one}]}
  - {name: two, targets: [{namespace: replaced-two}]}
  promotion: {strategy: {notification: {}}, gates: {refs: [replaced-promotion]}}
`)
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "replaced"))).To(Succeed())
		})
		Eventually(ctx, ready("replaced")).Should(HaveField("Message", ContainSubstring("gate replaced-promotion is closed")))
		Expect(record("replaced", "two")(ctx)).To(haveState("unapproved"))

		replace(ctx, proxy, "replaced-promotion", false)
		Eventually(ctx, record("replaced", "two")).Should(haveState("succeeded"))
	})
})

// behindProxy runs a controller of the suite behind a proxy until the spec ends.
func behindProxy(ctx context.Context, suite *localcluster.Process, args ...string) *apiproxy.Proxy {
	GinkgoHelper()
	proxy, err := apiproxy.Start(world.Cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	Expect(suite.Stop()).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(suite.Start(ctx)).To(Succeed()) })
	controller, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: suite.Name + "-proxied", Binary: suite.Name, ServiceAccount: suite.Name, Server: proxy.Config(),
		Args: append(args, "--events-addr="+world.Cluster.EventsAddr),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(controller.Kill)
	return proxy
}
