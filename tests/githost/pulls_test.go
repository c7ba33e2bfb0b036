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

func TestPullRequestIsCreated(t *testing.T) {
	w := newWorld(t)
	head := w.commit("sluice/prod", "app.yaml", "version: v1.1.0\n")
	pull, response, err := w.client.PullRequests.Create(w.ctx, owner, repo, newPull("sluice/prod", "main"))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusCreated))
	w.Expect(pull.GetNumber()).To(Equal(1))
	w.Expect(pull.GetState()).To(Equal("open"))
	w.Expect(pull.GetTitle()).To(Equal("Promote sluice/prod"))
	w.Expect(pull.GetBody()).To(Equal("Why."))
	w.Expect(pull.GetUser().GetLogin()).To(Equal("sluice-bot"))
	w.Expect(pull.GetHTMLURL()).To(Equal(w.host.URL() + "/org/fleet/pull/1"))
	w.Expect(pull.GetHead().GetLabel()).To(Equal("org:sluice/prod"))
	w.Expect(pull.GetHead().GetSHA()).To(Equal(head))
	w.Expect(pull.GetBase().GetRef()).To(Equal("main"))
	w.Expect(pull.GetBase().GetSHA()).To(Equal(w.first))
	w.Expect(pull.GetMergeable()).To(BeTrue())
	w.Expect(pull.GetMerged()).To(BeFalse())
	w.Expect(pull.CreatedAt).NotTo(BeNil())
	w.Expect(pull.MergedAt).To(BeNil())
}

func TestPullRequestIsNotCreated(t *testing.T) {
	tests := []struct {
		name    string
		before  func(*world)
		wanted  *github.NewPullRequest
		message string
		first   github.Error
	}{
		{
			"because one is open for the same branches", func(w *world) { w.open("feature") },
			newPull("feature", "main"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "custom", Message: "A pull request already exists for org:feature."},
		},
		{
			"because the head has no commit that the base lacks",
			func(w *world) {
				w.commit("feature", "a.yaml", "a: 1\n")
				w.open("other")
				_, err := w.host.Merge(owner, repo, 1)
				w.Expect(err).NotTo(HaveOccurred())
				w.mustGit(w.clone(writeToken), "push", "--force", "origin", "main~1:refs/heads/feature")
			},
			newPull("feature", "main"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "custom", Message: "No commits between main and feature"},
		},
		{
			"because head and base are the same", nil,
			newPull("main", "main"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "custom", Message: "No commits between main and main"},
		},
		{
			"because the head is missing", nil,
			newPull("nowhere", "main"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "invalid", Field: "head"},
		},
		{
			"because the head is in a fork", nil,
			newPull("someone:main", "main"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "invalid", Field: "head"},
		},
		{
			"because the base is missing", func(w *world) { w.commit("feature", "a.yaml", "a: 1\n") },
			newPull("org:feature", "nowhere"), "Validation Failed",
			github.Error{Resource: "PullRequest", Code: "invalid", Field: "base"},
		},
		{
			"because it has no title", nil,
			&github.NewPullRequest{Head: github.String("feature"), Base: github.String("main")}, "Validation Failed",
			github.Error{Resource: "Issue", Code: "missing_field", Field: "title"},
		},
		{
			"because it names no base", nil,
			&github.NewPullRequest{Title: github.String("T"), Head: github.String("feature")},
			"Invalid request.\n\n\"base\" wasn't supplied.", github.Error{},
		},
		{
			"because the branches share no history",
			func(w *world) {
				dir := w.clone(writeToken)
				w.mustGit(dir, "checkout", "--quiet", "--orphan", "stranger")
				w.mustGit(dir, "commit", "--quiet", "-m", "From nowhere")
				w.mustGit(dir, "push", "--quiet", "origin", "stranger")
			},
			newPull("stranger", "main"), "Validation Failed",
			github.Error{
				Resource: "PullRequest", Code: "custom", Message: "The stranger branch has no history in common with main",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.before != nil {
				test.before(w)
			}
			before, err := w.host.PullRequests(owner, repo)
			w.Expect(err).NotTo(HaveOccurred())
			_, _, err = w.client.PullRequests.Create(w.ctx, owner, repo, test.wanted)
			status, message, first := w.refusal(err)
			w.Expect(status).To(Equal(http.StatusUnprocessableEntity))
			w.Expect(message).To(Equal(test.message))
			w.Expect(first).To(Equal(test.first))
			w.Expect(w.host.PullRequests(owner, repo)).To(HaveLen(len(before)))
		})
	}
}

