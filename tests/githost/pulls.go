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

package githost

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	open   = "open"
	closed = "closed"
)

// PullRequest is a copy of the state of a pull request.
type PullRequest struct {
	Number      int
	Title, Body string
	// Author is the login of the author.
	Author string
	Draft  bool
	// State is open or closed; a merged one is closed.
	State  string
	Merged bool
	// Head and Base are the names of its branches.
	Head, Base string
	// HeadSHA and BaseSHA follow the branches while it is open.
	HeadSHA, BaseSHA string
	// MergeCommitSHA is what the base was moved to by the merge; empty if it is not merged.
	MergeCommitSHA string
	// MergedBy is the login of the user who merged it.
	MergedBy string
	// CreatedAt and UpdatedAt are always set, ClosedAt and MergedAt once it is closed or merged.
	CreatedAt, UpdatedAt, ClosedAt, MergedAt time.Time
	Labels                                   []string
	// Reviewers are the logins, TeamReviewers the slugs of the teams, whose review was requested.
	Reviewers, TeamReviewers []string
	Comments                 []Comment
}

type pullRequest struct {
	PullRequest
	id        int64
	testMerge testMerge
}

// testMerge is GitHub's trial of a merge, and the commits it was tried with.
type testMerge struct {
	head, base string
	commit     string // empty if they conflict
}

func (p *pullRequest) touch() { p.UpdatedAt = time.Now() }

func (p *pullRequest) close() {
	p.State, p.ClosedAt = closed, time.Now()
	p.touch()
}

func (p *pullRequest) markMerged(commit, by string) {
	p.close()
	p.Merged, p.MergedAt = true, p.ClosedAt
	p.MergeCommitSHA, p.MergedBy = commit, by
}

// follow applies changes of the branches to an open pull request.
func (r *repository) follow(p *pullRequest, by string) error {
	if p.State != open {
		return nil
	}
	head, headExists := r.branches[p.Head]
	base, baseExists := r.branches[p.Base]
	if !headExists {
		head = p.HeadSHA
	}
	if baseExists && base != p.BaseSHA {
		landed, err := r.git.contains(base, head)
		if err != nil {
			return err
		}
		if landed {
			p.HeadSHA = head
			p.markMerged(base, by)
			return nil
		}
		p.BaseSHA = base
	}
	if !headExists || !baseExists {
		p.close()
		return nil
	}
	if head == p.HeadSHA {
		return nil
	}
	p.HeadSHA = head
	p.touch()
	emptied, err := r.git.contains(base, head)
	if err != nil {
		return err
	}
	if emptied {
		p.close()
		return nil
	}
	return r.keepHead(p)
}

// keepHead points refs/pull/N/head at the head, so it can always be fetched.
func (r *repository) keepHead(p *pullRequest) error {
	_, err := r.git.run("update-ref", fmt.Sprintf("refs/pull/%d/head", p.Number), p.HeadSHA)
	return err
}

// tryMerge brings testMerge up to date.
func (r *repository) tryMerge(p *pullRequest) error {
	if p.testMerge.head == p.HeadSHA && p.testMerge.base == p.BaseSHA {
		return nil
	}
	commit, err := r.mergeCommit(p, "merge", mergeMessage{})
	if err != nil && !errors.Is(err, errConflict) {
		return err
	}
	p.testMerge = testMerge{head: p.HeadSHA, base: p.BaseSHA, commit: commit}
	return nil
}

type pullJSON struct {
	ID                 int64       `json:"id"`
	Number             int         `json:"number"`
	URL                string      `json:"url"`
	HTMLURL            string      `json:"html_url"`
	State              string      `json:"state"`
	Title              string      `json:"title"`
	Body               *string     `json:"body"`
	Draft              bool        `json:"draft"`
	User               userJSON    `json:"user"`
	CreatedAt          *string     `json:"created_at"`
	UpdatedAt          *string     `json:"updated_at"`
	ClosedAt           *string     `json:"closed_at"`
	MergedAt           *string     `json:"merged_at"`
	MergeCommitSHA     *string     `json:"merge_commit_sha"`
	Labels             []labelJSON `json:"labels"`
	RequestedReviewers []userJSON  `json:"requested_reviewers"`
	RequestedTeams     []teamJSON  `json:"requested_teams"`
	Head               sideJSON    `json:"head"`
	Base               sideJSON    `json:"base"`
}

