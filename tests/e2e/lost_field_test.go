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
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var _ = Describe("Sources that are held while their CRDs lose spec.gates", func() {
	It("stay held until they are applied again, even if they are resumed, for each kind", func(ctx SpecContext) {
		up := startUpstream(ctx)
		g := newGroup(ctx, "lost", append(lines(up), chartOfGatedRepository(up)))
		g.publish(ctx, 0)
		g.establish(ctx)
		g.hold(ctx)
		g.publish(ctx, 1)
		expectHeld := func(way string) {
			GinkgoHelper()
			for _, source := range g.sources() {
				Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "GatesFieldLost")), key(source)+way)
				Eventually(ctx, heldAndObserved(source)).Should(BeTrue(), key(source)+way)
				request(ctx, source) // reconciliations in progress have ended
				Expect(content(source)(ctx)).To(ContainSubstring(version(0)), key(source)+way)
			}
		}
		ways := map[string]func(line, *unstructured.Unstructured){
			" after flux resume": func(l line, source *unstructured.Unstructured) {
				_, err := run(ctx, "flux", "resume", "source", l.cli, source.GetName(), "--wait=false")
				Expect(err).NotTo(HaveOccurred())
			},
			" after 'suspend: false' in Git": func(_ line, source *unstructured.Unstructured) {
				source.Object["spec"] = map[string]any{"suspend": false}
				Expect(world.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(source), client.FieldOwner("kustomize-controller"), client.ForceOwnership)).To(Succeed())
			},
		}
		resume := func() {
			GinkgoHelper()
			for way, do := range ways {
				generations := map[string]int64{}
				for _, source := range now(ctx, g.sources()) {
					generations[key(source)] = source.GetGeneration()
				}
				for i, source := range g.sources() {
					do(g.lines[i], source)
				}
				for _, source := range g.sources() {
					Eventually(ctx, field(source, "metadata", "generation")).Should(BeNumerically(">", generations[key(source)]+1), "resumed and held: "+key(source)+way)
				}
				expectHeld(way)
			}
		}

		giveBack := loseGatesField(ctx, gatingv1.SourceKinds...)
		expectHeld("")
		resume()
		turnGate(ctx, g.name, false)

		By("restoring the field, which does not restore the gates")
		giveBack(ctx)
		resume()

		By("applying the sources again")
		for i, line := range g.lines {
			apply(ctx, "%s", g.manifest(line, g.sources()[i].GetName(), ""))
		}
		for _, source := range g.sources() {
			Eventually(ctx, content(source)).Should(ContainSubstring(version(1)), key(source))
		}
	})
})

// loseGatesField removes spec.gates from the CRDs of kinds, as a plain 'flux install' does, and from all sources. It
// returns a function that restores the field. Sources of other specs get their gates back when the spec ends.
func loseGatesField(ctx context.Context, kinds ...string) (giveBack func(context.Context)) {
	GinkgoHelper()
	const path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/gates"
	type definition struct {
		crd   *unstructured.Unstructured
		field any
	}
	var definitions []definition
	gated := gatedSources(ctx, kinds)
	for _, kind := range kinds {
		resource, _ := apimeta.UnsafeGuessKindToResource(sourcev1.GroupVersion.WithKind(kind))
		crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", resource.GroupResource().String())
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		Expect(err).NotTo(HaveOccurred())
		gates, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "gates")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeTrue())
		definitions = append(definitions, definition{crd, gates})
		Expect(world.Client.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op":"remove","path":%q}]`, path)))).To(Succeed())
	}
	// The API server needs a moment to apply the change. Sources that are written after that lose their gates.
	for _, source := range gated {
		touched := source.DeepCopy()
		Eventually(ctx, func(ctx context.Context) (any, error) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano())
			err := world.Client.Patch(ctx, touched, client.RawPatch(types.MergePatchType, patch))
			if apierrors.IsNotFound(err) {
				return nil, nil // of another spec, and still being deleted
			}
			return touched.Object["spec"].(map[string]any)["gates"], err
		}).Should(BeNil(), key(source))
	}
	giveBack = func(ctx context.Context) {
		GinkgoHelper()
		for _, lost := range definitions {
			patch, err := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": lost.field}})
			Expect(err).NotTo(HaveOccurred())
			Expect(world.Client.Patch(ctx, lost.crd.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
		}
	}
	DeferCleanup(func(ctx SpecContext) {
		giveBack(ctx)
		for _, source := range gated {
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"gates": source.Object["spec"].(map[string]any)["gates"]}})
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, func(ctx context.Context) (any, error) {
				err := world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, patch))
				return source.Object["spec"].(map[string]any)["gates"], client.IgnoreNotFound(err)
			}).ShouldNot(BeNil(), key(source))
		}
	})
	return giveBack
}

// gatedSources are the sources of the kinds with gates in their spec.
func gatedSources(ctx context.Context, kinds []string) []*unstructured.Unstructured {
	GinkgoHelper()
	var gated []*unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(sourceAPI)
		list.SetKind(kind + "List")
		Expect(world.Client.List(ctx, list, client.InNamespace(flux))).To(Succeed())
		for i := range list.Items {
			if _, found, _ := unstructured.NestedMap(list.Items[i].Object, "spec", "gates"); found {
				gated = append(gated, &list.Items[i])
			}
		}
	}
	return gated
}
