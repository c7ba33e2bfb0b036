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

// Package bitbuckethost is a fake of the API of Bitbucket Data Center for tests: one repository with pull requests, in
// memory. It imitates status codes, error bodies and pagination. It does not serve Git.
package bitbuckethost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/tests/internal/pullhost"
)

const (
	// Token is the token of a person.
	Token = "BBDC-t0ken"
	// ProjectToken is that of the project. It may do what Token may, but not merge: a merge needs a person.
	// https://confluence.atlassian.com/bitbucketserver086/http-access-tokens-1188782454.html
	ProjectToken = "BBDC-pr0ject-t0ken"
	// projectName is the key of the repository's project, and repositoryName its slug.
	projectName, repositoryName = "ORG", "fleet"
	// Reviewer is the name of a user.
	Reviewer = pullhost.Known
)

// Server is a fake Bitbucket.
type Server struct {
	*pullhost.Host
	api *api
}

// New starts a server.
func New() Server {
	api := &api{strategies: []string{"no-ff", "ff", "ff-only", "rebase-no-ff", "rebase-ff-only", "squash", "squash-ff-only"}}
	return Server{api: api, Host: pullhost.New(func(address string, repository *pullhost.Repository) http.Handler {
		api.address, api.repository = address, repository
		return api.routes()
	})}
}

// RequireBuild has merges wait for the builds of the commit that have this parent, and for one at least. Builds of the
// deprecated resource have none, so that they never count (BSERV-19804, jenkinsci/bitbucket-branch-source-plugin#778).
func (s Server) RequireBuild(parent string) {
	s.Change(func(*pullhost.Repository) { s.api.required = parent })
}

// Enable enables only these merge strategies.
func (s Server) Enable(strategies ...string) {
	s.Change(func(*pullhost.Repository) { s.api.strategies = strategies })
}

// RepositoryURL returns the clone address.
func (s Server) RepositoryURL() string {
	return fmt.Sprintf("%s/scm/%s/%s.git", s.URL(), strings.ToLower(projectName), repositoryName)
}

// RateLimited responds as Bitbucket does when the user's token bucket is empty.
func RateLimited(retryAfter time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		w.Header().Set("X-RateLimit-Limit", "60")
		w.Header().Set("X-RateLimit-Remaining", "0")
		write(w, http.StatusTooManyRequests, refuse(0, "", "You have been rate limited: too many requests").body())
	}
}

type api struct {
	address    string
	repository *pullhost.Repository
	// required is the parent of the required builds, and strategies are the enabled merge strategies.
	required   string
	strategies []string
}

// failure is an error response.
type failure struct {
	status int
	errors []map[string]any
}

func (f *failure) body() any { return map[string]any{"errors": f.errors} }

func refuse(status int, exception, format string, args ...any) *failure {
	var name any
	if exception != "" {
		name = "com.atlassian.bitbucket." + exception
	}
	return &failure{status, []map[string]any{{"context": nil, "message": fmt.Sprintf(format, args...), "exceptionName": name}}}
}

// endpoint handles a request. It returns a status and a body for JSON, or nil for none.
type endpoint func(r *http.Request) (int, any, *failure)

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(route string, answer endpoint) {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { serve(w, r, answer) })
	}
	const pulls = " /rest/api/1.0/projects/{project}/repos/{repository}/pull-requests"
	handle("GET"+pulls, a.list)
	handle("POST"+pulls, a.create)
	handle("GET"+pulls+"/{number}", a.onPull(a.get))
	handle("POST"+pulls+"/{number}/decline", a.onPull(a.decline))
	handle("POST"+pulls+"/{number}/merge", a.onPull(a.merge))
	handle("POST"+pulls+"/{number}/comments", a.onPull(a.comment))
	handle("POST /rest/api/1.0/projects/{project}/repos/{repository}/commits/{commit}/builds", a.setBuild)
	handle("POST /rest/build-status/1.0/commits/{commit}", a.setStatus)
	return mux
}

