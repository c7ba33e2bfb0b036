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
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"
)

// gitLabKind has another name for SSH at port 443:
// https://about.gitlab.com/blog/2016/02/18/gitlab-dot-com-now-supports-an-alternate-git-plus-ssh-port/. Its webhooks:
// https://docs.gitlab.com/user/project/integrations/webhooks/
var gitLabKind = kind{
	open: newGitLab,
	known: func(address *url.URL) (host, path string, ok bool) {
		return renamed(address, map[string]string{"gitlab.com": "gitlab.com", "altssh.gitlab.com": "gitlab.com"})
	},
	claims: func(header http.Header, key []byte) []claim {
		return append(keyClaim(header.Get("X-Gitlab-Token"), key), standardClaims(header, key)...)
	},
}

// gitLab is a project on gitlab.com or a self-hosted GitLab, in a group of any depth.
type gitLab struct {
	location
	client *gitlab.Client
	// project is the full path of the project.
	project string
	// pageSize is the number of merge requests in a page. The maximum of GitLab is 100.
	pageSize int64
	// pipelineWait is the time until the second lookup of a commit's pipeline. It doubles for each further one.
	pipelineWait time.Duration
}

// pipelineAttempts is the maximum number of lookups of a commit's pipeline, which GitLab creates in the background.
const pipelineAttempts = 4

// noLimiter disables the client's own limits: the transport handles those of the host.
type noLimiter struct{}

func (noLimiter) Wait(ctx context.Context) error { return ctx.Err() }

func newGitLab(repository Repository, connect connector) (Host, error) {
	root, segments, err := parseURL(repository)
	if err != nil {
		return nil, err
	}
	last := len(segments) - 1
	at := newLocation(root, strings.Join(segments[:last], "/"), segments[last])
	at.page = join(root, segments...).String()
	at.clone = at.page + ".git"
	api, err := at.connect(repository, bearer, connect)
	if err != nil {
		return nil, err
	}
	client, err := gitlab.NewAuthSourceClient(gitlab.Unauthenticated{},
		gitlab.WithBaseURL(root.String()), gitlab.WithHTTPClient(api.Client),
		gitlab.WithoutRetries(), gitlab.WithCustomLimiter(noLimiter{}))
	if err != nil {
		return nil, err
	}
	return &gitLab{location: at, client: client, project: at.owner + "/" + at.name, pageSize: 100, pipelineWait: time.Second}, nil
}

func (h *gitLab) Find(ctx context.Context, branch string) ([]PullRequest, error) {
	var found found
	err := everyPage(func(page int) (int, error) {
		mergeRequests, response, err := h.client.MergeRequests.ListProjectMergeRequests(h.project, &gitlab.ListProjectMergeRequestsOptions{
			State: gitlab.Ptr("all"), Scope: gitlab.Ptr("all"), SourceBranch: &branch,
			// Oldest first: a pull request that is opened meanwhile does not move others to pages that were already
			// read.
			OrderBy: gitlab.Ptr("created_at"), Sort: gitlab.Ptr("asc"),
			ListOptions: gitlab.ListOptions{Page: int64(page), PerPage: h.pageSize},
		}, gitlab.WithContext(ctx))
		if err != nil {
			return 0, h.failed("listing merge requests", err)
		}
		for _, mergeRequest := range mergeRequests {
			if mergeRequest.SourceProjectID == mergeRequest.TargetProjectID && mergeRequest.SourceBranch == branch {
				if err := found.add(fromGitLab(mergeRequest)); err != nil {
					return 0, err
				}
			}
		}
		return int(response.NextPage), nil
	})
	if err != nil {
		return nil, err
	}
	return newestFirst(found.pullRequests), nil
}

func (h *gitLab) Get(ctx context.Context, number int) (PullRequest, error) {
	mergeRequest, _, err := h.client.MergeRequests.GetMergeRequest(h.project, int64(number), nil, gitlab.WithContext(ctx))
	if err != nil {
		return PullRequest{}, h.failed(fmt.Sprintf("reading merge request %d", number), err)
	}
	pullRequest := fromGitLab(&mergeRequest.BasicMergeRequest)
	if mergeRequest.HeadPipeline != nil {
		pullRequest.Pipeline = strconv.FormatInt(mergeRequest.HeadPipeline.ID, 10)
	}
	return pullRequest, nil
}

func (h *gitLab) Create(ctx context.Context, wanted NewPullRequest) (PullRequest, error) {
	title := wanted.Title
	if wanted.Draft {
		// GitLab marks drafts by their titles.
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
	notTaken(&created, "reviewers", h.notKept(reviewers, mergeRequest.Reviewers, wanted.Reviewers))
	return created, nil
}

// notKept returns the reviewers that GitLab ignored without an error. Its free edition keeps only one.
func (h *gitLab) notKept(asked []int64, kept []*gitlab.BasicUser, names []string) error {
	if len(kept) >= len(asked) {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(kept, func(user *gitlab.BasicUser) bool { return strings.EqualFold(user.Username, name) })
	})
	return fmt.Errorf("the host rejected %s", strings.Join(missing, ", "))
}

