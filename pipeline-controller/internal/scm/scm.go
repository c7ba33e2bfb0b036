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

// Package scm works with pull requests on the Git hosts that people use.
//
// A Host is one repository on one of them. Every host is an adapter of a few
// methods; what they share, such as the limits on responses, the credential and
// the rate limit, is in the HTTP transport beneath. Hosts opens them, and keeps
// what all of one credential must have in common.
package scm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StatusContext is the name under which hosts show the status that SetStatus sets.
const StatusContext = "sluice/preconditions"

// MaxBody is how many characters the body of a pull request may have on every host: Azure DevOps takes no more.
const MaxBody = 4000

const (
	// maxDescription is how many characters of a status' description are shown: GitHub takes no more.
	maxDescription = 140
	// requestTimeout bounds one request, its response's body included.
	requestTimeout = 30 * time.Second
	// maxResponse is the size in bytes of the largest response read: a full page of pull requests with long bodies.
	maxResponse = mostRead / readPerByte
	// mostFound is how many pull requests one branch may have, and mostFoundText how many bytes of text they may have together.
	mostFound     = 1000
	mostFoundText = 4 << 20
	// maxPages is how many pages of pull requests are read before giving up, with
	// an error: an answer from a part of them could have a promotion made twice.
	maxPages = 1000
)

var (
	// ErrNotFound says that the host has no such repository or pull request, or none that the token may see.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized says that the host refuses the token, or refuses it this operation.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrAlreadyExists says that an open pull request of that branch exists. Find finds it.
	ErrAlreadyExists = errors.New("an open pull request already exists")
	// ErrNoDifference says that the branch holds nothing that the base does not. Not every host minds.
	ErrNoDifference = errors.New("no difference between branch and base")
	// ErrNotMergeable says that the host does not merge a pull request as it is now:
	// it conflicts, a rule of the repository is not met, or its head is another
	// commit. It may merge it later.
	ErrNotMergeable = errors.New("not mergeable")
	// ErrUnsupported says that this kind of host cannot do what was asked for, now or later.
	ErrUnsupported = errors.New("not supported by this Git host")
)

// RateLimitedError says that the host wants no more requests of this credential
// for now. It is found with errors.As in what a Host's methods return.
type RateLimitedError struct {
	// Until is when requests are welcome again.
	Until time.Time
}

func (e *RateLimitedError) Error() string {
	return "rate limited by the host until " + e.Until.UTC().Format(time.RFC3339)
}

// State is what became of a pull request.
type State string

const (
	// StateOpen is that of pull requests that can still be merged or closed.
	StateOpen State = "open"
	// StateMerged is for ever.
	StateMerged State = "merged"
	// StateClosed is that of pull requests closed without being merged. They can be opened again.
	StateClosed State = "closed"
)

// PullRequest is a pull request as the host has it.
type PullRequest struct {
	// Number is unique within the repository.
	Number int
	// URL is the page for people.
	URL   string
	Title string
	Body  string
	// Branch is what is to be merged, a branch of the same repository unless the pull request comes from a fork.
	Branch string
	// Base is the branch that it is to be merged into.
	Base string
	// HeadCommit is the newest commit of the pull request.
	HeadCommit string
	// MergeCommit is the commit that the merge has moved the base branch to. It is empty until then, and where the host does not tell.
	MergeCommit string
	// Pipeline is the newest CI pipeline of HeadCommit, on hosts where a status belongs to one. Only Get tells it.
	Pipeline string
	State    State
	// Warning says what of a NewPullRequest the host did not take, such as a
	// reviewer that it does not know. Only Create sets it.
	Warning string
}

// NewPullRequest is what a pull request is opened with.
type NewPullRequest struct {
	Title string
	Body  string
	// Branch and Base are branches of the repository.
	Branch string
	Base   string
	// Labels are set on hosts that have them.
	Labels []string
	// Reviewers are asked for a review, by the names that the host knows them by.
	Reviewers []string
	// Draft keeps the pull request from being merged until a person says that it is ready.
	Draft bool
}

// StatusState is what a status says of a commit.
type StatusState string

const (
	// StatusPending is that of something that goes on by itself.
	StatusPending StatusState = "pending"
	// StatusSuccess lets the pull request be merged.
	StatusSuccess StatusState = "success"
	// StatusFailure keeps it from being merged, where the repository's rules ask for the status.
	StatusFailure StatusState = "failure"
)

// MergeMethod is how a pull request's commits get into the base branch.
type MergeMethod string

