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
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/bitbuckethost"
	"github.com/sluice-toolkit/sluice/tests/gitlabhost"
)

// opened commits to a branch and opens a pull request of it, of which the host has found out whether it can be merged.
func opened(t *testing.T, h testHost, host Host, branch string) PullRequest {
	t.Helper()
	h.commit(branch)
	created, err := host.Create(t.Context(), NewPullRequest{Title: "Promote", Body: "why", Branch: branch, Base: "main"})
	if err != nil {
		t.Fatal(err)
	}
	h.waitUntilMergeable(created.Number)
	return created
}

// mergeFails tries to merge, and expects the host to refuse that for now.
func mergeFails(t *testing.T, host Host, pullRequest PullRequest) {
	t.Helper()
	NewWithT(t).Expect(host.Merge(t.Context(), pullRequest.Number, MergeCommit, pullRequest.HeadCommit)).To(MatchError(ErrNotMergeable))
}

func TestBitbucketsRequiredBuildIsTheStatus(t *testing.T) {
	g := NewWithT(t)
	h := newTestBitbucket(t)
	host := h.open(t, func(*Repository) {})
	h.server.RequireBuild(StatusContext)
	created := opened(t, h.testHost, host, "promote/required")
	mergeFails(t, host, created)
	g.Expect(host.SetStatus(t.Context(), created, StatusFailure, "gate freeze is closed")).To(Succeed())
	err := host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
	g.Expect(err).To(MatchError(ErrNotMergeable))
	g.Expect(err).To(MatchError(ContainSubstring("Not all required builds are successful yet")), "the vetoes are reported")
	g.Expect(host.SetStatus(t.Context(), created, StatusSuccess, "all gates are open")).To(Succeed())
	g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)).To(Succeed())
	g.Expect(h.server.Statuses(created.HeadCommit)[0].Ref).To(Equal("refs/heads/promote/required"))
}

func TestAzureDevOpsBindsTheStatusToThePushThatItIsOf(t *testing.T) {
	for _, test := range []struct {
		name  string
		reset bool
	}{
		{"with a policy that resets statuses", true},
		{"with a policy that does not", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestAzure(t)
			host := h.open(t, func(*Repository) {})
			h.server.RequireStatus(StatusContext, test.reset)
			created := opened(t, h.testHost, host, "promote/required")
			h.server.Check()
			mergeFails(t, host, created)
			g.Expect(host.SetStatus(t.Context(), created, StatusSuccess, "all gates are open")).To(Succeed())

			later := created
			later.HeadCommit = h.commit("promote/required")
			h.server.Check()
			mergeFails(t, host, later)
			g.Expect(host.SetStatus(t.Context(), created, StatusSuccess, "of a head that it no longer has")).To(Succeed())
			mergeFails(t, host, later)
			g.Expect(host.SetStatus(t.Context(), later, StatusSuccess, "all gates are open")).To(Succeed())
			g.Expect(host.Merge(t.Context(), later.Number, MergeCommit, later.HeadCommit)).To(Succeed())
		})
	}
}

func TestGitLabAttachesTheStatusToThePipelineThatItLooksAt(t *testing.T) {
	for _, test := range []struct {
		name string
		// refs are those of the pipelines that are made for the commit before the status is set, and after is how often
		// they are not seen yet.
		refs  []string
		after int
	}{
		{name: "where there is none, to one of its own"},
		{name: "where there is one of the branch", refs: []string{"promote/required"}},
		{name: "where there is one of the merge request", refs: []string{"refs/merge-requests/1/head"}},
		{name: "where there are both", refs: []string{"promote/required", "refs/merge-requests/1/head"}},
		{name: "where one of the merge request is still being made", refs: []string{"refs/merge-requests/1/head"}, after: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestGitLab(t)
			host := h.open(t, func(*Repository) {})
			h.server.RequirePipelines()
			created := opened(t, h.testHost, host, "promote/required")
			for _, ref := range test.refs {
				h.server.AddPipeline(created.HeadCommit, ref, test.after)
			}
			g.Expect(host.SetStatus(t.Context(), created, StatusFailure, "gate freeze is closed")).To(Succeed())
			h.server.FinishPipelines("success")
			mergeFails(t, host, created)
			g.Expect(host.SetStatus(t.Context(), created, StatusSuccess, "all gates are open")).To(Succeed())
			h.server.FinishPipelines("failed")
			if len(test.refs) > 0 {
				mergeFails(t, host, created)
			}
			h.server.FinishPipelines("success")
			g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)).To(Succeed())
		})
	}
}

