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
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var _ = Describe("A closed gate", func() {
	closeGate := func(ctx context.Context, gate string, closed bool) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t}}", gate, closed)
	}

	for _, test := range []struct{ how, name, annotations, gates string }{
		{how: "named in spec.gates", name: "by-spec", gates: "gates: {refs: [by-spec]}"},
		{how: "named in the annotation", name: "by-annotation", annotations: `annotations: {gating.toolkit.fluxcd.io/gates: by-annotation}`},
	} {
		It("holds a GitRepository when it is "+test.how, func(ctx SpecContext) {
			source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, test.name)
			artifact := field(source, "status", "artifact", "revision")
			app := object("v1", "ConfigMap", test.name, "app")
			version := field(app, "data", "version")
			head := func() string {
				GinkgoHelper()
				branch, _, err := world.Git.Client.GetRepoBranch(world.Git.Username, test.name, "main")
				Expect(err).NotTo(HaveOccurred())
				return "main@sha1:" + branch.Commit.ID
			}

			_, err := world.Git.CreateRepository(test.name)
			Expect(err).NotTo(HaveOccurred())
			Expect(world.Release(test.name, "v1.0.0")).To(Succeed())
			closeGate(ctx, test.name, false)
			apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: %[1]s
  namespace: flux-system
  %[2]s
spec:
  interval: 1s
  url: %[3]s
  ref: {branch: main}
  %[4]s
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: %[1]s}
spec:
  interval: 2s
  sourceRef: {kind: GitRepository, name: %[1]s, namespace: flux-system}
  path: ./deploy
  targetNamespace: %[1]s
  prune: true
`, test.name, test.annotations, world.RepositoryURL(test.name), test.gates)
			DeferCleanup(func(ctx SpecContext) {
				deleteAll(ctx, object(kustomizeAPI, kustomizev1.KustomizationKind, test.name, "app"), source)
			})
			Eventually(ctx, version).Should(Equal("v1.0.0"))
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "AllGatesOpen")))

			By("closing the gate")
			closeGate(ctx, test.name, true)
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")),
				HaveField("Reason", "GateClosed"), HaveField("Message", ContainSubstring("gate %s is closed", test.name))))
			Eventually(ctx, heldAndObserved(source)).Should(BeTrue())
			before := head()
			Expect(artifact(ctx)).To(Equal(before))

			By("releasing a new revision, which must not be published")
			Expect(world.Release(test.name, "v2.0.0")).To(Succeed())
			Expect(head()).NotTo(Equal(before))
			_, err = run(ctx, "flux", "reconcile", "source", "git", test.name, "--timeout=3s")
			Expect(err).To(HaveOccurred(), "flux refuses to reconcile a source that is suspended")
			Consistently(ctx, artifact).Should(Equal(before))
			Expect(version(ctx)).To(Equal("v1.0.0"))

			By("changing what was applied, which Flux must still correct")
			Expect(world.Client.Patch(ctx, app.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"version":"tampered"}}`)))).To(Succeed())
			Eventually(ctx, version).Should(Equal("v1.0.0"))

			By("opening the gate")
			closeGate(ctx, test.name, false)
			Eventually(ctx, artifact).Should(Equal(head()))
			Eventually(ctx, version).Should(Equal("v2.0.0"))
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
			Expect(field(source, "spec", "suspend")(ctx)).To(BeNil(), "a release leaves no trace in the spec")

			events := func(ctx context.Context) (string, error) {
				return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gitrepository/"+test.name)
			}
			Eventually(ctx, events).Should(ContainSubstring("released: gate %s is open", test.name))
			all, err := events(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(all, "held: gate "+test.name+" is closed")).To(Equal(1))
		})
	}

	It("warns a person who suspends what it holds, because that leaves no trace", func(ctx SpecContext) {
		const warning = "nothing changed: the source is already suspended by its gates, and resumes when they open"
		closeGate(ctx, "suspended-late", true)
		source := ungatedSource(ctx, "suspended-late")
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "suspended-late")
		Eventually(ctx, heldAndObserved(source)).Should(BeTrue())
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))
		kubectl := func(args ...string) string {
			GinkgoHelper()
			out, err := run(ctx, "kubectl", append(args, "--namespace="+flux)...)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		suspend := []string{"patch", "gitrepository", "suspended-late", "--type=merge", `--patch={"spec":{"suspend":true}}`}

		Expect(kubectl(suspend...)).To(ContainSubstring(warning))
		Expect(warnings(ctx, source)).To(ContainElement(ContainSubstring(warning)), "as the flux CLI suspends")
		Expect(warnings(ctx, source, client.FieldOwner("a-controller"))).To(BeEmpty())
		Expect(kubectl("annotate", "gitrepository", "suspended-late", "team=a")).NotTo(ContainSubstring(warning))
		Expect(kubectl("patch", "gitrepository", "suspended-late", "--type=merge", `--patch={"metadata":{"labels":{"team":"a"}}}`)).NotTo(ContainSubstring(warning))

		By("suspending it with one's own field manager, which leaves a trace")
		manifest := filepath.Join(GinkgoT().TempDir(), "suspend.yaml")
		Expect(os.WriteFile(manifest, []byte("{apiVersion: "+sourceAPI+", kind: GitRepository, metadata: {name: suspended-late}, spec: {suspend: true}}"), 0o600)).To(Succeed())
		Expect(kubectl("apply", "--server-side", "--field-manager=ada", "--filename="+manifest)).NotTo(ContainSubstring(warning))
		Expect(kubectl(suspend...)).NotTo(ContainSubstring(warning))
		closeGate(ctx, "suspended-late", false)
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		Consistently(ctx, field(source, "spec", "suspend")).Should(Equal(true))
		_, err := run(ctx, "flux", "resume", "source", "git", "suspended-late")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(source, "spec", "suspend")(ctx)).To(BeNil())
	})

	It("keeps a person's own suspension when it opens", func(ctx SpecContext) {
		closeGate(ctx, "suspended", true)
		source := ungatedSource(ctx, "suspended")
		Expect(world.Client.Patch(ctx, source.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)), client.FieldOwner("flux"))).To(Succeed())
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "suspended")
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")))

		closeGate(ctx, "suspended", false)
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		Consistently(ctx, field(source, "spec", "suspend")).Should(Equal(true))
	})

	It("holds again after flux resume", func(ctx SpecContext) {
		closeGate(ctx, "resumed", true)
		source := ungatedSource(ctx, "resumed")
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "resumed")
		Eventually(ctx, heldAndObserved(source)).Should(BeTrue())

		_, err := run(ctx, "flux", "resume", "source", "git", "resumed", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, heldAndObserved(source)).Should(BeTrue())
	})

	It("is an error when it does not exist, and still holds", func(ctx SpecContext) {
		source := ungatedSource(ctx, "missing")
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "nobody-made-this")
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "GateNotFound")))
		Eventually(ctx, heldAndObserved(source)).Should(BeTrue())

		By("removing the gate from the source again")
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "")
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Type", BeEmpty()))
		Eventually(ctx, field(source, "spec", "suspend")).Should(BeNil())
	})

	It("holds a source whose annotation is invalid", func(ctx SpecContext) {
		source := ungatedSource(ctx, "garbled")
		annotate(ctx, source, "gating.toolkit.fluxcd.io/gates", "Not A Name")
		Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Reason", "InvalidGates"),
			HaveField("Message", ContainSubstring("must list gates as <name>"))))
		Eventually(ctx, heldAndObserved(source)).Should(BeTrue())
	})

	It("does not count as open while gate-controller is down", func(ctx SpecContext) {
		gates := func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "--namespace", flux, "get", "gates")
		}
		closeGate(ctx, "unseen", false)
		Eventually(ctx, gates).Should(And(MatchRegexp(`NAME +CLOSED +STATE +SINCE +UNTIL +HELD +REFUSED +REASON`), MatchRegexp(`(?m)^unseen +false +Open `)))
		Expect(world.GateController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
		closeGate(ctx, "unseen", true)
		Expect(gates(ctx)).To(MatchRegexp(`(?m)^unseen +true +Open `))
	})

	It("reports when all have followed it, in one event and to flux close gate", func(ctx SpecContext) {
		const sources = 12
		closeGate(ctx, "followed", false)
		named := func(i int) *unstructured.Unstructured {
			return object(sourceAPI, sourcev1.GitRepositoryKind, flux, fmt.Sprintf("followed-%d", i))
		}
		for i := range sources {
			apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 24h, url: '%s', ref: {branch: main}, gates: {refs: [followed]}}}",
				sourceAPI, named(i).GetName(), world.RepositoryURL("app"))
			DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, named(i))).To(Succeed()) })
		}
		gate := object(gatingAPI, gatingv1.GateKind, flux, "followed")
		Eventually(ctx, field(gate, "status", "sources")).Should(BeEquivalentTo(sources))
		turn := func(verb, want string) {
			GinkgoHelper()
			said, err := run(ctx, "flux", verb, "gate", "followed")
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(HaveSuffix(want + "\n"))
			suspended := BeNil()
			if verb == "close" {
				suspended = Equal(true)
			}
			for i := range sources {
				Expect(field(named(i), "spec", "suspend")(ctx)).To(suspended)
			}
		}
		turn("close", "✔ gate followed is closed: held 12 of 12 sources")
		turn("open", "✔ gate followed is open: released 12 of 12 sources")

		events := func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "gate/followed")
		}
		Eventually(ctx, events).Should(And(
			MatchRegexp(`Normal +Closed .* closed by admin; holds 12 of 12 sources\n`),
			MatchRegexp(`Normal +Open .* opened by admin; released 12 of 12 sources\n`)))
		all, err := events(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Split(strings.TrimSpace(all), "\n")).To(HaveLen(3), "a heading and two events")
		Expect(condition(gate, meta.ReadyCondition)(ctx)).To(HaveField("Status", BeEquivalentTo("True")))
	})

	It("reports in its status what it holds", func(ctx SpecContext) {
		closeGate(ctx, "counted", true)
		gate := object(gatingAPI, gatingv1.GateKind, flux, "counted")
		Eventually(ctx, field(gate, "status", "sources")).Should(BeEquivalentTo(0))
		for i := range 3 {
			annotate(ctx, ungatedSource(ctx, fmt.Sprintf("counted-%d", i)), "gating.toolkit.fluxcd.io/gates", "counted")
		}
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(3))
		Expect(field(gate, "status", "sources")(ctx)).To(BeEquivalentTo(3))
		Expect(condition(gate, "Open")(ctx)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "Closed")))
		Eventually(ctx, metricsOf(world.GateController)).Should(And(
			ContainSubstring(`sluice_gate_closed{name="counted",namespace="flux-system"} 1`),
			MatchRegexp(`sluice_gate_closed_duration_seconds{name="counted",namespace="flux-system"} [0-9.]*[1-9]`),
			ContainSubstring(`sluice_gate_sources_held{kind="GitRepository",name="counted",namespace="flux-system"} 3`),
			ContainSubstring(`sluice_gate_sources_held{kind="Bucket",name="counted",namespace="flux-system"} 0`)))
		Eventually(ctx, metricsOf(world.GateController)).Should(
			MatchRegexp(`sluice_gate_decisions_total{decision="held",kind="GitRepository",reason="GateClosed"} ([3-9]|[1-9]\d)`))

		closeGate(ctx, "counted", false)
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(0))
		Expect(condition(gate, "Open")(ctx)).To(HaveField("Status", BeEquivalentTo("True")))
		Eventually(ctx, metricsOf(world.GateController)).Should(And(
			ContainSubstring(`sluice_gate_closed{name="counted",namespace="flux-system"} 0`),
			ContainSubstring(`sluice_gate_closed_duration_seconds{name="counted",namespace="flux-system"} 0`),
			ContainSubstring(`sluice_gate_sources_held{kind="GitRepository",name="counted",namespace="flux-system"} 0`)))

		By("deleting it, which leaves no metric behind")
		Expect(world.Client.Delete(ctx, gate)).To(Succeed())
		Eventually(ctx, metricsOf(world.GateController)).ShouldNot(ContainSubstring(`name="counted"`))
	})
})