const (
	// MergeCommit adds a commit with two parents.
	MergeCommit MergeMethod = "merge"
	// MergeSquash makes one commit of all.
	MergeSquash MergeMethod = "squash"
	// MergeRebase makes the commits anew on top of the base.
	MergeRebase MergeMethod = "rebase"
)

// Host is the pull requests of one repository. It never waits for a rate limit:
// while one holds, methods make no request and return a RateLimitedError. It
// knows of the limits that were met through the same Hosts. A Host is safe for
// concurrent use.
type Host interface {
	// CloneURL is where Git finds the repository. No credential is in it.
	CloneURL() string
	// Find returns all pull requests, in whatever state, whose head is that branch of this repository, newest first.
	Find(ctx context.Context, branch string) ([]PullRequest, error)
	// Get returns one pull request. The error is ErrNotFound when there is none.
	Get(ctx context.Context, number int) (PullRequest, error)
	// Create opens a pull request. The error is ErrAlreadyExists or ErrNoDifference where that is the matter.
	Create(ctx context.Context, pullRequest NewPullRequest) (PullRequest, error)
	// Close closes a pull request that is open, and returns the one that there is
	// then: one that was merged or closed before stays what it is.
	Close(ctx context.Context, number int) (PullRequest, error)
	// Comment adds a comment to a pull request, in Markdown.
	Comment(ctx context.Context, number int, text string) error
	// SetStatus sets the status StatusContext of the pull request's HeadCommit. Setting it again is fine.
	SetStatus(ctx context.Context, pullRequest PullRequest, state StatusState, description string) error
	// Merge merges a pull request whose newest commit is headCommit. The error is
	// ErrNotMergeable if that is another one by now or the host does not merge it as
	// it is, ErrUnsupported if it does not know the method. Some hosts merge in the
	// background: Get tells when it is done.
	Merge(ctx context.Context, number int, method MergeMethod, headCommit string) error
}

// Repository tells where a repository is and how to authenticate for its pull requests.
type Repository struct {
	// URL is what is cloned, over http or https, or the repository's page. The address of the API is derived from it.
	URL string
	// Token is sent to the API's own origin only.
	Token Token
	// App, where it is not nil, takes the place of Token. Only GitHub has Apps.
	App *GitHubApp
	// CABundle holds certificate authorities in PEM that are trusted besides the system's.
	CABundle []byte
}

// Token is a credential for a host's API. It does not print: convert it to a string to get at it.
type Token string

// String returns no part of the token.
func (Token) String() string { return "[redacted]" }

// GoString is String: %#v redacts too.
func (t Token) GoString() string { return t.String() }

// MarshalText encodes String.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// closeOpen closes a pull request as Host.Close is to.
func closeOpen(ctx context.Context, host Host, number int, closeIt func() (PullRequest, error)) (PullRequest, error) {
	pullRequest, err := host.Get(ctx, number)
	if err != nil || pullRequest.State != StateOpen {
		return pullRequest, err
	}
	closed, err := closeIt()
	if err == nil {
		return closed, nil
	}
	// It may have been merged or closed since it was read, and then hosts refuse.
	if now, getErr := host.Get(ctx, number); getErr == nil && now.State != StateOpen {
		return now, nil
	}
	return PullRequest{}, err
}

// everyPage calls list for one page after the other, from the first on, until it says there is no next (0).
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

// newestFirst sorts by number: hosts sort by time, in whole seconds.
func newestFirst(pullRequests []PullRequest) []PullRequest {
	slices.SortFunc(pullRequests, func(a, b PullRequest) int { return b.Number - a.Number })
	return pullRequests
}

// short cuts a status' description to what every host takes.
func short(description string) string {
	if letters := []rune(description); len(letters) > maxDescription {
		return string(letters[:maxDescription-1]) + "…"
	}
	return description
}

// notTaken makes a warning of what was refused after a pull request was opened: that it is open must not be lost.
func notTaken(pullRequest *PullRequest, what string, err error) {
	if err == nil {
		return
	}
	if pullRequest.Warning != "" {
		pullRequest.Warning += "; "
	}
	pullRequest.Warning += fmt.Sprintf("%s: %s", what, err)
}

// peopleAndTeams tells reviewers apart: a team is named org/team.
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

// has reports whether a host's message on a refusal means a kind of it.
func has(message, phrase string) bool {
	return strings.Contains(strings.ToLower(message), phrase)
}
