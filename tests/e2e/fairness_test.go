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
	"net/http"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

var _ = Describe("A tenant's slow Git host", Ordered, func() {
	const (
		many   = 40
		tenant = "fair-tenant"
		secret = "ghp_the-token-of-the-fair"
	)
	name := func(i int) string { return fmt.Sprintf("slow-%d", i) }
	pipeline := func(ctx context.Context, namespace, name string, host *githost.Server) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: fair}
  environments:
  - {name: one, targets: [{namespace: fair-one}]}
  - {name: two, targets: [{namespace: fair-two}]}
  promotion:
    strategy: {pull-request: {type: github, url: '%[3]s', baseBranch: main, secretRef: {name: fair}}}
`, name, namespace, host.RepositoryURL(owner, "fair"))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, name))).To(Succeed())
		})
	}

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("fair")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"fair-one": "v2.0.0", "fair-two": "v1.0.0"} {
			Expect(world.Release("fair", version)).To(Succeed())
			deploy(ctx, "fair", namespace, version)
		}
		apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, tenant)
	})

	It("does not delay reconciles and promotions of other tenants' Pipelines", func(ctx SpecContext) {
		slow, err := githost.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(slow.Close()).To(Succeed()) })
		letGo := make(chan struct{})
		DeferCleanup(func() { close(letGo) })
		trickles := slow.FailNext("", ".", githost.Always, trickle(letGo))
		for host, namespace := range map[*githost.Server]string{slow: tenant, github: flux} {
			host.AddToken(githost.Token{Value: secret, Login: "sluice-bot"})
			Expect(host.AddRepository(owner, "fair")).To(Succeed())
			_, err := host.CommitFiles(owner, "fair", "main", map[string]string{"app.yaml": "tag: v1.0.0 # {\"$promotion\": \"flux-system:fair-quick:two:tag\"}\n"}, "Begin")
			Expect(err).NotTo(HaveOccurred())
			apply(ctx, `{apiVersion: v1, kind: Secret, metadata: {name: fair, namespace: %s}, stringData: {token: %s, ca.crt: %q}}`, namespace, secret, host.CA())
		}

		for i := range many {
			pipeline(ctx, tenant, name(i), slow)
		}
		Eventually(ctx, trickles.Hits).Should(BeNumerically(">=", 1))
		for i := range many {
			Eventually(ctx, condition(object(pipelinesAPI, pipelinesv1.PipelineKind, tenant, name(i)), meta.ReadyCondition)).
				Should(HaveField("Reason", "Promoting"), name(i))
		}

		pipeline(ctx, flux, "fair-quick", github)
		Eventually(ctx, record("fair-quick", "two")).Should(haveState("created"))
		for i := range many {
			Expect(condition(object(pipelinesAPI, pipelinesv1.PipelineKind, tenant, name(i)), meta.ReadyCondition)(ctx)).
				To(HaveField("Reason", Or(Equal("Promoting"), Equal("PromotionFailed"))), name(i))
		}
	})
})

// trickle sends one byte a second until it is released.
func trickle(letGo <-chan struct{}) githost.Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		for {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-letGo:
				return
			case <-r.Context().Done():
				return
			}
		}
	}
}
