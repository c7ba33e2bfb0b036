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
	"fmt"

	"code.gitea.io/sdk/gitea"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

// The tags v1.4.0-evil and v1.4.0 name one commit, so targets that run them run one revision. Git gets the tag.
var _ = Describe("What is approved", Ordered, func() {
	const dev, prod = "named-dev", "named-prod"

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		_, err := world.Git.CreateRepository("named")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v1.4.0"} {
			Expect(world.Release("named", version)).To(Succeed())
		}
		_, _, err = world.Git.Client.CreateTag(world.Git.Username, "named", gitea.CreateTagOption{TagName: "v1.4.0-evil", Target: "v1.4.0"})
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{dev: "v1.4.0-evil", prod: "v1.0.0"} {
			deploy(ctx, "named", namespace, version)
		}
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: named, namespace: flux-system}, spec: {closed: true}}")
	})

	// commit writes the file with the marked field to a branch of a Pipeline's repository.
	commit := func(name, branch string) {
		GinkgoHelper()
		_, err := github.CommitFiles(owner, name, branch, map[string]string{
			"app.yaml": fmt.Sprintf("tag: v1.0.0 # {\"$promotion\": \"flux-system:%s:prod:tag\"}\n", name),
		}, "Begin")
		Expect(err).NotTo(HaveOccurred())
	}
	// pipeline creates a Pipeline whose promotions into prod wait for approval, to the branch base of its own
	// repository.
	pipeline := func(ctx context.Context, name, base, more string) {
		GinkgoHelper()
		Expect(github.AddRepository(owner, name)).To(Succeed())
		commit(name, "main")
		apply(ctx, `
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: flux-system}
stringData: {token: %[2]s}
data: {ca.crt: %[3]s}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: named}
  environments:
  - {name: dev, targets: [{namespace: named-dev}]}
  - {name: prod, targets: [{namespace: named-prod}]}
  promotion: {manual: true%[6]s, strategy: {pull-request: {type: github, url: '%[4]s', baseBranch: %[5]s, secretRef: {name: %[1]s}}}}
`, name, token, base64.StdEncoding.EncodeToString(github.CA()), github.RepositoryURL(owner, name), base, more)
		DeferCleanup(func(ctx SpecContext) {
			obj := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
			Expect(client.IgnoreNotFound(world.Client.Delete(ctx, obj))).To(Succeed())
		})
	}
	waiting := func(name string) func(context.Context) (any, error) {
		return field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name), "status", "environments", "prod", "waitingApproval", "revision")
	}
	// approve approves what a person is shown, and returns that.
	approve := func(ctx context.Context, name, prefix string) string {
		GinkgoHelper()
		Eventually(ctx, waiting(name)).Should(HavePrefix(prefix))
		shown, err := waiting(name)(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, err = run(ctx, "flux", "approve", "promotion", name, "--env=prod", "--yes", "--wait=false", "--revision="+shown.(string))
		Expect(err).NotTo(HaveOccurred())
		return shown.(string)
	}
	// written returns the marked field as the pull request sets it.
	written := func(ctx context.Context, name string) string {
		GinkgoHelper()
		Eventually(ctx, record(name, "prod")).Should(haveState("created"))
		promotion, err := record(name, "prod")(ctx)
		Expect(err).NotTo(HaveOccurred())
		content, err := github.ReadFile(owner, name, promotion.PullRequest.Branch, "app.yaml")
		Expect(err).NotTo(HaveOccurred())
		return string(content)
	}

	It("is written to Git, even if the first environment runs it by another name before or after", func(ctx SpecContext) {
		pipeline(ctx, "renamed", "main", ", gates: {refs: [named]}")
		pipeline(ctx, "attempted", "release", "")

		By("approving the name that runs now, which promotes nothing: one Pipeline's gate is closed, and the other's branch is missing")
		early := approve(ctx, "renamed", "v1.4.0-evil@sha1:")
		approve(ctx, "attempted", "v1.4.0-evil@sha1:")
		Eventually(ctx, record("attempted", "prod")).Should(haveState("failed"))

		By("running the same commit by another name")
		source := object(sourceAPI, sourcev1.GitRepositoryKind, flux, dev)
		Expect(world.Client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ref":{"tag":"v1.4.0"}}}`)))).To(Succeed())
		Eventually(ctx, waiting("renamed")).Should(HavePrefix("v1.4.0@sha1:"))
		Expect(ready("renamed")(ctx)).To(HaveField("Message", HavePrefix("prod: v1.4.0@sha1:")))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "events", "--namespace", flux, "--for", "pipeline/renamed")
		}).Should(MatchRegexp(`prod: deleted the approval of v1\.4\.0-evil@sha1:\S+ by \S+: approve v1\.4\.0@sha1:`))
		_, err := run(ctx, "flux", "approve", "promotion", "renamed", "--env=prod", "--yes", "--revision="+early)
		Expect(err).To(MatchError(ContainSubstring("revision " + early + " does not wait for approval")))

		By("promoting what was approved, where nothing was attempted before")
		approve(ctx, "renamed", "v1.4.0@sha1:")
		apply(ctx, "{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: named, namespace: flux-system}, spec: {closed: false}}")
		Expect(written(ctx, "renamed")).To(HavePrefix("tag: v1.4.0 #"))

		By("requiring the attempted name once there was an attempt")
		Expect(world.Client.DeleteAllOf(ctx, &pipelinesv1.PromotionApproval{}, client.InNamespace(flux),
			client.MatchingFields{pipelinesv1.ApprovalPipelineField: "attempted"})).To(Succeed())
		approve(ctx, "attempted", "v1.4.0-evil@sha1:")
		commit("attempted", "release")
		reconcile(ctx, "attempted", "the branch is there")
		Expect(written(ctx, "attempted")).To(HavePrefix("tag: v1.4.0-evil #"))
	})
})
