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
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

// Tenant ours has a Pipeline with a target in the namespace of tenant theirs. Their application is suspended, and the
// specs set what it runs.
var _ = Describe("A target in another tenant's namespace", Ordered, func() {
	const (
		ours, theirs = "tenant-ours", "tenant-theirs"
		private      = "their private message"
		denied       = "access denied: cross-namespace references are disabled; " +
			"to allow this one, label namespace tenant-theirs with pipelines.weave.works/allow-from=tenant-ours"
	)
	pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, ours, "shop")

	// says sets the status of an application.
	says := func(ctx context.Context, namespace, revision string, ready metav1.ConditionStatus, message string) {
		GinkgoHelper()
		key := client.ObjectKey{Namespace: namespace, Name: "shop"}
		Expect(standin.Application{Key: key, Revision: revision, Ready: ready, Message: message}.Put(ctx, world.Client)).To(Succeed())
	}
	status := func(ctx context.Context) (pipelinesv1.PipelineStatus, error) {
		now := &pipelinesv1.Pipeline{}
		err := world.Client.Get(ctx, client.ObjectKeyFromObject(pipeline), now)
		return now.Status, err
	}
	prod := func(ctx context.Context) (pipelinesv1.TargetStatus, error) {
		now, err := status(ctx)
		if env := now.Environments["prod"]; env != nil && len(env.Targets) == 1 {
			return env.Targets[0], err
		}
		return pipelinesv1.TargetStatus{}, err
	}
	// abandoned returns the messages of events about abandoned promotions.
	abandoned := func(ctx context.Context) ([]string, error) {
		var events corev1.EventList
		err := world.Client.List(ctx, &events, client.InNamespace(ours))
		var messages []string
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == pipelinesv1.PipelineKind && event.Reason == pipelinesv1.PromotionAbandonedReason {
				messages = append(messages, event.Message)
			}
		}
		return messages, err
	}
	allowFrom := func(ctx context.Context, tenant string) {
		GinkgoHelper()
		Expect(world.Client.Patch(ctx, object("v1", "Namespace", "", theirs), client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"pipelines.weave.works/allow-from":%s}}}`, tenant)))).To(Succeed())
	}
	start := func(ctx context.Context, process localcluster.ControllerProcess, args ...string) {
		GinkgoHelper()
		process.Binary, process.ServiceAccount = "pipeline-controller", "pipeline-controller"
		process.Args = append(args, "--events-addr="+world.Cluster.EventsAddr, "--approval-addr=")
		controller, err := world.Cluster.StartController(ctx, process)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(controller.Kill)
	}
	beDenied := And(HaveField("Reason", "AccessDenied"), HaveField("Error", denied), HaveField("Revision", BeEmpty()),
		HaveField("ReadyRevision", BeEmpty()), HaveField("Ready", false))
	beRead := And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v1"), HaveField("Error", private))
	var alerts <-chan alerted

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: "ghp_tenant", Login: "tenant"})
		Expect(github.AddRepository(owner, "tenants")).To(Succeed())
		_, err := github.CommitFiles(owner, "tenants", "main", map[string]string{"app.yaml": `tag: v1 # {"$promotion": "tenant-ours:shop:prod"}`}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		for _, namespace := range []string{ours, theirs} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
		}
		says(ctx, ours, "v2", "True", "")
		says(ctx, theirs, "v1", "True", "")
		alerts = alertOf(ctx, theirs, "theirs", "Kustomization", "shop")
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: tenants, namespace: %[1]s}
stringData: {token: ghp_tenant}
data: {ca.crt: %[2]s}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: shop, namespace: %[1]s}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: shop}
  environments:
  - {name: dev, targets: [{namespace: %[1]s}]}
  - {name: prod, targets: [{namespace: %[3]s}], settle: individually}
  promotion: {strategy: {pull-request: {type: github, url: '%[4]s', baseBranch: main, secretRef: {name: tenants}}}}