func TestAPipelineThatGitLabMakesLaterIsTold(t *testing.T) {
	g := NewWithT(t)
	h := newTestGitLab(t)
	host := h.open(t, func(*Repository) {})
	h.server.RequirePipelines()
	created := opened(t, h.testHost, host, "promote/later")
	g.Expect(host.SetStatus(t.Context(), created, StatusFailure, "gate freeze is closed")).To(Succeed())
	before, err := host.Get(t.Context(), created.Number)
	g.Expect(err).NotTo(HaveOccurred())

	h.server.AddPipeline(created.HeadCommit, "refs/merge-requests/1/head", 0)
	h.server.FinishPipelines("success")
	after, err := host.Get(t.Context(), created.Number)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.Pipeline).NotTo(Or(BeEmpty(), Equal(before.Pipeline)))
	g.Expect(host.SetStatus(t.Context(), after, StatusFailure, "gate freeze is closed")).To(Succeed())
	mergeFails(t, host, after)
}

func TestAzureDevOpsServersOfAllAgesAreAsked(t *testing.T) {
	for _, newest := range []string{"6.0", "6.1", "7.0", "7.1", "7.2"} {
		t.Run("one whose newest version of the API is "+newest, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestAzure(t)
			h.server.Support(newest)
			host := h.open(t, func(*Repository) {})
			created := opened(t, h.testHost, host, "promote/old")
			g.Expect(host.Find(t.Context(), "promote/old")).To(Equal([]PullRequest{created}))
			before := h.server.Requests()
			g.Expect(host.Comment(t.Context(), created.Number, "text")).To(Succeed())
			g.Expect(h.server.Requests()).To(Equal(before+1), "the version is remembered")
		})
	}
}

func TestGitLabTellsWhatAMergeWithoutAMergeCommitHasMade(t *testing.T) {
	for _, method := range []MergeMethod{MergeCommit, MergeSquash} {
		t.Run("by "+string(method), func(t *testing.T) {
			g := NewWithT(t)
			h := newTestGitLab(t)
			h.server.FastForward()
			host := h.open(t, func(*Repository) {})
			created := opened(t, h.testHost, host, "promote/forward")
			h.waitUntilMergeable(created.Number)
			g.Expect(host.Merge(t.Context(), created.Number, method, created.HeadCommit)).To(Succeed())
			merged, err := host.Get(t.Context(), created.Number)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(merged.MergeCommit).To(Equal(h.head("main")))
			g.Expect(merged.MergeCommit == merged.HeadCommit).To(Equal(method == MergeCommit))
		})
	}
}

func TestAMergeThatFailsIsToldOf(t *testing.T) {
	t.Run("GitLab accepts it, and says why it failed", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestGitLab(t)
		host := h.open(t, func(*Repository) {})
		created := opened(t, h.testHost, host, "promote/failing")
		h.server.FailMerges("Failed to squash. Should be done manually")
		err := host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
		g.Expect(err).To(MatchError(ErrNotMergeable))
		g.Expect(err).To(MatchError(ContainSubstring("Failed to squash. Should be done manually")))
		h.server.FailMerges("")
		g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)).To(Succeed())
	})
	for _, status := range []string{"rejectedByPolicy", "failure"} {
		t.Run("Azure DevOps merges in the background, and ends with "+status, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestAzure(t)
			host := h.open(t, func(*Repository) {})
			created := opened(t, h.testHost, host, "promote/failing")
			h.server.Check()
			h.server.FailMerges(status)
			g.Expect(host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)).To(Succeed())
			_, err := host.Get(t.Context(), created.Number)
			g.Expect(err).NotTo(HaveOccurred())

			err = host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
			g.Expect(err).To(MatchError(ErrNotMergeable))
			g.Expect(err).To(MatchError(And(ContainSubstring(status), ContainSubstring("TF402455"))))
			h.server.FailMerges("")
			g.Eventually(func() (State, error) {
				_ = host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
				pullRequest, err := host.Get(t.Context(), created.Number)
				return pullRequest.State, err
			}).Should(Equal(StateMerged), "the merge was requested again")
		})
	}
	for _, h := range []testHost{newTestAzure(t).testHost, newTestGitLab(t).testHost} {
		t.Run("a host of type "+h.hostType+" has yet to find out whether there are conflicts", func(t *testing.T) {
			g := NewWithT(t)
			host := h.open(t, func(*Repository) {})
			pushed := opened(t, h, host, "promote/unchecked")
			pushed.HeadCommit = h.commit("promote/unchecked")
			mergeFails(t, host, pushed)
			h.waitUntilMergeable(pushed.Number)
			g.Expect(host.Merge(t.Context(), pushed.Number, MergeCommit, pushed.HeadCommit)).To(Succeed())
		})
	}
	t.Run("a policy of Azure DevOps refuses it", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestAzure(t)
		host := h.open(t, func(*Repository) {})
		h.server.RequireStatus("ci/build", false)
		created := opened(t, h.testHost, host, "promote/refused")
		h.server.Check()
		err := host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
		g.Expect(err).To(MatchError(ErrNotMergeable))
		g.Expect(err).NotTo(MatchError(ErrUnauthorized))
		g.Expect(err).To(MatchError(ContainSubstring("Status ci/build")))
	})
	t.Run("Bitbucket lets no token of a project merge", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestBitbucket(t)
		host := h.open(t, func(r *Repository) { r.Token = bitbuckethost.ProjectToken })
		created := opened(t, h.testHost, host, "promote/project-token")
		g.Expect(host.SetStatus(t.Context(), created, StatusSuccess, "all gates are open")).To(Succeed())
		err := host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
		g.Expect(err).To(MatchError(ErrUnauthorized))
		g.Expect(err).To(MatchError(ContainSubstring("tokens of a project or a repository can't merge")))
	})
	t.Run("a merge strategy of Bitbucket is disabled", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestBitbucket(t)
		h.server.Enable("squash")
		host := h.open(t, func(*Repository) {})
		created := opened(t, h.testHost, host, "promote/disabled")
		err := host.Merge(t.Context(), created.Number, MergeCommit, created.HeadCommit)
		g.Expect(err).To(MatchError(ErrUnsupported))
		g.Expect(err).To(MatchError(ContainSubstring(`"no-ff" is not enabled`)))
	})
}

