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
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"
)

// gitLab is a project on gitlab.com or on a GitLab of one's own, in a group of any depth.
type gitLab struct {
	location
	client *gitlab.Client
	// project is the project's whole path.
	project string
	// pageSize is how many merge requests are listed at a time. GitLab gives no more than 100.
	pageSize int64
}

// noLimiter keeps the client from limits of its own: those of the host are the transport's to obey.
type noLimiter struct{}

func (noLimiter) Wait(ctx context.Context) error { return ctx.Err() }

func newGitLab(repository Repository, connect connector) (Host, error) {
	root, segments, err := parseURL(repository)
	if err != nil {
		return nil, err
	}
	authenticate, err := tokenOf(repository, bearer)
	if err != nil {
		return nil, err
	}
	api, err := connect(root, authenticate)
	if err != nil {
		return nil, err
	}
	client, err := gitlab.NewAuthSourceClient(gitlab.Unauthenticated{},
		gitlab.WithBaseURL(root.String()), gitlab.WithHTTPClient(api.Client),
		gitlab.WithoutRetries(), gitlab.WithCustomLimiter(noLimiter{}))
	if err != nil {
		return nil, err
	}
	last := len(segments) - 1
	at := newLocation(root, strings.Join(segments[:last], "/"), segments[last])
	at.page = join(root, segments...).String()
	at.clone = at.page + ".git"
	at.secrets = authenticate.secrets
	return &gitLab{location: at, client: client, project: at.owner + "/" + at.name, pageSize: 100}, nil
}

func (h *gitLab) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	var found []PullRequest
	err := everyPage(func(page int) (int, error) {
		mergeRequests, response, err := h.client.MergeRequests.ListProjectMergeRequests(h.project, &gitlab.ListProjectMergeRequestsOptions{
			State: gitlab.Ptr("all"), Scope: gitlab.Ptr("all"), SourceBranch: &branch,
			// Oldest first: one that is opened meanwhile moves no other to a page that was read already.
			OrderBy: gitlab.Ptr("created_at"), Sort: gitlab.Ptr("asc"),
			ListOptions: gitlab.ListOptions{Page: int64(page), PerPage: h.pageSize},
		}, gitlab.WithContext(ctx))
		if err != nil {
			return 0, h.failed("listing merge requests", err)
		}
		for _, mergeRequest := range mergeRequests {
			if mergeRequest.SourceProjectID == mergeRequest.TargetProjectID && mergeRequest.SourceBranch == branch {
				found = append(found, fromGitLab(mergeRequest))
			}
		}
		return int(response.NextPage), nil
	})
	if err != nil {
		return nil, err
	}
	return newestFirst(found), nil
}

func (h *gitLab) Get(ctx context.Context, number int) (PullRequest, error) {
	mergeRequest, _, err := h.client.MergeRequests.GetMergeRequest(h.project, int64(number), nil, gitlab.WithContext(ctx))
	if err != nil {
		return PullRequest{}, h.failed(fmt.Sprintf("reading merge request %d", number), err)
	}
	return fromGitLab(&mergeRequest.BasicMergeRequest), nil
}

func (h *gitLab) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	title := wanted.Title
	if wanted.Draft {
		// GitLab knows drafts by their titles.
		title = "Draft: " + title
	}
	options := &gitlab.CreateMergeRequestOptions{
		Title: &title, Description: &wanted.Body, SourceBranch: &wanted.Branch, TargetBranch: &wanted.Base,
	}
	if len(wanted.Labels) > 0 {
		options.Labels = gitlab.Ptr(gitlab.LabelOptions(wanted.Labels))
	}
	reviewers, unknown := h.people(ctx, wanted.Reviewers)
	if len(reviewers) > 0 {
		options.ReviewerIDs = &reviewers
	}
	mergeRequest, _, err := h.client.MergeRequests.CreateMergeRequest(h.project, options, gitlab.WithContext(ctx))
	if err != nil {
		return PullRequest{}, h.failed("opening a merge request", err)
	}
	created := fromGitLab(&mergeRequest.BasicMergeRequest)
	notTaken(&created, "reviewers", unknown)
	return created, nil
}

// people returns the numbers that GitLab knows users by, and why some have none.
func (h *gitLab) people(ctx context.Context, names []string) ([]int64, error) {
	var ids []int64
	var failures []error
	for _, name := range names {
		users, _, err := h.client.Users.ListUsers(&gitlab.ListUsersOptions{Username: &name}, gitlab.WithContext(ctx))
		switch {
		case err != nil:
			failures = append(failures, h.failed("looking for user "+name, err))
		case len(users) == 0:
			failures = append(failures, fmt.Errorf("there is no user %s", name))
		default:
			ids = append(ids, users[0].ID)
		}
	}
	return ids, errors.Join(failures...)
}

