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
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/killproxy"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// Closing and opening take more than twenty writes each: a hold or a release of each source, its condition, and the
// status of the gate.
var _ = Describe("Killing gate-controller", func() {
	DescribeTable("while it holds the sources, and while it releases them, and starting it again, ends in the right state", func(ctx SpecContext, moments ...killproxy.Moment) {
		up := startUpstream(ctx)
		controller, killAt := killableController(ctx)

		// Ten sources, and the HelmRepository of one, which is held too.
		all := append(lines(up), chartOfGatedRepository(up))
		for _, l := range all[:3] {
			l.slug += "-2"
			all = append(all, l)
		}
		g := newGroup(ctx, fmt.Sprintf("crash-%d", len(moments)), all)
		g.publish(ctx, 0)
		g.establish(ctx)
		counted := func(held int) {
			GinkgoHelper()
			gate := object(gatingAPI, gatingv1.GateKind, flux, g.name)
			Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(held))
			Expect(field(gate, "status", "sources")(ctx)).To(BeEquivalentTo(11))
		}

		By("having a person suspend one of them")
		suspended := g.sources()[len(all)-1]
		_, err := run(ctx, "flux", "suspend", "source", all[len(all)-1].cli, suspended.GetName())
		Expect(err).NotTo(HaveOccurred())
		g.expectReleased(ctx, now(ctx, g.sources())...)

		// dies kills the controller at a point of its work when the gate changes, and starts it again.
		dies := func(moment killproxy.Moment, closed bool) {
			GinkgoHelper()
			By(fmt.Sprintf("turning the gate to closed=%t and killing the controller at %+v", closed, moment))
			dead := killAt(moment)
			turnGate(ctx, g.name, closed)
			var death killproxy.Death
			Eventually(ctx, dead).Should(Receive(&death))
			Expect(death.Err).NotTo(HaveOccurred())
			GinkgoWriter.Println("killed at", death.Call)
			Expect(controller.Start(ctx)).To(Succeed())
		}
		for round, moment := range moments {
			dies(moment, true)
			g.expectHeld(ctx, now(ctx, g.sources())...)
			for _, source := range now(ctx, g.sources()) {
				Expect(suspendedBy(source)).To(ContainElement(holder), key(source))
			}
			counted(11)
			g.sentinel.close()
			g.publish(ctx, round+1)
			g.expectHeld(ctx, now(ctx, g.sources())...)
			Expect(g.sentinel.leaks()).To(BeEmpty())

			g.sentinel.open()
			dies(moment, false)
			g.expectReleased(ctx, now(ctx, g.sources())...)
			counted(0)
			for _, source := range g.sources() {
				if source.GetName() == suspended.GetName() {
					Expect(field(source, "spec", "suspend")(ctx)).To(Equal(true))
					Expect(content(source)(ctx)).To(ContainSubstring(version(0)))
					continue
				}
				Expect(field(source, "spec", "suspend")(ctx)).To(BeNil(), key(source))
				Eventually(ctx, content(source)).Should(ContainSubstring(version(round+1)), key(source))
			}
		}

		By("removing the gates from the sources")
		gated := g.sources()
		for _, l := range g.lines {
			if l.inherits {
				gated = append(gated, object(sourceAPI, sourcev1.HelmRepositoryKind, flux, g.upstreamOf(l)))
			}
		}
		for _, source := range gated {
			Expect(world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"gates":null}}`)))).To(Succeed())
		}
		for _, source := range gated {
			Eventually(ctx, traces(source)).Should(BeEmpty(), key(source))
		}
	},
		Entry("at its beginning, middle and end", killproxy.Moment{Call: 1, Done: true}, killproxy.Moment{Call: 9}, killproxy.Moment{Call: 18, Done: true}),
		Entry("at any moment", slow, killproxy.Moment{Call: 1}, killproxy.Moment{Call: 1, Done: true}, killproxy.Moment{Call: 2}, killproxy.Moment{Call: 4, Done: true},
			killproxy.Moment{Call: 7}, killproxy.Moment{Call: 9, Done: true}, killproxy.Moment{Call: 12}, killproxy.Moment{Call: 15, Done: true},
			killproxy.Moment{Call: 18}, killproxy.Moment{Call: 20, Done: true}),
	)

	DescribeTable("while it restores a lost artifact, and starting it again, restores that artifact and publishes nothing newer", func(ctx SpecContext, name string, moments iter.Seq[killproxy.Moment]) {
		controller, killAt := killableController(ctx)
		w := newWindowed(ctx, name)
		observer, before := watchArtifacts(ctx, w.source), w.head()
		_, commit, _ := strings.Cut(before, "@sha1:")
		// follow makes the source follow its branch, which is ahead of the lost artifact, or stay at a commit.
		follow := func(commit string) {
			GinkgoHelper()
			patch := fmt.Appendf(nil, `{"spec":{"ref":{"commit":%s}}}`, commit)
			Expect(world.Client.Patch(ctx, w.source.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		}
		follow(strconv.Quote(commit))
		w.hold(ctx)
		w.release("v2.0.0")
		recorded := published(now(ctx, []*unstructured.Unstructured{w.source})[0])

		settled := func(g Gomega, ctx context.Context) {
			g.Expect(content(w.source)(ctx)).To(ContainSubstring("v1.0.0"))
			is := now(ctx, []*unstructured.Unstructured{w.source})[0]
			g.Expect(published(is)).To(Equal(recorded))
			g.Expect(heldAndObserved(w.source)(ctx)).To(BeTrue())
			g.Expect(gatesOpen(is)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("ObservedGeneration", is.GetGeneration())))
			g.Expect(condition(w.source, gatingv1.ArtifactLostCondition)(ctx)).To(HaveField("Type", BeEmpty()))
			gate := &gatingv1.Gate{}
			g.Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(w.gate), gate)).To(Succeed())
			g.Expect(gate.Status).To(And(HaveField("Lost", BeZero()), HaveField("Held", BeEquivalentTo(1)), HaveField("Pending", BeZero())))
		}
		Eventually(ctx, settled).Should(Succeed())
		kills := 0
		for moment := range moments {
			By(fmt.Sprintf("losing the artifact and killing the controller at %+v", moment))
			dead := killAt(moment)
			loseArtifacts(ctx)
			var death *killproxy.Death
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				select {
				case found := <-dead:
					death = &found
				default:
				}
				if death == nil {
					settled(g, ctx)
				}
			}).Should(Succeed())
			if death == nil {
				GinkgoWriter.Println("restored before that call")
				break
			}
			Expect(death.Err).NotTo(HaveOccurred())
			GinkgoWriter.Println("killed at", death.Call)
			kills++
			if suspended, err := field(w.source, "spec", "suspend")(ctx); suspended == nil {
				Expect(err).NotTo(HaveOccurred())
				By("having the source offer a newer revision, and then the lost one, while nobody holds it")
				refused, err := refusals(w.source)
				Expect(err).NotTo(HaveOccurred())
				follow("null")
				Eventually(ctx, func() (int, error) { return refusals(w.source) }).Should(BeNumerically(">", refused))
				follow(strconv.Quote(commit))
				Eventually(ctx, content(w.source)).Should(ContainSubstring("v1.0.0"))
			}
			Expect(controller.Start(ctx)).To(Succeed())
			Eventually(ctx, settled).Should(Succeed())
		}
		observer.expect(before)
		Expect(kills).To(BeNumerically(">=", 3))
	},
		Entry("at its beginning, middle and end", "crash-restore", slices.Values([]killproxy.Moment{{Call: 1, Done: true}, {Call: 3, Done: true}, {Call: 6}})),
		Entry("at every call", slow, "crash-restore-all", func(yield func(killproxy.Moment) bool) {
			for call := 1; yield(killproxy.Moment{Call: call}) && yield(killproxy.Moment{Call: call, Done: true}); call++ {
			}
		}),
	)
})

// killableController runs gate-controller instead of the suite's, so it can be killed at a point of its work.
func killableController(ctx context.Context) (controller *localcluster.Process, killAt func(killproxy.Moment) <-chan killproxy.Death) {
	GinkgoHelper()
	// Events are not counted, because no state depends on them.
	proxy := &killproxy.Proxy{}
	DeferCleanup(proxy.Close)
	server, err := proxy.Kubernetes(world.Cluster.Config, func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/apis/source.toolkit.fluxcd.io/") || strings.HasPrefix(r.URL.Path, "/apis/gating.toolkit.fluxcd.io/")
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(world.GateController.Stop()).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(world.GateController.Start(ctx)).To(Succeed()) })
	controller, err = world.Cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: "gate-controller-killed", Binary: "gate-controller", ServiceAccount: "gate-controller", Server: server,
		Args: []string{"--artifact-hosts=" + world.Cluster.ArtifactsAddr},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(controller.Kill)
	return controller, func(moment killproxy.Moment) <-chan killproxy.Death { return proxy.KillAt(moment, controller.Kill) }
}

// traces returns a function that lists what gate-controller has left on a source, for Eventually.
func traces(source *unstructured.Unstructured) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		current := source.DeepCopy()
		if err := world.Client.Get(ctx, client.ObjectKeyFromObject(source), current); err != nil {
			return nil, err
		}
		var left []string
		for annotation := range current.GetAnnotations() {
			if strings.HasPrefix(annotation, "gating.toolkit.fluxcd.io/") {
				left = append(left, "the annotation "+annotation)
			}
		}
		for _, entry := range current.GetManagedFields() {
			if entry.Manager == holder && entry.Subresource == "" {
				left = append(left, "fields of its own: "+entry.FieldsV1.GetRawString())
			}
		}
		if condition := gatesOpen(current); condition.Type != "" {
			left = append(left, "the condition "+condition.Type)
		}
		return left, nil
	}
}
