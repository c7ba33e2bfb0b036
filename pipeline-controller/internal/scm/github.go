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
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v53/github"
)

// gitHubCloud is the domain of organizations with their own host on GitHub Enterprise Cloud.
const gitHubCloud = ".ghe.com"

// gitHubKind has another name for SSH at port 443, for firewalls that allow nothing else:
// https://docs.github.com/en/authentication/troubleshooting-ssh/using-ssh-over-the-https-port. Its webhooks:
// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
var gitHubKind = kind{
	open: newGitHub,
	known: func(address *url.URL) (host, path string, ok bool) {
		if name := strings.ToLower(address.Hostname()); strings.HasSuffix(name, gitHubCloud) {
			return name, address.EscapedPath(), true
		}
		return renamed(address, map[string]string{
			"github.com": "github.com", "www.github.com": "github.com", "ssh.github.com": "github.com",
		})
	},
	claims: func(header http.Header, key []byte) []claim {
		return macClaim(header, "X-Hub-Signature-256", "sha256=", key)
	},
}

// gitHub is a repository on github.com or on a GitHub Enterprise.
type gitHub struct {
	location
	api    *apiClient
	client *github.Client
	// pageSize is the number of pull requests in a page. The maximum of GitHub is 100.
	pageSize int
}

func newGitHub(repository Repository, connect connector) (Host, error) {
	at, err := locate(repository)
	if err != nil {
		return nil, err
	}
	if at.root.Path != "" {
		return nil, fmt.Errorf("%s is not a GitHub repository: its path is not owner/repository", at)
	}
	address, err := gitHubAPI(at.root, repository.App)
	if err != nil {
		return nil, err
	}
	authenticate, err := gitHubCredential(repository, address)
	if err != nil {
		return nil, err
	}
	api, err := connect(address, authenticate)
	if err != nil {
		return nil, err
	}
	at.secrets = api.transport.credential.secrets
	client := github.NewClient(api.Client)
	client.BaseURL = &address
	return &gitHub{location: at, api: api, client: client, pageSize: 100}, nil
}

// gitHubAPI returns the address of the API for the GitHub at root.
func gitHubAPI(root url.URL, app *GitHubApp) (url.URL, error) {
	switch {
	case app != nil && app.BaseURL != "":
		address, err := url.Parse(strings.TrimSuffix(app.BaseURL, "/") + "/")
		if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
			return url.URL{}, fmt.Errorf("'%s' is not the URL of an API", appBaseURLKey)
		}
		return url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}, nil
	case root.Host == "github.com" || root.Host == "www.github.com":
		return url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}, nil
	case strings.HasSuffix(root.Hostname(), gitHubCloud):
		return url.URL{Scheme: root.Scheme, Host: "api." + root.Host, Path: "/"}, nil
	default:
		return url.URL{Scheme: root.Scheme, Host: root.Host, Path: "/api/v3/"}, nil
	}
}

func gitHubCredential(repository Repository, api url.URL) (credential, error) {
	if repository.App == nil {
		return tokenOf(repository, bearer)
	}
	return newAppCredential(*repository.App, api, time.Now)
}

