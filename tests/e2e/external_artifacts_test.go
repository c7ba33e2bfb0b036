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
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/sourcewatcher"
)

// monorepo is a repository with a directory for dev and one for prod.
type monorepo struct{ name string }

func newMonorepo(name string) monorepo {
	GinkgoHelper()
	_, err := world.Git.CreateRepository(name)
	Expect(err).NotTo(HaveOccurred())
	repository := monorepo{name}
	repository.release("v1")
	return repository
}

// release commits a version for both environments.
func (m monorepo) release(version string) {
	GinkgoHelper()
	files := map[string]string{}
	for _, env := range []string{"dev", "prod"} {
		files["clusters/"+env+"/app.yaml"] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%s, namespace: flux-system}, data: {version: %s}}", m.name, env, version)
	}
	Expect(world.Commit(m.name, "Release "+version, files)).To(Succeed())
}

// runs returns a function that reads the version of an environment.
func (m monorepo) runs(env string) func(context.Context) (any, error) {
	return field(object("v1", "ConfigMap", flux, m.name+"-"+env), "data", "version")
}

// expectRepaired changes what an environment runs, and expects Flux to repair it.
func (m monorepo) expectRepaired(ctx context.Context, env, version string) {
	GinkgoHelper()
	app := object("v1", "ConfigMap", flux, m.name+"-"+env)
	Expect(world.Client.Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(`{"data":{"version":"tampered"}}`)))).To(Succeed())
	Eventually(ctx, m.runs(env)).Should(Equal(version))
}

// kustomization makes Flux apply a source for an environment until the spec ends, and correct drift.
func (m monorepo) kustomization(ctx context.Context, env, kind, source, path string) {
	GinkgoHelper()
	apply(ctx, "{apiVersion: %s, kind: Kustomization, metadata: {name: %s-%s, namespace: flux-system}, spec: {interval: 1s, path: %s, prune: true, sourceRef: {kind: %s, name: %s}}}",
		kustomizeAPI, m.name, env, path, kind, source)
	DeferCleanup(func(ctx SpecContext) {
		deleteAll(ctx, object(kustomizeAPI, kustomizev1.KustomizationKind, flux, m.name+"-"+env))
	})
}

// repository makes Flux fetch the repository until the spec ends.
func (m monorepo) repository(ctx context.Context, name, more string) *unstructured.Unstructured {
	GinkgoHelper()
	apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 1s, url: '%s', ref: {branch: main}%s}}",
		sourceAPI, name, world.RepositoryURL(m.name), more)
	source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, name)
	DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, source) })
	return source
}

// generator makes source-watcher publish the directory of prod as an ExternalArtifact until the spec ends, with
// annotations.
func (m monorepo) generator(ctx context.Context, annotations string) (generator, artifact *unstructured.Unstructured) {
	GinkgoHelper()
	apply(ctx, `
apiVersion: source.extensions.fluxcd.io/v1beta1
kind: ArtifactGenerator
metadata: {name: %[1]s, namespace: flux-system}
spec:
  commonMetadata: {annotations: {%[2]s}, labels: {%[3]s: %[1]s}}
  sources: [{alias: repo, kind: GitRepository, name: %[1]s}]
  artifacts:
  - name: %[1]s-prod
    copy: [{from: "@repo/clusters/prod/**", to: "@artifact/"}]
`, m.name, annotations, groupLabel)
	generator = object(swapi.GroupVersion.String(), swapi.ArtifactGeneratorKind, flux, m.name)
	artifact = object(sourceAPI, sourcev1.ExternalArtifactKind, flux, m.name+"-prod")
	DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, generator, artifact) })
	return generator, artifact
}

// told returns a function that reads the condition GatesOpen of an ExternalArtifact from its annotation.
func told(artifact *unstructured.Unstructured) func(context.Context) (metav1.Condition, error) {
	return func(ctx context.Context) (metav1.Condition, error) {
		var condition metav1.Condition
		text, err := field(artifact, "metadata", "annotations", gatingv1.GatesOpenAnnotation)(ctx)
		if text == nil || err != nil {
			return condition, err
		}
		return condition, json.Unmarshal([]byte(text.(string)), &condition)
	}
}

// startSourceWatcher runs the stand-in for source-watcher until the specs end.
func startSourceWatcher(ctx context.Context) {
	GinkgoHelper()
	crd, err := os.ReadFile(filepath.Join("..", "crds", "source.extensions.fluxcd.io_artifactgenerators.yaml"))
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, "%s\n---%s", crd, sourcewatcher.Rights)
	stop, err := sourcewatcher.Start(world.Cluster.Config, GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(stop()).To(Succeed()) })
}