func TestPullRequestMayBeCreatedAgainOnceTheLastIsClosed(t *testing.T) {
	w := newWorld(t)
	w.open("feature")
	w.Expect(w.host.ClosePullRequest(owner, repo, 1)).To(Succeed())
	w.Expect(w.open("feature").GetNumber()).To(Equal(2))
}

func TestPullRequestsAreListed(t *testing.T) {
	w := newWorld(t)
	w.open("one")
	w.open("two")
	w.open("three")
	w.commit("release", "r.yaml", "a: 1\n")
	_, _, err := w.client.PullRequests.Create(w.ctx, owner, repo, newPull("three", "release"))
	w.Expect(err).NotTo(HaveOccurred())
	_, err = w.host.Merge(owner, repo, 1)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.host.ClosePullRequest(owner, repo, 2)).To(Succeed())

	tests := []struct {
		name    string
		options github.PullRequestListOptions
		numbers []int
	}{
		{"the open ones, newest first, if nothing is said", github.PullRequestListOptions{}, []int{4, 3}},
		{"the closed ones, the merged among them", github.PullRequestListOptions{State: "closed"}, []int{2, 1}},
		{"all of them", github.PullRequestListOptions{State: "all"}, []int{4, 3, 2, 1}},
		{"those of a head", github.PullRequestListOptions{State: "all", Head: "org:one"}, []int{1}},
		{"none of the same branch of another owner", github.PullRequestListOptions{State: "all", Head: "other:one"}, nil},
		{"all, because a head without an owner is passed over", github.PullRequestListOptions{State: "all", Head: "one"}, []int{4, 3, 2, 1}},
		{"those into a base", github.PullRequestListOptions{Base: "release"}, []int{4}},
		{"oldest first when asked", github.PullRequestListOptions{State: "all", Direction: "asc"}, []int{1, 2, 3, 4}},
		{"by their last change, the longest ago first", github.PullRequestListOptions{State: "all", Sort: "updated"}, []int{3, 4, 1, 2}},
		{"by their last change, the last first", github.PullRequestListOptions{State: "all", Sort: "updated", Direction: "desc"}, []int{2, 1, 4, 3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			found, _, err := w.client.PullRequests.List(w.ctx, owner, repo, &test.options)
			g.Expect(err).NotTo(HaveOccurred())
			var numbers []int
			for _, pull := range found {
				numbers = append(numbers, pull.GetNumber())
			}
			g.Expect(numbers).To(Equal(test.numbers))
		})
	}
	t.Run("without saying whether they are merged, other than by when", func(t *testing.T) {
		g := NewWithT(t)
		found, _, err := w.client.PullRequests.List(w.ctx, owner, repo, &github.PullRequestListOptions{State: "all", Head: "org:one"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found[0].Merged).To(BeNil())
		g.Expect(found[0].MergedAt).NotTo(BeNil())
	})
}

func TestPullRequestIsUpdated(t *testing.T) {
	w := newWorld(t)
	w.open("feature")
	w.commit("release", "r.yaml", "a: 1\n")
	edit := func(change *github.PullRequest) *github.PullRequest {
		pull, _, err := w.client.PullRequests.Edit(w.ctx, owner, repo, 1, change)
		w.Expect(err).NotTo(HaveOccurred())
		return pull
	}
	pull := edit(&github.PullRequest{Title: github.String("Another"), Body: github.String("Because.")})
	w.Expect(pull.GetTitle()).To(Equal("Another"))
	w.Expect(pull.GetBody()).To(Equal("Because."))
	pull = edit(&github.PullRequest{Base: &github.PullRequestBranch{Ref: github.String("release")}})
	w.Expect(pull.GetBase().GetRef()).To(Equal("release"))
	w.Expect(pull.GetBase().GetSHA()).To(Equal(w.branches()["release"]))
	w.Expect(pull.GetTitle()).To(Equal("Another"))
	pull = edit(&github.PullRequest{State: github.String("closed")})
	w.Expect(pull.GetState()).To(Equal("closed"))
	w.Expect(pull.ClosedAt).NotTo(BeNil())
	w.Expect(pull.GetMerged()).To(BeFalse())
	pull = edit(&github.PullRequest{State: github.String("open")})
	w.Expect(pull.GetState()).To(Equal("open"))
	w.Expect(pull.ClosedAt).To(BeNil())
}

