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
	"fmt"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var _ = Describe("A Kustomization that waits for its sources", func() {
	It("counts one that its gates hold since its creation as healthy, with the component, and no other", func(ctx SpecContext) {
		turnGate(ctx, "health", true)
		for name, spec := range map[string]string{
			"health-held":   fmt.Sprintf("url: '%s', ref: {branch: main}, gates: {refs: [health]}", world.RepositoryURL("app")),
			"health-broken": fmt.Sprintf("url: '%s', ref: {branch: missing}", world.RepositoryURL("app")),
		} {
			_, err := world.Git.CreateRepository(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(world.Commit(name, "A source", map[string]string{"source.yaml": fmt.Sprintf(
				"{apiVersion: %s, kind: GitRepository, metadata: {name: %s-source, namespace: flux-system}, spec: {interval: 24h, %s}}", sourceAPI, name, spec)})).To(Succeed())
		}
		parent := func(name, timeout string) (*unstructured.Unstructured, string) {
			apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 24h, url: '%s', ref: {branch: main}}}",
				sourceAPI, name, world.RepositoryURL(name))
			return object(kustomizeAPI, kustomizev1.KustomizationKind, flux, name), fmt.Sprintf(
				"{apiVersion: %s, kind: Kustomization, metadata: {name: %s, namespace: flux-system}, spec: {interval: 24h, path: ./, prune: true, wait: true, timeout: %s, sourceRef: {kind: GitRepository, name: %[2]s}}}",
				kustomizeAPI, name, timeout)
		}
		held, heldManifest := parent("health-held", "1m")
		broken, brokenManifest := parent("health-broken", "3s")
		Expect(world.Cluster.ApplyKustomization(ctx, kustomizationWith(GinkgoT().TempDir(), "gated-health-checks", heldManifest, brokenManifest))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			for _, obj := range []*unstructured.Unstructured{held, broken} {
				Expect(world.Client.Delete(ctx, obj)).To(Succeed())
				Eventually(ctx, field(obj, "metadata", "uid")).Should(BeNil())
				Expect(world.Client.Delete(ctx, object(sourceAPI, sourcev1.GitRepositoryKind, flux, obj.GetName()))).To(Succeed())
			}
		})

		Eventually(ctx, condition(held, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "health-held-source")
		Expect(condition(source, gatingv1.GatesOpenCondition)(ctx)).To(HaveField("Status", BeEquivalentTo("False")))
		Expect(field(source, "status", "artifact")(ctx)).To(BeNil())
		Eventually(ctx, condition(broken, meta.ReadyCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")),
			HaveField("Reason", meta.HealthCheckFailedReason),
			HaveField("Message", MatchRegexp(`^health check failed after \S+: timeout waiting for: \[GitRepository/flux-system/health-broken-source status: 'InProgress'\]`))))
	})
})
