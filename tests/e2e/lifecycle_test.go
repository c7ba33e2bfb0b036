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
	"os"
	"path/filepath"
	"regexp"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

var _ = Describe("Sources that are fetched once a day", Ordered, func() {
	var up *upstream.Server

	BeforeAll(func(ctx SpecContext) { up = startUpstream(ctx) })

	// begin creates a group whose sources have published the first version.
	begin := func(ctx context.Context, name string) *group {
		GinkgoHelper()
		g := newGroup(ctx, name, append(lines(up), chartOfGatedRepository(up)))
		g.publish(ctx, 0)
		g.establish(ctx)
		return g
	}

	It("publish the newest revision as soon as the gate is open", func(ctx SpecContext) {
		g := begin(ctx, "daily")
		g.hold(ctx)
		g.sentinel.close()
		for round := range 3 {
			g.publish(ctx, round+1)
		}
		g.expectHeld(ctx, now(ctx, g.sources())...)
		Expect(g.sentinel.leaks()).To(BeEmpty())

		g.sentinel.open()
		turnGate(ctx, g.name, false)
		for _, source := range g.sources() {
			Eventually(ctx, content(source)).Should(ContainSubstring(version(3)), key(source))
		}
	})

	for _, person := range []struct {
		name, with string
		suspends   func(ctx context.Context, l line, source string) error
	}{
		{"kubectl", "kubectl patch", func(ctx context.Context, l line, source string) error {
			_, err := run(ctx, "kubectl", "patch", l.kind+".source.toolkit.fluxcd.io", source, "--namespace", flux, "--type=merge", `--patch={"spec":{"suspend":true}}`)
			return err
		}},
		{"flux", "flux suspend", func(ctx context.Context, l line, source string) error {
			_, err := run(ctx, "flux", "suspend", "source", l.cli, source)
			return err
		}},
	} {
		It("stay suspended when the gate opens if a person suspended them before it closed, with "+person.with, func(ctx SpecContext) {
			g := begin(ctx, "suspended-with-"+person.name)
			for i, source := range g.sources() {
				Expect(person.suspends(ctx, g.lines[i], source.GetName())).To(Succeed())
			}
			suspended := now(ctx, g.sources())
			g.hold(ctx)
			g.sentinel.close()
			g.publish(ctx, 1)

			By("opening the gate")
			turnGate(ctx, g.name, false)
			g.expectReleased(ctx, suspended...)
			for _, source := range now(ctx, g.sources()) {
				Expect(field(source, "spec", "suspend")(ctx)).To(Equal(true), key(source))
				Expect(suspendedBy(source)).To(HaveLen(1), key(source))
				request(ctx, source)
			}
			Expect(g.sentinel.leaks()).To(BeEmpty())

			By("resuming them")
			g.sentinel.open()
			for i, source := range g.sources() {
				_, err := run(ctx, "flux", "resume", "source", g.lines[i].cli, source.GetName(), "--wait=false")
				Expect(err).NotTo(HaveOccurred())
			}
			for _, source := range g.sources() {
				Eventually(ctx, content(source)).Should(ContainSubstring(version(1)), key(source))
			}
		})
	}

	It("publish as soon as gate-controller is back, even if source-controller has backed off after refusals", func(ctx SpecContext) {
		g := newGroup(ctx, "refused", lines(up))
		g.publish(ctx, 0)
		g.establish(ctx)
		By("changing them while gate-controller is down")
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if err := world.GateController.Start(ctx); err != nil {
				GinkgoWriter.Println(err)
			}
		})
		change := func(source *unstructured.Unstructured, spec string) {
			GinkgoHelper()
			Expect(world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`)))).To(Succeed())
		}
		for _, source := range g.sources() {
			change(source, `{"interval":"23h"}`)
		}
		g.publish(ctx, 1)
		for i, source := range g.sources() {
			change(source, g.lines[i].edits(g.upstreamOf(g.lines[i]), version(1))[1])
		}
		for _, source := range g.sources() {
			Eventually(func() (int, error) { return refusals(source) }).Should(BeNumerically(">=", 5), key(source))
			Expect(content(source)(ctx)).To(ContainSubstring(version(0)))
		}

		Expect(world.GateController.Start(ctx)).To(Succeed())
		for _, source := range g.sources() {
			Eventually(ctx, field(source, "status", "lastHandledReconcileAt")).ShouldNot(BeNil(), "%s is woken", key(source))
			// The request is handled before the artifact is reported.
			Eventually(ctx, content(source)).Should(ContainSubstring(version(1)), key(source))
		}
	})

	// beginApplied creates a group whose first source Flux applies, and returns the applied ConfigMap with its version.
	beginApplied := func(ctx context.Context, name string) (g *group, app, applied *unstructured.Unstructured) {
		GinkgoHelper()
		g = begin(ctx, name)
		g.releaseApp(version(0))
		request(ctx, g.sources()[0])
		apply(ctx, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 2s, path: ./app, prune: true, targetNamespace: flux-system, sourceRef: {kind: GitRepository, name: %[2]s}}
`, name, g.sources()[0].GetName())
		app = object(kustomizeAPI, kustomizev1.KustomizationKind, flux, name)
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, app)).To(Succeed()) })
		applied = object("v1", "ConfigMap", flux, "restart")
		Eventually(ctx, field(applied, "data", "version")).Should(Equal(version(0)))
		return g, app, applied
	}

	It("publish the same artifacts again when source-controller has lost them, so Flux corrects drift", func(ctx SpecContext) {
		g, _, applied := beginApplied(ctx, "restored")
		g.hold(ctx)
		g.sentinel.close()
		before := now(ctx, g.sources())
		loseArtifacts(ctx)
		Expect(world.Client.Patch(ctx, applied.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"version":"tampered"}}`)))).To(Succeed())

		for i, source := range g.sources() {
			Eventually(ctx, content(source)).Should(ContainSubstring(version(0)), key(source))
			Eventually(ctx, condition(source, gatingv1.ArtifactLostCondition)).Should(HaveField("Type", BeEmpty()), key(source))
			Expect(published(now(ctx, []*unstructured.Unstructured{source})[0])).To(Equal(published(before[i])))
		}
		Eventually(ctx, field(applied, "data", "version")).Should(Equal(version(0)))
		g.expectHeld(ctx, now(ctx, g.sources())...)
		Expect(g.sentinel.leaks()).To(BeEmpty())
		Expect(g.sentinel.opened()).To(BeEmpty())
	})

	It("publish nothing when source-controller has lost artifacts that are no longer offered, say so, and recover when the gate is open", func(ctx SpecContext) {
		g, app, applied := beginApplied(ctx, "restart")
		g.hold(ctx)
		g.sentinel.close()
		before := now(ctx, g.sources())
		g.publish(ctx, 1)
		g.releaseApp(version(1))
		loseArtifacts(ctx)

		git, gate := g.sources()[0], object(gatingAPI, gatingv1.GateKind, flux, "restart")
		for _, source := range g.sources() {
			Eventually(ctx, condition(source, gatingv1.ArtifactLostCondition)).Should(HaveField("Status", BeEquivalentTo("True")), key(source))
		}
		Eventually(ctx, condition(git, gatingv1.ArtifactLostCondition)).Should(And(HaveField("Reason", "NotRestored"),
			HaveField("Message", And(HavePrefix("main@sha1:"), ContainSubstring("the source offers another artifact"), ContainSubstring("; next attempt at ")))))
		Eventually(ctx, heldAndObserved(git)).Should(BeTrue())
		Eventually(ctx, field(gate, "status", "lost")).Should(BeNumerically(">=", len(g.lines)), "it has a HelmRepository too")
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gate/restart")
		}).Should(ContainSubstring("ArtifactLost"))
		Eventually(ctx, condition(app, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
		Expect(field(applied, "data", "version")(ctx)).To(Equal(version(0)), "what was applied stays")

		By("publishing another revision or digest than that of the lost artifact")
		is := now(ctx, []*unstructured.Unstructured{git})[0]
		for name, value := range map[string]string{"revision": "main@sha1:" + strings.Repeat("a", 40), "digest": "sha256:" + strings.Repeat("a", 64)} {
			should, artifact := is.DeepCopy(), before[0].Object["status"].(map[string]any)["artifact"].(map[string]any)
			Expect(unstructured.SetNestedMap(should.Object, artifact, "status", "artifact")).To(Succeed())
			Expect(unstructured.SetNestedField(should.Object, value, "status", "artifact", name)).To(Succeed())
			Expect(world.Client.Status().Patch(ctx, should, client.MergeFrom(is))).To(MatchError(ContainSubstring("new artifact blocked")), name)
		}
		Expect(g.sentinel.leaks()).To(BeEmpty())
		Expect(g.sentinel.opened()).To(BeEmpty())

		By("opening the gate")
		g.sentinel.open()
		turnGate(ctx, g.name, false)
		for _, source := range g.sources() {
			Eventually(ctx, content(source)).Should(ContainSubstring(version(1)), key(source))
			Eventually(ctx, condition(source, gatingv1.ArtifactLostCondition)).Should(HaveField("Type", BeEmpty()), key(source))
		}
		Eventually(ctx, field(applied, "data", "version")).Should(Equal(version(1)))
		Eventually(ctx, condition(app, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		Eventually(ctx, field(gate, "status", "lost")).Should(BeEquivalentTo(0))
	})

	It("stay held when source-controller has lost their artifacts while the backstop is disabled, and say so", func(ctx SpecContext) {
		g := newGroup(ctx, "unguarded", lines(up)[:1])
		g.publish(ctx, 0)
		g.establish(ctx)
		g.hold(ctx)
		g.sentinel.close()
		forge := func(ctx context.Context) error {
			is := now(ctx, g.sources())[0]
			return world.Client.Status().Patch(ctx, withArtifact(is, "forged"), client.MergeFrom(is), client.DryRunAll)
		}
		turn := func(ctx context.Context, action string, effect OmegaMatcher) {
			GinkgoHelper()
			for _, name := range []string{"sluice-gated-sources", "sluice-closed-gates"} {
				binding := object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", name)
				Expect(world.Client.Patch(ctx, binding, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"validationActions":[%q]}}`, action)))).To(Succeed())
			}
			Eventually(ctx, forge).Should(effect)
		}
		blocked := MatchError(ContainSubstring("new artifact blocked"))
		DeferCleanup(func(ctx SpecContext) { turn(ctx, "Deny", blocked) })
		turn(ctx, "Audit", Succeed())
		g.publish(ctx, 1)
		loseArtifacts(ctx)

		Eventually(ctx, condition(g.sources()[0], gatingv1.ArtifactLostCondition)).Should(And(HaveField("Reason", "NotRestored"),
			HaveField("Message", ContainSubstring("; the backstop does not refuse other artifacts; enable it, or open the gate; next attempt at "))))
		g.expectHeld(ctx, now(ctx, g.sources())...)
		Expect(g.sentinel.resumptions()).To(BeEmpty())
		Expect(g.sentinel.leaks()).To(BeEmpty())
	})

	It("let an Alert report which gate closed and opened, and why", func(ctx SpecContext) {
		g := newGroup(ctx, "alert", lines(up)[:1])
		g.publish(ctx, 0)
		received := alertOf(ctx, flux, "alert", sourcev1.GitRepositoryKind, g.upstreamOf(g.lines[0]))
		ofGate := alertOf(ctx, flux, "alert-gate", gatingv1.GateKind, "alert")
		closeGate := func(reason string) {
			GinkgoHelper()
			apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: alert, namespace: flux-system, annotations: {gating.toolkit.fluxcd.io/reason: '%s'}}, spec: {closed: true}}", reason)
		}
		toldByGate := func(reason string, message OmegaMatcher) OmegaMatcher {
			return And(HaveField("Reason", reason), HaveField("Message", message), HaveField("InvolvedObject.Kind", gatingv1.GateKind), HaveField("InvolvedObject.Name", "alert"))
		}
		told := func(reason, message string) OmegaMatcher {
			return And(HaveField("Reason", reason), HaveField("Message", message), HaveField("Severity", "info"),
				HaveField("ReportingController", "gate-controller"), HaveField("InvolvedObject.Kind", sourcev1.GitRepositoryKind),
				HaveField("InvolvedObject.Namespace", flux), HaveField("InvolvedObject.Name", g.upstreamOf(g.lines[0])))
		}
		g.establish(ctx)
		g.hold(ctx)
		Eventually(received).Should(Receive(told("GateClosed", "held: gate alert is closed")))

		turnGate(ctx, g.name, false)
		Eventually(received).Should(Receive(told("AllGatesOpen", "released: gate alert is open")))

		By("turning it again and again within five minutes, for which notification-controller remembers an event")
		for range 2 {
			turnGate(ctx, g.name, true)
			Eventually(received).Should(Receive(told("GateClosed", "held: gate alert is closed")))
			Eventually(ofGate).Should(Receive(toldByGate("Closed", MatchRegexp(`^closed by field manager \S+; holds 1 of 1 source$`))))
			turnGate(ctx, g.name, false)
			Eventually(received).Should(Receive(told("AllGatesOpen", "released: gate alert is open")))
			Eventually(ofGate).Should(Receive(toldByGate("Open", MatchRegexp(`^opened by field manager \S+; released 1 of 1 source$`))))
		}

		closeGate("the quarter ends")
		Eventually(received).Should(Receive(told("GateClosed", "held: gate alert is closed (the quarter ends)")))
	})
})

