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
	"fmt"
	"path/filepath"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var controllers = []string{"gate-controller", "pipeline-controller"}

var _ = Describe("Sluice, installed by Flux", Ordered, func() {
	BeforeAll(func(ctx SpecContext) { install(ctx, thisVersion) })

	It("comes from an artifact whose signature is verified", func(ctx SpecContext) {
		source := ociRepository("sluice")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(source), source)).To(Succeed())
		Expect(apimeta.IsStatusConditionTrue(source.Status.Conditions, sourcev1.SourceVerifiedCondition)).To(BeTrue())
	})

	It("doesn't come from an artifact that was altered", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: altered, namespace: flux-system}
spec: {interval: 1m, url: '%s', insecure: true, ref: {tag: %s}, verify: {provider: cosign, secretRef: {name: sluice-signer}}}
`, artifactURL(), altered)
		source := ociRepository("altered")
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, source)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(source), source)
			return apimeta.IsStatusConditionFalse(source.Status.Conditions, sourcev1.SourceVerifiedCondition), err
		}).Should(BeTrue())
		Expect(source.Status.Artifact).To(BeNil())
	})

	inItsName := func(pod string) OmegaMatcher { return Equal(pod) }
	asProcess := func(pod string) OmegaMatcher { return HavePrefix(pod + "_") }
	for name, holder := range map[string]func(pod string) OmegaMatcher{
		"gate-controller":     inItsName, // so that a restarted container continues with the lease
		"pipeline-controller": asProcess,
	} {
		It("runs "+name+" in one pod, which leads", func(ctx SpecContext) {
			pod := podOf(ctx, name)
			Expect(pod.Status.ContainerStatuses).To(ConsistOf(HaveField("RestartCount", BeZero())))
			leases := &coordinationv1.LeaseList{}
			Eventually(ctx, func(ctx context.Context) ([]coordinationv1.Lease, error) {
				err := admin.List(ctx, leases, client.InNamespace(flux))
				return leases.Items, err
			}).Should(ContainElement(And(HaveField("Name", HavePrefix(name)), HaveField("Spec.HolderIdentity", HaveValue(holder(pod.Name))))))
		})
	}
})

func ociRepository(name string) *sourcev1.OCIRepository {
	source := &sourcev1.OCIRepository{}
	source.Namespace, source.Name = flux, name
	return source
}

// podOf returns the only pod of a Deployment once the others are gone.
func podOf(ctx context.Context, deployment string) corev1.Pod {
	GinkgoHelper()
	found := &appsv1.Deployment{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: deployment}, found)).To(Succeed())
	pods := &corev1.PodList{}
	Eventually(ctx, func(ctx context.Context) ([]corev1.Pod, error) {
		err := admin.List(ctx, pods, client.InNamespace(flux), client.MatchingLabels(found.Spec.Selector.MatchLabels))
		return pods.Items, err
	}).Should(HaveLen(1))
	return pods.Items[0]
}

// install makes Flux install a version of Sluice with config/flux, or upgrade to it, and waits for the result.
func install(ctx context.Context, version string) {
	GinkgoHelper()
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--filename="+filepath.Join(root, "config", "flux", "sluice.yaml"))
	redirect(ctx, version)
	kustomization := &kustomizev1.Kustomization{}
	Eventually(ctx, func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: "sluice"}, kustomization)
		ready := apimeta.FindStatusCondition(kustomization.Status.Conditions, meta.ReadyCondition)
		if err != nil || ready == nil {
			return "", err
		}
		return string(ready.Status) + " " + kustomization.Status.LastAppliedRevision, nil
	}).WithTimeout(3 * time.Minute).Should(HavePrefix("True " + version + "@"))
	for _, controller := range controllers {
		kubectl(ctx, "rollout", "status", "deployment/"+controller, "--timeout=2m")
	}
}

// redirect makes the source of Sluice fetch a version from the local registry, as with a mirror, and verify it with the
// key that signed it.
func redirect(ctx context.Context, version string) {
	GinkgoHelper()
	kubectl(ctx, "patch", "ocirepository/sluice", "--type=merge", fmt.Sprintf(`--patch={"spec":{"interval":"10s","url":%q,"insecure":true,
		"ref":{"semver":null,"tag":%q},"verify":{"provider":"cosign","matchOIDCIdentity":null,"secretRef":{"name":"sluice-signer"}}}}`, artifactURL(), version))
}
