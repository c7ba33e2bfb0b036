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
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("The endpoint of gates", Ordered, func() {
	const name = "gate-controller-answering"
	serving := regexp.MustCompile(`"msg":"serving gates","address":"([^"]+)"`)
	var address string

	// confirm sends a request as Flagger's webhooks do.
	confirm := func(gate string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/gates/flux-system/"+gate,
				strings.NewReader(`{"name":"shop","namespace":"apps","phase":"WaitingPromotion","checksum":"85d557f47b"}`))
			if err != nil {
				return "", err
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return fmt.Sprintf("%d %s", response.StatusCode, body), err
		}
	}
	gate := func(ctx context.Context, closed bool, more string) {
		GinkgoHelper()
		apply(ctx, `{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: canaries, namespace: flux-system,
  annotations: {gating.toolkit.fluxcd.io/reason: INC-4711}}, spec: {closed: %t%s}}`, closed, more)
	}

	BeforeAll(func(ctx SpecContext) {
		// It never becomes the leader, because no Role allows it to write the lease of this shard.
		answering, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: name, Binary: "gate-controller", ServiceAccount: "gate-controller",
			Args: []string{"--enable-leader-election", "--watch-label-selector=sharding.fluxcd.io/key=led-by-nobody", "--gates-addr=127.0.0.1:0"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(answering.Stop)
		Eventually(func() (string, error) {
			log, err := logOf(name)
			if started := serving.FindStringSubmatch(log); started != nil {
				address = started[1]
			}
			return address, err
		}).ShouldNot(BeEmpty())
	})

	It("confirms only while the gate is open, on all replicas", func(ctx SpecContext) {
		Expect(confirm("canaries")(ctx)).To(Equal("404 gate flux-system/canaries not found\n"))

		gate(ctx, true, "")
		Eventually(ctx, confirm("canaries")).Should(And(HavePrefix("403 gate flux-system/canaries is closed"), ContainSubstring("(INC-4711)")))

		By("opening the gate")
		gate(ctx, false, "")
		Eventually(ctx, confirm("canaries")).Should(Equal("200 gate flux-system/canaries is open (INC-4711)\n"))

		By("deleting the gate")
		Expect(world.Client.Delete(ctx, object(gatingAPI, gatingv1.GateKind, flux, "canaries"))).To(Succeed())
		Eventually(ctx, confirm("canaries")).Should(HavePrefix("404 "))
	})

	It("follows the clock, without a change of the gate", func(ctx SpecContext) {
		until := time.Now().Add(3 * time.Second).UTC().Truncate(time.Second)
		gate(ctx, false, fmt.Sprintf(", override: {closed: true, until: '%s', reason: soon}", until.Format(time.RFC3339)))
		Eventually(ctx, confirm("canaries")).Should(HavePrefix("403 gate flux-system/canaries is closed by override"))
		Eventually(ctx, confirm("canaries")).Should(HavePrefix("200 "))
		Expect(time.Now()).To(BeTemporally(">=", until))
	})
})
