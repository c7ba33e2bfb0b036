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
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
	"github.com/sluice-toolkit/sluice/tests/azurehost"
	"github.com/sluice-toolkit/sluice/tests/bitbuckethost"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/gitlabhost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// onLoopback is where the tests' hosts are.
var onLoopback = hostnet.Network{AllowLoopback: true}

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
	check(server.SetCollaborators("org", "fleet", "rita"))
	conflict := func(branch string) {
		for _, of := range []string{branch, "main"} {
			_, err := server.CommitFiles("org", "fleet", of, map[string]string{"conflict": of}, "commit")
			check(err)
		}
	}
	look := func(pullRequest PullRequest) seen {
		pulls, err := server.PullRequests("org", "fleet")
		check(err)
		pull := pulls[pullRequest.Number-1]
		found := seen{Labels: pull.Labels, Reviewers: pull.Reviewers, Draft: pull.Draft}
		for _, comment := range pull.Comments {
			found.Comments = append(found.Comments, comment.Body)
		}
		statuses, err := server.Statuses("org", "fleet", pullRequest.HeadCommit)
		check(err)
		for _, status := range statuses {
			if status.Context == StatusContext {
				found.Status, found.Description = StatusState(status.State), status.Description
			}
		}
		return found
	}
	return testGitHub{server: server, testHost: testHost{
		hostType:   "github",
		repository: Repository{URL: server.RepositoryURL("org", "fleet"), Token: gitHubToken, CABundle: server.CA()},
		elsewhere:  server.URL() + "/org/missing",
		commit:     commit,
		conflict:   conflict,
		look:       look,
		reviewer:   "rita",
		methods:    allMethods,
		merge: func(number int) {
			_, err := server.Merge("org", "fleet", number)
			check(err)
		},
		head: func(branch string) string {
			branches, err := server.Branches("org", "fleet")
			check(err)
			return branches[branch]
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
	_, _, err = server.Client.CreateLabel(server.Username, "fleet", gitea.CreateLabelOption{Name: "promotion", Color: "#00aabb"})
	check(err)
	ownPassword := false
	_, _, err = server.Client.AdminCreateUser(gitea.CreateUserOption{
		Username: "rita", Email: "rita@example.com", Password: "pa55-w0rd-of-rita", MustChangePassword: &ownPassword,
	})
	check(err)
	files := 0
	branchExists := func(branch string) bool {
		_, response, err := server.Client.GetRepoBranch(server.Username, "fleet", branch)
		if response == nil || response.StatusCode != 404 {
			check(err)
		}
		return err == nil
	}
	write := func(branch, name, content string) string {
		options := gitea.FileOptions{Message: "commit", BranchName: "main", NewBranchName: branch}
		if branch == "main" || branchExists(branch) {
			options.BranchName, options.NewBranchName = branch, ""
		}
		response, _, err := server.Client.CreateFile(server.Username, "fleet", name, gitea.CreateFileOptions{
			FileOptions: options,
			Content:     base64.StdEncoding.EncodeToString([]byte(content)),
		})
		check(err)
		return response.Commit.SHA
	}
	commit := func(branch string) string {
		files++
		return write(branch, fmt.Sprintf("file-%d", files), branch)
	}
	commit("main")
	look := func(pullRequest PullRequest) seen {
		pull, _, err := server.Client.GetPullRequest(server.Username, "fleet", int64(pullRequest.Number))
		check(err)
		found := seen{Draft: pull.Draft}
		for _, label := range pull.Labels {
			found.Labels = append(found.Labels, label.Name)
		}
		for _, reviewer := range pull.RequestedReviewers {
			found.Reviewers = append(found.Reviewers, reviewer.UserName)
		}
		comments, _, err := server.Client.ListIssueComments(server.Username, "fleet", int64(pullRequest.Number), gitea.ListIssueCommentOptions{})
		check(err)
		for _, comment := range comments {
			found.Comments = append(found.Comments, comment.Body)
		}
		statuses, _, err := server.Client.GetCombinedStatus(server.Username, "fleet", pullRequest.HeadCommit)
		check(err)
		for _, status := range statuses.Statuses {
			if status.Context == StatusContext {
				found.Status, found.Description = StatusState(status.State), status.Description
			}
		}
		return found
	}
	mergeable := func(number int) {
		// Gitea finds out in the background whether it can be merged, and refuses until it has.
		NewWithT(t).Eventually(func() (bool, error) {
			pullRequest, _, err := server.Client.GetPullRequest(server.Username, "fleet", int64(number))
			return pullRequest.Mergeable, err
		}).WithTimeout(time.Minute).Should(BeTrue())
	}
	return testHost{
		hostType:   "gitea",
		repository: Repository{URL: server.URL + "/" + server.Username + "/fleet.git", Token: Token(server.Token)},
		elsewhere:  server.URL + "/" + server.Username + "/missing",
		commit:     commit,
		conflict: func(branch string) {
			write(branch, "conflict", branch)
			write("main", "conflict", "main")
		},
		look:      look,
		mergeable: mergeable,
		reviewer:  "rita",
		ownLabels: true,
		methods:   allMethods,
		merge: func(number int) {
			mergeable(number)
			merged, _, err := server.Client.MergePullRequest(server.Username, "fleet", int64(number), gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
			check(err)
			if !merged {
				t.Fatalf("Gitea did not merge pull request %d", number)
			}
		},
		head: func(branch string) string {
			found, _, err := server.Client.GetRepoBranch(server.Username, "fleet", branch)
			check(err)
			return found.Commit.ID
		},
		deleteBranch: func(branch string) {
			_, _, err := server.Client.DeleteRepoBranch(server.Username, "fleet", branch)
			check(err)
		},
	}
}

type testGitLab struct {
	testHost
	server gitlabhost.Server
}

func newTestGitLab(t *testing.T) testGitLab {
	server := gitlabhost.New()
	t.Cleanup(server.Close)
	server.Around(describe(t, "gitlab").around)
	return testGitLab{server: server, testHost: testHost{
		hostType:     "gitlab",
		repository:   Repository{URL: server.RepositoryURL(), Token: gitlabhost.Token, CABundle: server.CA()},
		elsewhere:    server.URL() + "/org/group/missing",
		commit:       server.Commit,
		head:         server.Head,
		conflict:     func(branch string) { server.Commit(branch); server.Conflict(branch) },
		merge:        server.Merge,
		deleteBranch: server.DeleteBranch,
		mergeable:    func(int) { server.Check() },
		look: func(pullRequest PullRequest) seen {
			pull := server.PullRequest(pullRequest.Number)
			found := seen{
				Labels: pull.Labels, Reviewers: pull.Reviewers, Comments: pull.Comments, Draft: strings.HasPrefix(pull.Title, "Draft: "),
			}
			for _, status := range server.Statuses(pullRequest.HeadCommit) {
				found.Status = map[string]StatusState{"pending": StatusPending, "success": StatusSuccess, "failed": StatusFailure}[status.State]
				found.Description = status.Description
			}
			return found
		},
		reviewer: gitlabhost.Reviewer,
		methods:  []MergeMethod{MergeCommit, MergeSquash},
	}}
}

type testBitbucket struct {
	testHost
	server bitbuckethost.Server
}

func newTestBitbucket(t *testing.T) testBitbucket {
	server := bitbuckethost.New()
	t.Cleanup(server.Close)
	server.Around(describe(t, "bitbucket-server").around)
	return testBitbucket{server: server, testHost: testHost{
		hostType:     "bitbucket-server",
		repository:   Repository{URL: server.RepositoryURL(), Token: bitbuckethost.Token, CABundle: server.CA()},
		elsewhere:    server.URL() + "/projects/ORG/repos/missing",
		commit:       server.Commit,
		head:         server.Head,
		conflict:     func(branch string) { server.Commit(branch); server.Conflict(branch) },
		merge:        server.Merge,
		deleteBranch: server.DeleteBranch,
		look: func(pullRequest PullRequest) seen {
			pull := server.PullRequest(pullRequest.Number)
			found := seen{Reviewers: pull.Reviewers, Comments: pull.Comments, Draft: pull.Draft}
			for _, status := range server.Statuses(pullRequest.HeadCommit) {
				found.Status = map[string]StatusState{"INPROGRESS": StatusPending, "SUCCESSFUL": StatusSuccess, "FAILED": StatusFailure}[status.State]
				found.Description = status.Description
			}
			return found
		},
		reviewer:    bitbuckethost.Reviewer,
		hasNoLabels: true,
		methods:     allMethods,
	}}
}

type testAzure struct {
	testHost
	server azurehost.Server
}

func newTestAzure(t *testing.T) testAzure {
	server := azurehost.New()
	t.Cleanup(server.Close)
	server.Around(describe(t, "azure-devops").around)
	return testAzure{server: server, testHost: testHost{
		hostType:     "azure-devops",
		repository:   Repository{URL: server.RepositoryURL(), Token: azurehost.Token, CABundle: server.CA()},
		elsewhere:    server.URL() + "/acme/My%20Project/_git/missing",
		commit:       server.Commit,
		head:         server.Head,
		conflict:     func(branch string) { server.Commit(branch); server.Conflict(branch) },
		merge:        server.Merge,
		deleteBranch: server.DeleteBranch,
		mergeable:    func(int) { server.Check() },
		look: func(pullRequest PullRequest) seen {
			pull := server.PullRequest(pullRequest.Number)
			found := seen{Labels: pull.Labels, Reviewers: pull.Reviewers, Comments: pull.Comments, Draft: pull.Draft}
			for _, status := range pull.Statuses {
				found.Status = map[string]StatusState{"pending": StatusPending, "succeeded": StatusSuccess, "failed": StatusFailure}[status.State]
				found.Description = status.Description
			}
			return found
		},
		reviewer: azurehost.Reviewer,
		methods:  allMethods,
	}}
}
