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
	"os"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// The container of pipeline-controller has 1 GiB of memory.
const mostResident = 768 << 20

var _ = Describe("Files of a million values", Ordered, func() {
	const (
		token  = "ghp_the-token-of-the-large"
		tag    = "tag: %s # {\"$promotion\": \"flux-system:%s:two:tag\"}\n"
		limit  = 8 << 20
		values = "map: {" // and a value for each byte that follows
	)
	rest := map[string]string{
		"large-1": values + strings.Repeat("a,", 512<<10-50) + "}\n",
		"large-2": values + strings.Repeat("a,", 512<<10-50) + "}\n",
		"large-3": "list:\n" + strings.Repeat("-\n", 512<<10-50),
		"large-4": "list:\n" + strings.Repeat("-\n", 512<<10-50),
		"honest":  honestFile(limit - 500),
		"hostile": values + strings.Repeat("a,", limit/2-100) + "}\n",
		"larger":  honestFile(limit),
	}
	refused := map[string]string{
		"hostile": "app.yaml:1: setting its markers may take 1999 MiB of memory, more than the limit of 320 MiB: split the file",
		"larger":  "bytes, more than the limit of 8388608: split the file",
	}

	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("large")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"large-one": "v2.0.0", "large-two": "v1.0.0"} {
			Expect(world.Release("large", version)).To(Succeed())
			deploy(ctx, "large", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		apply(ctx, `{apiVersion: v1, kind: Secret, metadata: {name: large, namespace: flux-system}, stringData: {token: %s, ca.crt: %q}}`, token, github.CA())
		for name, content := range rest {
			Expect(github.AddRepository(owner, name)).To(Succeed())
			_, err := github.CommitFiles(owner, name, "main", map[string]string{"app.yaml": fmt.Sprintf(tag, "v1.0.0", name) + content}, "Begin")
			Expect(err).NotTo(HaveOccurred())
		}
	})

	promote := func(ctx context.Context, name string) {
		GinkgoHelper()
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: large}
  environments:
  - {name: one, targets: [{namespace: large-one}]}
  - {name: two, targets: [{namespace: large-two}]}
  promotion:
    strategy: {pull-request: {type: github, url: '%[2]s', baseBranch: main, secretRef: {name: large}}}
`, name, github.RepositoryURL(owner, name))
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name))).To(Succeed())
		})
	}

	It("are promoted, or refused by name, in bounded memory", func(ctx SpecContext) {
		resetPeak(world.PipelineController)
		for name := range rest {
			promote(ctx, name)
		}
		for name := range rest {
			Eventually(ctx, record(name, "two")).Should(Or(haveState("created"), haveState("failed")), name)
		}
		Expect(peak(world.PipelineController)).To(BeNumerically("<", mostResident))
		for name, content := range rest {
			if why, ok := refused[name]; ok {
				Eventually(ctx, record(name, "two")).Should(And(haveState("failed"), HaveField("LastError", ContainSubstring(why))), name)
				continue
			}
			Eventually(ctx, record(name, "two")).Should(haveState("created"), name)
			promoted, err := record(name, "two")(ctx)
			Expect(err).NotTo(HaveOccurred())
			got, err := github.ReadFile(owner, name, promoted.PullRequest.Branch, "app.yaml")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(got) == fmt.Sprintf(tag, "v2.0.0", name)+content).To(BeTrue(), "%s: only the value is changed", name)
		}
	})
})

// honestFile returns an ordinary file of at least size bytes.
func honestFile(size int) string {
	var file strings.Builder
	for i := 0; file.Len() < size; i++ {
		fmt.Fprintf(&file, "service-%d:\n  # Built from the main branch.\n  image: registry.example.com/service-%[1]d:1.2.3\n  resources:\n    limits:\n      memory: 128Mi\n", i)
	}
	return file.String()
}

// resetPeak resets the process' peak memory.
func resetPeak(process *localcluster.Process) {
	GinkgoHelper()
	Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", process.PID()), []byte("5"), 0)).To(Succeed())
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peak returns the peak resident memory of the process in bytes.
func peak(process *localcluster.Process) int64 {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
	Expect(err).NotTo(HaveOccurred())
	found := highWater.FindSubmatch(status)
	Expect(found).NotTo(BeNil())
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Println("peak of", process.Name, "in MiB:", kib>>10)
	return kib << 10
}