// pullDetailsJSON has the fields of a single pull request that lists omit.
type pullDetailsJSON struct {
	pullJSON
	Merged         bool      `json:"merged"`
	Mergeable      *bool     `json:"mergeable"`
	MergeableState string    `json:"mergeable_state"`
	MergedBy       *userJSON `json:"merged_by"`
	Comments       int       `json:"comments"`
}

type sideJSON struct {
	Label string         `json:"label"`
	Ref   string         `json:"ref"`
	SHA   string         `json:"sha"`
	User  userJSON       `json:"user"`
	Repo  repositoryJSON `json:"repo"`
}

func (r *repository) pullJSON(p *pullRequest) pullJSON {
	side := func(branch, sha string) sideJSON {
		return sideJSON{Label: r.owner + ":" + branch, Ref: branch, SHA: sha, User: user(r.owner), Repo: r.json()}
	}
	view := pullJSON{
		ID: p.id, Number: p.Number, State: p.State, Title: p.Title, Body: nullable(p.Body), Draft: p.Draft, User: user(p.Author),
		URL:       fmt.Sprintf("%s/pulls/%d", r.apiURL(), p.Number),
		HTMLURL:   fmt.Sprintf("%s/pull/%d", r.htmlURL(), p.Number),
		CreatedAt: timestamp(p.CreatedAt), UpdatedAt: timestamp(p.UpdatedAt),
		ClosedAt: timestamp(p.ClosedAt), MergedAt: timestamp(p.MergedAt),
		// Open pull requests have a merge commit too: that of the test merge.
		MergeCommitSHA:     nullable(cmp.Or(p.MergeCommitSHA, p.testMerge.commit)),
		Labels:             labels(p.Labels),
		RequestedReviewers: []userJSON{},
		RequestedTeams:     []teamJSON{},
		Head:               side(p.Head, p.HeadSHA),
		Base:               side(p.Base, p.BaseSHA),
	}
	for _, login := range p.Reviewers {
		view.RequestedReviewers = append(view.RequestedReviewers, user(login))
	}
	for _, slug := range p.TeamReviewers {
		view.RequestedTeams = append(view.RequestedTeams, teamJSON{Slug: slug, Name: slug})
	}
	return view
}

func (r *repository) pullDetails(p *pullRequest) (pullDetailsJSON, error) {
	view := pullDetailsJSON{Merged: p.Merged, MergeableState: "unknown", Comments: len(p.Comments)}
	if p.State == open {
		if err := r.tryMerge(p); err != nil {
			return view, err
		}
		view.Mergeable, view.MergeableState = new(p.testMerge.commit != ""), r.mergeableState(p)
	}
	if p.Merged {
		view.MergedBy = new(user(p.MergedBy))
	}
	view.pullJSON = r.pullJSON(p)
	return view, nil
}

func (r *repository) mergeableState(p *pullRequest) string {
	statuses := r.latestStatuses(p.HeadSHA)
	switch {
	case p.testMerge.commit == "":
		return "dirty"
	case p.Draft:
		return "draft"
	case len(statuses) > 0 && combinedState(statuses) != "success":
		return "unstable"
	default:
		return "clean"
	}
}

// pull returns the pull request whose number is in the request's path.
func (r *request) pull() (*pullRequest, error) {
	number, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || number < 1 || number > len(r.repo.pulls) {
		return nil, errNotFound()
	}
	return r.repo.pulls[number-1], nil
}

func errPull(code, field, message string) error {
	return errValidation(fieldError{Resource: "PullRequest", Code: code, Field: field, Message: message})
}