// ungatedSource creates a GitRepository of the repository app until the spec ends, and waits until it was fetched.
func ungatedSource(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 1m, url: '%s', ref: {branch: main}}}",
		sourceAPI, name, world.RepositoryURL("app"))
	source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, name)
	DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, source) })
	Eventually(ctx, condition(source, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
	return source
}

func annotate(ctx context.Context, obj *unstructured.Unstructured, annotation, value string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	Expect(world.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// heldAndObserved returns a function that reports whether a source is suspended and source-controller has seen it. Then
// no fetch is in progress.
func heldAndObserved(source *unstructured.Unstructured) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		now := source.DeepCopy()
		if err := world.Client.Get(ctx, client.ObjectKeyFromObject(source), now); err != nil {
			return false, err
		}
		suspended, _, _ := unstructured.NestedBool(now.Object, "spec", "suspend")
		observed, _, _ := unstructured.NestedInt64(now.Object, "status", "observedGeneration")
		return suspended && observed == now.GetGeneration(), nil
	}
}

// warnings returns the API server's warnings about a patch that changes nothing.
func warnings(ctx context.Context, source *unstructured.Unstructured, options ...client.PatchOption) []string {
	GinkgoHelper()
	var told []string
	config := rest.CopyConfig(world.Cluster.Config)
	config.WarningHandlerWithContext = warningFunc(func(text string) { told = append(told, text) })
	as, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	Expect(as.Patch(ctx, source.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), options...)).To(Succeed())
	return told
}

// warningFunc receives warnings.
type warningFunc func(text string)

// HandleWarningHeaderWithContext calls the function with the text of a warning.
func (f warningFunc) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	f(text)
}
