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
	"testing"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"
)

func TestMergeReallyMerges(t *testing.T) {
	tests := []struct {
		method  string
		parents int
		subject string
		commits string // on main, from the first one on
	}{
		{"merge", 2, "Merge pull request #1 from org/feature", "5"},
		{"squash", 1, "Promote feature (#1)", "3"},
		{"rebase", 1, "Change b.yaml", "4"},
	}
	for _, test := range tests {
		t.Run("by "+test.method, func(t *testing.T) {
			w := newWorld(t)
			w.commit("feature", "a.yaml", "a: 1\n")
			head := w.commit("feature", "b.yaml", "b: 1\n")
			w.open("feature")
			w.commit("main", "other.yaml", "c: 1\n")

			result, _, err := w.client.PullRequests.Merge(w.ctx, owner, repo, 1, "",
				&github.PullRequestOptions{MergeMethod: test.method, SHA: head})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(result.GetMerged()).To(BeTrue())
			w.Expect(result.GetMessage()).To(Equal("Pull Request successfully merged"))

			w.Expect(w.branches()["main"]).To(Equal(result.GetSHA()))
			w.Expect(w.branches()["feature"]).To(Equal(head))
			w.Expect(w.file("main", "a.yaml")).To(Equal("a: 1\n"))
			w.Expect(w.file("main", "b.yaml")).To(Equal("b: 1\n"))
			w.Expect(w.file("main", "other.yaml")).To(Equal("c: 1\n"))
			dir := w.clone(writeToken)
			w.Expect(w.mustGit(dir, "log", "-1", "--format=%s")).To(Equal(test.subject))
			w.Expect(w.mustGit(dir, "rev-list", "--count", "HEAD")).To(Equal(test.commits))
			w.Expect(w.mustGit(dir, "rev-list", "-1", "--parents", "HEAD")).To(HaveLen(40 + 41*test.parents))

			pull := w.pull(1)
			w.Expect(pull.GetMerged()).To(BeTrue())
			w.Expect(pull.GetState()).To(Equal("closed"))
			w.Expect(pull.GetMergeCommitSHA()).To(Equal(result.GetSHA()))
			w.Expect(pull.GetMergedBy().GetLogin()).To(Equal("sluice-bot"))
			merged, _, err := w.client.PullRequests.IsMerged(w.ctx, owner, repo, 1)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(merged).To(BeTrue())
			w.Expect(w.host.Pushes(owner, repo)).To(BeEmpty())
		})
	}
	t.Run("by squash, a single commit keeps its message with its trailers", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.host.CommitFiles(owner, repo, "feature", map[string]string{"a.yaml": "a: 1\n"},
			"Promote to prod\n\nSigned-off-by: dev <dev@example.com>")
		w.Expect(err).NotTo(HaveOccurred())
		w.open("feature")
		_, _, err = w.client.PullRequests.Merge(w.ctx, owner, repo, 1, "", &github.PullRequestOptions{MergeMethod: "squash"})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.mustGit(w.clone(writeToken), "log", "-1", "--format=%B")).
			To(Equal("Promote to prod (#1)\n\nSigned-off-by: dev <dev@example.com>"))
	})
	t.Run("as a person would", func(t *testing.T) {
		w := newWorld(t)
		w.open("feature")
		sha, err := w.host.Merge(owner, repo, 1)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.branches()["main"]).To(Equal(sha))
		w.Expect(w.pull(1).GetMergedBy().GetLogin()).To(Equal("person"))
	})
}

func TestMergeIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		before  func(*world)
		options *github.PullRequestOptions
		status  int
		message string
	}{
		{
			"when head and base conflict",
			func(w *world) { w.commit("main", "feature.yaml", "other: true\n") },
			nil, http.StatusMethodNotAllowed, "Pull Request is not mergeable",
		},
		{
			"when it is closed",
			func(w *world) { w.Expect(w.host.ClosePullRequest(owner, repo, 1)).To(Succeed()) },
			nil, http.StatusMethodNotAllowed, "Pull Request is not mergeable",
		},
		{
			"when it is merged",
			func(w *world) {
				_, err := w.host.Merge(owner, repo, 1)
				w.Expect(err).NotTo(HaveOccurred())
			},
			nil, http.StatusMethodNotAllowed, "Pull Request is not mergeable",
		},
		{
			"when the head is not what the client saw",
			func(w *world) { w.commit("feature", "more.yaml", "a: 1\n") },
			&github.PullRequestOptions{SHA: "0123456789012345678901234567890123456789"},
			http.StatusConflict, "Head branch was modified. Review and try the merge again.",
		},
		{
			"when a rebase would conflict",
			func(w *world) { w.commit("main", "feature.yaml", "other: true\n") },
			&github.PullRequestOptions{MergeMethod: "rebase"},
			http.StatusMethodNotAllowed, "This branch can't be rebased",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.open("feature")
			test.before(w)
			before := w.branches()
			_, _, err := w.client.PullRequests.Merge(w.ctx, owner, repo, 1, "", test.options)
			status, message, _ := w.refusal(err)
			w.Expect(status).To(Equal(test.status))
			w.Expect(message).To(Equal(test.message))
			w.Expect(w.branches()).To(Equal(before))
		})
	}
	t.Run("when it is a draft", func(t *testing.T) {
		w := newWorld(t)
		w.commit("feature", "a.yaml", "a: 1\n")
		wanted := newPull("feature", "main")
		wanted.Draft = github.Bool(true)
		_, _, err := w.client.PullRequests.Create(w.ctx, owner, repo, wanted)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.pull(1).GetMergeableState()).To(Equal("draft"))
		_, _, err = w.client.PullRequests.Merge(w.ctx, owner, repo, 1, "", nil)
		status, message, _ := w.refusal(err)
		w.Expect(status).To(Equal(http.StatusMethodNotAllowed))
		w.Expect(message).To(Equal("Pull Request is still a draft"))
	})
}