func (h *gitHub) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	var found found
	err := everyPage(func(page int) (int, error) {
		pullRequests, response, err := h.client.PullRequests.List(ctx, h.owner, h.name, &github.PullRequestListOptions{
			State: "all",
			Head:  h.owner + ":" + branch,
			// Oldest first: a pull request that is opened meanwhile does not move others to pages that were already
			// read.
			Sort:        "created",
			Direction:   "asc",
			ListOptions: github.ListOptions{Page: page, PerPage: h.pageSize},
		})
		if err != nil {
			return 0, h.failed("listing pull requests", err)
		}
		for _, pullRequest := range pullRequests {
			// The filter includes all repositories of the owner, and hosts may ignore it.
			sameRepository := pullRequest.GetHead().GetRepo().GetID() == pullRequest.GetBase().GetRepo().GetID()
			if sameRepository && pullRequest.GetHead().GetRef() == branch {
				if err := found.add(fromGitHub(pullRequest)); err != nil {
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

func (h *gitHub) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, _, err := h.client.PullRequests.Get(ctx, h.owner, h.name, number)
	if err != nil {
		return PullRequest{}, h.failed(fmt.Sprintf("reading pull request %d", number), err)
	}
	return fromGitHub(pullRequest), nil
}

func (h *gitHub) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	created, err := h.create(ctx, wanted)
	// Private repositories of GitHub Free have no drafts.
	if wanted.Draft && err != nil && has(err.Error(), "draft pull requests are not supported") {
		noDraft := err
		wanted.Draft = false
		if created, err = h.create(ctx, wanted); err == nil {
			notTaken(&created, "draft", noDraft)
		}
	}
	if err != nil {
		return PullRequest{}, err
	}
	notTaken(&created, "labels", h.label(ctx, created.Number, wanted.Labels))
	notTaken(&created, "reviewers", h.askForReview(ctx, created.Number, wanted.Reviewers))
	return created, nil
}

func (h *gitHub) create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	pullRequest, _, err := h.client.PullRequests.Create(ctx, h.owner, h.name, &github.NewPullRequest{
		Title: &wanted.Title,
		Body:  &wanted.Body,
		Head:  &wanted.Branch,
		Base:  &wanted.Base,
		Draft: &wanted.Draft,
	})
	if err != nil {
		return PullRequest{}, h.failed("opening a pull request", err)
	}
	return fromGitHub(pullRequest), nil
}

func (h *gitHub) label(ctx context.Context, number int, labels []string) error {
	if len(labels) == 0 {
		return nil
	}
	// GitHub documents only this body. The one of go-github is a list.
	request, err := h.client.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/issues/%d/labels", h.owner, h.name, number), map[string][]string{"labels": labels})
	if err == nil {
		_, err = h.client.Do(ctx, request, nil)
	}
	if err != nil {
		return h.failed(fmt.Sprintf("labelling pull request %d", number), err)
	}
	return nil
}

// askForReview requests reviews from users by login, and from teams as org/team. GitHub rejects all of them because of
// one, and does not report which. Then each is requested separately.
func (h *gitHub) askForReview(ctx context.Context, number int, reviewers []string) error {
	if len(reviewers) == 0 {
		return nil
	}
	err := h.askFor(ctx, number, reviewers)
	if err == nil || len(reviewers) == 1 {
		return err
	}
	var refused []error
	for _, reviewer := range reviewers {
		if err := h.askFor(ctx, number, []string{reviewer}); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", reviewer, err))
		}
	}
	return errors.Join(refused...)
}

func (h *gitHub) askFor(ctx context.Context, number int, reviewers []string) error {
	people, teams := peopleAndTeams(reviewers)
	wanted := github.ReviewersRequest{Reviewers: people, TeamReviewers: teams}
	if _, _, err := h.client.PullRequests.RequestReviewers(ctx, h.owner, h.name, number, wanted); err != nil {
		return h.failed(fmt.Sprintf("requesting a review of pull request %d", number), err)
	}
	return nil
}

func (h *gitHub) Close(ctx context.Context, number int) (PullRequest, error) {
	return closeOpen(ctx, h, number, func() (PullRequest, error) {
		pullRequest, _, err := h.client.PullRequests.Edit(ctx, h.owner, h.name, number, &github.PullRequest{State: github.String("closed")})
		if err != nil {
			return PullRequest{}, h.failed(fmt.Sprintf("closing pull request %d", number), err)
		}
		return fromGitHub(pullRequest), nil
	})
}

func (h *gitHub) Comment(ctx context.Context, number int, text string) error {
	if _, _, err := h.client.Issues.CreateComment(ctx, h.owner, h.name, number, &github.IssueComment{Body: &text}); err != nil {
		return h.failed(fmt.Sprintf("commenting on pull request %d", number), err)
	}
	return nil
}

func (h *gitHub) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	_, _, err := h.client.Repositories.CreateStatus(ctx, h.owner, h.name, pullRequest.HeadCommit, &github.RepoStatus{
		State:       github.String(string(state)),
		Context:     github.String(StatusContext),
		Description: github.String(short(description)),
	})
	if err != nil {
		return h.failed("setting a status of commit "+pullRequest.HeadCommit, err)
	}
	return nil
}

func (h *gitHub) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	_, _, err := h.client.PullRequests.Merge(ctx, h.owner, h.name, number, "", &github.PullRequestOptions{
		SHA: headCommit, MergeMethod: string(method),
	})
	if err != nil {
		return h.failed(fmt.Sprintf("merging pull request %d", number), err)
	}
	return nil
}

func (h *gitHub) failed(doing string, err error) error {
	// go-github sends no request while an earlier response shows that the hourly limit is used up.
	var exhausted *github.RateLimitError
	if errors.As(err, &exhausted) {
		return h.location.failed(doing, nil, 0, &RateLimitedError{Until: exhausted.Rate.Reset.Time})
	}
	var refused *github.ErrorResponse
	if !errors.As(err, &refused) {
		return h.location.failed(doing, nil, 0, err)
	}
	parts := []string{refused.Message}
	for _, detail := range refused.Errors {
		parts = append(parts, strings.TrimSpace(strings.Join([]string{detail.Field, detail.Code, detail.Message}, " ")))
	}
	message := strings.Join(parts, ": ")
	var kind error
	switch status := refused.Response.StatusCode; {
	// Only merges have these responses: not now, or not this commit.
	case status == http.StatusMethodNotAllowed || status == http.StatusConflict:
		kind = ErrNotMergeable
	case has(message, "a pull request already exists"):
		kind = ErrAlreadyExists
	case has(message, "no commits between"):
		kind = ErrNoDifference
	}
	return h.location.failed(doing, kind, refused.Response.StatusCode, errors.New(message))
}

func fromGitHub(p *github.PullRequest) PullRequest {
	state := StateOpen
	switch {
	// Lists contain the time of the merge, but not the flag.
	case p.GetMerged() || p.MergedAt != nil:
		state = StateMerged
	case p.GetState() == "closed":
		state = StateClosed
	}
	pullRequest := PullRequest{
		Number:     p.GetNumber(),
		URL:        p.GetHTMLURL(),
		Title:      p.GetTitle(),
		Body:       p.GetBody(),
		Branch:     p.GetHead().GetRef(),
		Base:       p.GetBase().GetRef(),
		HeadCommit: p.GetHead().GetSHA(),
		State:      state,
	}
	// Until the merge, this is the commit of a test merge.
	if state == StateMerged {
		pullRequest.MergeCommit = p.GetMergeCommitSHA()
	}
	return pullRequest
}