func TestPullRequestIsNotUpdated(t *testing.T) {
	reopen := &github.PullRequest{State: github.String("open")}
	tests := []struct {
		name   string
		before func(*world)
		change *github.PullRequest
		first  github.Error
	}{
		{
			"into a base that is missing", nil,
			&github.PullRequest{Base: &github.PullRequestBranch{Ref: github.String("nowhere")}},
			github.Error{Resource: "PullRequest", Code: "invalid", Field: "base"},
		},
		{
			"open again without its branch",
			func(w *world) { w.Expect(w.host.DeleteBranch(owner, repo, "feature")).To(Succeed()) }, reopen,
			github.Error{
				Resource: "PullRequest", Code: "invalid", Field: "state",
				Message: "state cannot be changed. The feature branch has been deleted.",
			},
		},
		{
			"open again beside one for the same branches",
			func(w *world) {
				w.Expect(w.host.ClosePullRequest(owner, repo, 1)).To(Succeed())
				w.open("feature")
			}, reopen,
			github.Error{
				Resource: "PullRequest", Code: "invalid", Field: "state",
				Message: "state cannot be changed. There is already an open pull request from org:feature to org:main.",
			},
		},
		{
			"open again after its branch was recreated",
			func(w *world) {
				w.Expect(w.host.DeleteBranch(owner, repo, "feature")).To(Succeed())
				w.commit("feature", "b.yaml", "b: 1\n")
			}, reopen,
			github.Error{
				Resource: "PullRequest", Code: "invalid", Field: "state",
				Message: "state cannot be changed. The feature branch was force-pushed or recreated.",
			},
		},
		{
			"open again once it was merged",
			func(w *world) {
				_, err := w.host.Merge(owner, repo, 1)
				w.Expect(err).NotTo(HaveOccurred())
			}, reopen,
			github.Error{
				Resource: "PullRequest", Code: "invalid", Field: "state",
				Message: "state cannot be changed. The pull request cannot be reopened.",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.open("feature")
			if test.before != nil {
				test.before(w)
			}
			_, _, err := w.client.PullRequests.Edit(w.ctx, owner, repo, 1, test.change)
			status, message, first := w.refusal(err)
			w.Expect(status).To(Equal(http.StatusUnprocessableEntity))
			w.Expect(message).To(Equal("Validation Failed"))
			w.Expect(first).To(Equal(test.first))
		})
	}
}

