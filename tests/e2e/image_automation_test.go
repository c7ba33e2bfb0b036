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
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	imagev1 "github.com/fluxcd/image-automation-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/patch"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// The module proxy does not serve image-automation-controller, so a stand-in runs here, with the CRD that Flux's own
// types generate.
var _ = Describe("An ImageUpdateAutomation", Ordered, func() {
	const gate = "image-updates"
	automation := object(imagev1.GroupVersion.String(), imagev1.ImageUpdateAutomationKind, flux, "app")
	gatesAre := condition(automation, gatingv1.GatesOpenCondition)
	var commits atomic.Int64

	BeforeAll(func(ctx SpecContext) {
		installImageAutomation(ctx)
		turnGate(ctx, gate, false)
		apply(ctx, `
apiVersion: image.toolkit.fluxcd.io/v1
kind: ImageUpdateAutomation
metadata: {name: app, namespace: flux-system, annotations: {gating.toolkit.fluxcd.io/gates: %s}}
spec:
  interval: 24h
  sourceRef: {kind: GitRepository, name: app}
  git: {commit: {author: {email: flux@example.com}}}
`, gate)
		scheme := runtime.NewScheme()
		Expect(imagev1.AddToScheme(scheme)).To(Succeed())
		standIn, err := client.New(world.Cluster.Config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			commitImages(running, standIn, client.ObjectKeyFromObject(automation), &commits)
		}()
		DeferCleanup(func() { stop(); <-done })
	})

	It("is suspended while a gate is closed, and commits again when it opens", func(ctx SpecContext) {
		Eventually(ctx, gatesAre).Should(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Message", "gate image-updates is open")))
		Eventually(ctx, commits.Load).Should(BeNumerically(">", 0))

		turnGate(ctx, gate, true)
		Eventually(ctx, gatesAre).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "GateClosed"),
			HaveField("Message", "gate image-updates is closed; image updates are suspended")))
		Eventually(ctx, field(automation, "spec", "suspend")).Should(Equal(true))
		Eventually(ctx, field(object(gatingAPI, gatingv1.GateKind, flux, gate), "status", "held")).Should(BeEquivalentTo(1))
		// A run that had begun before may still end.
		last := commits.Load() + 1
		Consistently(ctx, commits.Load, "2s").Should(BeNumerically("<=", last))
		out, err := run(ctx, "flux", "gate", "get", gate)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("ImageUpdateAutomation/flux-system/app: held: gate image-updates is closed; image updates are suspended"))
		Expect(metricsOf(world.GateController)(ctx)).To(ContainSubstring(`sluice_gate_sources_held{kind="ImageUpdateAutomation",name="image-updates",namespace="flux-system"} 1`))

		By("resuming it by hand")
		_, err = run(ctx, "flux", "resume", "image", "update", "app", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, field(automation, "spec", "suspend")).Should(Equal(true))

		last = commits.Load()
		turnGate(ctx, gate, false)
		Eventually(ctx, gatesAre).Should(HaveField("Status", BeEquivalentTo("True")))
		Expect(field(automation, "spec", "suspend")(ctx)).To(BeNil())
		Eventually(ctx, commits.Load).Should(BeNumerically(">", last))
		Eventually(ctx, condition(automation, meta.ReadyCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
	})

	It("stays suspended if a person suspended it before", func(ctx SpecContext) {
		suspend := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))
		Expect(world.Client.Patch(ctx, automation.DeepCopy(), suspend, client.FieldOwner("flux"))).To(Succeed())
		turnGate(ctx, gate, true)
		Eventually(ctx, gatesAre).Should(HaveField("Status", BeEquivalentTo("False")))
		turnGate(ctx, gate, false)
		Eventually(ctx, gatesAre).Should(HaveField("Status", BeEquivalentTo("True")))
		Consistently(ctx, field(automation, "spec", "suspend")).Should(Equal(true))
	})
})

// installImageAutomation adds Flux's image automation to the cluster until the specs end. gate-controller looks for it
// only when it starts.
func installImageAutomation(ctx context.Context) {
	GinkgoHelper()
	crd, err := os.ReadFile(filepath.Join("..", "crds", "image.toolkit.fluxcd.io_imageupdateautomations.yaml"))
	Expect(err).NotTo(HaveOccurred())
	restart := func(ctx context.Context, between func()) {
		GinkgoHelper()
		Expect(world.GateController.Stop()).To(Succeed())
		between()
		Expect(world.GateController.Start(ctx)).To(Succeed())
	}
	restart(ctx, func() { apply(ctx, "%s", crd) })
	DeferCleanup(func(ctx SpecContext) {
		restart(ctx, func() {
			deleteAll(ctx, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "imageupdateautomations.image.toolkit.fluxcd.io"))
		})
	})
}

// commitImages is a stand-in for image-automation-controller until the context ends. A run does nothing if the object
// is suspended. Otherwise it commits, and writes conditions as image-automation-controller 1.2 does. It differs in
// these ways:
//
//   - A commit is only counted. It takes no time, so no run is in progress when the object is suspended.
//   - It reads from the API server and not from a cache, so it always sees the hold.
//   - It runs all the time, not at an interval, on requests or after changes of policies.
//   - It has no finalizer, and emits no events.
func commitImages(ctx context.Context, flux client.Client, name types.NamespacedName, commits *atomic.Int64) {
	owned := patch.WithOwnedConditions{Conditions: []string{meta.ReadyCondition, meta.ReconcilingCondition, meta.StalledCondition}}
	for runs := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-runs.C {
		var automation imagev1.ImageUpdateAutomation
		if err := flux.Get(ctx, name, &automation); err != nil || automation.Spec.Suspend {
			continue
		}
		patcher := patch.NewSerialPatcher(&automation, flux)
		if automation.Generation != automation.Status.ObservedGeneration {
			conditions.MarkReconciling(&automation, meta.ProgressingReason, "reconciliation in progress")
			conditions.MarkUnknown(&automation, meta.ReadyCondition, meta.ProgressingReason, "reconciliation in progress")
			if err := patcher.Patch(ctx, &automation, owned); err != nil {
				continue
			}
		}
		commits.Add(1)
		conditions.Delete(&automation, meta.ReconcilingCondition)
		conditions.MarkTrue(&automation, meta.ReadyCondition, meta.SucceededReason, "repository up-to-date")
		// After an error, the next run writes the conditions.
		_ = patcher.Patch(ctx, &automation, owned, patch.WithStatusObservedGeneration{})
	}
}
