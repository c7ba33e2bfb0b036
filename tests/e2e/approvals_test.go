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

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// RBAC and a policy decide who may approve, so these tests act as ServiceAccounts with real tokens.
var _ = Describe("An approval", Ordered, func() {
	const namespace = "approvals"
	var alerts <-chan alerted

	// as creates a ServiceAccount and returns a client with its token.
	as := func(ctx context.Context, name string) client.Client {
		GinkgoHelper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(client.IgnoreAlreadyExists(world.Client.Create(ctx, account))).To(Succeed())
		token := &authenticationv1.TokenRequest{}
		Expect(world.Client.SubResource("token").Create(ctx, account, token)).To(Succeed())
		config := rest.AnonymousClientConfig(world.Cluster.Config)
		config.BearerToken = token.Status.Token
		person, err := client.New(config, client.Options{Scheme: world.Client.Scheme(), Mapper: world.Client.RESTMapper()})
		Expect(err).NotTo(HaveOccurred())
		return person
	}
	user := func(name string) string { return fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name) }
	approval := func(pipeline, env, revision, by string) *pipelinesv1.PromotionApproval {
		spec := pipelinesv1.PromotionApprovalSpec{Environment: env, Revision: revision, ApprovedBy: by}
		spec.PipelineRef.Name = pipeline
		return pipelinesv1.NewPromotionApproval(namespace, spec)
	}
	pipeline := func(name string) client.Object {
		return object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, name)
	}
	patch := func(ctx context.Context, by client.Client, obj client.Object, patch string) error {
		return by.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	beForbidden := func(message string) OmegaMatcher {
		return And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(message)))
	}

	BeforeAll(func(ctx SpecContext) {
		apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: approvals}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pipeline-approver, namespace: approvals}
rules:
- {apiGroups: [pipelines.weave.works], resources: [pipelines], resourceNames: [shop], verbs: [get, watch, approve]}
- {apiGroups: [pipelines.weave.works], resources: [promotionapprovals], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pipeline-approver, namespace: approvals}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pipeline-approver}
subjects:
- {kind: ServiceAccount, name: ada, namespace: approvals}
- {kind: ServiceAccount, name: bob, namespace: approvals}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: approvals}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: eve, namespace: approvals}]
`)
		_, err := world.Git.CreateRepository("approved")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0", "v3.0.0"} {
			Expect(world.Release("approved", version)).To(Succeed())
		}
		for env, version := range map[string]string{"dev": "v2.0.0", "prod": "v1.0.0"} {
			apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: approvals-%[1]s}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop-%[1]s, namespace: flux-system}
spec: {interval: 24h, url: '%[2]s', ref: {tag: %[3]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: approvals-%[1]s}
spec: {interval: 24h, path: ./deploy, prune: true, targetNamespace: approvals-%[1]s, sourceRef: {kind: GitRepository, name: shop-%[1]s, namespace: flux-system}}
`, env, world.RepositoryURL("approved"), version)
		}
		alerts = alertOf(ctx, namespace+"-prod", "shop", "Kustomization", "shop")
		for _, name := range []string{"shop", "other"} {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: approvals}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: shop}
  environments:
  - {name: dev, targets: [{namespace: approvals-dev}]}
  - {name: prod, targets: [{namespace: approvals-prod}]}
  promotion: {approvals: {required: 2}, strategy: {notification: {}}}