func TestPullRequestFollowsItsBranches(t *testing.T) {
	tests := []struct {
		name   string
		happen func(*world)
		expect func(*world, *github.PullRequest)
	}{
		{
			"a push to the head moves it along",
			func(w *world) { w.commit("feature", "more.yaml", "a: 1\n") },
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetState()).To(Equal("open"))
				w.Expect(pull.GetHead().GetSHA()).To(Equal(w.branches()["feature"]))
			},
		},
		{
			"a push to the base moves it along, and may make it conflict",
			func(w *world) { w.commit("main", "feature.yaml", "other: true\n") },
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetState()).To(Equal("open"))
				w.Expect(pull.GetBase().GetSHA()).To(Equal(w.branches()["main"]))
				w.Expect(pull.Mergeable).To(HaveValue(BeFalse()))
				w.Expect(pull.GetMergeableState()).To(Equal("dirty"))
			},
		},
		{
			"the head deleted closes it",
			func(w *world) { w.mustGit(w.clone(writeToken), "push", "--quiet", "origin", ":feature") },
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetState()).To(Equal("closed"))
				w.Expect(pull.GetMerged()).To(BeFalse())
			},
		},
		{
			"the head deleted through the API closes it",
			func(w *world) {
				_, err := w.client.Git.DeleteRef(w.ctx, owner, repo, "heads/feature")
				w.Expect(err).NotTo(HaveOccurred())
			},
			func(w *world, pull *github.PullRequest) { w.Expect(pull.GetState()).To(Equal("closed")) },
		},
		{
			"the head moved back to the base closes it",
			func(w *world) {
				w.mustGit(w.clone(writeToken), "push", "--quiet", "--force", "origin", "main:feature")
			},
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetState()).To(Equal("closed"))
				w.Expect(pull.GetMerged()).To(BeFalse())
			},
		},
		{
			"the head pushed to the base is a merge",
			func(w *world) {
				w.mustGit(w.clone(writeToken), "push", "--quiet", "origin", "origin/feature:main")
			},
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetState()).To(Equal("closed"))
				w.Expect(pull.GetMerged()).To(BeTrue())
				w.Expect(pull.MergedAt).NotTo(BeNil())
				w.Expect(pull.GetMergedBy().GetLogin()).To(Equal("sluice-bot"))
				w.Expect(pull.GetMergeCommitSHA()).To(Equal(w.branches()["main"]))
			},
		},
		{
			"the head pushed to the base and deleted at once is a merge",
			func(w *world) {
				w.mustGit(w.clone(writeToken), "push", "--quiet", "--atomic", "origin", "origin/feature:main", ":feature")
			},
			func(w *world, pull *github.PullRequest) { w.Expect(pull.GetMerged()).To(BeTrue()) },
		},
		{
			"a push to the head after it is closed does not show",
			func(w *world) {
				w.Expect(w.host.ClosePullRequest(owner, repo, 1)).To(Succeed())
				w.commit("feature", "more.yaml", "a: 1\n")
			},
			func(w *world, pull *github.PullRequest) {
				w.Expect(pull.GetHead().GetSHA()).NotTo(Equal(w.branches()["feature"]))
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.open("feature")
			test.happen(w)
			test.expect(w, w.pull(1))
		})
	}
}

func TestConversation(t *testing.T) {
	w := newWorld(t)
	w.open("feature")

	comment, response, err := w.client.Issues.CreateComment(w.ctx, owner, repo, 1, &github.IssueComment{Body: github.String("Superseded.")})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusCreated))
	w.Expect(comment.GetUser().GetLogin()).To(Equal("sluice-bot"))
	comments, _, err := w.client.Issues.ListComments(w.ctx, owner, repo, 1, nil)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(comments).To(HaveLen(1))
	w.Expect(comments[0].GetBody()).To(Equal("Superseded."))

	set, response, err := w.client.Issues.AddLabelsToIssue(w.ctx, owner, repo, 1, []string{"promotion", "prod", "prod"})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusOK))
	w.Expect(set).To(HaveLen(2))

	_, response, err = w.client.PullRequests.RequestReviewers(w.ctx, owner, repo, 1, github.ReviewersRequest{
		Reviewers: []string{"alice"}, TeamReviewers: []string{"platform"},
	})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.StatusCode).To(Equal(http.StatusCreated))

	pull := w.pull(1)
	w.Expect(pull.GetComments()).To(Equal(1))
	w.Expect(pull.Labels).To(HaveLen(2))
	w.Expect(pull.RequestedReviewers[0].GetLogin()).To(Equal("alice"))
	w.Expect(pull.RequestedTeams[0].GetSlug()).To(Equal("platform"))

	_, _, err = w.client.PullRequests.RequestReviewers(w.ctx, owner, repo, 1, github.ReviewersRequest{Reviewers: []string{"sluice-bot"}})
	status, message, _ := w.refusal(err)
	w.Expect(status).To(Equal(http.StatusUnprocessableEntity))
	w.Expect(message).To(Equal("Review cannot be requested from pull request author."))

	seen, err := w.host.PullRequests(owner, repo)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(seen[0].Labels).To(Equal([]string{"promotion", "prod"}))
	w.Expect(seen[0].Comments[0].Body).To(Equal("Superseded."))
}

func TestUnknownPullRequestIsNotFound(t *testing.T) {
	w := newWorld(t)
	_, _, err := w.client.PullRequests.Get(w.ctx, owner, repo, 7)
	status, message, _ := w.refusal(err)
	w.Expect(status).To(Equal(http.StatusNotFound))
	w.Expect(message).To(Equal("Not Found"))
}
