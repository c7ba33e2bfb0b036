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

package scm

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// pageSize makes several pages of a few pull requests: opening one takes a real host a while.
const pageSize = 3

// testHost is a Git host for the contract, with one repository whose branch main has a commit.
type testHost struct {
	hostType   string
	repository Repository
	// elsewhere is the URL of a repository of that host that does not exist.
	elsewhere string
	// commit adds a commit with a file of its own to a branch, which is made from main if there is none.
	commit func(branch string) string
	// merge merges a pull request.
	merge func(number int)
	// deleteBranch deletes a branch.
	deleteBranch func(branch string)
}

func (h testHost) open(t *testing.T, change func(*Repository)) Host {
	t.Helper()
	repository := h.repository
	change(&repository)
	host, err := NewHosts().Open(h.hostType, repository)
	if err != nil {
		t.Fatal(err)
	}
	switch host := host.(type) {
	case *gitHub:
		host.pageSize = pageSize
	case *giteaHost:
		host.pageSize = pageSize
	}
	return host
}

func TestGitHubKeepsTheContract(t *testing.T) { testContract(t, newTestGitHub(t).testHost) }

func TestGiteaKeepsTheContract(t *testing.T) { testContract(t, newTestGitea(t)) }

// testContract tests what every Host must do, on any host. A case makes the branches it needs.
func testContract(t *testing.T, h testHost) {
	host := h.open(t, func(*Repository) {})
	create := func(t *testing.T, branch string) PullRequest {
		t.Helper()
		created, err := host.Create(t.Context(), NewPullRequest{Title: "Promote " + branch, Body: "why", Branch: branch, Base: "main"})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}

	t.Run("a pull request is opened as it was asked for, and read again", func(t *testing.T) {
		g := NewWithT(t)
		commit := h.commit("promote/created")
		title, body := "Promote default/app in staging to v1.1.0", "Line one.\n\n- **two** & <three> \"ü\"\n\nSluice-Revision: v1.1.0"
		created, err := host.Create(t.Context(), NewPullRequest{Title: title, Body: body, Branch: "promote/created", Base: "main"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(created.Number).To(BeNumerically(">", 0))
		g.Expect(created.URL).To(HaveSuffix(fmt.Sprintf("/%d", created.Number)))
		g.Expect(created).To(Equal(PullRequest{
			Number: created.Number, URL: created.URL, Title: title, Body: body,
			Branch: "promote/created", Base: "main", HeadCommit: commit, State: StateOpen,
		}))
		g.Expect(host.Get(t.Context(), created.Number)).To(Equal(created))
		g.Expect(host.Find(t.Context(), "promote/created")).To(Equal([]PullRequest{created}))
	})

	t.Run("a second one for the same branch is told apart from other failures", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/duplicate")
		create(t, "promote/duplicate")
		_, err := host.Create(t.Context(), NewPullRequest{Title: "again", Branch: "promote/duplicate", Base: "main"})
		g.Expect(err).To(MatchError(ErrAlreadyExists))
		_, err = host.Create(t.Context(), NewPullRequest{Title: "t", Branch: "promote/duplicate", Base: "no-such-base"})
		g.Expect(err).To(HaveOccurred())
		g.Expect(err).NotTo(MatchError(ErrAlreadyExists))
	})

	t.Run("a branch is found in every state, newest first, beyond the first page, and no other branch with it", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/many")
		h.commit("promote/many-others")
		merged := create(t, "promote/many")
		h.merge(merged.Number)
		create(t, "promote/many-others")
		h.commit("promote/many")
		want := []int{merged.Number}
		states := []State{StateMerged}
		for range 2 * pageSize {
			closed, err := host.Close(t.Context(), create(t, "promote/many").Number)
			g.Expect(err).NotTo(HaveOccurred())
			want, states = append([]int{closed.Number}, want...), append([]State{StateClosed}, states...)
		}
		open := create(t, "promote/many")
		want, states = append([]int{open.Number}, want...), append([]State{StateOpen}, states...)

		found, err := host.Find(t.Context(), "promote/many")
		g.Expect(err).NotTo(HaveOccurred())
		var numbers []int
		var foundStates []State
		for _, pullRequest := range found {
			g.Expect(pullRequest.Branch).To(Equal("promote/many"))
			numbers, foundStates = append(numbers, pullRequest.Number), append(foundStates, pullRequest.State)
		}
		g.Expect(numbers).To(Equal(want))
		g.Expect(foundStates).To(Equal(states))
	})

	t.Run("a merged one is found by its branch after that is deleted", func(t *testing.T) {
		g := NewWithT(t)
		commit := h.commit("promote/merged")
		created := create(t, "promote/merged")
		h.merge(created.Number)
		h.deleteBranch("promote/merged")
		want := created
		want.State = StateMerged
		want.HeadCommit = commit
		g.Expect(host.Find(t.Context(), "promote/merged")).To(Equal([]PullRequest{want}))
		g.Expect(host.Get(t.Context(), created.Number)).To(Equal(want))
	})

	t.Run("a branch without pull requests has none, whether or not it exists", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/none")
		g.Expect(host.Find(t.Context(), "promote/none")).To(BeEmpty())
		g.Expect(host.Find(t.Context(), "promote/nowhere")).To(BeEmpty())
	})

	t.Run("an open one is closed, and closing it again is fine", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/close")
		want := create(t, "promote/close")
		want.State = StateClosed
		g.Expect(host.Close(t.Context(), want.Number)).To(Equal(want))
		g.Expect(host.Close(t.Context(), want.Number)).To(Equal(want))
		g.Expect(host.Get(t.Context(), want.Number)).To(Equal(want))
	})

	t.Run("closing a merged one leaves it merged", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/close-merged")
		created := create(t, "promote/close-merged")
		h.merge(created.Number)
		closed, err := host.Close(t.Context(), created.Number)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(closed.State).To(Equal(StateMerged))
	})

	t.Run("one that is merged just before it is closed comes back merged", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/race")
		created := create(t, "promote/race")
		racing := mergedInBetween{Host: host, merge: h.merge}
		closed, err := closeOpen(t.Context(), &racing, created.Number, func() (PullRequest, error) {
			return host.Close(t.Context(), created.Number)
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(closed.State).To(Equal(StateMerged))
	})

	t.Run("a comment is taken", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/comment")
		created := create(t, "promote/comment")
		g.Expect(host.Comment(t.Context(), created.Number, "Superseded by **v1.2.0**.")).To(Succeed())
	})

	t.Run("a pull request that there is not is not found", func(t *testing.T) {
		g := NewWithT(t)
		_, err := host.Get(t.Context(), 999999)
		g.Expect(err).To(MatchError(ErrNotFound))
		_, err = host.Close(t.Context(), 999999)
		g.Expect(err).To(MatchError(ErrNotFound))
		g.Expect(host.Comment(t.Context(), 999999, "text")).To(MatchError(ErrNotFound))
	})

	t.Run("a wrong token is unauthorized and stays out of the error", func(t *testing.T) {
		g := NewWithT(t)
		wrong := h.open(t, func(r *Repository) { r.Token = "wr0ng-token" })
		_, err := wrong.Find(t.Context(), "promote/created")
		g.Expect(err).To(MatchError(ErrUnauthorized))
		g.Expect(fmt.Sprintf("%+v", err)).NotTo(ContainSubstring("wr0ng-token"))
		_, err = wrong.Create(t.Context(), NewPullRequest{Title: "t", Branch: "promote/none", Base: "main"})
		g.Expect(err).To(MatchError(ErrUnauthorized))
	})

	t.Run("a repository that is missing is named", func(t *testing.T) {
		g := NewWithT(t)
		missing := h.open(t, func(r *Repository) { r.URL = h.elsewhere })
		_, err := missing.Find(t.Context(), "promote/created")
		g.Expect(err).To(MatchError(ErrNotFound))
		g.Expect(err).To(MatchError(ContainSubstring(h.elsewhere)))
		_, err = missing.Create(t.Context(), NewPullRequest{Title: "t", Branch: "promote/none", Base: "main"})
		g.Expect(err).To(MatchError(ErrNotFound))
	})

	t.Run("a branch that is its own base has no difference", func(t *testing.T) {
		g := NewWithT(t)
		_, err := host.Create(t.Context(), NewPullRequest{Title: "t", Branch: "main", Base: "main"})
		g.Expect(err).To(MatchError(ErrNoDifference))
	})

	t.Run("a cancelled context ends a call", func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := host.Find(ctx, "promote/created")
		g.Expect(err).To(MatchError(context.Canceled))
	})
}

