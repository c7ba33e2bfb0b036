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
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"
)

// giteaKind has no well-known public hosts. Its webhooks: https://docs.gitea.com/usage/webhooks
var giteaKind = kind{
	open: newGitea,
	claims: func(header http.Header, key []byte) []claim {
		return macClaim(header, "X-Gitea-Signature", "", key)
	},
}

// giteaHost is a repository on a Gitea or Forgejo.
type giteaHost struct {
	location
	client *http.Client
	// pageSize is the number of pull requests in a page. The default maximum of Gitea is 50.
	pageSize int
}

func newGitea(repository Repository, connect connector) (Host, error) {
	at, err := locate(repository)
	if err != nil {
		return nil, err
	}
	api, err := at.connect(repository, bearer, connect)
	if err != nil {
		return nil, err
	}
	return &giteaHost{location: at, client: api.Client, pageSize: 50}, nil
}

// in returns a client for one operation, because the SDK stores the context in the client.
func (h *giteaHost) in(ctx context.Context) (*gitea.Client, error) {
	// With an empty version, the SDK does not request the host's version first.
	return gitea.NewClient(h.root.String(), gitea.SetGiteaVersion(""), gitea.SetContext(ctx), gitea.SetHTTPClient(h.client))
}

func (h *giteaHost) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	client, err := h.in(ctx)
	if err != nil {
		return nil, err
	}
	var found found
	// Gitea can filter only open pull requests by branch, so all are read.
	err = everyPage(func(page int) (int, error) {
		pullRequests, response, err := client.ListRepoPullRequests(h.owner, h.name, gitea.ListPullRequestsOptions{
			State: gitea.StateAll,
			// A pull request that is opened meanwhile does not move others to pages that were already read.
			Sort:        "oldest",
			ListOptions: gitea.ListOptions{Page: page, PageSize: h.pageSize},
		})
		if err != nil {
			return 0, h.failed("listing pull requests", response, err)
		}
		for _, pullRequest := range pullRequests {
			if head, base := pullRequest.Head, pullRequest.Base; head != nil && base != nil &&
				head.RepoID == base.RepoID && head.Name == branch {
				if err := found.add(fromGitea(pullRequest)); err != nil {
					return 0, err
				}
			}
		}
		return response.NextPage, nil
	})
	if err != nil {
		return nil, err
	}
	return newestFirst(found.pullRequests), nil
}

func (h *giteaHost) Get(ctx context.Context, number int) (PullRequest, error) {
	client, err := h.in(ctx)
	if err != nil {
		return PullRequest{}, err
	}
	pullRequest, response, err := client.GetPullRequest(h.owner, h.name, int64(number))
	if err != nil {
		return PullRequest{}, h.failed(fmt.Sprintf("reading pull request %d", number), response, err)
	}
	return fromGitea(pullRequest), nil
}

func (h *giteaHost) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	client, err := h.in(ctx)
	if err != nil {
		return PullRequest{}, err
	}
	title := wanted.Title
	if wanted.Draft {
		// Gitea marks drafts by their titles.
		title = "WIP: " + title
	}
	pullRequest, response, err := client.CreatePullRequest(h.owner, h.name, gitea.CreatePullRequestOption{
		Title: title,
		Body:  wanted.Body,
		Head:  wanted.Branch,
		Base:  wanted.Base,
	})
	if err != nil {
		return PullRequest{}, h.failed("opening a pull request", response, err)
	}
	created := fromGitea(pullRequest)
	notTaken(&created, "labels", h.label(client, created.Number, wanted.Labels))
	notTaken(&created, "reviewers", h.askForReview(client, created.Number, wanted.Reviewers))
	return created, nil
}

