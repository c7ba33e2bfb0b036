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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// bitbucketKind has no public hosts. Its webhooks:
// https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
var bitbucketKind = kind{
	open:           newBitbucket,
	gitTakesBearer: true,
	claims: func(header http.Header, key []byte) []claim {
		return macClaim(header, "X-Hub-Signature", "sha256=", key)
	},
}

// bitbucket is a repository on a Bitbucket Server or Data Center.
type bitbucket struct {
	location
	rest rest
	// pageSize is the number of pull requests in a page. The default maximum of Bitbucket is 1000.
	pageSize int
}

// bitbucketPullRequest is a pull request in the API of Bitbucket.
type bitbucketPullRequest struct {
	ID          int    `json:"id"`
	Version     int    `json:"version"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// State is OPEN, MERGED or DECLINED.
	State   string       `json:"state"`
	FromRef bitbucketRef `json:"fromRef"`
	ToRef   bitbucketRef `json:"toRef"`
	// Properties contain the merge commit, unless the merge was a push.
	Properties struct {
		MergeCommit struct {
			ID string `json:"id"`
		} `json:"mergeCommit"`
	} `json:"properties"`
	Links struct {
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

// bitbucketRef is one end of a pull request.
type bitbucketRef struct {
	ID           string              `json:"id"`
	LatestCommit string              `json:"latestCommit,omitempty"`
	Repository   bitbucketRepository `json:"repository"`
}

type bitbucketRepository struct {
	ID      int    `json:"id,omitempty"`
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
}

func newBitbucket(repository Repository, connect connector) (Host, error) {
	at, err := locateBitbucket(repository)
	if err != nil {
		return nil, err
	}
	api, err := at.connect(repository, bearer, connect)
	if err != nil {
		return nil, err
	}
	return &bitbucket{location: at, pageSize: 100, rest: rest{
		client: api.Client,
		// Bitbucket rejects requests that a form in a browser could send.
		header:  http.Header{"X-Atlassian-Token": {"no-check"}},
		message: bitbucketMessage, secrets: at.secrets,
	}}, nil
}

// locateBitbucket parses clone URLs, …/scm/KEY/slug.git, and pages of repositories, …/projects/KEY/repos/slug and
// …/users/name/repos/slug. The prefix is the path at which Bitbucket is installed.
func locateBitbucket(repository Repository) (location, error) {
	root, segments, err := parseURL(repository)
	if err != nil {
		return location{}, err
	}
	if root.Hostname() == "bitbucket.org" {
		return location{}, errors.New("bitbucket.org is Bitbucket Cloud, which is not supported: its API differs from that of bitbucket-server")
	}
	last := len(segments) - 1
	if segments[last] == "browse" && last > 0 {
		last--
	}
	name := segments[last]
	var owner string
	var before int
	switch {
	case last >= 2 && segments[last-2] == "scm":
		owner, before = segments[last-1], last-2
	case last >= 3 && segments[last-1] == "repos" && segments[last-3] == "projects":
		owner, before = segments[last-2], last-3
	case last >= 3 && segments[last-1] == "repos" && segments[last-3] == "users":
		owner, before = "~"+segments[last-2], last-3
	// SSH URLs have this form, with another port and no prefix.
	case last == 1:
		owner, before = segments[0], 0
	default:
		return location{}, errors.New("the repository URL is not one of Bitbucket: give one like https://host/scm/project/repository.git")
	}
	at := newLocation(under(root, segments[:before]), owner, name)
	at.page = join(at.root, "projects", owner, "repos", name).String()
	at.clone = join(at.root, "scm", owner, name).String() + ".git"
	return at, nil
}

// address returns an address in the repository's API.
func (h *bitbucket) address(path ...string) *url.URL {
	return join(h.root, append([]string{"rest", "api", "1.0", "projects", h.owner, "repos", h.name}, path...)...)
}

func (h *bitbucket) pull(number int, path ...string) *url.URL {
	return h.address(append([]string{"pull-requests", strconv.Itoa(number)}, path...)...)
}

func (h *bitbucket) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	var found found
	start := 0
	// The first page starts at 0, which means no next page for everyPage.
	err := everyPage(func(int) (int, error) {
		address := h.address("pull-requests")
		address.RawQuery = url.Values{
			"state": {"ALL"}, "direction": {"OUTGOING"}, "at": {"refs/heads/" + branch},
			// Oldest first: a pull request that is opened meanwhile does not move others to pages that were already
			// read.
			"order": {"OLDEST"},
			"start": {strconv.Itoa(start)}, "limit": {strconv.Itoa(h.pageSize)},
		}.Encode()
		var page struct {
			Values        []bitbucketPullRequest `json:"values"`
			IsLastPage    bool                   `json:"isLastPage"`
			NextPageStart int                    `json:"nextPageStart"`
		}
		if err := h.rest.call(ctx, http.MethodGet, address, nil, &page); err != nil {
			return 0, h.failed("listing pull requests", err)
		}
		for _, pullRequest := range page.Values {
			sameRepository := pullRequest.FromRef.Repository.ID == pullRequest.ToRef.Repository.ID
			if sameRepository && pullRequest.FromRef.ID == "refs/heads/"+branch {
				if err := found.add(fromBitbucket(pullRequest)); err != nil {
					return 0, err
				}
			}
		}
		start = page.NextPageStart
		if page.IsLastPage {
			return 0, nil
		}
		return start, nil
	})
	if err != nil {
		return nil, err
	}
	return newestFirst(found.pullRequests), nil
}

func (h *bitbucket) Get(ctx context.Context, number int) (PullRequest, error) {
	pullRequest, err := h.get(ctx, number)
	return fromBitbucket(pullRequest), err
}

func (h *bitbucket) get(ctx context.Context, number int) (bitbucketPullRequest, error) {
	var pullRequest bitbucketPullRequest
	if err := h.rest.call(ctx, http.MethodGet, h.pull(number), nil, &pullRequest); err != nil {
		return bitbucketPullRequest{}, h.failed(fmt.Sprintf("reading pull request %d", number), err)
	}
	return pullRequest, nil
}

func (h *bitbucket) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	created, err := h.create(ctx, wanted)
	// If Bitbucket rejects a reviewer, it does not create the pull request.
	if refused, _ := refusalOf(err); len(wanted.Reviewers) > 0 && refused != nil && isBitbucket(refused, "InvalidPullRequestReviewersException") {
		reviewers := err
		wanted.Reviewers = nil
		if created, err = h.create(ctx, wanted); err == nil {
			notTaken(&created, "reviewers", h.failed("requesting a review", reviewers))
			return created, nil
		}
	}
	if err != nil {
		return PullRequest{}, h.failed("opening a pull request", err)
	}
	return created, nil
}

func (h *bitbucket) create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	ref := func(branch string) bitbucketRef {
		side := bitbucketRef{ID: "refs/heads/" + branch, Repository: bitbucketRepository{Slug: h.name}}
		side.Repository.Project.Key = h.owner
		return side
	}
	type user struct {
		Name string `json:"name"`
	}
	type reviewer struct {
		User user `json:"user"`
	}
	body := struct {
		Title       string       `json:"title"`
		Description string       `json:"description"`
		FromRef     bitbucketRef `json:"fromRef"`
		ToRef       bitbucketRef `json:"toRef"`
		Reviewers   []reviewer   `json:"reviewers,omitempty"`
		// Drafts are supported since 8.18.
		Draft bool `json:"draft,omitempty"`
	}{wanted.Title, wanted.Body, ref(wanted.Branch), ref(wanted.Base), nil, wanted.Draft}
	for _, name := range wanted.Reviewers {
		body.Reviewers = append(body.Reviewers, reviewer{user{name}})
	}
	var created bitbucketPullRequest
	err := h.rest.call(ctx, http.MethodPost, h.address("pull-requests"), body, &created)
	return fromBitbucket(created), err
}

func (h *bitbucket) Close(ctx context.Context, number int) (PullRequest, error) {
	return closeOpen(ctx, h, number, func() (PullRequest, error) {
		// Bitbucket requires the current version of the pull request.
		pullRequest, err := h.get(ctx, number)
		if err != nil {
			return PullRequest{}, err
		}
		var declined bitbucketPullRequest
		if err := h.rest.call(ctx, http.MethodPost, h.ofVersion(pullRequest, "decline"), struct{}{}, &declined); err != nil {
			return PullRequest{}, h.failed(fmt.Sprintf("closing pull request %d", number), err)
		}
		return fromBitbucket(declined), nil
	})
}

// ofVersion returns the address of a change that fails if someone has changed the pull request.
func (h *bitbucket) ofVersion(pullRequest bitbucketPullRequest, action string) *url.URL {
	address := h.pull(pullRequest.ID, action)
	address.RawQuery = url.Values{"version": {strconv.Itoa(pullRequest.Version)}}.Encode()
	return address
}

func (h *bitbucket) Comment(ctx context.Context, number int, text string) error {
	if err := h.rest.call(ctx, http.MethodPost, h.pull(number, "comments"), map[string]string{"text": text}, nil); err != nil {
		return h.failed(fmt.Sprintf("commenting on pull request %d", number), err)
	}
	return nil
}

// SetStatus sets a build of the repository. Required builds check the parent of builds. Builds of rest/build-status,
// which belong to all repositories together, have none.
func (h *bitbucket) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	address := h.address("commits", pullRequest.HeadCommit, "builds")
	status := map[string]string{
		"key": StatusContext, "parent": StatusContext, "name": StatusContext, "url": pullRequest.URL, "description": short(description),
		"state": map[StatusState]string{
			StatusPending: "INPROGRESS", StatusSuccess: "SUCCESSFUL", StatusFailure: "FAILED",
		}[state],
	}
	if pullRequest.Branch != "" {
		status["ref"] = "refs/heads/" + pullRequest.Branch
	}
	if err := h.rest.call(ctx, http.MethodPost, address, status, nil); err != nil {
		return h.failed("setting a status of commit "+pullRequest.HeadCommit, err)
	}
	return nil
}

func (h *bitbucket) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	pullRequest, err := h.get(ctx, number)
	if err != nil {
		return err
	}
	doing := fmt.Sprintf("merging pull request %d", number)
	if pullRequest.State != "OPEN" || pullRequest.FromRef.LatestCommit != headCommit {
		return h.location.failed(doing, ErrNotMergeable, 0, nil)
	}
	strategy := map[MergeMethod]string{MergeCommit: "no-ff", MergeSquash: "squash", MergeRebase: "rebase-ff-only"}[method]
	err = h.rest.call(ctx, http.MethodPost, h.ofVersion(pullRequest, "merge"), map[string]string{"strategyId": strategy}, nil)
	switch _, status := refusalOf(err); status {
	case http.StatusConflict:
		return h.location.failed(doing, ErrNotMergeable, status, err)
	case http.StatusBadRequest:
		// The repository's administrators choose the merge strategies.
		return h.location.failed(doing, ErrUnsupported, status, err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return h.failed(doing, fmt.Errorf("%w; HTTP access tokens of a project or a repository can't merge: use a person's", err))
	}
	if err != nil {
		return h.failed(doing, err)
	}
	return nil
}

func (h *bitbucket) failed(doing string, err error) error {
	refused, status := refusalOf(err)
	var kind error
	switch {
	case refused == nil:
	case isBitbucket(refused, "DuplicatePullRequestException"):
		kind = ErrAlreadyExists
	case isBitbucket(refused, "EmptyPullRequestException"):
		kind = ErrNoDifference
	}
	return h.location.failed(doing, kind, status, err)
}

// isBitbucket reports whether an error response has a type, which exists in several packages. It does not parse the
// JSON: the response may contain a whole pull request and may be cut.
func isBitbucket(refused *refusal, exception string) bool {
	return bytes.Contains(refused.body, []byte("."+exception+`"`))
}