// mergedInBetween is a host on which a pull request is merged right after it was first read as open.
type mergedInBetween struct {
	Host
	merge func(number int)
	read  bool
}

func (h *mergedInBetween) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, err := h.Host.Get(ctx, number)
	if !h.read {
		h.read = true
		h.merge(number)
	}
	return pullRequest, err
}

const gitHubToken = "gh-t0ken"

type testGitHub struct {
	testHost
	server *githost.Server
}

func newTestGitHub(t *testing.T) testGitHub {
	t.Helper()
	server, err := githost.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server.AddToken(githost.Token{Value: gitHubToken, Login: "robot"})
	check(server.AddRepository("org", "fleet"))
	files := 0
	commit := func(branch string) string {
		files++
		hash, err := server.CommitFiles("org", "fleet", branch, map[string]string{fmt.Sprintf("file-%d", files): branch}, "commit")
		check(err)
		return hash
	}
	commit("main")
	return testGitHub{server: server, testHost: testHost{
		hostType:   "github",
		repository: Repository{URL: server.RepositoryURL("org", "fleet"), Token: gitHubToken, CABundle: server.CA()},
		elsewhere:  server.URL() + "/org/missing",
		commit:     commit,
		merge: func(number int) {
			_, err := server.Merge("org", "fleet", number)
			check(err)
		},
		deleteBranch: func(branch string) { check(server.DeleteBranch("org", "fleet", branch)) },
	}}
}

