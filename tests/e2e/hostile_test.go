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
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/handpack"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var _ = Describe("A hostile Git host", Ordered, func() {
	const (
		// most is half of the container's memory.
		most = 512 << 20
		// atOnce is the number of promotions that a namespace may run on one Git host.
		atOnce = 4
	)
	BeforeAll(func(ctx SpecContext) {
		_, err := world.Git.CreateRepository("bomb")
		Expect(err).NotTo(HaveOccurred())
		for namespace, version := range map[string]string{"bomb-one": "v2.0.0", "bomb-two": "v1.0.0"} {
			Expect(world.Release("bomb", version)).To(Succeed())
			deploy(ctx, "bomb", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: bomb, namespace: flux-system}, stringData: {token: %s}}", token)
		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
	})

	// start runs a controller instead of the suite's, to measure its memory alone.
	start := func(ctx context.Context, args ...string) *localcluster.Process {
		GinkgoHelper()
		controller, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: "pipeline-controller-attacked", Binary: "pipeline-controller", ServiceAccount: "pipeline-controller",
			Args: append(args, "--events-addr="+world.Cluster.EventsAddr, "--approval-addr="),
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(controller.Stop)
		return controller
	}

	DescribeTable("serves a repository that is refused, or read in little memory", func(ctx SpecContext, says string, repository func() *handpack.Server) {
		host := httptest.NewServer(repository())
		DeferCleanup(host.Close)
		controller := start(ctx)
		for i := range atOnce {
			promoteAt(ctx, fmt.Sprintf("bomb-%d", i), fmt.Sprintf("%s/%s/bomb-%d", host.URL, owner, i))
		}
		for i := range atOnce {
			Eventually(ctx, record(fmt.Sprintf("bomb-%d", i), "two")).Should(HaveField("LastError", ContainSubstring(says)))
		}
		peak, err := peakMemory(controller)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println("at most", peak>>20, "MiB")
		Expect(peak).To(BeNumerically("<", most))
	},
		Entry("if an object claims 2^40 bytes", "with a file of 1099511627776 bytes, the repository exceeds the limit of 8589934592 bytes", func() *handpack.Server {
			return packedByHand(handpack.Entry{Type: handpack.Blob, Size: 1 << 40})
		}),
		Entry("if it has a chain of 40 deltas over 100 MiB", slow, "no field is marked", func() *handpack.Server { return packedByHand(chain(40, 100<<20)...) }),
		Entry("if it has a chain of 12 deltas over 30 MiB, each of which is made whole", "no field is marked", func() *handpack.Server { return packedByHand(chain(12, 30<<20)...) }),
		Entry("if it has 60 deltas over one of 30 MiB", slow, "no field is marked", func() *handpack.Server {
			entries := chain(0, 30<<20)
			for i := range 60 {
				entries = append(entries, handpack.Entry{Type: handpack.OffsetDelta, Upon: i + 1, Content: handpack.Delta(30<<20, 1<<20, handpack.Copy(i, 1<<20))})
			}
			return packedByHand(entries...)
		}),
		Entry("if it has 14 files of 99 MiB that are alike, as git packs them", slow, "no field is marked", func() *handpack.Server { return packedByGit(14, 99<<20) }),
	)

	DescribeTable("leads to no address that Git hosts may not have", func(ctx SpecContext, says string, to string, args ...string) {
		host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info/refs") {
				http.Redirect(w, r, to, http.StatusFound)
				return
			}
			_, _ = w.Write([]byte("[]"))
		}))
		DeferCleanup(host.Close)
		start(ctx, args...)
		promoteAt(ctx, "bomb-0", host.URL+"/"+owner+"/bomb-0")
		Eventually(ctx, record("bomb-0", "two")).Should(HaveField("LastError", ContainSubstring(says)))
	},
		Entry("by a redirect to a metadata service", "169.254.169.254 is not allowed as the address of a Git host", "http://169.254.169.254/info/refs"),
		Entry("by a redirect to one in IPv6", "fd00:ec2::254 is not allowed as the address of a Git host", "http://[fd00:ec2::254]/info/refs"),
		Entry("on loopback, without the flag", "127.0.0.1 is a loopback address", "", "--allow-loopback-git-hosts=false"),
	)
})

