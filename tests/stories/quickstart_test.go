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
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/codeblock"
)

// Two steps of a reader are not commands of the page: setting the values of the first block, and merging.
var _ = Describe("The quick start", Ordered, func() {
	const repository = "quick-start"
	var reader *reader

	BeforeAll(func(ctx SpecContext) {
		remove(ctx, "kustomization/sluice")
		Eventually(ctx, ownCRDs).Should(BeEmpty())
		upon.create(repository, false)
		reader = newReader(ctx, repository)
	})

	page, err := os.ReadFile(filepath.Join(root, "docs", "quick-start.md"))
	if err != nil {
		panic(err)
	}
	var blocks []codeblock.Block
	for _, block := range codeblock.In(string(page)) {
		if block.Language == "sh" && !strings.HasPrefix(block.Text, "export ") {
			blocks = append(blocks, block)
		}
	}
	for _, block := range blocks {
		first, _, _ := strings.Cut(block.Text, "\n")
		It("works: "+first, func(ctx SpecContext) {
			if strings.Contains(block.Text, "--with-source") {
				promotion, err := record(repository, "prod")(ctx)
				Expect(err).NotTo(HaveOccurred())
				upon.merge(ctx, repository, promotion.PullRequest.Number)
				Eventually(ctx, record(repository, "prod")).Should(haveState(pipelinesv1.PromotionSucceeded))
			}
			printed := reader.run(ctx, block.Text)
			switch {
			case strings.Contains(block.Text, "config/flux"):
				redirect(ctx, thisVersion)
			case strings.Contains(block.Text, "flux gate sources"):
				Expect(printed).To(MatchRegexp(`GitRepository/app-prod +change-freeze +held`))
			case strings.Contains(block.Text, "flux pipeline why"):
				Expect(printed).To(MatchRegexp(`gate change-freeze is closed by \S+ \(end of quarter\)`))
			case strings.Contains(block.Text, "flux pipeline get"):
				Expect(printed).To(ContainSubstring(gitURL + "/" + gitUser + "/" + repository + "/pulls/"))
			}
		})
	}
})

// reader runs the commands of a page.
type reader struct {
	home        string
	environment []string
}

func newReader(ctx context.Context, repository string) *reader {
	GinkgoHelper()
	home := GinkgoT().TempDir()
	Expect(os.CopyFS(filepath.Join(home, "config"), os.DirFS(filepath.Join(root, "config")))).To(Succeed())
	token := upon.token(repository)
	for name, content := range map[string]string{
		".gitconfig":       "[user]\nname = Ada\nemail = ada@example.com\n[credential]\nhelper = store\n[http]\nproxy = " + upon.proxy + "\n",
		".git-credentials": strings.Replace(gitURL, "://", "://"+gitUser+":"+token+"@", 1) + "\n",
		".directory":       home,
	} {
		Expect(os.WriteFile(filepath.Join(home, name), []byte(content), 0o600)).To(Succeed())
	}
	return &reader{home: home, environment: append(command(ctx, "bash").Env, "HOME="+home,
		"GIT_TYPE=gitea", "GIT_URL="+repositoryURL(repository), "GIT_USER="+gitUser, "GIT_TOKEN="+token)}
}

// run runs a block in the directory where the previous one has ended, and returns its output.
func (r *reader) run(ctx context.Context, block string) string {
	GinkgoHelper()
	script := "set -euo pipefail\ncd \"$(cat ~/.directory)\"\n" + block + "\npwd >~/.directory\n"
	bash := exec.CommandContext(ctx, "bash", "-c", script)
	bash.Env = r.environment
	out, err := bash.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return string(out)
}