func createPull(r *request) (*reply, error) {
	var wanted struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	repo := r.repo
	switch {
	case wanted.Base == "":
		return nil, errNotSupplied("base")
	case wanted.Head == "":
		return nil, errNotSupplied("head")
	case strings.TrimSpace(wanted.Title) == "":
		return nil, errValidation(fieldError{Resource: "Issue", Code: "missing_field", Field: "title"})
	}
	head, isOurs := repo.branchOfLabel(wanted.Head)
	headSHA, headExists := repo.branches[head]
	if !isOurs || !headExists {
		return nil, errPull("invalid", "head", "")
	}
	if _, exists := repo.branches[wanted.Base]; !exists {
		return nil, errPull("invalid", "base", "")
	}
	if repo.openPull(head, wanted.Base) != nil {
		return nil, errPull("custom", "", fmt.Sprintf("A pull request already exists for %s:%s.", repo.owner, head))
	}
	if err := repo.differ(head, wanted.Base); err != nil {
		return nil, err
	}
	// SWE-agent/SWE-agent#179, cynkra/fledge#260
	if wanted.Draft && repo.noDrafts {
		return nil, errUnprocessable("Draft pull requests are not supported in this repository.")
	}
	now := time.Now()
	pull := &pullRequest{
		id: repo.newID(),
		PullRequest: PullRequest{
			Number: len(repo.pulls) + 1, Title: wanted.Title, Body: wanted.Body, Author: r.token.Login, Draft: wanted.Draft,
			State: open, Head: head, HeadSHA: headSHA, Base: wanted.Base, BaseSHA: repo.branches[wanted.Base],
			CreatedAt: now, UpdatedAt: now,
		},
	}
	if err := repo.keepHead(pull); err != nil {
		return nil, err
	}
	repo.pulls = append(repo.pulls, pull)
	view, err := repo.pullDetails(pull)
	if err != nil {
		return nil, err
	}
	return created(view)
}

// branchOfLabel returns the branch that `branch` or `owner:branch` names, and false if that is in someone else's fork.
func (r *repository) branchOfLabel(label string) (string, bool) {
	owner, branch, hasOwner := strings.Cut(label, ":")
	if !hasOwner {
		return label, true
	}
	return branch, owner == r.owner
}

func (r *repository) openPull(head, base string) *pullRequest {
	for _, pull := range r.pulls {
		if pull.State == open && pull.Head == head && pull.Base == base {
			return pull
		}
	}
	return nil
}

// differ returns why two existing branches can't have a pull request.
func (r *repository) differ(head, base string) error {
	related, err := r.git.related(r.branches[base], r.branches[head])
	if err != nil {
		return err
	}
	if !related {
		return errPull("custom", "", fmt.Sprintf("The %s branch has no history in common with %s", head, base))
	}
	contained, err := r.git.contains(r.branches[base], r.branches[head])
	if err != nil {
		return err
	}
	if contained {
		return errPull("custom", "", fmt.Sprintf("No commits between %s and %s", base, head))
	}
	return nil
}

func listPulls(r *request) (*reply, error) {
	query := r.URL.Query()
	state := cmp.Or(query.Get("state"), open)
	if !slices.Contains([]string{open, closed, "all"}, state) {
		return nil, errPull("invalid", "state", "")
	}
	owner, head, byHead := strings.Cut(query.Get("head"), ":")
	found := slices.DeleteFunc(slices.Clone(r.repo.pulls), func(p *pullRequest) bool {
		return state != "all" && p.State != state ||
			// GitHub ignores a head without an owner, and returns all.
			byHead && (owner != r.repo.owner || head != p.Head) ||
			query.Get("base") != "" && query.Get("base") != p.Base
	})
	by := func(p *pullRequest) time.Time { return p.CreatedAt }
	if query.Get("sort") == "updated" {
		by = func(p *pullRequest) time.Time { return p.UpdatedAt }
	}
	slices.SortStableFunc(found, func(a, b *pullRequest) int {
		return cmp.Or(by(a).Compare(by(b)), cmp.Compare(a.Number, b.Number))
	})
	byDefault := "asc"
	if cmp.Or(query.Get("sort"), "created") == "created" {
		byDefault = "desc"
	}
	if cmp.Or(query.Get("direction"), byDefault) == "desc" {
		slices.Reverse(found)
	}
	part, header := page(r, found)
	views := []pullJSON{}
	for _, pull := range part {
		views = append(views, r.repo.pullJSON(pull))
	}
	return &reply{status: http.StatusOK, header: header, body: views}, nil
}

