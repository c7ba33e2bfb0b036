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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
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
	// head returns the newest commit of a branch.
	head func(branch string) string
	// conflict makes a branch that conflicts with main.
	conflict func(branch string)
	// merge merges a pull request.
	merge func(number int)
	// mergeable waits for a host that finds out in the background whether a pull request can be merged; nil for others.
	mergeable func(number int)
	// deleteBranch deletes a branch.
	deleteBranch func(branch string)
	// look returns the host's data about a pull request that Get does not return.
	look func(pullRequest PullRequest) seen
	// reviewer is who can be asked for a review, by the name that the host knows them by.
	reviewer string
	// hasNoLabels and ownLabels say that the host has none, or only those of the repository, such as "promotion".
	hasNoLabels, ownLabels bool
	// methods are how the host merges.
	methods []MergeMethod
}

// seen is the host's data about a pull request that Get does not return.
type seen struct {
	Labels, Reviewers, Comments []string
	Draft                       bool
	// Status is the newest status of the name StatusContext.
	Status      StatusState
	Description string
}

var allMethods = []MergeMethod{MergeCommit, MergeSquash, MergeRebase}

func (h testHost) open(t *testing.T, change func(*Repository)) Host {
	t.Helper()
	repository := h.repository
	change(&repository)
	host, err := NewHosts(onLoopback).Open(h.hostType, repository)
	if err != nil {
		t.Fatal(err)
	}
	switch host := host.(type) {
	case *azure:
		host.pageSize = pageSize
	case *bitbucket:
		host.pageSize = pageSize
	case *giteaHost:
		host.pageSize = pageSize
	case *gitHub:
		host.pageSize = pageSize
	case *gitLab:
		host.pageSize, host.pipelineWait = pageSize, 0
	}
	return withoutSecrets{host, NewWithT(t), string(repository.Token)}
}

// withoutSecrets is a host none of whose errors may tell the token.
type withoutSecrets struct {
	Host
	g     *WithT
	token string
}

func (h withoutSecrets) checked(err error) error {
	if h.token != "" {
		expectNoSecret(h.g, err, h.token)
	}
	return err
}

func (h withoutSecrets) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	found, err := h.Host.Find(ctx, branch)
	return found, h.checked(err)
}

func (h withoutSecrets) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, err := h.Host.Get(ctx, number)
	return pullRequest, h.checked(err)
}

func (h withoutSecrets) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	pullRequest, err := h.Host.Create(ctx, wanted)
	return pullRequest, h.checked(err)
}

func (h withoutSecrets) Close(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, err := h.Host.Close(ctx, number)
	return pullRequest, h.checked(err)
}

func (h withoutSecrets) Comment(ctx context.Context, number int, text string) error {
	return h.checked(h.Host.Comment(ctx, number, text))
}

func (h withoutSecrets) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	return h.checked(h.Host.SetStatus(ctx, pullRequest, state, description))
}

func (h withoutSecrets) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	return h.checked(h.Host.Merge(ctx, number, method, headCommit))
}

func (h testHost) waitUntilMergeable(number int) {
	if h.mergeable != nil {
		h.mergeable(number)
	}
}

func TestGitHubKeepsTheContract(t *testing.T) { testContract(t, newDescribedGitHub(t).testHost) }

func TestGiteaKeepsTheContract(t *testing.T) { testContract(t, newTestGitea(t)) }

func TestGitLabKeepsTheContract(t *testing.T) { testContract(t, newTestGitLab(t).testHost) }

func TestBitbucketKeepsTheContract(t *testing.T) { testContract(t, newTestBitbucket(t).testHost) }

