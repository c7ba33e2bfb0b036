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
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// One install has all components for operators. If the cluster enforces network policies, as kind does, the controllers
// must work with them.
var _ = Describe("Sluice with the components for operators", Ordered, func() {
	const (
		gate    = "operated"
		mirror  = "registry.example.com/sluice"
		firsts  = "operated"
		seconds = "operated-shard1"
		// The suffixes of the leases.
		unsharded = "-leader-election-42da7484"
		shard1    = "-leader-election-73fdc1be"
	)
	deployments := []string{"gate-controller", "gate-controller-shard1", "pipeline-controller", "pipeline-controller-shard1"}
	turn := func(ctx context.Context, closed bool) {
		GinkgoHelper()
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: %t}}", gate, closed)
	}
	scale := func(ctx context.Context, deployment, replicas string) {
		GinkgoHelper()
		kubectl(ctx, "scale", "deployment/"+deployment, "--replicas="+replicas)
	}

	BeforeAll(func(ctx SpecContext) {
		install(ctx, thisVersion)
		Expect(world.Provide(ctx, mirrored(releaseDir(thisVersion, "images"), mirror))).To(Succeed())
		// Flux's network policy that allows all egress excludes Sluice.
		selectPods := func(ctx context.Context, selector string) {
			GinkgoHelper()
			kubectl(ctx, "patch", "networkpolicy/allow-egress", "--type=json", `--patch=[{"op": "replace", "path": "/spec/podSelector", "value": `+selector+`}]`)
		}
		selectPods(ctx, `{"matchExpressions": [{"key": "app.kubernetes.io/part-of", "operator": "NotIn", "values": ["sluice"]}]}`)
		DeferCleanup(func(ctx SpecContext) { selectPods(ctx, "{}") })
		kubectl(ctx, "create", "secret", "docker-registry", "sluice-registry", "--docker-server=registry.example.com", "--docker-username=flux", "--docker-password=not-a-password")
		kubectl(ctx, "patch", "kustomization/sluice", "--type=merge", `--patch={"spec":{
			"components": ["../components/sharding", "../components/high-availability", "../components/network-policies", "../components/approval-endpoint", "../components/image-pull-secret"],
			"images": [
				{"name": "ghcr.io/sluice-toolkit/gate-controller", "newName": "`+mirror+`/gate-controller"},
				{"name": "ghcr.io/sluice-toolkit/pipeline-controller", "newName": "`+mirror+`/pipeline-controller"}]}}`)
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "patch", "kustomization/sluice", "--type=merge", `--patch={"spec":{"components": null, "images": null}}`)
			Eventually(ctx, func(ctx context.Context) error {
				return admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: "gate-controller-shard1"}, &appsv1.Deployment{})
			}).Should(Satisfy(apierrors.IsNotFound))
			for _, controller := range controllers {
				podOf(ctx, controller)
			}
			remove(ctx, "secret/sluice-registry")
		})
		for _, deployment := range deployments {
			Eventually(ctx, func(ctx context.Context) (int32, error) {
				found := &appsv1.Deployment{}
				err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: deployment}, found)
				if found.Status.ObservedGeneration < found.Generation || found.Status.UpdatedReplicas < found.Status.Replicas {
					return 0, err
				}
				return found.Status.AvailableReplicas, client.IgnoreNotFound(err)
			}).Should(BeEquivalentTo(2), deployment)
		}

		turn(ctx, false)
		DeferCleanup(func(ctx SpecContext) { remove(ctx, "gate/"+gate) })
		for _, source := range []string{firsts, seconds} {
			deployFirst(ctx, source)
		}
		kubectl(ctx, "label", "gitrepository/"+seconds, "sharding.fluxcd.io/key=shard1")
	})

	It("runs images of a private registry", func(ctx SpecContext) {
		for _, deployment := range deployments {
			for _, pod := range podsOf(ctx, deployment) {
				Expect(pod.Spec.Containers[0].Image).To(HavePrefix(mirror + "/"))
				Expect(pod.Spec.ImagePullSecrets).To(ConsistOf(HaveField("Name", "sluice-registry")))
			}
		}
	})

	It("has a leader of each shard of each controller", func(ctx SpecContext) {
		for _, controller := range controllers {
			for lease, pods := range map[string]string{controller + unsharded: controller + "-", controller + shard1: controller + "-shard1-"} {
				Eventually(ctx, func(ctx context.Context) (coordinationv1.LeaseSpec, error) {
					found := &coordinationv1.Lease{}
					err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: lease}, found)
					return found.Spec, client.IgnoreNotFound(err)
				}).Should(HaveField("HolderIdentity", HaveValue(HavePrefix(pods))), lease)
			}
		}
	})

	It("lets one replica be evicted at a time", func(ctx SpecContext) {
		for _, controller := range controllers {
			budget := &policyv1.PodDisruptionBudget{}
			Eventually(ctx, func(ctx context.Context) (int32, error) {
				err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: controller}, budget)
				return budget.Status.DisruptionsAllowed, err
			}).Should(BeEquivalentTo(1))
			pods := podsOf(ctx, controller)
			Expect(pods).To(HaveLen(2))
			Expect(admin.SubResource("eviction").Create(ctx, &pods[0], &policyv1.Eviction{})).To(Succeed())
			Expect(admin.SubResource("eviction").Create(ctx, &pods[1], &policyv1.Eviction{})).To(Satisfy(apierrors.IsTooManyRequests))
		}
	})

	It("holds sources when its leader is lost", func(ctx SpecContext) {
		kubectl(ctx, "rollout", "status", "deployment/gate-controller", "--timeout=2m")
		for _, source := range []string{firsts, seconds} {
			gated(ctx, source, gate)
		}
		lease := &coordinationv1.Lease{}
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: "gate-controller" + unsharded}, lease)).To(Succeed())
		lost := *lease.Spec.HolderIdentity
		kubectl(ctx, "delete", "pod/"+lost, "--grace-period=0", "--force")
		turn(ctx, true)
		Eventually(ctx, held(firsts)).Should(BeTrue())
		Eventually(ctx, held(seconds)).Should(BeTrue())
		turn(ctx, false)
		Eventually(ctx, held(firsts)).Should(BeFalse())
		Eventually(ctx, held(seconds)).Should(BeFalse())
	})

	It("leaves the sources of a shard to that shard", func(ctx SpecContext) {
		scale(ctx, "gate-controller", "0")
		kubectl(ctx, "wait", "--for=delete", "pod", "--selector=app=gate-controller", "--timeout=2m")
		turn(ctx, true)
		Eventually(ctx, held(seconds)).Should(BeTrue())
		Consistently(ctx, held(firsts)).Should(BeFalse())
		scale(ctx, "gate-controller", "2")
		Eventually(ctx, held(firsts)).Should(BeTrue())
		turn(ctx, false)
		Eventually(ctx, held(firsts)).Should(BeFalse())
		Eventually(ctx, held(seconds)).Should(BeFalse())
	})
})

