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
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// Users who may approve can create any number of approvals, of any size that the API server accepts.
var _ = Describe("Hundreds and thousands of approvals of one Pipeline", Ordered, func() {
	const (
		namespace = "flooded"
		// size is the size of the large approvals in bytes, and most the limit of the controller's resident memory.
		size = 100 << 10
		most = 256 << 20
	)
	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("flood")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"flood-one": "v2.0.0", "flood-two": "v1.0.0"} {
			Expect(world.Release("flood", version)).To(Succeed())
			deploy(ctx, "flood", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}
		apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, namespace)
	})
	pipeline := func(ctx context.Context, name, namespace, promotion string) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: flood}
  environments:
  - {name: one, targets: [{namespace: flood-one}]}
  - {name: two, targets: [{namespace: flood-two}]}
  promotion: %[3]s
`, name, namespace, promotion)
	}
	waiting := field(object(pipelinesv1.GroupVersion.String(), pipelinesv1.PipelineKind, namespace, "shop"),
		"status", "environments", "two", "waitingApproval", "revision")
	left := func(ctx context.Context) (int, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(pipelinesv1.GroupVersion.WithKind("PromotionApprovalList"))
		err := world.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		if list.RemainingItemCount != nil {
			return len(list.Items) + int(*list.RemainingItemCount), err
		}
		return len(list.Items), err
	}
	approve := func(ctx context.Context, i int, isLarge bool) error {
		spec := pipelinesv1.PromotionApprovalSpec{Environment: "two", Revision: "of-yesterday", ApprovedBy: "admin"}
		spec.PipelineRef.Name = "shop"
		approval := &pipelinesv1.PromotionApproval{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("approval-", i)}, Spec: spec}
		if isLarge {
			approval.Annotations = map[string]string{"example.com/noise": strings.Repeat("x", size)}
		}
		return world.Client.Create(ctx, approval)
	}

	DescribeTable("are cleaned up in little memory, while other tenants' promotions continue", func(ctx SpecContext, many, large int) {
		// After the suite's controller has started again.
		DeferCleanup(func(ctx SpecContext) {
			deleteAll(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, "shop"), object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "flood-quick"))
		})
		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
		var approvals errgroup.Group
		approvals.SetLimit(20)
		for i := range many {
			approvals.Go(func() error { return approve(ctx, i, i < large) })
		}
		Expect(approvals.Wait()).To(Succeed())
		pipeline(ctx, "shop", namespace, "{manual: true, strategy: {notification: {}}}")

		controller, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: "pipeline-controller-flooded", Binary: "pipeline-controller", ServiceAccount: "pipeline-controller",
			Args: []string{"--events-addr=" + world.Cluster.EventsAddr, "--approval-addr="},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(controller.Stop)
		pipeline(ctx, "flood-quick", flux, "{strategy: {notification: {}}}")
		Eventually(ctx, record("flood-quick", "two")).Should(haveState("succeeded"))

		Eventually(ctx, left).WithTimeout(4 * time.Minute).Should(BeZero())
		Eventually(ctx, waiting).Should(HavePrefix("v2.0.0@sha1:"))
		peak, err := peakMemory(controller)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println("at most", peak>>20, "MiB")
		Expect(peak).To(BeNumerically("<", most))
	},
		Entry("300, of which 100 are large", 300, 100),
		Entry("3000, of which 1000 are large", slow, 3000, 1000),
	)
})
