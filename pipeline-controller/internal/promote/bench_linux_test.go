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

package promote

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// A repository of 2 GB as the host packs it: manifests, some of which have markers, other files that pack no further,
// and as many tags as in https://github.com/akuity/kargo/issues/5725, each of a commit of its own.
const (
	largeManifests = 45_000
	largeOthers    = 20_500
	largeOtherSize = 97_000
	largeApps      = 500
	largeTags      = 41_000
)

// largeHost is a Git host in a process of its own, so its memory is not counted.
type largeHost struct {
	URL string
	CA  []byte
	// Dir is the bare repository.
	Dir string
}

const serveLargeHost = "SLUICE_BENCH_SERVE_GIT_HOST"

// TestServeLargeHost is that process. It ends with its input.
func TestServeLargeHost(t *testing.T) {
	if os.Getenv(serveLargeHost) == "" {
		t.Skip("started by BenchmarkLargeRepository")
	}
	g := NewWithT(t)
	host, remote := startHost(t, map[string]string{"README.md": "fleet"})
	dir, err := host.RepositoryDir("acme", "fleet")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.NewEncoder(os.Stdout).Encode(largeHost{URL: remote.URL, CA: remote.CABundle, Dir: dir})).To(Succeed())
	_, err = io.ReadAll(os.Stdin)
	g.Expect(err).NotTo(HaveOccurred())
}

func startLargeHost(b *testing.B) largeHost {
	b.Helper()
	g := NewWithT(b)
	command := exec.Command(os.Args[0], "-test.run=^TestServeLargeHost$")
	command.Env = append(os.Environ(), serveLargeHost+"=1")
	in, err := command.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	out, err := command.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(command.Start()).To(Succeed())
	b.Cleanup(func() {
		g.Expect(in.Close()).To(Succeed())
		g.Expect(command.Wait()).To(Succeed())
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	g.Expect(err).NotTo(HaveOccurred())
	var host largeHost
	g.Expect(json.Unmarshal(line, &host)).To(Succeed())
	host.fill(b)
	return host
}

func (h largeHost) git(b *testing.B, input func(io.Writer), args ...string) {
	b.Helper()
	g := NewWithT(b)
	command := exec.Command("git", append([]string{"-C", h.Dir}, args...)...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(command.Start()).To(Succeed())
	if input != nil {
		buffered := bufio.NewWriter(in)
		input(buffered)
		g.Expect(buffered.Flush()).To(Succeed())
	}
	g.Expect(in.Close()).To(Succeed())
	g.Expect(command.Wait()).To(Succeed())
}

// fill creates the files in one commit, and the tags after it.
func (h largeHost) fill(b *testing.B) {
	b.Helper()
	h.git(b, func(w io.Writer) {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.com> 1767225600 +0000\ndata 5\nBegin\n")
		write := func(name string, content []byte) {
			fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", name, len(content), content)
		}
		for i := range largeManifests {
			app, part := fmt.Sprintf("app-%d", i%largeApps), i/largeApps
			write(fmt.Sprintf("apps/%s/%d.yaml", app, part), largeManifest(app, part))
		}
		random := rand.NewChaCha8([32]byte{})
		content := make([]byte, largeOtherSize)
		for i := range largeOthers {
			_, _ = random.Read(content) // it never fails
			write(fmt.Sprintf("assets/%d/%d.bin", i%100, i), content)
		}
		for i := range largeTags {
			tag := fmt.Sprintf("v0.0.%d", i)
			fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata %d\n%s\n", 1767225601+i, len(tag), tag)
			write("VERSION", []byte(tag))
			fmt.Fprintf(w, "reset refs/tags/%s\nfrom refs/heads/main\n\n", tag)
		}
	}, "fast-import", "--quiet", "--force", "--depth=0")
	h.git(b, nil, "pack-refs", "--all") // as hosts do
}

// largeManifest has a marker if it is the first of its application.
func largeManifest(app string, part int) []byte {
	marker := ""
	if part == 0 {
		marker = fmt.Sprintf(` # {"$promotion": "flux-system:%s:prod:tag"}`, app)
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata:\n  version: v1.0.0%s\n", app, part, marker)
	for line := range 30 {
		manifest += fmt.Sprintf("  setting-%d: the value of setting %d of %s, part %d\n", line, line, app, part)
	}
	return []byte(manifest)
}

// promoteLarge promotes into prod, and returns the branch that was pushed.
func promoteLarge(b *testing.B, pulls *PullRequests, url, rev string) string {
	b.Helper()
	g := NewWithT(b)
	promotion := Promotion{
		Pipeline: types.NamespacedName{Namespace: "flux-system", Name: "app-7"}, Environment: "prod", Revision: rev,
		Started: metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)),
		Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{
			Type: "github", URL: url, BaseBranch: "main",
		}},
	}
	promotion.Strategy.PullRequest.SecretRef.Name = "fleet"
	outcome := pulls.Open(b.Context(), promotion, func(context.Context) (string, error) { return "", nil })
	g.Expect(outcome.Err).NotTo(HaveOccurred())
	g.Expect(outcome.State).To(Equal(pipelinesv1.PromotionCreated))
	return outcome.PullRequest.Branch
}

// BenchmarkLargeRepository measures a first promotion in a repository of 2 GB, 65,500 files and 41,000 tags, the next
// one after that was merged, and one that finds the base where it was.
func BenchmarkLargeRepository(b *testing.B) {
	g := NewWithT(b)
	host := startLargeHost(b)
	secrets := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "fleet"},
		Data:       map[string][]byte{"username": []byte("sluice"), "token": []byte("secret"), "ca.crt": host.CA},
	}).Build()
	for round := range b.N {
		dir := filepath.Join(b.TempDir(), "clones")
		clones, err := git.NewClones(dir)
		g.Expect(err).NotTo(HaveOccurred())
		pulls := NewPullRequests(secrets, scm.NewHosts(onLoopback), clones)
		measure := func(name, rev string) string {
			resetPeak(b)
			began := time.Now()
			branch := promoteLarge(b, pulls, host.URL, fmt.Sprintf(rev, round))
			b.ReportMetric(time.Since(began).Seconds(), name+"-s")
			b.ReportMetric(float64(peak(b)), name+"-peak-MB")
			return branch
		}
		branch := measure("first", "v1.%d.1")
		host.git(b, nil, "update-ref", "refs/heads/main", "refs/heads/"+branch)
		measure("merged", "v1.%d.2")
		measure("unmoved", "v1.%d.3")
		b.ReportMetric(float64(sizeOf(b, host.Dir))/1e6, "host-disk-MB")
		b.ReportMetric(float64(sizeOf(b, dir))/1e6, "clone-disk-MB")
		g.Expect(clones.Close()).To(Succeed())
	}
	b.ReportMetric(0, "ns/op") // of no use
}

// resetPeak resets the peak.
func resetPeak(b *testing.B) {
	b.Helper()
	NewWithT(b).Expect(os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)).To(Succeed())
}

// peak is the most memory that the process had resident, in MB.
func peak(b *testing.B) int64 {
	b.Helper()
	g := NewWithT(b)
	status, err := os.ReadFile("/proc/self/status")
	g.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(status)) {
		if field := strings.Fields(line); len(field) > 1 && field[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(field[1], 10, 64)
			g.Expect(err).NotTo(HaveOccurred())
			return kib * 1024 / 1e6
		}
	}
	b.Fatal("the peak is not told")
	return 0
}

// sizeOf returns the size of the files below dir in bytes.
func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	return size
}
