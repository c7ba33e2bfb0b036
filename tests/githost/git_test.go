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

package githost_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

func TestGitClients(t *testing.T) {
	tests := []struct {
		name string
		run  func(*world)
	}{
		{"a clone has what was committed", func(w *world) {
			dir := w.clone(readToken)
			content, err := os.ReadFile(filepath.Join(dir, "app.yaml"))
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(string(content)).To(Equal("version: v1.0.0\n"))
			w.Expect(w.mustGit(dir, "rev-parse", "HEAD")).To(Equal(w.first))
		}},
		{"a repository is served without .git at its end, too", func(w *world) {
			w.mustGit("", "ls-remote", strings.TrimSuffix(w.remote(writeToken), ".git"))
		}},
		{"a shallow clone of a single branch without blobs is allowed", func(w *world) {
			w.commit("main", "more.yaml", "a: 1\n")
			dir := filepath.Join(w.t.TempDir(), "checkout")
			w.mustGit("", "clone", "--quiet", "--depth=1", "--single-branch", "--filter=blob:none", w.remote(writeToken), dir)
			w.Expect(w.mustGit(dir, "rev-list", "--count", "HEAD")).To(Equal("1"))
		}},
		{"a push moves the branch, and is recorded with who pushed what", func(w *world) {
			dir := w.clone(writeToken)
			sha := w.change(dir, "feature", "new.yaml", "a: 1\n")
			w.mustGit(dir, "push", "--quiet", "origin", "feature")
			w.Expect(w.branches()).To(HaveKeyWithValue("feature", sha))
			pushes, err := w.host.Pushes(owner, repo)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(pushes).To(Equal([]githost.Push{{
				Login: "sluice-bot", Updates: []githost.RefUpdate{{Ref: "refs/heads/feature", New: sha}},
			}}))
		}},
		{"a push of what is already there is no push", func(w *world) {
			dir := w.clone(writeToken)
			w.mustGit(dir, "push", "--quiet", "origin", "main")
			w.Expect(w.host.Pushes(owner, repo)).To(BeEmpty())
		}},
		{"a forced push with a lease on an older commit is refused, and is no push", func(w *world) {
			dir := w.clone(writeToken)
			w.change(dir, "feature", "new.yaml", "a: 1\n")
			other := w.commit("feature", "other.yaml", "b: 2\n")
			_, err := w.git(dir, "push", "--force-with-lease=feature:"+w.first, "origin", "feature")
			w.Expect(err).To(HaveOccurred())
			w.Expect(w.branches()).To(HaveKeyWithValue("feature", other))
			w.Expect(w.host.Pushes(owner, repo)).To(BeEmpty())
		}},
		{"a push larger than the client's buffer, which comes in chunks, arrives", func(w *world) {
			dir := w.clone(writeToken)
			sha := w.change(dir, "large", "large.yaml", strings.Repeat("some: content\n", 10_000)+w.first)
			w.mustGit(dir, "-c", "http.postBuffer=1024", "-c", "core.compression=0", "push", "--quiet", "origin", "large")
			w.Expect(w.branches()).To(HaveKeyWithValue("large", sha))
		}},
		{"the first push fills an empty repository", func(w *world) {
			w.Expect(w.host.AddRepository(owner, "empty")).To(Succeed())
			dir := w.clone(writeToken)
			w.mustGit(dir, "push", "--quiet", strings.Replace(w.remote(writeToken), "fleet.git", "empty.git", 1), "main")
			w.Expect(w.host.Branches(owner, "empty")).To(Equal(map[string]string{"main": w.first}))
		}},
		{"a tag made by a person is fetched", func(w *world) {
			w.Expect(w.host.CreateTag(owner, repo, "v1.0.0", "main")).To(Succeed())
			w.Expect(w.mustGit(w.clone(writeToken), "rev-parse", "v1.0.0^{commit}")).To(Equal(w.first))
		}},
		{"the head of a pull request can be fetched by its number but not pushed to", func(w *world) {
			pull := w.open("feature")
			dir := w.clone(writeToken)
			w.mustGit(dir, "fetch", "--quiet", "origin", "refs/pull/1/head")
			w.Expect(w.mustGit(dir, "rev-parse", "FETCH_HEAD")).To(Equal(pull.GetHead().GetSHA()))
			_, err := w.git(dir, "push", "--force", "origin", "main:refs/pull/1/head")
			w.Expect(err).To(HaveOccurred())
		}},
		{"what is done in the bare repository itself is noticed", func(w *world) {
			dir, err := w.host.RepositoryDir(owner, repo)
			w.Expect(err).NotTo(HaveOccurred())
			w.open("feature")
			w.mustGit(dir, "branch", "--quiet", "-D", "feature")
			w.Expect(w.pull(1).GetState()).To(Equal("closed"))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t)) })
	}
}

func TestGitClientsAreRefused(t *testing.T) {
	tests := []struct {
		name    string
		token   string
		push    bool
		mention string
	}{
		{"who has a wrong token fails to authenticate", "wrong", false, "Authentication failed"},
		{"who may see other repositories finds none", strangerToken, false, "not found"},
		{"who may only read can't push", readToken, true, "403"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			dir := w.clone(writeToken)
			w.change(dir, "feature", "new.yaml", "a: 1\n")
			args := []string{"ls-remote", w.remote(test.token)}
			if test.push {
				args = []string{"push", w.remote(test.token), "feature"}
			}
			output, err := w.git(dir, args...)
			w.Expect(err).To(HaveOccurred())
			w.Expect(output).To(ContainSubstring(test.mention))
			w.Expect(w.branches()).To(HaveLen(1))
		})
	}
	t.Run("who gives no credential is asked for one", func(t *testing.T) {
		w := newWorld(t)
		output, err := w.git("", "ls-remote", w.host.RepositoryURL(owner, repo))
		w.Expect(err).To(HaveOccurred())
		w.Expect(output).To(ContainSubstring("could not read Username"))
	})
	t.Run("who does not know the certificate authority does not connect", func(t *testing.T) {
		w := newWorld(t)
		response, err := http.Get(w.host.URL())
		if err == nil {
			_ = response.Body.Close()
		}
		w.Expect(err).To(MatchError(ContainSubstring("unknown authority")))
	})
}