`, ours, base64.StdEncoding.EncodeToString(github.CA()), theirs, github.RepositoryURL(owner, "tenants"))
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, pipeline)).To(Succeed()) })
	})

	It("is read by default, and gets events of promotions into it", func(ctx SpecContext) {
		Eventually(ctx, prod).Should(And(HaveField("Revision", "v1"), HaveField("ReadyRevision", "v1")))
		Eventually(ctx, alerts).Should(Receive(And(HaveField("Reason", "PullRequestOpen"), HaveField("Message", HavePrefix("pipeline tenant-ours/shop: prod: v2 waits for pull request ")))))
		says(ctx, theirs, "v1", "False", private)
		Eventually(ctx, prod).Should(beRead)
	})

	Context("under --no-cross-namespace-refs", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			Expect(world.PipelineController.Stop()).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
			start(ctx, localcluster.ControllerProcess{Name: "pipeline-controller-strict"}, "--no-cross-namespace-refs")
		})

		It("is not read, and what was read of it is discarded", func(ctx SpecContext) {
			Eventually(ctx, prod).Should(beDenied)
			Expect(condition(pipeline, meta.ReadyCondition)(ctx)).To(And(HaveField("Reason", "TargetNotReadable"), HaveField("Message", ContainSubstring(denied))))
			now, err := status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Marshal(now)).NotTo(ContainSubstring(private))
		})

		It("gets no events", func(ctx SpecContext) {
			Expect(github.ClosePullRequest(owner, "tenants", 1)).To(Succeed())
			Expect(world.Client.Patch(ctx, pipeline.DeepCopy(), client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"look"}}}`, meta.ReconcileRequestAnnotation)))).To(Succeed())
			Eventually(ctx, abandoned).Should(HaveLen(1))
			Consistently(ctx, alerts, "2s").ShouldNot(Receive(HaveField("Reason", "PromotionAbandoned")))
		})

		It("is read only while its namespace has the Pipeline's in its label", func(ctx SpecContext) {
			allowFrom(ctx, `"someone-else"`)
			Consistently(ctx, prod, "1s").Should(beDenied)
			allowFrom(ctx, `"tenant-ours"`)
			Eventually(ctx, prod).Should(beRead)
			allowFrom(ctx, "null")
			Eventually(ctx, prod).Should(beDenied)
		})

		It("is denied with the same message if its namespace does not exist", func(ctx SpecContext) {
			patch := func(ctx context.Context, namespace string) {
				GinkgoHelper()
				Expect(world.Client.Patch(ctx, pipeline.DeepCopy(), client.RawPatch(types.JSONPatchType,
					fmt.Appendf(nil, `[{"op":"replace","path":"/spec/environments/1/targets/0/namespace","value":%q}]`, namespace)))).To(Succeed())
			}
			DeferCleanup(func(ctx SpecContext) { patch(ctx, theirs) })
			patch(ctx, "tenant-none")
			Eventually(ctx, prod).Should(And(HaveField("Reason", "AccessDenied"), HaveField("Error",
				"access denied: cross-namespace references are disabled; to allow this one, label namespace tenant-none with pipelines.weave.works/allow-from=tenant-ours")))
		})

		It("is read through a clusterRef to this cluster, with the rights of the kubeconfig's user", func(ctx SpecContext) {
			account := &corev1.ServiceAccount{}
			account.Namespace, account.Name = ours, "reader"
			apply(ctx, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, namespace: %s}}", ours)
			request := &authenticationv1.TokenRequest{}
			Expect(world.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
			config := world.Cluster.Config
			apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: here, namespace: %s}, data: {value: %s}}", ours,
				base64.StdEncoding.EncodeToString(leafserver.Kubeconfig(config.Host, config.CAData, request.Status.Token)))
			Expect(world.Client.Patch(ctx, pipeline.DeepCopy(), client.RawPatch(types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/spec/environments/1/targets/0/clusterRef","value":{"kind":"Secret","name":"here"}}]`)))).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(world.Client.Patch(ctx, pipeline.DeepCopy(), client.RawPatch(types.JSONPatchType,
					[]byte(`[{"op":"remove","path":"/spec/environments/1/targets/0/clusterRef"}]`)))).To(Succeed())
			})
			Eventually(ctx, prod).Should(And(HaveField("Reason", "Forbidden"), HaveField("Revision", BeEmpty())))

			apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-pipeline-controller}
subjects: [{kind: ServiceAccount, name: reader, namespace: %s}]
`, theirs, ours)
			Eventually(ctx, prod).Should(beRead)
		})
	})

	It("is not read by a controller of one namespace, which need not read Namespaces", func(ctx SpecContext) {
		apply(ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: pipeline-controller, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pipeline-controller, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-pipeline-controller}
subjects: [{kind: ServiceAccount, name: pipeline-controller, namespace: %[1]s}]
`, ours)
		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
		allowFrom(ctx, `"tenant-ours"`)
		start(ctx, localcluster.ControllerProcess{Name: "pipeline-controller-confined", Namespace: ours}, "--watch-all-namespaces=false")
		Eventually(ctx, prod).Should(And(HaveField("Reason", "AccessDenied"), HaveField("Revision", BeEmpty()),
			HaveField("Error", "access denied: the controller watches namespace tenant-ours only")))
		Expect(status(ctx)).To(HaveField("Revision", "v2"))
	})
})