// packedByHand returns a repository whose pack has extra entries besides an honest file.
func packedByHand(entries ...handpack.Entry) *handpack.Server {
	content := []byte("tag: v1.0.0\n")
	tree := handpack.TreeOf(map[string]handpack.Hash{"app.yaml": handpack.HashOf(handpack.Blob, content)})
	commit := handpack.CommitOf(handpack.HashOf(handpack.Tree, tree))
	return &handpack.Server{Commit: handpack.HashOf(handpack.Commit, commit), Pack: handpack.Pack(append([]handpack.Entry{
		{Type: handpack.Commit, Content: commit}, {Type: handpack.Tree, Content: tree}, {Type: handpack.Blob, Content: content},
	}, entries...)...)}
}

// packedByGit returns a repository of files of a size that differ in one line, packed as by an ordinary push.
func packedByGit(files, size int) *handpack.Server {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	git := func(in io.Reader, args ...string) []byte {
		GinkgoHelper()
		command := exec.Command("git", append([]string{"-C", dir}, args...)...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		command.Stdin, command.Stderr = in, GinkgoWriter
		out, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	git(nil, "init", "-q", "--bare")
	content := bytes.Repeat([]byte("the same line over and over\n"), size/28)
	var tree strings.Builder
	for i := range files {
		last := fmt.Sprintf("line %d\n", i)
		blob := git(io.MultiReader(bytes.NewReader(content[:len(content)-len(last)]), strings.NewReader(last)), "hash-object", "-w", "--stdin")
		fmt.Fprintf(&tree, "100644 blob %s\tdata-%d\n", bytes.TrimSpace(blob), i)
	}
	commit := strings.TrimSpace(string(git(nil, "commit-tree", "-m", "Add data", strings.TrimSpace(string(git(strings.NewReader(tree.String()), "mktree"))))))
	pack := git(strings.NewReader(commit+"\n"), "pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset", "--threads=1")
	GinkgoWriter.Println("git makes a pack of", len(pack), "bytes")
	var hash handpack.Hash
	_, err := hex.Decode(hash[:], []byte(commit))
	Expect(err).NotTo(HaveOccurred())
	return &handpack.Server{Commit: hash, Pack: pack}
}

// chain returns a blob, and deltas that each add a byte to the previous one.
func chain(deltas, size int) []handpack.Entry {
	entries := []handpack.Entry{{Type: handpack.Blob, Content: bytes.Repeat([]byte{0}, size)}}
	for range deltas {
		delta := handpack.Delta(uint64(size), uint64(size+1), handpack.Copy(0, size), handpack.Insert("x"))
		entries = append(entries, handpack.Entry{Type: handpack.OffsetDelta, Upon: 1, Content: delta})
		size++
	}
	return entries
}

// promoteAt creates a Pipeline whose promotion by pull request is due immediately. Its pull request can't be withdrawn
// at the end.
func promoteAt(ctx context.Context, name, url string) {
	GinkgoHelper()
	apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: bomb}
  environments:
  - {name: one, targets: [{namespace: bomb-one}]}
  - {name: two, targets: [{namespace: bomb-two}]}
  promotion: {strategy: {pull-request: {type: github, url: '%[2]s', baseBranch: main, secretRef: {name: bomb}}}}
`, name, url)
	DeferCleanup(func(ctx SpecContext) {
		// Keep this order: otherwise the controller adds its finalizer again.
		pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
		Expect(world.Client.Delete(ctx, pipeline.DeepCopy())).To(Succeed())
		finalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(world.Client.Patch(ctx, pipeline.DeepCopy(), finalizers))).To(Succeed())
		deleteAll(ctx, pipeline)
	})
}

// peakMemory returns the peak resident memory of a process in bytes.
func peakMemory(process *localcluster.Process) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if peak, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(peak)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the memory of %s is not told", process.Name)
}