// people returns the GitLab IDs of users, and errors for those that have none.
func (h *gitLab) people(ctx context.Context, names []string) ([]int64, error) {
	var ids []int64
	var failures []error
	for _, name := range names {
		users, _, err := h.client.Users.ListUsers(&gitlab.ListUsersOptions{Username: &name}, gitlab.WithContext(ctx))
		switch {
		case err != nil:
			failures = append(failures, h.failed("finding user "+name, err))
		case len(users) == 0:
			failures = append(failures, fmt.Errorf("user %s not found", name))
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

// SetStatus attaches the status to the commit's newest pipeline, which merges check. Otherwise GitLab creates a
// separate pipeline next to that of the merge request: either the status would be ignored, or it would hide the other
// pipeline.
func (h *gitLab) SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error {
	options := &gitlab.SetCommitStatusOptions{
		State: map[StatusState]gitlab.BuildStateValue{
			StatusPending: gitlab.Pending, StatusSuccess: gitlab.Success, StatusFailure: gitlab.Failed,
		}[state],
		Name: gitlab.Ptr(StatusContext), Description: gitlab.Ptr(short(description)),
	}
	pipeline, err := h.pipelineOf(ctx, pullRequest.HeadCommit)
	switch {
	case err != nil:
		return err
	case pipeline != nil:
		options.PipelineID, options.Ref = &pipeline.ID, &pipeline.Ref
	// Without a branch, GitLab looks for one that contains the commit.
	case pullRequest.Branch != "":
		options.Ref = &pullRequest.Branch
	}
	_, _, err = h.client.Commits.SetCommitStatus(h.project, pullRequest.HeadCommit, options, gitlab.WithContext(ctx))
	// A pending status cannot be set to pending again: GitLab treats statuses as jobs, and this as starting a job
	// twice.
	if err != nil && !has(err.Error(), "cannot transition status via :enqueue from :pending") {
		return h.failed("setting a status of commit "+pullRequest.HeadCommit, err)
	}
	return nil
}

// pipelineOf returns the newest pipeline of a commit, or nil if there is none after a while.
func (h *gitLab) pipelineOf(ctx context.Context, commit string) (*gitlab.PipelineInfo, error) {
	for attempt := range pipelineAttempts {
		found, _, err := h.client.Commits.GetCommit(h.project, commit, nil, gitlab.WithContext(ctx))
		if err != nil {
			return nil, h.failed("finding a pipeline of commit "+commit, err)
		}
		if found.LastPipeline != nil || attempt == pipelineAttempts-1 {
			return found.LastPipeline, nil
		}
		select {
		case <-time.After(h.pipelineWait << attempt):
		case <-ctx.Done():
			return nil, h.failed("finding a pipeline of commit "+commit, ctx.Err())
		}
	}
	return nil, nil
}

// Merge does not choose between a merge commit and a rebase: that is a setting of the GitLab project.
func (h *gitLab) Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error {
	if method == MergeRebase {
		return h.unsupported(method, "choose the merge method in the project's settings, and merge or squash here")
	}
	options := &gitlab.AcceptMergeRequestOptions{SHA: &headCommit}
	if method == MergeSquash {
		options.Squash = gitlab.Ptr(true)
	}
	doing := fmt.Sprintf("merging merge request %d", number)
	accepted, _, err := h.client.MergeRequests.AcceptMergeRequest(h.project, int64(number), options, gitlab.WithContext(ctx))
	if err == nil {
		// Failures during the merge are reported as success.
		if accepted.State != "merged" && accepted.MergeError != "" {
			return h.location.failed(doing, ErrNotMergeable, http.StatusOK, errors.New(accepted.MergeError))
		}
		return nil
	}
	switch status := gitLabStatus(err); status {
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnprocessableEntity:
		return h.location.failed(doing, ErrNotMergeable, status, gitLabMessage(err))
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
	return h.location.failed(doing, kind, gitLabStatus(err), gitLabMessage(err))
}

// gitLabStatus returns the status code of the response that caused the error, or 0.
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

// gitLabMessage removes the request from an error, because other parts of the message describe it.
func gitLabMessage(err error) error {
	var refused *gitlab.ErrorResponse
	if errors.As(err, &refused) {
		return errors.New(refused.Message)
	}
	return err
}

func fromGitLab(m *gitlab.BasicMergeRequest) PullRequest {
	// A locked merge request is being merged, which may still fail.
	state := StateOpen
	switch m.State {
	case "merged":
		state = StateMerged
	case "closed":
		state = StateClosed
	}
	pullRequest := PullRequest{
		Number:     int(m.IID),
		URL:        m.WebURL,
		Title:      m.Title,
		Body:       m.Description,
		Branch:     m.SourceBranch,
		Base:       m.TargetBranch,
		HeadCommit: m.SHA,
		State:      state,
	}
	// Without a merge commit, the base branch was moved to the squash commit or to the head.
	if state == StateMerged {
		pullRequest.MergeCommit = cmp.Or(m.MergeCommitSHA, m.SquashCommitSHA, m.SHA)
	}
	return pullRequest
}
