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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var _ = Describe("Who turned a gate", Ordered, func() {
	const namespace = "turned"

	// gate returns a gate, with the annotation turned-by if a name is given.
	gate := func(name, by, spec string) *unstructured.Unstructured {
		GinkgoHelper()
		obj := object(gatingAPI, gatingv1.GateKind, namespace, name)
		if by != "" {
			obj.SetAnnotations(map[string]string{gatingv1.TurnedByAnnotation: by})
		}
		if spec != "" {
			var fields map[string]any
			Expect(json.Unmarshal([]byte(spec), &fields)).To(Succeed())
			obj.Object["spec"] = fields
		}
		return obj
	}
	// applies applies as a field manager, as the CLI does with 'flux'.
	applies := func(ctx context.Context, person client.Client, manager string, obj *unstructured.Unstructured) error {
		return person.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(manager), client.ForceOwnership)
	}
	patches := func(ctx context.Context, person client.Client, manager string, obj *unstructured.Unstructured, patch string) error {
		return person.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))
	}
	turnedBy := func(name string) func(context.Context) (any, error) {
		return field(gate(name, "", ""), "status", "turnedBy")
	}

	BeforeAll(func(ctx SpecContext) {
		apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: turned}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: gates, namespace: turned}
rules: [{apiGroups: [gating.toolkit.fluxcd.io], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gates, namespace: turned}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gates}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
`)
		Eventually(ctx, func(ctx context.Context) error {
			return applies(ctx, actingAs("jane"), "flux", gate("by-jane", "jane", `{"closed":true}`))
		}).Should(Succeed(), "the API server sees the Role a moment after it is written")
	})

	It("is shown until someone else turns it", func(ctx SpecContext) {
		closed := gate("shown", "", `{"closed":true}`)
		Expect(applies(ctx, actingAs("jane"), "flux", gate("shown", "jane", `{"closed":true}`))).To(Succeed())
		Eventually(ctx, turnedBy("shown")).Should(Equal("jane"))
		Expect(run(ctx, "kubectl", "--namespace", namespace, "get", "gates", "shown", "--output=wide")).To(MatchRegexp(`TURNED-BY(?s:.*)\n.* jane `))
		Expect(run(ctx, "flux", "--namespace", namespace, "gate", "get", "shown")).To(And(
			HavePrefix("Gate/turned/shown: closed by jane since "), ContainSubstring("├── turned by jane\n")))

		By("turning it by other means, and back")
		for _, spec := range []string{`{"spec":{"closed":false}}`, `{"spec":{"closed":true}}`} {
			Expect(patches(ctx, actingAs("eve"), "kubectl-patch", closed, spec)).To(Succeed())
			Eventually(ctx, turnedBy("shown")).Should(Equal("field manager kubectl-patch"))
		}
		Expect(field(closed, "metadata", "annotations", gatingv1.TurnedByAnnotation)(ctx)).To(Equal("jane"))

		By("setting a reason and removing the name, which everyone may")
		Expect(patches(ctx, actingAs("eve"), "kubectl-annotate", closed, `{"metadata":{"annotations":{"`+gatingv1.ReasonAnnotation+`":"end of quarter"}}}`)).To(Succeed())
		Expect(patches(ctx, actingAs("eve"), "kubectl-annotate", closed, `{"metadata":{"annotations":{"`+gatingv1.TurnedByAnnotation+`":null}}}`)).To(Succeed())
	})

	It("can't be forged", func(ctx SpecContext) {
		eve, byJane := actingAs("eve"), gate("by-jane", "", "")
		beRefused := And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("annotation gating.toolkit.fluxcd.io/turned-by must be your own name: eve")))
		named := func(name string) string {
			return `{"metadata":{"annotations":{"` + gatingv1.TurnedByAnnotation + `":"` + name + `"}}}`
		}
		owning := func(field string) string {
			return `{"metadata":{"managedFields":[{"manager":"flux","operation":"Apply","apiVersion":"` + gatingAPI + `","fieldsType":"FieldsV1","time":"2026-01-01T00:00:00Z",` +
				`"fieldsV1":{"f:metadata":{"f:annotations":{"f:` + gatingv1.TurnedByAnnotation + `":{}}},"f:spec":{"f:` + field + `":{}}}}]}}`
		}
		Expect(eve.Create(ctx, gate("created", "jane", `{"closed":false}`))).To(beRefused, "a gate that is created")
		Expect(patches(ctx, eve, "kubectl-edit", byJane, named("mallory"))).To(beRefused, "another name")
		Expect(applies(ctx, eve, "flux", gate("by-jane", "jane", `{"closed":false}`))).To(beRefused, "a turn in the name of her entry")
		Expect(applies(ctx, eve, "flux", gate("by-jane", "jane", `{"closed":true,"override":{"closed":false,"until":"2036-01-01T00:00:00Z"}}`))).To(beRefused, "an override in the name of her entry")

		Expect(eve.Create(ctx, gate("eves", "", `{"closed":true}`))).To(Succeed())
		Expect(patches(ctx, eve, "kubectl-annotate", gate("eves", "", ""), named("jane"))).To(beRefused, "a gate that nobody is named by")

		By("making her entry own what someone else has turned, by forged managed fields")
		Expect(patches(ctx, eve, "kubectl-patch", byJane, `{"spec":{"closed":false,"override":{"closed":true,"until":"2036-01-01T00:00:00Z"}}}`)).To(Succeed())
		for _, what := range []string{"closed", "override"} {
			Expect(patches(ctx, eve, "kubectl-edit", byJane, owning(what))).To(beRefused, what)
			// A write of the status has no effect on who owns the spec.
			Expect(eve.Status().Patch(ctx, byJane.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(owning(what))))).To(Succeed())
			now := &gatingv1.Gate{}
			Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(byJane), now)).To(Succeed())
			Expect(now.StateAt(time.Now()).By).To(Equal(gatingv1.Turner{FieldManager: "kubectl-patch"}), what)
		}
		Eventually(ctx, turnedBy("by-jane")).Should(Equal("field manager kubectl-patch"))

		By("turning it in one's own name")
		Expect(applies(ctx, eve, "flux", gate("by-jane", "eve", `{"closed":true}`))).To(Succeed())
		Expect(patches(ctx, eve, "flux", byJane, `{"spec":{"override":null}}`)).To(Succeed())
		Eventually(ctx, turnedBy("by-jane")).Should(Equal("eve"))
	})
})