// label sets the repository's labels with these names. Gitea identifies labels by number.
func (h *giteaHost) label(client *gitea.Client, number int, names []string) error {
	if len(names) == 0 {
		return nil
	}
	doing := fmt.Sprintf("labelling pull request %d", number)
	known := map[string]int64{}
	err := everyPage(func(page int) (int, error) {
		labels, response, err := client.ListRepoLabels(h.owner, h.name, gitea.ListLabelsOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: h.pageSize},
		})
		if err != nil {
			return 0, h.failed(doing, response, err)
		}
		for _, label := range labels {
			if slices.Contains(names, label.Name) {
				known[label.Name] = label.ID
			}
		}
		return response.NextPage, nil
	})
	if err != nil {
		return err
	}
	var ids []int64
	var unknown []string
	for _, name := range names {
		if id, ok := known[name]; ok {
			ids = append(ids, id)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(ids) > 0 {
		if _, response, err := client.AddIssueLabels(h.owner, h.name, int64(number), gitea.IssueLabelsOption{Labels: ids}); err != nil {
			return h.failed(doing, response, err)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the repository has no %s", strings.Join(unknown, ", "))
	}
	return nil
}

// askForReview requests reviews from users by login, and from teams as org/team.
func (h *giteaHost) askForReview(client *gitea.Client, number int, reviewers []string) error {
	if len(reviewers) == 0 {
		return nil
	}
	people, teams := peopleAndTeams(reviewers)
	response, err := client.CreateReviewRequests(h.owner, h.name, int64(number), gitea.PullReviewRequestOptions{
		Reviewers: people, TeamReviewers: teams,
	})
	if err != nil {
		return h.failed(fmt.Sprintf("requesting a review of pull request %d", number), response, err)
	}
	return nil
}

func (h *giteaHost) Close(ctx context.Context, number int) (PullRequest, error) {
	return closeOpen(ctx, h, number, func() (PullRequest, error) {
		client, err := h.in(ctx)
		if err != nil {
			return PullRequest{}, err
		}
		closed := gitea.StateClosed
		pullRequest, response, err := client.EditPullRequest(h.owner, h.name, int64(number), gitea.EditPullRequestOption{State: &closed})
		if err != nil {
			return PullRequest{}, h.failed(fmt.Sprintf("closing pull request %d", number), response, err)
		}
		return fromGitea(pullRequest), nil
	})
}

func (h *giteaHost) Comment(ctx context.Context, number int, text string) error {
	client, err := h.in(ctx)
	if err != nil {
		return err
	}
	_, response, err := client.CreateIssueComment(h.owner, h.name, int64(number), gitea.CreateIssueCommentOption{Body: text})
	if err != nil {
		return h.failed(fmt.Sprintf("commenting on pull request %d", number), response, err)
	}
	return nil
}

func (h *giteaHost) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	client, err := h.in(ctx)
	if err != nil {
		return err
	}
	_, response, err := client.CreateStatus(h.owner, h.name, pullRequest.HeadCommit, gitea.CreateStatusOption{
		State: gitea.StatusState(state), Context: StatusContext, Description: short(description),
	})
	if err != nil {
		return h.failed("setting a status of commit "+pullRequest.HeadCommit, response, err)
	}
	return nil
}

func (h *giteaHost) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	client, err := h.in(ctx)
	if err != nil {
		return err
	}
	merged, response, err := client.MergePullRequest(h.owner, h.name, int64(number), gitea.MergePullRequestOption{
		Style: gitea.MergeStyle(method), HeadCommitId: headCommit,
	})
	doing := fmt.Sprintf("merging pull request %d", number)
	switch {
	case err != nil:
		return h.failed(doing, response, err)
	case merged:
		return nil
	// The SDK does not treat this response as an error, and does not return the host's message.
	case response.StatusCode == http.StatusMethodNotAllowed || response.StatusCode == http.StatusConflict:
		return h.location.failed(doing, ErrNotMergeable, 0, nil)
	case response.StatusCode == http.StatusNotFound:
		// Gitea returns this for closed pull requests too.
		if _, err := h.Get(ctx, number); err != nil {
			return err
		}
		return h.location.failed(doing, ErrNotMergeable, 0, nil)
	default:
		return h.location.failed(doing, nil, response.StatusCode, errors.New("Gitea does not say why"))
	}
}

func (h *giteaHost) failed(doing string, response *gitea.Response, err error) error {
	if response == nil || response.Response == nil {
		return h.location.failed(doing, nil, 0, err)
	}
	var kind error
	switch {
	case response.StatusCode == http.StatusConflict:
		kind = ErrAlreadyExists
	case has(err.Error(), "there are no changes between the head and the base"):
		kind = ErrNoDifference
	// Gitea responds to a comment on a missing pull request with status 500.
	case has(err.Error(), "issue does not exist"):
		kind = ErrNotFound
	}
	return h.location.failed(doing, kind, response.StatusCode, err)
}

func fromGitea(p *gitea.PullRequest) PullRequest {
	pullRequest := PullRequest{
		Number: int(p.Index),
		URL:    p.HTMLURL,
		Title:  p.Title,
		Body:   p.Body,
		State:  StateOpen,
	}
	switch {
	case p.HasMerged:
		pullRequest.State = StateMerged
		if p.MergedCommitID != nil {
			pullRequest.MergeCommit = *p.MergedCommitID
		}
	case p.State == gitea.StateClosed:
		pullRequest.State = StateClosed
	}
	if p.Head != nil {
		// Ref becomes refs/pull/<number>/head when the branch is deleted. Name remains that of the branch.
		pullRequest.Branch = p.Head.Name
		pullRequest.HeadCommit = p.Head.Sha
	}
	if p.Base != nil {
		pullRequest.Base = p.Base.Ref
	}
	return pullRequest
}
