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

// Package scm manages pull requests on Git hosts.
//
// A Host is one repository. Each kind of host has an adapter with a few methods. The common parts, such as limits on
// responses, credentials and rate limits, are in the HTTP transport. Hosts opens repositories, and shares what belongs
// to one credential.
package scm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StatusContext is the name of the status that SetStatus sets.
const StatusContext = "sluice/preconditions"

// MaxBody is the maximum length in characters of a pull request's body on all hosts. It is the limit of Azure DevOps.
const MaxBody = 4000

const (
	// maxDescription is the maximum length in characters of a status' description. It is the limit of GitHub.
	maxDescription = 140
	// requestTimeout is the timeout of one request, including the body of its response.
	requestTimeout = 30 * time.Second
	// maxResponse is the maximum size in bytes of a response: a full page of pull requests with long bodies.
	maxResponse = mostRead / readPerByte
	// mostFound is the maximum number of pull requests of one branch, and mostFoundText the maximum size in bytes of
	// their text.
	mostFound     = 1000
	mostFoundText = 4 << 20
	// maxPages is the maximum number of pages of pull requests. More are an error: with a partial result, a promotion
	// could be made twice.
	maxPages = 1000
)

var (
	// ErrNotFound means that the repository or pull request does not exist, or is not visible with the token.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized means that the host rejects the token, or denies the operation.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrAlreadyExists means that an open pull request of that branch exists. Find returns it.
	ErrAlreadyExists = errors.New("an open pull request already exists")
	// ErrNoDifference means that the branch contains nothing that the base does not. Some hosts accept that.
	ErrNoDifference = errors.New("no difference between branch and base")
	// ErrNotMergeable means that the host does not merge a pull request in its current state: it has conflicts, a rule
	// of the repository is not met, or its head is another commit. It may be mergeable later.
	ErrNotMergeable = errors.New("not mergeable")
	// ErrUnsupported means that this kind of host does not support the operation.
	ErrUnsupported = errors.New("not supported by this Git host")
)

// RateLimitedError means that the host accepts no requests of this credential for now. Use errors.As on the errors of a
// Host's methods.
type RateLimitedError struct {
	// Until is the time from which requests are accepted.
	Until time.Time
}

func (e *RateLimitedError) Error() string {
	return "rate limited by the host until " + e.Until.UTC().Format(time.RFC3339)
}

// State is the state of a pull request.
type State string

const (
	// StateOpen means that it can be merged or closed.
	StateOpen State = "open"
	// StateMerged is final.
	StateMerged State = "merged"
	// StateClosed means that it was closed without being merged. It can be reopened.
	StateClosed State = "closed"
)

// PullRequest is a pull request on a host.
type PullRequest struct {
	// Number is unique within the repository.
	Number int
	// URL is the page in a browser.
	URL   string
	Title string
	Body  string
	// Branch to be merged. It is in the same repository, unless the pull request comes from a fork.
	Branch string
	// Base is the branch that it is merged into.
	Base string
	// HeadCommit is the newest commit of the pull request.
	HeadCommit string
	// MergeCommit is the commit to which the merge moved the base branch. It is empty before the merge, and if the host
	// does not report it.
	MergeCommit string
	// Pipeline is the newest CI pipeline of HeadCommit, on hosts where a status belongs to a CI pipeline. Only Get sets
	// it.
	Pipeline string
	State    State
	// Warning names the parts of a NewPullRequest that the host rejected, such as an unknown reviewer. Only Create sets
	// it.
	Warning string
}

// NewPullRequest contains the fields of a new pull request.
type NewPullRequest struct {
	Title string
	Body  string
	// Branch and Base are branches of the repository.
	Branch string
	Base   string
	// Labels are set on hosts that support them.
	Labels []string
	// Reviewers are requested by their user names on the host.
	Reviewers []string
	// Draft prevents a merge until a person marks the pull request as ready.
	Draft bool
}

// StatusState is the state of a commit status.
type StatusState string

const (
	// StatusPending means in progress.
	StatusPending StatusState = "pending"
	// StatusSuccess allows the merge.
	StatusSuccess StatusState = "success"
	// StatusFailure blocks the merge, if the repository's rules require the status.
	StatusFailure StatusState = "failure"
)

// MergeMethod defines how the commits of a pull request are added to the base branch.
type MergeMethod string

const (
	// MergeCommit adds a merge commit with two parents.
	MergeCommit MergeMethod = "merge"
	// MergeSquash combines all commits into one.
	MergeSquash MergeMethod = "squash"
	// MergeRebase rebases the commits onto the base.
	MergeRebase MergeMethod = "rebase"
)