func newTestGitea(t *testing.T) testHost {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := localcluster.StartGitea(t.Context())
	check(err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, err = server.CreateRepository("fleet")
	check(err)
	files := 0
	branchExists := func(branch string) bool {
		_, response, err := server.Client.GetRepoBranch(server.Username, "fleet", branch)
		if response == nil || response.StatusCode != 404 {
			check(err)
		}
		return err == nil
	}
	commit := func(branch string) string {
		files++
		options := gitea.FileOptions{Message: "commit", BranchName: "main", NewBranchName: branch}
		if branch == "main" || branchExists(branch) {
			options.BranchName, options.NewBranchName = branch, ""
		}
		response, _, err := server.Client.CreateFile(server.Username, "fleet", fmt.Sprintf("file-%d", files), gitea.CreateFileOptions{
			FileOptions: options,
			Content:     base64.StdEncoding.EncodeToString([]byte(branch)),
		})
		check(err)
		return response.Commit.SHA
	}
	commit("main")
	return testHost{
		hostType:   "gitea",
		repository: Repository{URL: server.URL + "/" + server.Username + "/fleet.git", Token: Token(server.Token)},
		elsewhere:  server.URL + "/" + server.Username + "/missing",
		commit:     commit,
		merge: func(number int) {
			// Gitea finds out in the background whether it can be merged, and refuses until it has.
			NewWithT(t).Eventually(func() (bool, error) {
				pullRequest, _, err := server.Client.GetPullRequest(server.Username, "fleet", int64(number))
				return pullRequest.Mergeable, err
			}).WithTimeout(time.Minute).Should(BeTrue())
			merged, _, err := server.Client.MergePullRequest(server.Username, "fleet", int64(number), gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
			check(err)
			if !merged {
				t.Fatalf("Gitea did not merge pull request %d", number)
			}
		},
		deleteBranch: func(branch string) {
			_, _, err := server.Client.DeleteRepoBranch(server.Username, "fleet", branch)
			check(err)
		},
	}
}