var _ = Describe("An ExternalArtifact", Ordered, func() {
	const closed = "gate %s is closed; new artifacts are blocked"
	blocked := And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("new artifact blocked: ")))
	open := HaveField("Status", BeEquivalentTo("True"))

	BeforeAll(func(ctx SpecContext) { startSourceWatcher(ctx) })

	It("holds prod of a monorepo while dev continues and drift is corrected", func(ctx SpecContext) {
		repo := newMonorepo("ea-fleet")
		turnGate(ctx, repo.name, false)
		repo.repository(ctx, repo.name, "")
		generator, artifact := repo.generator(ctx, "gating.toolkit.fluxcd.io/gates: "+repo.name)
		repo.kustomization(ctx, "dev", sourcev1.GitRepositoryKind, repo.name, "./clusters/dev")
		repo.kustomization(ctx, "prod", sourcev1.ExternalArtifactKind, artifact.GetName(), "./")
		Eventually(ctx, repo.runs("prod")).Should(Equal("v1"))
		Eventually(ctx, told(artifact)).Should(And(open, HaveField("Message", "gate ea-fleet is open")))

		turnGate(ctx, repo.name, true)
		Eventually(ctx, told(artifact)).Should(And(HaveField("Reason", "GateClosed"), HaveField("Message", fmt.Sprintf(closed, repo.name))))
		Eventually(ctx, field(object(gatingAPI, gatingv1.GateKind, flux, repo.name), "status", "held")).Should(BeEquivalentTo(1))
		before := now(ctx, []*unstructured.Unstructured{artifact})[0]
		repo.release("v2")
		Eventually(ctx, repo.runs("dev")).Should(Equal("v2"))
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(blocked)
		repo.expectRepaired(ctx, "prod", "v1")
		Expect(published(now(ctx, []*unstructured.Unstructured{artifact})[0])).To(Equal(published(before)))
		out, err := run(ctx, "flux", "gate", "get", repo.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("ExternalArtifact/flux-system/ea-fleet-prod: held: gate ea-fleet is closed"))

		turnGate(ctx, repo.name, false)
		Eventually(ctx, repo.runs("prod")).Should(Equal("v2"))
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(open)
		Expect(condition(artifact, meta.ReadyCondition)(ctx)).To(open, "its conditions are source-watcher's alone")
	})

	It("gets nothing past a closed gate", func(ctx SpecContext) {
		const other = "ea-other"
		repo := newMonorepo("ea-bypass")
		sentinel := post(ctx, repo.name)
		editor := fluxEditor(ctx)
		generator, artifact := object(swapi.GroupVersion.String(), swapi.ArtifactGeneratorKind, flux, repo.name), object(sourceAPI, sourcev1.ExternalArtifactKind, flux, repo.name+"-prod")
		is := func() *unstructured.Unstructured {
			GinkgoHelper()
			return now(ctx, []*unstructured.Unstructured{artifact})[0]
		}
		requestRun := func() {
			GinkgoHelper()
			requestedAt := fmt.Sprint(time.Now().UnixNano())
			annotate(ctx, generator, meta.ReconcileRequestAnnotation, requestedAt)
			Eventually(ctx, field(generator, "status", "lastHandledReconcileAt")).Should(Equal(requestedAt))
		}

		By("creating it under a closed gate")
		turnGate(ctx, repo.name, true)
		sentinel.close()
		repo.repository(ctx, repo.name, "")
		repo.generator(ctx, "gating.toolkit.fluxcd.io/gates: "+repo.name)
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(blocked)
		Expect(field(artifact, "status", "artifact")(ctx)).To(BeNil())
		Eventually(ctx, told(artifact)).Should(HaveField("Message", fmt.Sprintf(closed, repo.name)))

		By("writing its status")
		for _, forgery := range forgeries {
			Expect(forgery.write(ctx, editor, is(), withArtifact(is(), "forged"))).To(MatchError(ContainSubstring("new artifact blocked: ")), forgery.name)
			Expect(forgery.write(ctx, editor, is(), withArtifact(withGatesOpen(is(), true, metav1.ConditionTrue, ""), "forged"))).
				To(MatchError(ContainSubstring("new artifact blocked: ")), forgery.name)
		}

		By("writing its annotations")
		for _, annotation := range []string{gatingv1.OpenForAnnotation, gatingv1.GatesOpenAnnotation} {
			forged := is()
			annotations := forged.GetAnnotations()
			annotations[annotation] = gatingv1.OpenFor(forged)
			forged.SetAnnotations(annotations)
			Expect(editor.Update(ctx, forged.DeepCopy())).To(withoutRight, annotation)
			Expect(editor.Patch(ctx, forged.DeepCopy(), client.MergeFrom(is()))).To(withoutRight, annotation)
			applied := object(sourceAPI, sourcev1.ExternalArtifactKind, flux, artifact.GetName())
			applied.SetAnnotations(map[string]string{annotation: gatingv1.OpenFor(forged)})
			Expect(editor.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("forger"), client.ForceOwnership)).To(withoutRight, annotation)
			applied.SetName("forged")
			Expect(editor.Create(ctx, applied)).To(withoutRight, annotation)

			removed := is()
			annotations = removed.GetAnnotations()
			delete(annotations, annotation)
			removed.SetAnnotations(annotations)
			Expect(editor.Patch(ctx, removed, client.MergeFrom(is()), client.DryRunAll)).To(Succeed(), "everyone may remove it")
		}

		By("closing the gate while gate-controller is down")
		sentinel.open()
		turnGate(ctx, repo.name, false)
		turnGate(ctx, other, true)
		Eventually(ctx, field(artifact, "status", "artifact", "digest")).ShouldNot(BeNil())
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(open)
		Eventually(ctx, told(artifact)).Should(open)
		was := is()
		Expect(world.GateController.Stop()).To(Succeed())
		running := false
		DeferCleanup(func(ctx SpecContext) {
			if !running {
				Expect(world.GateController.Start(ctx)).To(Succeed())
			}
		})
		sentinel.close()
		turnGate(ctx, repo.name, true)
		repo.release("v2")
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(And(blocked, HaveField("Message", ContainSubstring("gate flux-system/ea-bypass is closed"))))

		By("naming other gates, for which the annotation does not count")
		turnGate(ctx, repo.name, false)
		for _, gates := range []string{other + "," + repo.name, repo.name + "-2"} {
			Expect(world.Client.Patch(ctx, generator.DeepCopy(), client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"commonMetadata":{"annotations":{%q:%q,%q:"oneOf"}}}}`, gatingv1.GatesAnnotation, gates, gatingv1.RequireAnnotation)))).To(Succeed())
			requestRun()
			Eventually(ctx, field(artifact, "metadata", "annotations", gatingv1.GatesAnnotation)).Should(Equal(gates))
			Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(And(blocked, HaveField("Message", ContainSubstring("gate-controller has not evaluated them yet"))))
			Expect(is().GetAnnotations()).To(HaveKeyWithValue(gatingv1.OpenForAnnotation, was.GetAnnotations()[gatingv1.OpenForAnnotation]))
		}

		By("deleting it and creating it again")
		deleteAll(ctx, artifact)
		copied := was.DeepCopy()
		copied.SetResourceVersion("")
		copied.SetUID("")
		Expect(editor.Create(ctx, copied)).To(withoutRight)
		requestRun()
		Eventually(ctx, field(artifact, "metadata", "uid")).ShouldNot(BeNil())
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(blocked)
		Expect(sentinel.leaks()).To(BeEmpty())

		By("opening its gates")
		sentinel.open()
		turnGate(ctx, repo.name+"-2", false)
		Expect(world.GateController.Start(ctx)).To(Succeed())
		running = true
		Eventually(ctx, field(artifact, "status", "artifact", "digest")).ShouldNot(BeNil())
		Eventually(ctx, condition(generator, meta.ReadyCondition)).Should(open)
	})
})

var _ = Describe("Prod of a monorepo", func() {
	It("is held by a GitRepository of its own while dev continues and drift is corrected", func(ctx SpecContext) {
		repo := newMonorepo("own-fleet")
		turnGate(ctx, repo.name, false)
		repo.repository(ctx, repo.name, "")
		prod := repo.repository(ctx, repo.name+"-prod", ", gates: {refs: [own-fleet]}")
		repo.kustomization(ctx, "dev", sourcev1.GitRepositoryKind, repo.name, "./clusters/dev")
		repo.kustomization(ctx, "prod", sourcev1.GitRepositoryKind, repo.name+"-prod", "./clusters/prod")
		Eventually(ctx, repo.runs("prod")).Should(Equal("v1"))

		turnGate(ctx, repo.name, true)
		Eventually(ctx, heldAndObserved(prod)).Should(BeTrue())
		repo.release("v2")
		Eventually(ctx, repo.runs("dev")).Should(Equal("v2"))
		repo.expectRepaired(ctx, "prod", "v1")

		turnGate(ctx, repo.name, false)
		Eventually(ctx, repo.runs("prod")).Should(Equal("v2"))
	})
})