func TestADraftThatGitHubDoesNotHaveIsOpenedAsAnOrdinaryPullRequest(t *testing.T) {
	g := NewWithT(t)
	h := newDescribedGitHub(t)
	g.Expect(h.server.RefuseDrafts("org", "fleet")).To(Succeed())
	host := h.open(t, func(*Repository) {})
	h.commit("promote/draft")
	created, err := host.Create(t.Context(), NewPullRequest{Title: "Promote", Branch: "promote/draft", Base: "main", Draft: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created.Warning).To(ContainSubstring("Draft pull requests are not supported in this repository"))
	g.Expect(h.look(created).Draft).To(BeFalse())
}

func TestAReviewerWhoIsRefusedKeepsNoOtherFromBeingAsked(t *testing.T) {
	t.Run("on GitHub, which refuses all with one", func(t *testing.T) {
		g := NewWithT(t)
		h := newDescribedGitHub(t)
		g.Expect(h.server.SetTeams("org", "fleet", "platform")).To(Succeed())
		host := h.open(t, func(*Repository) {})
		h.commit("promote/reviewers")
		created, err := host.Create(t.Context(), NewPullRequest{
			Title: "Promote", Branch: "promote/reviewers", Base: "main", Reviewers: []string{"rita", "org/unseen", "org/platform"},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(created.Warning).To(And(HavePrefix("reviewers: "), ContainSubstring("org/unseen"), ContainSubstring("is not a collaborator")))
		pulls, err := h.server.PullRequests("org", "fleet")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pulls[0].Reviewers).To(Equal([]string{"rita"}))
		g.Expect(pulls[0].TeamReviewers).To(Equal([]string{"platform"}))
	})
	t.Run("on GitLab Free, which keeps one", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestGitLab(t)
		h.server.Free()
		host := h.open(t, func(*Repository) {})
		h.commit("promote/reviewers")
		created, err := host.Create(t.Context(), NewPullRequest{
			Title: "Promote", Branch: "promote/reviewers", Base: "main", Reviewers: []string{gitlabhost.Reviewer, gitlabhost.SecondReviewer},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(created.Warning).To(Equal("reviewers: the host rejected " + gitlabhost.SecondReviewer))
	})
}

func TestAzureDevOpsCountsCharactersOfABody(t *testing.T) {
	g := NewWithT(t)
	h := newTestAzure(t)
	host := h.open(t, func(*Repository) {})
	h.commit("promote/long")
	body := strings.Repeat("ü", MaxBody)
	created, err := host.Create(t.Context(), NewPullRequest{Title: "Promote", Body: body, Branch: "promote/long", Base: "main"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created.Body).To(Equal(body))
}