func serve(w http.ResponseWriter, r *http.Request, answer endpoint) {
	status, body, refused := 0, any(nil), (*failure)(nil)
	project, repository := r.PathValue("project"), r.PathValue("repository")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+Token && r.Header.Get("Authorization") != "Bearer "+ProjectToken:
		refused = refuse(http.StatusUnauthorized, "auth.IncorrectPasswordAuthenticationException",
			"Authentication failed. Please check your credentials and try again.")
	case project != "" && !strings.EqualFold(project, projectName):
		refused = refuse(http.StatusNotFound, "project.NoSuchProjectException", "Project %s does not exist.", project)
	case repository != "" && !strings.EqualFold(repository, repositoryName):
		refused = refuse(http.StatusNotFound, "repository.NoSuchRepositoryException", "Repository %s/%s does not exist.", project, repository)
	default:
		status, body, refused = answer(r)
	}
	if refused != nil {
		status, body = refused.status, refused.body()
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	content, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(content)
}

type repositoryJSON struct {
	ID      int    `json:"id"`
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
}

type refJSON struct {
	ID           string         `json:"id"`
	DisplayID    string         `json:"displayId"`
	LatestCommit string         `json:"latestCommit"`
	Repository   repositoryJSON `json:"repository"`
}

type pullJSON struct {
	ID          int            `json:"id"`
	Version     int            `json:"version"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	State       string         `json:"state"`
	Open        bool           `json:"open"`
	Closed      bool           `json:"closed"`
	Draft       bool           `json:"draft"`
	CreatedDate int64          `json:"createdDate"`
	FromRef     refJSON        `json:"fromRef"`
	ToRef       refJSON        `json:"toRef"`
	Reviewers   []reviewerJSON `json:"reviewers"`
	// Properties have the merge commit if it was merged here.
	Properties *propertiesJSON `json:"properties,omitempty"`
	Links      struct {
		Self []linkJSON `json:"self"`
	} `json:"links"`
}

type propertiesJSON struct {
	MergeCommit struct {
		ID        string `json:"id"`
		DisplayID string `json:"displayId"`
	} `json:"mergeCommit"`
}

type reviewerJSON struct {
	User userJSON `json:"user"`
}

type userJSON struct {
	Name string `json:"name"`
}

type linkJSON struct {
	Href string `json:"href"`
}

func state(pull *pullhost.PullRequest) string {
	return map[pullhost.State]string{pullhost.Open: "OPEN", pullhost.Merged: "MERGED", pullhost.Closed: "DECLINED"}[pull.State]
}

func (a *api) json(pull *pullhost.PullRequest) pullJSON {
	ref := func(branch, commit string) refJSON {
		side := refJSON{ID: "refs/heads/" + branch, DisplayID: branch, LatestCommit: commit, Repository: repositoryJSON{ID: 1, Slug: repositoryName}}
		side.Repository.Project.Key = projectName
		return side
	}
	view := pullJSON{
		ID: pull.Number, Version: pull.Version, Title: pull.Title, Description: pull.Body, Draft: pull.Draft,
		State: state(pull), Open: pull.State == pullhost.Open, Closed: pull.State != pullhost.Open,
		CreatedDate: pull.Created.UnixMilli(),
		FromRef:     ref(pull.Source, pull.Head), ToRef: ref(pull.Target, a.repository.Head(pull.Target)),
		Reviewers: []reviewerJSON{},
	}
	for _, name := range pull.Reviewers {
		view.Reviewers = append(view.Reviewers, reviewerJSON{userJSON{name}})
	}
	if pull.State == pullhost.Merged {
		view.Properties = &propertiesJSON{}
		view.Properties.MergeCommit.ID, view.Properties.MergeCommit.DisplayID = pull.MergeCommit, pull.MergeCommit[:11]
	}
	view.Links.Self = []linkJSON{{fmt.Sprintf("%s/projects/%s/repos/%s/pull-requests/%d", a.address, projectName, repositoryName, pull.Number)}}
	return view
}

func (a *api) list(r *http.Request) (int, any, *failure) {
	query := r.URL.Query()
	at, isBranch := strings.CutPrefix(query.Get("at"), "refs/heads/")
	if query.Get("at") != "" && !isBranch {
		return 0, nil, refuse(http.StatusBadRequest, "", "The at parameter is not a fully qualified branch")
	}
	outgoing := strings.EqualFold(query.Get("direction"), "OUTGOING")
	wanted := strings.ToUpper(query.Get("state"))
	if wanted == "" {
		wanted = "OPEN"
	}
	pulls := slices.DeleteFunc(a.repository.Pulls(""), func(p *pullhost.PullRequest) bool {
		branch := p.Target
		if outgoing {
			branch = p.Source
		}
		return at != "" && branch != at || wanted != "ALL" && state(p) != wanted
	})
	if !strings.EqualFold(query.Get("order"), "OLDEST") {
		slices.Reverse(pulls)
	}
	number := func(name string, otherwise int) int {
		if number, err := strconv.Atoi(query.Get(name)); err == nil && number >= 0 {
			return number
		}
		return otherwise
	}
	start, limit := min(number("start", 0), len(pulls)), min(number("limit", 25), 1000)
	end := min(start+limit, len(pulls))
	values := []pullJSON{}
	for _, pull := range pulls[start:end] {
		values = append(values, a.json(pull))
	}
	page := map[string]any{"size": len(values), "limit": limit, "isLastPage": end == len(pulls), "start": start, "values": values, "nextPageStart": nil}
	if end < len(pulls) {
		page["nextPageStart"] = end
	}
	return http.StatusOK, page, nil
}

func decode(r *http.Request, into any) *failure {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "", "The request body is not valid JSON")
	}
	return nil
}

func (a *api) create(r *http.Request) (int, any, *failure) {
	var wanted struct {
		Title, Description string
		FromRef, ToRef     refJSON
		Draft              bool
		Reviewers          []reviewerJSON
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	source, target := strings.TrimPrefix(wanted.FromRef.ID, "refs/heads/"), strings.TrimPrefix(wanted.ToRef.ID, "refs/heads/")
	for _, branch := range []string{source, target} {
		if !a.repository.HasBranch(branch) {
			return 0, nil, refuse(http.StatusNotFound, "repository.NoSuchBranchException", "Branch %s does not exist.", branch)
		}
	}
	if known := a.repository.OpenPull(source, target); known != nil {
		refused := refuse(http.StatusConflict, "pull.DuplicatePullRequestException",
			"Only one pull request may be open for a given source and target branch")
		refused.errors[0]["existingPullRequest"] = a.json(known)
		return 0, nil, refused
	}
	if !a.repository.Differ(source, target) {
		return 0, nil, refuse(http.StatusConflict, "pull.EmptyPullRequestException", "%s is already up-to-date with branch %s", target, source)
	}
	pull := pullhost.PullRequest{Title: wanted.Title, Body: wanted.Description, Source: source, Target: target, Draft: wanted.Draft}
	for _, reviewer := range wanted.Reviewers {
		if reviewer.User.Name != Reviewer {
			refused := refuse(http.StatusConflict, "pull.InvalidPullRequestReviewersException",
				"Errors encountered while adding some reviewers to this pull request.")
			refused.errors[0]["reviewerErrors"] = []map[string]any{
				{"context": reviewer.User.Name, "message": reviewer.User.Name + " is not a user.", "exceptionName": nil},
			}
			return 0, nil, refused
		}
		pull.Reviewers = append(pull.Reviewers, reviewer.User.Name)
	}
	return http.StatusCreated, a.json(a.repository.Add(pull)), nil
}

// onPull finds the pull request of a request.
func (a *api) onPull(answer func(*http.Request, *pullhost.PullRequest) (int, any, *failure)) endpoint {
	return func(r *http.Request) (int, any, *failure) {
		number, _ := strconv.Atoi(r.PathValue("number"))
		pull := a.repository.Pull(number)
		if pull == nil {
			return 0, nil, refuse(http.StatusNotFound, "pull.NoSuchPullRequestException", "No pull request exists with ID %d for this repository.", number)
		}
		return answer(r, pull)
	}
}

func (a *api) get(_ *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	return http.StatusOK, a.json(pull), nil
}

// mayChange rejects changes of a pull request that has changed or is closed.
func mayChange(r *http.Request, pull *pullhost.PullRequest) *failure {
	if pull.State != pullhost.Open {
		return refuse(http.StatusConflict, "pull.IllegalPullRequestStateException", "This pull request has already been %s.", strings.ToLower(state(pull)))
	}
	if r.URL.Query().Get("version") != strconv.Itoa(pull.Version) {
		return refuse(http.StatusConflict, "pull.PullRequestOutOfDateException",
			"You are attempting to modify a pull request based on out-of-date information.")
	}
	return nil
}

func (a *api) decline(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	if refused := mayChange(r, pull); refused != nil {
		return 0, nil, refused
	}
	a.repository.Close(pull)
	return http.StatusOK, a.json(pull), nil
}

func (a *api) merge(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	if refused := mayChange(r, pull); refused != nil {
		return 0, nil, refused
	}
	var wanted struct{ StrategyID string }
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	switch {
	case r.Header.Get("Authorization") == "Bearer "+ProjectToken:
		return 0, nil, refuse(http.StatusUnauthorized, "AuthorisationException", "You are not permitted to access this resource")
	case !slices.Contains(a.strategies, wanted.StrategyID):
		return 0, nil, refuse(http.StatusBadRequest, "", "The merge strategy %q is not enabled for this repository", wanted.StrategyID)
	case pull.Draft || a.repository.Conflicts(pull):
		return 0, nil, refuse(http.StatusConflict, "pull.PullRequestMergeVetoedException", "The pull request cannot be merged.")
	case !a.built(pull.Head):
		refused := refuse(http.StatusConflict, "pull.PullRequestMergeVetoedException", "The pull request cannot be merged.")
		refused.errors[0]["conflicted"] = false
		refused.errors[0]["vetoes"] = []map[string]string{{
			"summaryMessage": "Not all required builds are successful yet", "detailedMessage": "You are missing successful builds: " + a.required,
		}}
		return 0, nil, refused
	}
	pull.Method = wanted.StrategyID
	a.repository.Merge(pull)
	return http.StatusOK, a.json(pull), nil
}

func (a *api) comment(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	var wanted struct{ Text string }
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	pull.Comments = append(pull.Comments, wanted.Text)
	return http.StatusCreated, map[string]any{"id": len(pull.Comments), "version": 0, "text": wanted.Text}, nil
}

// built reports whether the required builds are successful.
func (a *api) built(commit string) bool {
	newest := map[string]string{}
	for _, status := range a.repository.Statuses[commit] {
		if a.required != "" && status.Parent == a.required {
			newest[status.Name] = status.State
		}
	}
	for _, state := range newest {
		if state != "SUCCESSFUL" {
			return false
		}
	}
	return a.required == "" || len(newest) > 0
}

// setBuild takes a build of a commit of the repository.
// https://developer.atlassian.com/server/bitbucket/rest/v1004/api-group-builds-and-deployments
func (a *api) setBuild(r *http.Request) (int, any, *failure) {
	var wanted struct{ State, Key, Name, URL, Description, Parent, Ref string }
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	commit := r.PathValue("commit")
	switch {
	case !a.repository.HasCommit(commit):
		return 0, nil, refuse(http.StatusNotFound, "commit.NoSuchCommitException", "Commit '%s' does not exist in repository '%s'.", commit, repositoryName)
	case wanted.Key == "" || wanted.URL == "" || !slices.Contains([]string{"SUCCESSFUL", "FAILED", "INPROGRESS", "CANCELLED", "UNKNOWN"}, wanted.State):
		return 0, nil, refuse(http.StatusBadRequest, "", "A build status needs a key, a URL and a state")
	case wanted.Ref != "" && !strings.HasPrefix(wanted.Ref, "refs/"):
		return 0, nil, refuse(http.StatusBadRequest, "", "The ref must be fully qualified")
	}
	a.repository.Statuses[commit] = append(a.repository.Statuses[commit], pullhost.Status{
		Name: wanted.Key, State: wanted.State, Description: wanted.Description, Parent: wanted.Parent, Ref: wanted.Ref,
	})
	return http.StatusNoContent, nil, nil
}

// setStatus is deprecated since 7.14. It takes a status for any commit, even for one that there is not. Bitbucket
// refuses one without a URL.
func (a *api) setStatus(r *http.Request) (int, any, *failure) {
	var wanted struct{ State, Key, Name, URL, Description string }
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	if wanted.Key == "" || wanted.URL == "" || !slices.Contains([]string{"SUCCESSFUL", "FAILED", "INPROGRESS"}, wanted.State) {
		return 0, nil, refuse(http.StatusBadRequest, "", "A build status needs a key, a URL and a state")
	}
	commit := r.PathValue("commit")
	a.repository.Statuses[commit] = append(a.repository.Statuses[commit], pullhost.Status{Name: wanted.Key, State: wanted.State, Description: wanted.Description})
	return http.StatusNoContent, nil, nil
}