func getPull(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	view, err := r.repo.pullDetails(pull)
	if err != nil {
		return nil, err
	}
	return ok(view)
}

// pullChange is an update of a pull request. Fields that are nil don't change.
type pullChange struct {
	Title, Body, State, Base *string
}

func updatePull(r *request) (*reply, error) {
	pull, err := r.pull()
	if err != nil {
		return nil, err
	}
	var wanted pullChange
	if err := r.decode(&wanted); err != nil {
		return nil, err
	}
	if err := r.repo.change(pull, wanted); err != nil {
		return nil, err
	}
	view, err := r.repo.pullDetails(pull)
	if err != nil {
		return nil, err
	}
	return ok(view)
}

// change applies all of an update, or nothing.
func (r *repository) change(p *pullRequest, wanted pullChange) error {
	changed := *p
	if wanted.Title != nil {
		if strings.TrimSpace(*wanted.Title) == "" {
			return errValidation(fieldError{Resource: "Issue", Code: "missing_field", Field: "title"})
		}
		changed.Title = *wanted.Title
	}
	if wanted.Body != nil {
		changed.Body = *wanted.Body
	}
	if wanted.Base != nil && *wanted.Base != p.Base {
		if err := r.mayRetarget(p, *wanted.Base); err != nil {
			return err
		}
		changed.Base, changed.BaseSHA = *wanted.Base, r.branches[*wanted.Base]
	}
	if wanted.State != nil && *wanted.State != p.State {
		switch *wanted.State {
		case closed:
			changed.close()
		case open:
			if err := r.mayReopen(p); err != nil {
				return err
			}
			changed.State, changed.ClosedAt = open, time.Time{}
			changed.HeadSHA, changed.BaseSHA = r.branches[p.Head], r.branches[p.Base]
		default:
			return errPull("invalid", "state", "")
		}
	}
	changed.touch()
	*p = changed
	return r.keepHead(p)
}

func (r *repository) mayRetarget(p *pullRequest, base string) error {
	if p.State != open {
		return errPull("invalid", "base", "Cannot change the base branch of a closed pull request.")
	}
	if _, exists := r.branches[base]; !exists {
		return errPull("invalid", "base", "")
	}
	if r.openPull(p.Head, base) != nil {
		return errPull("invalid", "base",
			fmt.Sprintf("A pull request already exists for base branch '%s' and head branch '%s'", base, p.Head))
	}
	if r.differ(p.Head, base) != nil {
		return errPull("invalid", "base",
			fmt.Sprintf("There are no new commits between base branch '%s' and head branch '%s'", base, p.Head))
	}
	return nil
}

func (r *repository) mayReopen(p *pullRequest) error {
	refused := func(format string, args ...any) error {
		return errPull("invalid", "state", "state cannot be changed. "+fmt.Sprintf(format, args...))
	}
	if p.Merged {
		return refused("The pull request cannot be reopened.")
	}
	for _, branch := range []string{p.Head, p.Base} {
		if _, exists := r.branches[branch]; !exists {
			return refused("The %s branch has been deleted.", branch)
		}
	}
	if r.openPull(p.Head, p.Base) != nil {
		return refused("There is already an open pull request from %s:%s to %s:%s.", r.owner, p.Head, r.owner, p.Base)
	}
	continued, err := r.git.contains(r.branches[p.Head], p.HeadSHA)
	if err != nil {
		return err
	}
	if !continued {
		return refused("The %s branch was force-pushed or recreated.", p.Head)
	}
	if r.differ(p.Head, p.Base) != nil {
		return refused("There are no new commits on the %s branch.", p.Head)
	}
	return nil
}
