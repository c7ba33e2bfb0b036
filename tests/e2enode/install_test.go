//go:build e2e_node && linux

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

package e2enode

import (
	"context"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

var _ = Describe("The install of config/default", func() {
	inItsName := func(pod string) OmegaMatcher { return Equal(pod) }
	asProcess := func(pod string) OmegaMatcher { return HavePrefix(pod + "_") }
	for _, controller := range []struct {
		name   string
		holder func(pod string) OmegaMatcher
	}{
		{"gate-controller", inItsName}, // so that a container which is restarted goes on with the lease
		{"pipeline-controller", asProcess},
	} {
		It("runs "+controller.name+" in a pod, which leads", func(ctx SpecContext) {
			deployment := &appsv1.Deployment{}
			Eventually(ctx, func(ctx context.Context) ([]appsv1.DeploymentCondition, error) {
				err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: controller.name}, deployment)
				return deployment.Status.Conditions, err
			}).Should(ContainElement(And(HaveField("Type", appsv1.DeploymentAvailable), HaveField("Status", corev1.ConditionTrue))))

			pods := &corev1.PodList{}
			Expect(admin.List(ctx, pods, client.InNamespace(flux), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))).To(Succeed())
			Expect(pods.Items).To(HaveLen(1))
			pod := pods.Items[0]
			Expect(pod.Status.ContainerStatuses).To(ConsistOf(HaveField("RestartCount", BeZero())))

			leases := &coordinationv1.LeaseList{}
			Eventually(ctx, func(ctx context.Context) ([]coordinationv1.Lease, error) {
				err := admin.List(ctx, leases, client.InNamespace(flux))
				return leases.Items, err
			}).Should(ContainElement(And(HaveField("Name", HavePrefix(controller.name)), HaveField("Spec.HolderIdentity", HaveValue(controller.holder(pod.Name))))))
		})
	}

	It("reconciles Pipelines", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, []byte(`
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: empty, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments: []
`))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (bool, error) {
			pipeline := &pipelinesv1.Pipeline{}
			err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: "empty"}, pipeline)
			return apimeta.IsStatusConditionTrue(pipeline.Status.Conditions, meta.ReadyCondition), err
		}).Should(BeTrue())
	})
})