func TestAzureDevOpsKeepsTheContract(t *testing.T) { testContract(t, newTestAzure(t).testHost) }

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

	t.Run("a second one for the same branch is distinguished from other failures", func(t *testing.T) {
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
		want.State, want.MergeCommit = StateMerged, h.head("main")
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
		g.Expect(h.look(created).Comments).To(Equal([]string{"Superseded by **v1.2.0**."}))
	})

	t.Run("a draft is opened with labels and reviewers", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/dressed")
		created, err := host.Create(t.Context(), NewPullRequest{
			Title: "Promote", Body: "why", Branch: "promote/dressed", Base: "main",
			Labels: []string{"promotion"}, Reviewers: []string{h.reviewer}, Draft: true,
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(created.Warning).To(BeEmpty())
		g.Expect(created.Title).To(HaveSuffix("Promote"))
		g.Expect(host.Get(t.Context(), created.Number)).To(Equal(created))
		want := seen{Labels: []string{"promotion"}, Reviewers: []string{h.reviewer}, Draft: true}
		if h.hasNoLabels {
			want.Labels = nil
		}
		g.Expect(h.look(created)).To(Equal(want))
	})

	t.Run("one without any of these is none", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/bare")
		g.Expect(h.look(create(t, "promote/bare"))).To(Equal(seen{}))
	})

	t.Run("a reviewer whom the host does not take keeps no pull request from being opened", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/reviewer")
		created, err := host.Create(t.Context(), NewPullRequest{
			Title: "Promote", Branch: "promote/reviewer", Base: "main", Reviewers: []string{"nobody-there"},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(created.Warning).To(HavePrefix("reviewers: "))
		g.Expect(created.State).To(Equal(StateOpen))
		created.Warning = ""
		g.Expect(host.Find(t.Context(), "promote/reviewer")).To(Equal([]PullRequest{created}))
	})

	if h.ownLabels {
		t.Run("a label that the repository does not have is named, and the others are set", func(t *testing.T) {
			g := NewWithT(t)
			h.commit("promote/label")
			created, err := host.Create(t.Context(), NewPullRequest{
				Title: "Promote", Branch: "promote/label", Base: "main", Labels: []string{"no-such-label", "promotion"},
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(created.Warning).To(Equal("labels: the repository has no no-such-label"))
			g.Expect(h.look(created).Labels).To(Equal([]string{"promotion"}))
		})
	}

	t.Run("a status is what it was set to last", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/status")
		created := create(t, "promote/status")
		for _, state := range []StatusState{StatusPending, StatusPending, StatusFailure, StatusFailure, StatusPending, StatusSuccess} {
			g.Expect(host.SetStatus(t.Context(), created, state, "waits for ü")).To(Succeed())
			g.Expect(h.look(created)).To(Equal(seen{Status: state, Description: "waits for ü"}))
		}
	})

	t.Run("a status needs no more than the number, the page and the head", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/recorded")
		created := create(t, "promote/recorded")
		recorded := PullRequest{Number: created.Number, URL: created.URL, HeadCommit: created.HeadCommit}
		g.Expect(host.SetStatus(t.Context(), recorded, StatusSuccess, "open")).To(Succeed())
		g.Expect(h.look(created).Status).To(Equal(StatusSuccess))
	})

	t.Run("a description of a status is cut to what the host takes", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/description")
		created := create(t, "promote/description")
		g.Expect(host.SetStatus(t.Context(), created, StatusFailure, strings.Repeat("ü", 1000))).To(Succeed())
		g.Expect(h.look(created).Description).To(And(HavePrefix("üüü"), HaveSuffix("ü…")))
	})

	for _, method := range allMethods {
		branch := "promote/by-" + string(method)
		if !slices.Contains(h.methods, method) {
			t.Run("merging by "+string(method)+" is not supported", func(t *testing.T) {
				g := NewWithT(t)
				head := h.commit(branch)
				created := create(t, branch)
				g.Expect(host.Merge(t.Context(), created.Number, method, head)).To(MatchError(ErrUnsupported))
				g.Expect(host.Get(t.Context(), created.Number)).To(Equal(created))
			})
			continue
		}
		t.Run("one is merged by "+string(method), func(t *testing.T) {
			g := NewWithT(t)
			head := h.commit(branch)
			created := create(t, branch)
			h.waitUntilMergeable(created.Number)
			g.Expect(host.Merge(t.Context(), created.Number, method, head)).To(Succeed())
			// Some hosts merge in the background.
			g.Eventually(func() (State, error) {
				pullRequest, err := host.Get(t.Context(), created.Number)
				return pullRequest.State, err
			}).WithTimeout(time.Minute).Should(Equal(StateMerged))
			merged, err := host.Get(t.Context(), created.Number)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.MergeCommit).To(Equal(h.head("main")), "what the base branch was moved to")
			g.Expect(host.Find(t.Context(), branch)).To(Equal([]PullRequest{merged}))
		})
	}

	t.Run("one whose head has changed is not merged", func(t *testing.T) {
		g := NewWithT(t)
		looked := h.commit("promote/moved")
		created := create(t, "promote/moved")
		h.waitUntilMergeable(created.Number)
		created.HeadCommit = h.commit("promote/moved")
		g.Eventually(func() (PullRequest, error) { return host.Get(t.Context(), created.Number) }).
			WithTimeout(time.Minute).Should(Equal(created), "the host takes notice")
		g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, looked)).To(MatchError(ErrNotMergeable))
		g.Expect(host.Get(t.Context(), created.Number)).To(Equal(created))
	})

	t.Run("one that conflicts with its base is not mergeable", func(t *testing.T) {
		g := NewWithT(t)
		h.conflict("promote/conflict")
		created := create(t, "promote/conflict")
		g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)).To(MatchError(ErrNotMergeable))
		g.Expect(host.Get(t.Context(), created.Number)).To(Equal(created))
	})

	t.Run("one that is closed is not mergeable", func(t *testing.T) {
		g := NewWithT(t)
		h.commit("promote/merge-closed")
		closed, err := host.Close(t.Context(), create(t, "promote/merge-closed").Number)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(host.Merge(t.Context(), closed.Number, MergeCommit, closed.HeadCommit)).To(MatchError(ErrNotMergeable))
		g.Expect(host.Get(t.Context(), closed.Number)).To(Equal(closed))
	})

	t.Run("a pull request that there is not is not found", func(t *testing.T) {
		g := NewWithT(t)
		_, err := host.Get(t.Context(), 999999)
		g.Expect(err).To(MatchError(ErrNotFound))
		_, err = host.Close(t.Context(), 999999)
		g.Expect(err).To(MatchError(ErrNotFound))
		g.Expect(host.Comment(t.Context(), 999999, "text")).To(MatchError(ErrNotFound))
		g.Expect(host.Merge(t.Context(), 999999, MergeCommit, h.commit("promote/none"))).To(MatchError(ErrNotFound))
	})

	t.Run("a wrong token is unauthorized and stays out of the error", func(t *testing.T) {
		g := NewWithT(t)
		wrong := h.open(t, func(r *Repository) { r.Token, r.App = "wr0ng-token", nil })
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
