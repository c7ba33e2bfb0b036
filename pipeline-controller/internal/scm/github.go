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
	"net/url"
	"strings"

	"github.com/google/go-github/v53/github"
)

// gitHub is a repository on github.com or on a GitHub Enterprise Server.
type gitHub struct {
	location
	client *github.Client
	// pageSize is how many pull requests are listed at a time. GitHub gives no more than 100.
	pageSize int
}

func newGitHub(repository Repository) (Host, error) {
	at, err := locate(repository)
	if err != nil {
		return nil, err
	}
	if at.root.Path != "" {
		return nil, fmt.Errorf("%s is not a GitHub repository: its path is not owner/repository", at)
	}
	api := url.URL{Scheme: at.root.Scheme, Host: at.root.Host, Path: "/api/v3/"}
	if host := strings.ToLower(at.root.Host); host == "github.com" || host == "www.github.com" {
		api = url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	}
	httpClient, err := newHTTPClient(api, repository)
	if err != nil {
		return nil, err
	}
	client := github.NewClient(httpClient)
	client.BaseURL = &api
	return &gitHub{location: at, client: client, pageSize: 100}, nil
}

func (h *gitHub) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	var found []PullRequest
	err := everyPage(func(page int) (int, error) {
		pullRequests, response, err := h.client.PullRequests.List(ctx, h.owner, h.name, &github.PullRequestListOptions{
			State: "all",
			Head:  h.owner + ":" + branch,
			// Oldest first: one that is opened meanwhile moves no other to a page that was read already.
			Sort:        "created",
			Direction:   "asc",
			ListOptions: github.ListOptions{Page: page, PerPage: h.pageSize},
		})
		if err != nil {
			return 0, h.failed("listing pull requests", err)
		}
		for _, pullRequest := range pullRequests {
			// The filter takes every repository of the owner, and none at all where the host ignores it.
			sameRepository := pullRequest.GetHead().GetRepo().GetID() == pullRequest.GetBase().GetRepo().GetID()
			if sameRepository && pullRequest.GetHead().GetRef() == branch {
				found = append(found, fromGitHub(pullRequest))
			}
		}
		return response.NextPage, nil
	})
	if err != nil {
		return nil, err
	}
	return newestFirst(found), nil
}

func (h *gitHub) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, _, err := h.client.PullRequests.Get(ctx, h.owner, h.name, number)
	if err != nil {
		return PullRequest{}, h.failed(fmt.Sprintf("reading pull request %d", number), err)
	}
	return fromGitHub(pullRequest), nil
}

func (h *gitHub) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	pullRequest, _, err := h.client.PullRequests.Create(ctx, h.owner, h.name, &github.NewPullRequest{
		Title: &wanted.Title,
		Body:  &wanted.Body,
		Head:  &wanted.Branch,
		Base:  &wanted.Base,
	})
	if err != nil {
		return PullRequest{}, h.failed("opening a pull request", err)
	}
	return fromGitHub(pullRequest), nil
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

func (h *gitHub) failed(doing string, err error) error {
	// go-github makes no request while it knows from an earlier response that nothing is left of the hour's.
	var exhausted *github.RateLimitError
	if errors.As(err, &exhausted) {
		return h.location.failed(doing, nil, 0, &RateLimitedError{Until: exhausted.Rate.Reset.Time})
	}
	var refused *github.ErrorResponse
	if !errors.As(err, &refused) {
		return h.location.failed(doing, nil, 0, err)
	}
	words := []string{refused.Message}
	for _, detail := range refused.Errors {
		words = append(words, strings.TrimSpace(strings.Join([]string{detail.Field, detail.Code, detail.Message}, " ")))
	}
	message := strings.Join(words, ": ")
	var kind error
	switch {
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
	// A list tells when it was merged, and not that it was.
	case p.GetMerged() || p.MergedAt != nil:
		state = StateMerged
	case p.GetState() == "closed":
		state = StateClosed
	}
	return PullRequest{
		Number:     p.GetNumber(),
		URL:        p.GetHTMLURL(),
		Title:      p.GetTitle(),
		Body:       p.GetBody(),
		Branch:     p.GetHead().GetRef(),
		Base:       p.GetBase().GetRef(),
		HeadCommit: p.GetHead().GetSHA(),
		State:      state,
	}
}