func (h *gitLab) Close(ctx context.Context, number int) (PullRequest, error) {
	return closeOpen(ctx, h, number, func() (PullRequest, error) {
		mergeRequest, _, err := h.client.MergeRequests.UpdateMergeRequest(h.project, int64(number),
			&gitlab.UpdateMergeRequestOptions{StateEvent: gitlab.Ptr("close")}, gitlab.WithContext(ctx))
		if err != nil {
			return PullRequest{}, h.failed(fmt.Sprintf("closing merge request %d", number), err)
		}
		return fromGitLab(&mergeRequest.BasicMergeRequest), nil
	})
}

func (h *gitLab) Comment(ctx context.Context, number int, text string) error {
	_, _, err := h.client.Notes.CreateMergeRequestNote(h.project, int64(number),
		&gitlab.CreateMergeRequestNoteOptions{Body: &text}, gitlab.WithContext(ctx))
	if err != nil {
		return h.failed(fmt.Sprintf("commenting on merge request %d", number), err)
	}
	return nil
}

func (h *gitLab) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	options := &gitlab.SetCommitStatusOptions{
		State: map[StatusState]gitlab.BuildStateValue{
			StatusPending: gitlab.Pending, StatusSuccess: gitlab.Success, StatusFailure: gitlab.Failed,
		}[state],
		Name: gitlab.Ptr(StatusContext), Description: gitlab.Ptr(short(description)),
	}
	// Without a branch, GitLab looks for one that has the commit.
	if pullRequest.Branch != "" {
		options.Ref = &pullRequest.Branch
	}
	_, _, err := h.client.Commits.SetCommitStatus(h.project, pullRequest.HeadCommit, options, gitlab.WithContext(ctx))
	// What is pending can't be made pending: GitLab takes statuses for jobs, and that for starting one twice.
	if err != nil && !has(err.Error(), "cannot transition status via :enqueue from :pending") {
		return h.failed("setting a status of commit "+pullRequest.HeadCommit, err)
	}
	return nil
}

// Merge leaves the choice between a merge commit and a rebase to the project: GitLab has it in its settings alone.
func (h *gitLab) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	if method == MergeRebase {
		return h.unsupported(method, "choose the merge method in the project's settings, and merge or squash here")
	}
	options := &gitlab.AcceptMergeRequestOptions{SHA: &headCommit}
	if method == MergeSquash {
		options.Squash = gitlab.Ptr(true)
	}
	_, _, err := h.client.MergeRequests.AcceptMergeRequest(h.project, int64(number), options, gitlab.WithContext(ctx))
	if err == nil {
		return nil
	}
	doing := fmt.Sprintf("merging merge request %d", number)
	switch status := gitLabStatus(err); status {
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnprocessableEntity:
		return h.location.failed(doing, ErrNotMergeable, status, gitLabWords(err))
	}
	return h.failed(doing, err)
}

func (h *gitLab) failed(doing string, err error) error {
	var kind error
	switch {
	case has(err.Error(), "open merge request already exists for this source branch"):
		kind = ErrAlreadyExists
	case has(err.Error(), "can't use same project/branch for source and target"):
		kind = ErrNoDifference
	}
	return h.location.failed(doing, kind, gitLabStatus(err), gitLabWords(err))
}

// gitLabStatus returns the status of the response that the client made an error of; 0 where there was none.
func gitLabStatus(err error) int {
	var refused *gitlab.ErrorResponse
	switch {
	case errors.Is(err, gitlab.ErrNotFound):
		return http.StatusNotFound
	case errors.As(err, &refused):
		return refused.StatusCode
	default:
		return 0
	}
}

// gitLabWords leaves out of an error what was asked for: that is told in another way already.
func gitLabWords(err error) error {
	var refused *gitlab.ErrorResponse
	if errors.As(err, &refused) {
		return errors.New(refused.Message)
	}
	return err
}

func fromGitLab(m *gitlab.BasicMergeRequest) PullRequest {
	// What is locked is just being merged, and may yet fail to be.
	state := StateOpen
	switch m.State {
	case "merged":
		state = StateMerged
	case "closed":
		state = StateClosed
	}
	return PullRequest{
		Number:     int(m.IID),
		URL:        m.WebURL,
		Title:      m.Title,
		Body:       m.Description,
		Branch:     m.SourceBranch,
		Base:       m.TargetBranch,
		HeadCommit: m.SHA,
		State:      state,
	}
}
