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
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
)

// The versions of many Pipelines are in one repository, and all may change at the same time.
var _ = Describe("Promotions in one repository", Ordered, func() {
	const (
		many       = 20
		repository = "crowded"
		secret     = "ghp_the-token-of-many"
	)
	name := func(i int) string { return fmt.Sprintf("crowd-%d", i) }
	// all is a file with a line for each of the Pipelines, of which those in set have the new version.
	all := func(set ...int) string {
		var file strings.Builder
		for i := range many {
			version := "v1.0.0"
			for _, one := range set {
				if one == i {
					version = "v2.0.0"
				}
			}
			fmt.Fprintf(&file, "%s: %s # {\"$promotion\": \"flux-system:%[1]s:two:tag\"}\n", name(i), version)
		}
		return file.String()
	}

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: secret, Login: "sluice-bot"})
		_, err := world.Git.CreateRepository("crowd")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"crowd-one": "v2.0.0", "crowd-two": "v1.0.0"} {
			Expect(world.Release("crowd", version)).To(Succeed())
			deploy(ctx, "crowd", namespace, version)
		}

		files := map[string]string{"all.yaml": all()}
		for i := range many {
			files[name(i)+".yaml"] = fmt.Sprintf("tag: v1.0.0 # {\"$promotion\": \"flux-system:%s:two:tag\"}\n", name(i))
		}
		Expect(github.AddRepository(owner, repository)).To(Succeed())
		_, err = github.CommitFiles(owner, repository, "main", files, "Begin")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, `{apiVersion: v1, kind: Secret, metadata: {name: crowd, namespace: flux-system}, stringData: {token: %s, ca.crt: %q}}`, secret, github.CA())
		apply(ctx, `{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: crowd, namespace: flux-system}, spec: {closed: true}}`)
	})

	It("that all continue at once are as many pull requests, each with only its own change", func(ctx SpecContext) {
		for i := range many {
			apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: crowd}
  environments:
  - {name: one, targets: [{namespace: crowd-one}]}
  - {name: two, targets: [{namespace: crowd-two}]}
  promotion:
    gates: {refs: [crowd]}
    strategy: {pull-request: {type: github, url: '%[2]s', baseBranch: main, secretRef: {name: crowd}}}
`, name(i), github.RepositoryURL(owner, repository))
		}
		DeferCleanup(func(ctx SpecContext) {
			for i := range many {
				Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name(i)))).To(Succeed())
			}
		})
		for i := range many {
			Eventually(ctx, ready(name(i))).Should(HaveField("Reason", "WaitingForPreconditions"))
		}
		apply(ctx, `{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: crowd, namespace: flux-system}, spec: {closed: false}}`)

		dir, err := github.RepositoryDir(owner, repository)
		Expect(err).NotTo(HaveOccurred())
		for i := range many {
			Eventually(ctx, record(name(i), "two")).Should(haveState("created"))
			promotion, err := record(name(i), "two")(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(promotion.Attempts).To(BeEquivalentTo(1), name(i))

			branch := promotion.PullRequest.Branch
			diff, err := exec.CommandContext(ctx, "git", "-C", dir, "diff", "--numstat", "main..."+branch).Output()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(diff)).To(Equal(fmt.Sprintf("1\t1\tall.yaml\n1\t1\t%s.yaml\n", name(i))))
			after, err := github.ReadFile(owner, repository, branch, "all.yaml")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(after)).To(Equal(all(i)))
		}

		pulls, err := github.PullRequests(owner, repository)
		Expect(err).NotTo(HaveOccurred())
		Expect(pulls).To(HaveLen(many))
		heads := map[string]bool{}
		for _, pull := range pulls {
			heads[pull.Head] = true
		}
		Expect(heads).To(HaveLen(many))
		Expect(github.Count("POST", regexp.QuoteMeta(owner+"/"+repository)+createCall)).To(Equal(many))
		Expect(github.Pushes(owner, repository)).To(HaveLen(many))
	})
})