// releaseApp releases a version of what Flux applies from the first source of the group.
func (g *group) releaseApp(version string) {
	GinkgoHelper()
	Expect(world.Commit(g.upstreamOf(g.lines[0]), "Run "+version, map[string]string{
		"app/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: restart}\ndata: {version: " + version + "}\n",
	})).To(Succeed())
}

// loseArtifacts restarts source-controller with an empty storage, as a new Pod has without a volume.
func loseArtifacts(ctx context.Context) {
	GinkgoHelper()
	sourceController := world.Cluster.Process("source-controller")
	Expect(sourceController.Kill()).To(Succeed())
	stored, err := filepath.Glob(filepath.Join(world.Cluster.Dir, "artifacts", "*"))
	Expect(err).NotTo(HaveOccurred())
	Expect(stored).NotTo(BeEmpty())
	for _, path := range stored {
		Expect(os.RemoveAll(path)).To(Succeed())
	}
	Expect(sourceController.Start(ctx)).To(Succeed())
}

// refusals returns how often the backstop has refused an artifact of a source.
func refusals(source *unstructured.Unstructured) (int, error) {
	log, err := logOf("source-controller")
	return len(regexp.MustCompile(`"`+source.GetName()+`\\*" is forbidden:.* new artifact blocked: `).FindAllString(log, -1)), err
}
