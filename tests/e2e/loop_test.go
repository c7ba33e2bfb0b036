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
	"encoding/base64"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

// The controller can read only the applications in the first environment's cluster, so it does not know what their
// source follows. The source runs the newest commit of the branch that promotions are merged into.
var _ = Describe("A first environment that follows the branch that promotions are merged into, undetected", Ordered, func() {
	const pipelines = 2

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		apply(ctx, `
apiVersion: v1
kind: Namespace
metadata: {name: unseen-dev}
---
apiVersion: v1
kind: Namespace
metadata: {name: unseen-prod}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sluice, namespace: unseen-dev}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sluice, namespace: unseen-dev}
rules:
- {apiGroups: [kustomize.toolkit.fluxcd.io], resources: [kustomizations], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sluice, namespace: unseen-dev}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice}
subjects: [{kind: ServiceAccount, name: sluice, namespace: unseen-dev}]
`)
		account, request := &corev1.ServiceAccount{}, &authenticationv1.TokenRequest{}
		account.Namespace, account.Name = "unseen-dev", "sluice"
		Expect(world.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
		secretOf(ctx, "unseen", leafserver.Kubeconfig(world.Cluster.Config.Host, world.Cluster.Config.CAData, request.Status.Token))
	})

	DescribeTable("promotes each change once in each Pipeline, and promotes no promotion", func(ctx SpecContext, method string) {
		repository := "unseen-" + method
		runs := func(namespace, revision string) {
			GinkgoHelper()
			key := client.ObjectKey{Namespace: namespace, Name: repository}
			Expect(standin.Application{Key: key, Revision: revision, Ready: metav1.ConditionTrue}.Put(ctx, world.Client)).To(Succeed())
		}
		// follow does what Flux does after the branch has moved.
		follow := func() (head string) {
			GinkgoHelper()
			branches, err := github.Branches(owner, repository)
			Expect(err).NotTo(HaveOccurred())
			runs("unseen-dev", "main@sha1:"+branches["main"])
			return branches["main"]
		}
		change := func(files map[string]string) {
			GinkgoHelper()
			_, err := github.CommitFiles(owner, repository, "main", files, "A change")
			Expect(err).NotTo(HaveOccurred())
		}
		each := func(do func(pipeline string)) {
			for i := range pipelines {
				do(fmt.Sprintf("%s-%d", repository, i))
			}
		}
		Expect(github.AddRepository(owner, repository)).To(Succeed())
		runs("unseen-prod", "main@sha1:0000000000000000000000000000000000000000")
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: flux-system}, stringData: {token: %s}, data: {ca.crt: %s}}",
			repository, token, base64.StdEncoding.EncodeToString(github.CA()))
		each(func(pipeline string) {
			change(map[string]string{pipeline + ".yaml": fmt.Sprintf("commit: none # {\"$promotion\": \"flux-system:%s:prod:commit\"}\n", pipeline)})
		})
		head := follow()
		each(func(pipeline string) {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: %[2]s}
  environments:
  - {name: dev, targets: [{namespace: unseen-dev, clusterRef: {kind: Secret, name: unseen}}]}
  - {name: prod, targets: [{namespace: unseen-prod}]}
  promotion: {strategy: {pull-request: {type: github, url: '%[3]s', baseBranch: main, secretRef: {name: %[2]s}, merge: auto, mergeMethod: %[4]s}}}
`, pipeline, repository, github.RepositoryURL(owner, repository), method)
			DeferCleanup(func(ctx SpecContext) {
				Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, pipeline))).To(Succeed())
			})
		})

		for changes := 1; changes <= 2; changes++ {
			if changes > 1 {
				change(map[string]string{"app.yaml": fmt.Sprintf("change: %d\n", changes)})
				head = follow()
			}
			merges := map[string]string{}
			each(func(pipeline string) {
				Eventually(ctx, record(pipeline, "prod")).Should(And(haveState("succeeded"), HaveField("Revision", "main@sha1:"+head),
					HaveField("PullRequest.MergeCommit", Not(BeEmpty()))))
				promotion, err := record(pipeline, "prod")(ctx)
				Expect(err).NotTo(HaveOccurred())
				merges[promotion.PullRequest.MergeCommit] = pipeline
			})
			By("following the branch to where the promotions have moved it")
			Expect(merges).To(HaveKey(follow()), "the commit of the last merge")
			each(func(pipeline string) {
				Eventually(ctx, ready(pipeline)).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "PromotionLoop"),
					HaveField("Message", HaveSuffix("the first environment follows the branch that promotions are merged into, so each merge would be a new revision "+
						"to promote: follow tags or another branch, or set spec.revision.expr to the field that has the running revision"))))
				reconcile(ctx, pipeline, fmt.Sprintf("look-%d", changes))
				Expect(condition(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, pipeline), meta.StalledCondition)(ctx)).To(HaveField("Reason", "PromotionLoop"))
			})
			all, err := github.PullRequests(owner, repository)
			Expect(err).NotTo(HaveOccurred())
			Expect(all).To(HaveLen(pipelines * changes))
			Expect(all).To(HaveEach(HaveField("Merged", true)))
		}
	},
		Entry("merged by a merge commit", "merge"),
		Entry("merged by a squash", "squash"),
		Entry("merged by a rebase", "rebase"),
	)
})
