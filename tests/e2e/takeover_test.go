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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("gate-controller as its Deployment runs it", Ordered, func() {
	lease := object("coordination.k8s.io/v1", "Lease", flux, "gate-controller-leader-election")
	holder, transitions := field(lease, "spec", "holderIdentity"), field(lease, "spec", "leaseTransitions")
	var args []string

	BeforeAll(func(ctx SpecContext) {
		var err error
		args, err = localcluster.DeploymentArgs("../../config/gate-controller/deployment.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
	})

	// replica starts a process with the name of a Pod.
	replica := func(ctx context.Context, pod string) *localcluster.Process {
		GinkgoHelper()
		process, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: pod, Binary: "gate-controller", ServiceAccount: "gate-controller",
			Args: append(args, "--events-addr="+world.Cluster.EventsAddr), Env: []string{"POD_NAME=" + pod},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		return process
	}
	// gated creates a source with an open gate.
	gated := func(ctx context.Context, name string) (gatesAre func(context.Context) (any, error)) {
		GinkgoHelper()
		turnGate(ctx, name, false)
		source := ungatedSource(ctx, name)
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", name)
		gatesAre = func(ctx context.Context) (any, error) {
			condition, err := condition(source, gatingv1.GatesOpenCondition)(ctx)
			return string(condition.Status), err
		}
		Eventually(ctx, gatesAre).Should(Equal("True"))
		return gatesAre
	}

	It("continues with its own lease after a crash of the container", func(ctx SpecContext) {
		pod := replica(ctx, "gate-controller-a")
		gatesAre := gated(ctx, "lease-restarted")
		Expect(holder(ctx)).To(Equal("gate-controller-a"))
		before, err := transitions(ctx)
		Expect(err).NotTo(HaveOccurred())

		Expect(pod.Kill()).To(Succeed())
		turnGate(ctx, "lease-restarted", true)
		Expect(pod.Start(ctx)).To(Succeed())
		Eventually(ctx, gatesAre).Should(Equal("False"))
		Expect(transitions(ctx)).To(Equal(before), "nobody has waited for the lease to expire")
		Expect(pod.Stop()).To(Succeed())
		Expect(holder(ctx)).To(BeElementOf(nil, ""), "a replica that ends gives the lease up")
	})

	It("is replaced by another replica when its node is gone", func(ctx SpecContext) {
		leader := replica(ctx, "gate-controller-b")
		gatesAre := gated(ctx, "lease-replaced")
		replica(ctx, "gate-controller-c")
		Expect(holder(ctx)).To(Equal("gate-controller-b"))

		Expect(leader.Kill()).To(Succeed())
		turnGate(ctx, "lease-replaced", true)
		Eventually(ctx, gatesAre).Should(Equal("False"))
		Expect(holder(ctx)).To(Equal("gate-controller-c"))
	})
})
