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

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var _ = Describe("A gate that is undone", func() {
	events := func(kind, name string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", kind+"/"+name)
		}
	}
	// Others may have written in the same second, because the source is new.
	removedBy := func(manager string) OmegaMatcher {
		return MatchRegexp(`Warning +GatesRemoved .* released: gates removed; last written by field manager (\S+ or )*%s( or \S+)* at 20\S+Z\n`, manager)
	}

	It("by Flux, which applies the source from Git without its annotation, emits an event that names Flux", func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("undone")
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Commit("undone", "A source", map[string]string{"source.yaml": fmt.Sprintf(
			"{apiVersion: %s, kind: GitRepository, metadata: {name: undone-source, namespace: flux-system}, spec: {interval: 24h, url: '%s', ref: {branch: main}}}",
			sourceAPI, world.RepositoryURL("app"))})).To(Succeed())
		kustomization := fromGit(ctx, "undone", "")
		source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "undone-source")

		turnGate(ctx, "undone", true)
		_, err = run(ctx, "kubectl", "--namespace", flux, "annotate", "gitrepository", "undone-source", "gating.toolkit.fluxcd.io/gates=undone")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, field(source, "spec", "suspend")).Should(Equal(true))

		request(ctx, kustomization)
		Eventually(ctx, events("gitrepository", "undone-source")).Should(removedBy("kustomize-controller"))
		Eventually(ctx, field(source, "spec", "suspend")).Should(BeNil())
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Type", BeEmpty()))
	})

	It("by flux create source, which drops spec.gates, emits an event that names flux; the annotation survives", func(ctx SpecContext) {
		turnGate(ctx, "created-over", true)
		apply(ctx, `
{apiVersion: %[1]s, kind: GitRepository, metadata: {name: created-over-spec, namespace: flux-system}, spec: {interval: 24h, url: '%[2]s', ref: {branch: main}, gates: {refs: [created-over]}}}
---
{apiVersion: %[1]s, kind: GitRepository, metadata: {name: created-over-annotation, namespace: flux-system, annotations: {gating.toolkit.fluxcd.io/gates: created-over}}, spec: {interval: 24h, url: '%[2]s', ref: {branch: main}}}
`, sourceAPI, world.RepositoryURL("app"))
		bySpec := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "created-over-spec")
		byAnnotation := object(sourceAPI, sourcev1.GitRepositoryKind, flux, "created-over-annotation")
		for _, source := range now(ctx, []*unstructured.Unstructured{bySpec, byAnnotation}) {
			DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, source)).To(Succeed()) })
			Eventually(ctx, heldAndObserved(source)).Should(BeTrue(), "though it is new")
		}
		create := func(name, timeout string) error {
			_, err := run(ctx, "flux", "create", "source", "git", name, "--url="+world.RepositoryURL("app"), "--branch=main", "--interval=24h", "--timeout="+timeout)
			return err
		}

		Expect(create("created-over-spec", "1m")).To(Succeed())
		Eventually(ctx, events("gitrepository", "created-over-spec")).Should(removedBy("flux"))
		Expect(field(bySpec, "status", "artifact", "revision")(ctx)).NotTo(BeNil(), "it has published")

		Expect(create("created-over-annotation", "1s")).To(MatchError(ContainSubstring("context deadline exceeded")))
		Eventually(ctx, field(byAnnotation, "spec", "suspend")).Should(Equal(true))
		Expect(field(byAnnotation, "metadata", "annotations", "gating.toolkit.fluxcd.io/gates")(ctx)).To(Equal("created-over"))
		Expect(field(byAnnotation, "status", "artifact")(ctx)).To(BeNil())
	})

	It("by Flux, which applies the gate from Git, removes the reason of the freeze", func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("reopened")
		Expect(err).NotTo(HaveOccurred())
		Expect(world.Commit("reopened", "An open gate", map[string]string{
			"gate.yaml": "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: reopened, namespace: flux-system}, spec: {closed: false}}",
		})).To(Succeed())
		kustomization := fromGit(ctx, "reopened", "")
		source := ungatedSource(ctx, "reopened-source")
		annotate(ctx, source, gatingv1.GatesAnnotation, "reopened")
		_, err = run(ctx, "flux", "close", "gate", "reopened", "--reason=end of quarter")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Message", HavePrefix("gate reopened is closed by admin (end of quarter)")))
		gates := func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "--namespace", flux, "get", "gates")
		}
		Eventually(ctx, gates).Should(MatchRegexp(`(?m)^reopened +true +Closed .* end of quarter$`))

		request(ctx, kustomization)
		Eventually(ctx, gates).Should(MatchRegexp(`(?m)^reopened +false +Open +\S+ +0 +0 *$`))
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Message", "gate reopened is open"))
		Expect(run(ctx, "flux", "gate", "list")).To(MatchRegexp(`(?m)^reopened +open +\S+ +- +0 +-$`))

		By("closing it in Git, without a reason")
		Expect(world.Commit("reopened", "Freeze", map[string]string{
			"gate.yaml": "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: reopened, namespace: flux-system}, spec: {closed: true}}",
		})).To(Succeed())
		request(ctx, object(sourceAPI, sourcev1.GitRepositoryKind, flux, "reopened"))
		Eventually(ctx, gates).Should(MatchRegexp(`(?m)^reopened +true +Closed +\S+ +1 +0 *$`))
	})
})