var _ = Describe("source-controller with a volume", Ordered, func() {
	const (
		gate   = "kept"
		source = "kept"
	)

	BeforeAll(func(ctx SpecContext) {
		install(ctx, thisVersion)
		component := filepath.Join(root, "config", "components", "source-controller-volume")
		kubectl(ctx, "apply", "--filename="+filepath.Join(component, "claim.yaml"))
		// A strategic merge patch, as of kustomize.
		kubectl(ctx, "patch", "deployment/source-controller", "--patch-file="+filepath.Join(component, "volume.yaml"))
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "patch", "deployment/source-controller",
				`--patch={"spec":{"template":{"spec":{"volumes":[{"name":"data","persistentVolumeClaim":null,"emptyDir":{}}]}}}}`)
			kubectl(ctx, "rollout", "status", "deployment/source-controller", "--timeout=2m")
			remove(ctx, "persistentvolumeclaim/source-controller-data")
		})
		kubectl(ctx, "rollout", "status", "deployment/source-controller", "--timeout=2m")

		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: true}}", gate)
		DeferCleanup(func(ctx SpecContext) { remove(ctx, "gate/"+gate) })
		deployFirst(ctx, source)
		gated(ctx, source, gate)
		Eventually(ctx, held(source)).Should(BeTrue())
	})

	It("has the artifacts of held sources after a restart, so that drift is corrected", func(ctx SpecContext) {
		before := podOf(ctx, "source-controller")
		kubectl(ctx, "delete", "pod/"+before.Name)
		kubectl(ctx, "rollout", "status", "deployment/source-controller", "--timeout=2m")
		Expect(podOf(ctx, "source-controller").UID).NotTo(Equal(before.UID))

		kubectl(ctx, "--namespace="+source, "patch", "configmap/app", "--type=merge", `--patch={"data":{"version":"changed by hand"}}`)
		Eventually(ctx, runs(source)).Should(Equal("v1.0.0"))
		Expect(held(source)(ctx)).To(BeTrue())
		fluxCLI(ctx, "open", "gate", gate)
		Eventually(ctx, held(source)).Should(BeFalse())
	})
})

// mirrored returns a copy of a directory of images, with the names of a mirror.
func mirrored(layout, mirror string) string {
	GinkgoHelper()
	dir := filepath.Join(GinkgoT().TempDir(), "images")
	Expect(os.CopyFS(dir, os.DirFS(layout))).To(Succeed())
	index := filepath.Join(dir, "index.json")
	content, err := os.ReadFile(index)
	Expect(err).NotTo(HaveOccurred())
	renamed := strings.ReplaceAll(string(content), "ghcr.io/sluice-toolkit/", mirror+"/")
	Expect(renamed).NotTo(Equal(string(content)))
	Expect(os.WriteFile(index, []byte(renamed), 0o600)).To(Succeed())
	return dir
}

// podsOf returns the Pods of a Deployment that are not terminating.
func podsOf(ctx context.Context, deployment string) []corev1.Pod {
	GinkgoHelper()
	found := &appsv1.Deployment{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: deployment}, found)).To(Succeed())
	pods := &corev1.PodList{}
	Expect(admin.List(ctx, pods, client.InNamespace(flux), client.MatchingLabels(found.Spec.Selector.MatchLabels))).To(Succeed())
	var left []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			left = append(left, pod)
		}
	}
	return left
}
