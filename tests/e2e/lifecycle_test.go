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
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/upstream"
)

var _ = Describe("Sources that are fetched once a day", Ordered, func() {
	var up *upstream.Server

	BeforeAll(func(ctx SpecContext) { up = startUpstream(ctx) })

	// begin makes a group, up to where its sources have published the first version.
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

	It("publish nothing when source-controller has lost its artifacts meanwhile, and recover when the gate is open", func(ctx SpecContext) {
		g := begin(ctx, "restart")
		release := func(version string) {
			GinkgoHelper()
			Expect(world.Commit(g.upstreamOf(g.lines[0]), "Run "+version, map[string]string{
				"app/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: restart}\ndata: {version: " + version + "}\n",
			})).To(Succeed())
		}
		release(version(0))
		request(ctx, g.sources()[0])
		apply(ctx, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: restart, namespace: flux-system}
spec: {interval: 24h, path: ./app, prune: true, targetNamespace: flux-system, sourceRef: {kind: GitRepository, name: %s}}
`, g.sources()[0].GetName())
		app := object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", flux, "restart")
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, app)).To(Succeed()) })
		running := field(object("v1", "ConfigMap", flux, "restart"), "data", "version")
		Eventually(ctx, running).Should(Equal(version(0)))
		g.hold(ctx)
		g.sentinel.close()

		g.publish(ctx, 1)
		release(version(1))

		By("restarting source-controller with an empty storage, as a new Pod has without a volume")
		sourceController := world.Cluster.Process("source-controller")
		Expect(sourceController.Kill()).To(Succeed())
		stored, err := filepath.Glob(filepath.Join(world.Cluster.Dir, "artifacts", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(stored).NotTo(BeEmpty())
		for _, path := range stored {
			Expect(os.RemoveAll(path)).To(Succeed())
		}
		Expect(sourceController.Start(ctx)).To(Succeed())
		g.expectHeld(ctx, now(ctx, g.sources())...)
		Expect(g.sentinel.leaks()).To(BeEmpty())

		By("looking at what there is to see of that")
		for _, source := range g.sources() {
			Expect(condition(source, "Ready")(ctx)).To(HaveField("Status", BeEquivalentTo("True")), "%s doesn't know of it", key(source))
			_, err := content(source)(ctx)
			Expect(err).To(MatchError(ContainSubstring("404 Not Found")), key(source))
		}
		annotate(ctx, app, meta.ReconcileRequestAnnotation, version(1))
		Eventually(ctx, condition(app, "Ready")).Should(And(HaveField("Status", BeEquivalentTo("False")),
			HaveField("Reason", "ArtifactFailed"), HaveField("Message", ContainSubstring("artifact not found"))))
		Expect(running(ctx)).To(Equal(version(0)), "what was applied stays")
		Expect(g.sentinel.leaks()).To(BeEmpty())

		By("opening the gate")
		g.sentinel.open()
		turnGate(ctx, g.name, false)
		for _, source := range g.sources() {
			Eventually(ctx, content(source)).Should(ContainSubstring(version(1)), key(source))
		}
		Eventually(ctx, running).Should(Equal(version(1)))
		Eventually(ctx, condition(app, "Ready")).Should(HaveField("Status", BeEquivalentTo("True")))
	})

	It("have an Alert tell which gate closed and opened, and why", func(ctx SpecContext) {
		g := newGroup(ctx, "alert", lines(up)[:1])
		g.publish(ctx, 0)
		type event struct {
			InvolvedObject      struct{ Kind, Namespace, Name string }
			Severity            string
			Reason              string
			Message             string
			ReportingController string
		}
		received := make(chan event, 100)
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var posted event
			if err := json.NewDecoder(r.Body).Decode(&posted); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			received <- posted
		}))
		DeferCleanup(receiver.Close)
		apply(ctx, `
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Provider
metadata: {name: alert, namespace: flux-system}
spec: {type: generic, address: '%s'}
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata: {name: alert, namespace: flux-system}
spec: {providerRef: {name: alert}, eventSources: [{kind: GitRepository, name: %s}]}
`, receiver.URL, g.upstreamOf(g.lines[0]))
		DeferCleanup(func(ctx SpecContext) {
			for _, kind := range []string{"Alert", "Provider"} {
				Expect(world.Client.Delete(ctx, object("notification.toolkit.fluxcd.io/v1beta3", kind, flux, "alert"))).To(Succeed())
			}
		})
		closeGate := func(reason string) {
			GinkgoHelper()
			apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: alert, namespace: flux-system, annotations: {gating.toolkit.fluxcd.io/reason: '%s'}}, spec: {closed: true}}", reason)
		}
		told := func(reason, message string) OmegaMatcher {
			return And(HaveField("Reason", reason), HaveField("Message", message), HaveField("Severity", "info"),
				HaveField("ReportingController", "gate-controller"), HaveField("InvolvedObject.Kind", "GitRepository"),
				HaveField("InvolvedObject.Namespace", flux), HaveField("InvolvedObject.Name", g.upstreamOf(g.lines[0])))
		}
		g.establish(ctx)
		g.hold(ctx)
		Eventually(received).Should(Receive(told("GateClosed", "held: gate alert is closed")))

		turnGate(ctx, g.name, false)
		Eventually(received).Should(Receive(told("AllGatesOpen", "released: gate alert is open")))

		closeGate("the quarter ends")
		Eventually(received).Should(Receive(told("GateClosed", "held: gate alert is closed (the quarter ends)")))
	})
})