func bitbucketMessage(content []byte) string {
	var body struct {
		Errors []struct {
			Message string `json:"message"`
			Vetoes  []struct {
				Summary string `json:"summaryMessage"`
			} `json:"vetoes"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(content, &body)
	var parts []string
	for _, refusal := range body.Errors {
		parts = append(parts, refusal.Message)
		for _, veto := range refusal.Vetoes {
			parts = append(parts, veto.Summary)
		}
	}
	return strings.Join(parts, ": ")
}

func fromBitbucket(p bitbucketPullRequest) PullRequest {
	pullRequest := PullRequest{
		Number:     p.ID,
		Title:      p.Title,
		Body:       p.Description,
		Branch:     strings.TrimPrefix(p.FromRef.ID, "refs/heads/"),
		Base:       strings.TrimPrefix(p.ToRef.ID, "refs/heads/"),
		HeadCommit: p.FromRef.LatestCommit,
		State:      map[string]State{"OPEN": StateOpen, "MERGED": StateMerged, "DECLINED": StateClosed}[p.State],
	}
	if pullRequest.State == StateMerged {
		pullRequest.MergeCommit = p.Properties.MergeCommit.ID
	}
	if len(p.Links.Self) > 0 {
		pullRequest.URL = p.Links.Self[0].Href
	}
	return pullRequest
}