`, name)
		}
	})

	waiting := func(name string) func(context.Context) (any, error) {
		return field(object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, name), "status", "environments", "prod", "waitingApproval", "revision")
	}

	It("counts each person once, and promotes when enough have approved", func(ctx SpecContext) {
		var revision any
		Eventually(ctx, waiting("shop")).Should(HavePrefix("v2.0.0@sha1:"))
		revision, _ = waiting("shop")(ctx)
		ada, bob := as(ctx, "ada"), as(ctx, "bob")

		Expect(ada.Create(ctx, approval("shop", "prod", revision.(string), user("ada")))).To(Succeed())
		Expect(ada.Create(ctx, approval("shop", "prod", revision.(string), user("ada")))).To(Satisfy(apierrors.IsAlreadyExists), "approving twice is approving once")
		message := condition(object(pipelinesAPI, pipelinesv1.PipelineKind, namespace, "shop"), meta.ReadyCondition)
		Eventually(ctx, message).Should(HaveField("Message", ContainSubstring("1 of 2 approvals, by "+user("ada"))))

		second := approval("shop", "prod", revision.(string), user("bob"))
		Expect(bob.Create(ctx, second)).To(Succeed())
		Eventually(ctx, message).Should(HaveField("Reason", "Promoted"))
		shop := &pipelinesv1.Pipeline{}
		Expect(world.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "shop"}, shop)).To(Succeed())
		Expect(shop.Status.Environments["prod"].Promotion.Approvers).To(Equal([]string{user("ada"), user("bob")}))

		By("reporting it in existing Alerts, in events, and in metrics")
		Eventually(ctx, alerts).Should(Receive(HaveField("Message", HavePrefix("pipeline approvals/shop: prod: v2.0.0@sha1:"))))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", namespace, "--for", "pipeline/shop")
		}).Should(ContainSubstring("prod: v2.0.0@sha1:"))
		Eventually(ctx, metricsOf(world.PipelineController)).Should(And(
			ContainSubstring(`sluice_pipeline_promotion{environment="prod",name="shop",namespace="approvals",state="succeeded"} 1`),
			ContainSubstring(`sluice_promotion_precondition_wait_duration_seconds_count{environment="prod",name="shop",namespace="approvals",type="Approval"} 1`),
			ContainSubstring(`sluice_promotion_promoted_duration_seconds_count{environment="prod",name="shop",namespace="approvals"} 1`)))

		By("being owned by its Pipeline")
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(second), second)).To(Succeed())
		Expect(second.OwnerReferences).To(ConsistOf(HaveField("UID", shop.UID)))

		By("releasing the next revision to dev, which makes it void")
		Expect(patch(ctx, world.Client, object(sourceAPI, sourcev1.GitRepositoryKind, flux, "shop-dev"), `{"spec":{"ref":{"tag":"v3.0.0"}}}`)).To(Succeed())
		Eventually(ctx, waiting("shop")).Should(HavePrefix("v3.0.0@sha1:"))
		var approvals pipelinesv1.PromotionApprovalList
		Expect(world.Client.List(ctx, &approvals, client.InNamespace(namespace), client.MatchingFields{pipelinesv1.ApprovalPipelineField: "shop"})).To(Succeed())
		Expect(approvals.Items).To(BeEmpty(), "they are gone before anything waits for new ones")
	})

	It("is refused to everyone except those who may approve that Pipeline, each in their own name", func(ctx SpecContext) {
		ada, eve := as(ctx, "ada"), as(ctx, "eve")
		Expect(ada.Create(ctx, approval("shop", "prod", "v9", user("bob")))).To(beForbidden("spec.approvedBy must be your own name: " + user("ada")))
		Expect(ada.Create(ctx, approval("other", "prod", "v9", user("ada")))).To(beForbidden("may not approve promotions of Pipeline approvals/other"))
		Expect(ada.Create(ctx, approval("nonexistent", "prod", "v9", user("ada")))).To(beForbidden("may not approve promotions of Pipeline approvals/nonexistent"))
		Expect(patch(ctx, ada, pipeline("shop"), `{"spec":{"promotion":{"approvals":null}}}`)).To(beForbidden("pipelines"))
		Expect(ada.Delete(ctx, pipeline("shop"))).To(beForbidden("pipelines"))
		Expect(ada.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))).To(beForbidden("secrets"))

		By("refusing invisible characters, and names that no environment can have")
		for _, revision := range []string{"v9\n", "v9\u200b", "v9\u202e", "v9\u009b2J"} {
			Expect(ada.Create(ctx, approval("shop", "prod", revision, user("ada")))).To(Satisfy(apierrors.IsInvalid), "%q", revision)
		}
		Expect(ada.Create(ctx, approval("shop", "prod is fine: see", "v9", user("ada")))).To(Satisfy(apierrors.IsInvalid))

		By("being one who may edit Pipelines, but not approve them")
		Expect(eve.Create(ctx, approval("shop", "prod", "v9", user("eve")))).To(beForbidden(""))
	})

	It("can't be changed", func(ctx SpecContext) {
		Eventually(ctx, waiting("other")).Should(HavePrefix("v3.0.0@sha1:"))
		revision, _ := waiting("other")(ctx)
		self := &authenticationv1.SelfSubjectReview{}
		Expect(world.Client.Create(ctx, self)).To(Succeed())
		admin := approval("other", "prod", revision.(string), self.Status.UserInfo.Username)
		Expect(world.Client.Create(ctx, admin)).To(Succeed())
		Expect(patch(ctx, world.Client, admin, `{"spec":{"comment":"changed"}}`)).To(MatchError(ContainSubstring("an approval is immutable")))
	})

	It("is restored from a backup, in the name of the approver, while the policy only audits", func(ctx SpecContext) {
		revision, _ := waiting("other")(ctx)
		binding := object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "", "sluice-promotion-approvals")
		turn := func(ctx context.Context, action string) {
			GinkgoHelper()
			Expect(patch(ctx, world.Client, binding, fmt.Sprintf(`{"spec":{"validationActions":[%q]}}`, action))).To(Succeed())
		}
		restore := func(by string) func(context.Context) error {
			return func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(world.Client.Create(ctx, approval("other", "prod", revision.(string), user(by))))
			}
		}
		Expect(restore("ada")(ctx)).To(beForbidden("spec.approvedBy must be your own name"))
		turn(ctx, "Audit")
		DeferCleanup(turn, "Deny")
		Eventually(ctx, restore("ada")).Should(Succeed())
		turn(ctx, "Deny")
		Eventually(ctx, restore("eve")).Should(beForbidden("spec.approvedBy must be your own name"))

		other := &pipelinesv1.Pipeline{}
		Eventually(ctx, func(ctx context.Context) ([]string, error) {
			if err := world.Client.Get(ctx, client.ObjectKeyFromObject(pipeline("other")), other); err != nil {
				return nil, err
			}
			return other.Status.Environments["prod"].Promotion.Approvers, nil
		}).Should(ContainElement(user("ada")))
	})
})