// Host manages the pull requests of one repository. It never waits for a rate limit: while one applies, methods send no
// request and return a RateLimitedError. All repositories of the same Hosts share the known limits. A Host is safe for
// concurrent use.
type Host interface {
	// CloneURL returns the URL for Git, without credentials.
	CloneURL() string
	// Find returns all pull requests in any state whose head is that branch of this repository, newest first.
	Find(ctx context.Context, branch string) ([]PullRequest, error)
	// Get returns one pull request. The error is ErrNotFound if it does not exist.
	Get(ctx context.Context, number int) (PullRequest, error)
	// Create opens a pull request. The error can be ErrAlreadyExists or ErrNoDifference.
	Create(ctx context.Context, pullRequest NewPullRequest) (PullRequest, error)
	// Close closes an open pull request and returns its new state. A pull request that is merged or closed is not
	// changed.
	Close(ctx context.Context, number int) (PullRequest, error)
	// Comment adds a comment to a pull request, in Markdown.
	Comment(ctx context.Context, number int, text string) error
	// SetStatus sets the status StatusContext of the pull request's HeadCommit. It can be set again.
	SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error
	// Merge merges a pull request whose newest commit is headCommit. The error is ErrNotMergeable if the newest commit
	// is another one or if the host rejects the merge in the current state, and ErrUnsupported if the host does not
	// support the method. Some hosts merge in the background: Get returns when that is done.
	Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error
}

// Repository contains the location and the credentials of a repository.
type Repository struct {
	// URL for cloning, by HTTP or HTTPS, or the repository's page. The address of the API is derived from it.
	URL string
	// Token is only sent to the API's own origin.
	Token Token
	// App replaces Token unless it is nil. Only GitHub has Apps.
	App *GitHubApp
	// CABundle contains certificate authorities (PEM) that are trusted in addition to the system's.
	CABundle []byte
}

// Token is a credential for a host's API. It is redacted when printed. Convert it to a string to use it.
type Token string

// String returns no part of the token.
func (Token) String() string { return "[redacted]" }

// GoString redacts %#v too.
func (t Token) GoString() string { return t.String() }

// MarshalText encodes String.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// closeOpen implements Host.Close.
func closeOpen(ctx context.Context, host Host, number int, closeIt func() (PullRequest, error)) (PullRequest, error) {
	pullRequest, err := host.Get(ctx, number)
	if err != nil || pullRequest.State != StateOpen {
		return pullRequest, err
	}
	closed, err := closeIt()
	if err == nil {
		return closed, nil
	}
	// It may have been merged or closed since it was read. Hosts reject the request in that case.
	if now, getErr := host.Get(ctx, number); getErr == nil && now.State != StateOpen {
		return now, nil
	}
	return PullRequest{}, err
}

// everyPage calls list for each page, starting with the first one, until it returns 0 as the next page.
func everyPage(list func(page int) (next int, err error)) error {
	page := 1
	for range maxPages {
		next, err := list(page)
		if err != nil || next == 0 {
			return err
		}
		page = next
	}
	return fmt.Errorf("more than %d pages of pull requests", maxPages)
}

// found collects the pull requests of a branch.
type found struct {
	pullRequests []PullRequest
	text         int
}

func (f *found) add(pullRequest PullRequest) error {
	f.pullRequests = append(f.pullRequests, pullRequest)
	f.text += len(pullRequest.Title) + len(pullRequest.Body) + len(pullRequest.URL) + len(pullRequest.Base) + len(pullRequest.HeadCommit) +
		len(pullRequest.MergeCommit)
	if f.text > mostFoundText {
		return fmt.Errorf("the pull requests of branch %s have more than %d bytes of text", pullRequest.Branch, mostFoundText)
	}
	return checkFound(len(f.pullRequests), pullRequest.Branch)
}

func checkFound(number int, branch string) error {
	if number > mostFound {
		return fmt.Errorf("there are more than %d pull requests of branch %s", mostFound, branch)
	}
	return nil
}

// newestFirst sorts by number, because the times of hosts are in whole seconds.
func newestFirst(pullRequests []PullRequest) []PullRequest {
	slices.SortFunc(pullRequests, func(a, b PullRequest) int { return b.Number - a.Number })
	return pullRequests
}

// short cuts a status' description to a length that every host accepts.
func short(description string) string {
	if letters := []rune(description); len(letters) > maxDescription {
		return string(letters[:maxDescription-1]) + "…"
	}
	return description
}

// notTaken returns a warning for parts that were rejected after the pull request was opened, because the open pull
// request must not be lost.
func notTaken(pullRequest *PullRequest, what string, err error) {
	if err == nil {
		return
	}
	if pullRequest.Warning != "" {
		pullRequest.Warning += "; "
	}
	pullRequest.Warning += fmt.Sprintf("%s: %s", what, err)
}

// peopleAndTeams separates users from teams, which are named org/team.
func peopleAndTeams(reviewers []string) (people, teams []string) {
	for _, reviewer := range reviewers {
		if _, team, isTeam := strings.Cut(reviewer, "/"); isTeam {
			teams = append(teams, team)
		} else {
			people = append(people, reviewer)
		}
	}
	return people, teams
}

// has reports whether an error message contains the phrase of a known error.
func has(message, phrase string) bool {
	return strings.Contains(strings.ToLower(message), phrase)
}
