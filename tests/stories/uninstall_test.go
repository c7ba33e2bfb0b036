//go:build e2e_node

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

package stories

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("The end of Sluice", Ordered, func() {
	const (
		story  = "last"
		gate   = "last-freeze"
		source = story + "-held"
	)

	BeforeAll(func(ctx SpecContext) {
		install(ctx, thisVersion)
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: true}}", gate)
		deployFirst(ctx, source)
		gated(ctx, source, gate)
		Eventually(ctx, held(source)).Should(BeTrue())
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments: [{name: only, targets: [{namespace: %s}]}]
`, story, source)
		Eventually(ctx, ready(story)).ShouldNot(BeEmpty())
	})

	It("leaves no hold, no finalizer, no CRD and no policy", func(ctx SpecContext) {
		By("following docs/guides/uninstall.md")
		fluxCLI(ctx, "sluice", "uninstall", "--silent")
		remove(ctx, "kustomization/sluice")
		remove(ctx, "ocirepository/sluice")

		Eventually(ctx, held(source)).Should(BeFalse())
		found, err := gitRepository(ctx, source)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Finalizers).To(ConsistOf("finalizers.fluxcd.io"))
		Eventually(ctx, ownCRDs).Should(BeEmpty())
		Eventually(ctx, namesOf(&admissionregistrationv1.ValidatingAdmissionPolicyList{})).ShouldNot(ContainElement(ContainSubstring("sluice")))
		Eventually(ctx, namesOf(&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{})).ShouldNot(ContainElement(ContainSubstring("sluice")))

		By("releasing a new version, which nothing holds")
		upon.commit(source, map[string]string{"deploy/app.yaml": application("v2.0.0")})
		Eventually(ctx, runs(source)).Should(Equal("v2.0.0"))
	})
})

// ownCRDs lists the CRDs of Sluice.
func ownCRDs(ctx context.Context) ([]string, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	err := admin.List(ctx, crds)
	var names []string
	for _, crd := range crds.Items {
		if crd.Spec.Group == gatingv1.GroupVersion.Group || crd.Spec.Group == pipelinesv1.GroupVersion.Group {
			names = append(names, crd.Name)
		}
	}
	return names, err
}

// namesOf returns a function that lists the names of objects.
func namesOf(list client.ObjectList) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		if err := admin.List(ctx, list); err != nil {
			return nil, err
		}
		var names []string
		err := apimeta.EachListItem(list, func(each runtime.Object) error {
			names = append(names, each.(client.Object).GetName())
			return nil
		})
		return names, err
	}
}
