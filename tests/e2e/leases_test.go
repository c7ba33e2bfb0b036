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
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("A controller's lease", func() {
	// stopped stops a controller while the spec runs.
	stopped := func(name string) {
		GinkgoHelper()
		controller := map[string]*localcluster.Process{"gate-controller": world.GateController, "pipeline-controller": world.PipelineController}[name]
		Expect(controller.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(controller.Start(ctx)).To(Succeed()) })
	}
	elect := func(ctx context.Context, process, name string, args ...string) *localcluster.Process {
		GinkgoHelper()
		elected, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: process, Binary: name, ServiceAccount: name, Args: append(args, "--enable-leader-election"),
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(elected.Kill)
		return elected
	}
	holder := func(lease string) func(context.Context) (any, error) {
		return field(object("coordination.k8s.io/v1", "Lease", flux, lease), "spec", "holderIdentity")
	}
	of := func(verb, lease string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: flux, Name: lease}
	}

	for _, name := range []string{"gate-controller", "pipeline-controller"} {
		lease := name + "-leader-election"

		It("is taken, and given back, by "+name+" with the roles of the install", func(ctx SpecContext) {
			stopped(name)
			leader := elect(ctx, name+"-elected", name, map[string][]string{"pipeline-controller": {"--approval-addr="}}[name]...)
			Eventually(ctx, holder(lease)).ShouldNot(Or(BeNil(), BeEmpty()))
			// If it were stopped before it knows that it has the lease, it would not release it.
			Eventually(ctx, metricsOf(leader)).Should(ContainSubstring(`leader_election_master_status{name="` + lease + `"} 1`))
			Expect(leader.Stop()).To(Succeed())
			Expect(holder(lease)(ctx)).To(BeEmpty())
		})

		It("is the only one that "+name+" may read and change", func(ctx SpecContext) {
			for _, verb := range []string{"get", "update"} {
				Expect(may(name, of(verb, lease))(ctx)).To(BeTrue(), verb)
			}
			for _, other := range []string{"gate-controller-leader-election", "pipeline-controller-leader-election", "source-controller-leader-election"} {
				for _, verb := range []string{"get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
					if other != lease || verb != "get" && verb != "update" {
						Expect(may(name, of(verb, other))(ctx)).To(BeFalse(), "%s %s", verb, other)
					}
				}
			}
		})
	}

	It("has another name in a shard, which acquires it once a Role allows that", func(ctx SpecContext) {
		const selector = "sharding.fluxcd.io/key=shard1"
		sum, err := exec.CommandContext(ctx, "sh", "-c", "printf %s '"+selector+"' | sha256sum | cut -c 1-8").Output()
		Expect(err).NotTo(HaveOccurred())
		lease := "gate-controller-leader-election-" + strings.TrimSpace(string(sum))
		elect(ctx, "gate-controller-shard1", "gate-controller", "--watch-label-selector="+selector)
		Eventually(func() (string, error) { return logOf("gate-controller-shard1") }).Should(And(ContainSubstring("is forbidden"), ContainSubstring(lease)))

		const name = "gate-controller-shard1"
		_, err = run(ctx, "kubectl", "-n", flux, "create", "role", name, "--verb=get,update", "--resource=leases.coordination.k8s.io", "--resource-name="+lease)
		Expect(err).NotTo(HaveOccurred())
		_, err = run(ctx, "kubectl", "-n", flux, "create", "rolebinding", name, "--role="+name, "--serviceaccount=flux-system:gate-controller")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, holder(lease)).ShouldNot(Or(BeNil(), BeEmpty()))
	})
})
