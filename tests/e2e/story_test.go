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
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

var _ = Describe("A revision", Ordered, func() {
	version := func(env string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return world.RunningVersion(ctx, env) }
	}
	// merge checks what the pull request for an environment changes, and merges it.
	merge := func(ctx context.Context, env string) {
		GinkgoHelper()
		Eventually(ctx, record(playground.PipelineName, env)).Should(haveState("created"))
		promotion, err := world.Promotion(ctx, env)
		Expect(err).NotTo(HaveOccurred())

		before, err := world.ReadFile("fleet", "main", env+"/app.yaml")
		Expect(err).NotTo(HaveOccurred())
		after, err := world.ReadFile("fleet", promotion.PullRequest.HeadCommit, env+"/app.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(strings.Replace(before, "tag: v1.0.0 #", "tag: v1.1.0 #", 1)), "only the marked value's bytes change")

		mergeInGitea(ctx, "fleet", promotion.PullRequest.Number)
		Eventually(ctx, version(env)).Should(Equal("v1.1.0"))
		Eventually(ctx, record(playground.PipelineName, env)).Should(haveState("succeeded"))
	}

	It("runs everywhere at first", func(ctx SpecContext) {
		for _, env := range playground.Environments {
			Eventually(ctx, version(env)).Should(Equal("v1.0.0"))
		}
		Eventually(ctx, ready(playground.PipelineName)).Should(HaveField("Reason", "UpToDate"))
		Expect(pullRequestsIn("fleet")).To(BeEmpty())
	})

	It("is kept from prod when the gate is closed with the flux CLI", func(ctx SpecContext) {
		out, err := run(ctx, "flux", "--namespace", flux, "close", "gate", playground.GateName, "--reason", "end of quarter", "--timeout", "1m")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("gate change-freeze is closed"))
		Eventually(ctx, field(object(sourceAPI, sourcev1.GitRepositoryKind, flux, "app-prod"), "spec", "suspend")).Should(Equal(true))
	})

	It("reaches dev by itself and gets a pull request for staging", func(ctx SpecContext) {
		Expect(world.Release("app", "v1.1.0")).To(Succeed())
		Eventually(ctx, version("dev")).Should(Equal("v1.1.0"))
		Eventually(ctx, record(playground.PipelineName, "staging")).Should(haveState("created"))

		all := pullRequestsIn("fleet")
		Expect(all).To(HaveLen(1))
		opened := all[0]
		Expect(opened.Title).To(HavePrefix("Promote flux-system/app in staging to v1.1.0@sha1:"))
		Expect(opened.Body).To(And(ContainSubstring("`v1.0.0@sha1:"), ContainSubstring("Sluice-Pipeline: flux-system/app\nSluice-Environment: staging\nSluice-Revision: v1.1.0@sha1:")))
		Expect(version("staging")(ctx)).To(Equal("v1.0.0"), "nothing moves before the merge")
	})

	It("reaches staging when the pull request is merged", func(ctx SpecContext) {
		merge(ctx, "staging")
	})

	It("waits before prod, and all commands say for what", func(ctx SpecContext) {
		waits := MatchRegexp(`^prod: v1\.1\.0@sha1:[0-9a-f]{8} waits: gate change-freeze is closed by admin \(end of quarter\)$`)
		Eventually(ctx, ready(playground.PipelineName)).Should(And(HaveField("Reason", "WaitingForPreconditions"), HaveField("Message", waits)))
		Expect(record(playground.PipelineName, "prod")(ctx)).To(And(haveState("unapproved"), HaveField("Preconditions",
			ConsistOf(And(HaveField("Type", "Gates"), HaveField("Met", false), HaveField("Reason", "GateClosed"))))))
		Expect(pullRequestsIn("fleet")).To(HaveLen(1))

		table := func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "get", "gates,pipelines", "--namespace", flux)
		}
		Eventually(ctx, table).Should(MatchRegexp(`change-freeze +true +Closed +\S+ +2 +0 +end of quarter`), "it holds the source and the promotion")
		Expect(table(ctx)).To(MatchRegexp(`app +app +True +prod: v1\.1\.0@sha1:[0-9a-f]{8} waits: gate change-freeze is closed`))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return run(ctx, "kubectl", "describe", "pipeline", playground.PipelineName, "--namespace", flux)
		}).Should(And(
			ContainSubstring("gate change-freeze is closed by admin (end of quarter)"),
			MatchRegexp(`Normal +WaitingForPreconditions .* pipeline-controller +prod: `),
			MatchRegexp(`Normal +Promoted .* pipeline-controller +staging: .* was merged`)))
	})

	It("reaches prod once the gate is opened with the flux CLI and the pull request is merged", func(ctx SpecContext) {
		out, err := run(ctx, "flux", "open", "gate", playground.GateName)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("gate change-freeze is open"))
		merge(ctx, "prod")
		Eventually(ctx, ready(playground.PipelineName)).Should(HaveField("Reason", "UpToDate"))
		Expect(pullRequestsIn("fleet")).To(HaveLen(2))
	})

	It("leaves a record of what happened", func(ctx SpecContext) {
		for _, env := range []string{"staging", "prod"} {
			Eventually(ctx, record(playground.PipelineName, env)).Should(And(
				haveState(pipelinesv1.PromotionSucceeded), HaveField("Attempts", BeEquivalentTo(1)),
				HaveField("CompletionTime", Not(BeNil())), HaveField("PullRequest.URL", HavePrefix(world.Git.URL))))
		}
	})
})
