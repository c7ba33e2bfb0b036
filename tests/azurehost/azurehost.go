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

// Package azurehost is a fake of the API of Azure DevOps Services for tests: one repository with pull requests, in
// memory. It imitates status codes, error bodies, pagination, and merges in the background. It does not serve Git.
package azurehost

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-toolkit/sluice/tests/internal/pullhost"
)

const (
	// Token is the accepted token.
	Token = "azd0-t0ken"
	// collectionName, projectName and repositoryName are parts of the repository's address.
	collectionName, projectName, repositoryName = "acme", "My Project", "fleet"
	// Reviewer is the id of a user.
	Reviewer = "d6245f20-2af8-44f4-9451-8107cb2767db"

	// shownOfBody is the maximum length of a description in a list.
	shownOfBody = 400
	// longestBody is the maximum length of a description.
	longestBody = 4000
)

// Server is a fake Azure DevOps.
type Server struct {
	*pullhost.Host
	api *api
}

// New starts a server.
func New() Server {
	api := &api{newest: "7.1"}
	return Server{api: api, Host: pullhost.New(func(address string, repository *pullhost.Repository) http.Handler {
		api.address, api.repository = address, repository
		return api.routes()
	})}
}

// RequireStatus has merges wait for a status of this genre and name. With reset, a status must be one of an iteration,
// as the policy's option "Reset status whenever there are new changes" has it
// (mc1arke/sonarqube-community-branch-plugin#1219).
// https://learn.microsoft.com/azure/devops/repos/git/pull-request-status
func (s Server) RequireStatus(name string, reset bool) {
	s.Change(func(*pullhost.Repository) { s.api.required, s.api.reset = name, reset })
}

// Support makes this the newest version of the API: 7.0 is that of Azure DevOps Server 2022, and 6.1 that of 2020.
// https://learn.microsoft.com/rest/api/azure/devops
func (s Server) Support(newest string) {
	s.Change(func(*pullhost.Repository) { s.api.newest = newest })
}

// FailMerges makes merges fail in the background with this status, until it is called with "".
func (s Server) FailMerges(mergeStatus string) {
	s.Change(func(*pullhost.Repository) { s.api.failing = mergeStatus })
}

// Check tries the merges of all open pull requests, as the host does in the background.
func (s Server) Check() {
	s.Change(func(r *pullhost.Repository) {
		for _, pull := range r.Pulls("") {
			pull.Checked = true
		}
	})
}

// RepositoryURL returns the clone address.
func (s Server) RepositoryURL() string {
	return fmt.Sprintf("%s/%s/%s/_git/%s", s.URL(), collectionName, url.PathEscape(projectName), repositoryName)
}

// RateLimited responds as Azure DevOps does to a user who has exceeded a limit.
func RateLimited(retryAfter time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		w.Header().Set("X-RateLimit-Resource", "Core")
		w.Header().Set("X-RateLimit-Limit", "200")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(retryAfter).Unix(), 10))
		write(w, refuse(http.StatusTooManyRequests, "RequestBlockedException", "TF400733: The request has been canceled: Request was blocked due to exceeding usage of resource 'Concurrency'."), nil, 0)
	}
}

// SlowedDown does not carry out the request either. It responds as Azure DevOps does shortly before a limit: with
// success, and with the time to wait.
func SlowedDown(retryAfter time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		write(w, nil, map[string]any{"value": []any{}, "count": 0}, http.StatusOK)
	}
}

type api struct {
	address    string
	repository *pullhost.Repository
	// required is the status that merges require, and reset is true if it must be of an iteration.
	required string
	reset    bool
	// newest is the newest version of the API, and failing the status with which merges fail.
	newest, failing string
}

// failure is an error response.
type failure struct {
	status        int
	kind, message string
}

func refuse(status int, kind, format string, args ...any) *failure {
	return &failure{status, kind, fmt.Sprintf(format, args...)}
}

// endpoint handles a request. It returns a status and a body for JSON.
type endpoint func(r *http.Request) (int, any, *failure)

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(route string, answer endpoint) {
		method, path, _ := strings.Cut(route, " ")
		pattern := method + " /" + collectionName + "/{project}/_apis/git/repositories/{repository}/pullrequests" + path
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, answer) })
	}
	handle("GET ", a.list)
	handle("POST ", a.create)
	handle("GET /{number}", a.onPull(a.get))
	handle("PATCH /{number}", a.onPull(a.update))
	handle("PUT /{number}/reviewers/{reviewer}", a.onPull(a.addReviewer))
	handle("POST /{number}/threads", a.onPull(a.addThread))
	handle("POST /{number}/statuses", a.onPull(a.setStatus))
	handle("GET /{number}/iterations", a.onPull(a.iterations))
	return mux
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, answer endpoint) {
	if _, token, _ := r.BasicAuth(); token != Token {
		// Anonymous clients are redirected to a sign-in page, unless they suppress it.
		if r.Header.Get("X-TFS-FedAuthRedirect") != "Suppress" {
			http.Redirect(w, r, "https://signin.example.com/", http.StatusFound)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="https://example.com/"`)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte("<html><title>Access Denied: The Personal Access Token used has expired.</title></html>"))
		return
	}
	status, body, refused := 0, any(nil), (*failure)(nil)
	project, repository := r.PathValue("project"), r.PathValue("repository")
	switch {
	case r.URL.Query().Get("api-version") == "":
		refused = refuse(http.StatusBadRequest, "VssVersionNotSpecifiedException",
			"No api-version was supplied for the %q request. The version must be supplied either as part of the Accept header or as a query parameter.", r.Method)
	case r.URL.Query().Get("api-version") > a.newest:
		// Versions of one digit each can be compared as strings.
		refused = refuse(http.StatusBadRequest, "VssVersionOutOfRangeException",
			"The requested REST API version of %s is out of range for this server. The latest REST API version this server supports is %s.", r.URL.Query().Get("api-version"), a.newest)
	case project != projectName:
		refused = refuse(http.StatusNotFound, "ProjectDoesNotExistWithNameException",
			"TF200016: The following project does not exist: %s. Verify that the name of the project is correct and that the project exists on the specified Azure DevOps Server.", project)
	case repository != repositoryName:
		refused = refuse(http.StatusNotFound, "GitRepositoryNotFoundException",
			"TF401019: The Git repository with name or identifier %s does not exist or you do not have permissions for the operation you are attempting.", repository)
	default:
		status, body, refused = answer(r)
	}
	write(w, refused, body, status)
}

func write(w http.ResponseWriter, refused *failure, body any, status int) {
	if refused != nil {
		status, body = refused.status, map[string]any{
			"$id": "1", "innerException": nil, "message": refused.message,
			"typeName": "Microsoft.TeamFoundation.Git.Server." + refused.kind + ", Microsoft.TeamFoundation.Git.Server",
			"typeKey":  refused.kind, "errorCode": 0, "eventId": 3000,
		}
	}
	content, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8; api-version=7.1")
	w.WriteHeader(status)
	_, _ = w.Write(content)
}

type pullJSON struct {
	PullRequestID         int            `json:"pullRequestId"`
	Status                string         `json:"status"`
	MergeStatus           string         `json:"mergeStatus"`
	MergeFailureMessage   string         `json:"mergeFailureMessage,omitempty"`
	Title                 string         `json:"title"`
	Description           string         `json:"description"`
	SourceRefName         string         `json:"sourceRefName"`
	TargetRefName         string         `json:"targetRefName"`
	IsDraft               bool           `json:"isDraft"`
	CreationDate          time.Time      `json:"creationDate"`
	LastMergeSourceCommit commitJSON     `json:"lastMergeSourceCommit"`
	LastMergeCommit       *commitJSON    `json:"lastMergeCommit,omitempty"`
	Reviewers             []reviewerJSON `json:"reviewers"`
	Labels                []labelJSON    `json:"labels,omitempty"`
	URL                   string         `json:"url"`
}

type commitJSON struct {
	CommitID string `json:"commitId"`
}

type reviewerJSON struct {
	ID   string `json:"id"`
	Vote int    `json:"vote"`
}

type labelJSON struct {
	Name string `json:"name"`
}

func status(pull *pullhost.PullRequest) string {
	return map[pullhost.State]string{pullhost.Open: "active", pullhost.Merged: "completed", pullhost.Closed: "abandoned"}[pull.State]
}

func (a *api) json(pull *pullhost.PullRequest) pullJSON {
	view := pullJSON{
		PullRequestID: pull.Number, Status: status(pull), MergeStatus: "succeeded", Title: pull.Title, Description: pull.Body,
		SourceRefName: "refs/heads/" + pull.Source, TargetRefName: "refs/heads/" + pull.Target, IsDraft: pull.Draft,
		CreationDate: pull.Created.UTC(), LastMergeSourceCommit: commitJSON{pull.Head}, Reviewers: []reviewerJSON{},
		URL: fmt.Sprintf("%s/%s/_apis/git/repositories/%s/pullRequests/%d", a.address, collectionName, repositoryName, pull.Number),
	}
	switch {
	case pull.Completing || !pull.Checked && pull.State == pullhost.Open:
		view.MergeStatus = "queued"
	case a.repository.Conflicts(pull):
		view.MergeStatus = "conflicts"
	case pull.Failure != "":
		view.MergeStatus, view.MergeFailureMessage = pull.Failure, "TF402455: Pushes to this branch are not permitted; you must use a pull request to update this branch."
	}
	// Before completion, the last merge is a trial whose commit is on no branch.
	switch {
	case pull.State == pullhost.Merged:
		view.LastMergeCommit = &commitJSON{pull.MergeCommit}
	case view.MergeStatus == "succeeded":
		view.LastMergeCommit = &commitJSON{fmt.Sprintf("%x", sha1.Sum([]byte("trial of "+pull.Head)))}
	}
	for _, id := range pull.Reviewers {
		view.Reviewers = append(view.Reviewers, reviewerJSON{ID: id})
	}
	for _, name := range pull.Labels {
		view.Labels = append(view.Labels, labelJSON{name})
	}
	return view
}

func (a *api) list(r *http.Request) (int, any, *failure) {
	query := r.URL.Query()
	wanted := query.Get("searchCriteria.status")
	if wanted == "" {
		wanted = "active"
	}
	pulls := slices.DeleteFunc(a.repository.Pulls(strings.TrimPrefix(query.Get("searchCriteria.sourceRefName"), "refs/heads/")),
		func(p *pullhost.PullRequest) bool { return wanted != "all" && status(p) != wanted })
	slices.Reverse(pulls)
	number := func(name string, otherwise int) int {
		if number, err := strconv.Atoi(query.Get(name)); err == nil && number >= 0 {
			return number
		}
		return otherwise
	}
	skip := min(number("$skip", 0), len(pulls))
	pulls = pulls[skip:min(skip+min(number("$top", 100), 1000), len(pulls))]
	values := []pullJSON{}
	for _, pull := range pulls {
		view := a.json(pull)
		if letters := []rune(view.Description); len(letters) > shownOfBody {
			view.Description = string(letters[:shownOfBody])
		}
		values = append(values, view)
	}
	return http.StatusOK, map[string]any{"value": values, "count": len(values)}, nil
}

func decode(r *http.Request, into any) *failure {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "InvalidArgumentValueException", "TF400813: The body of the request is not JSON")
	}
	return nil
}

func (a *api) create(r *http.Request) (int, any, *failure) {
	var wanted pullJSON
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	source, target := strings.TrimPrefix(wanted.SourceRefName, "refs/heads/"), strings.TrimPrefix(wanted.TargetRefName, "refs/heads/")
	switch {
	case utf8.RuneCountInString(wanted.Description) > longestBody:
		return 0, nil, refuse(http.StatusBadRequest, "InvalidArgumentValueException",
			"Invalid argument value.\r\nParameter name: A description for a pull request must not be longer than %d characters.", longestBody)
	case !a.repository.HasBranch(source) || !a.repository.HasBranch(target):
		return 0, nil, refuse(http.StatusBadRequest, "GitPullRequestCannotBeActivated",
			"TF401398: The pull request cannot be activated because the source and/or the target branch no longer exists, or the requested refs are not branches")
	case a.repository.OpenPull(source, target) != nil:
		return 0, nil, refuse(http.StatusConflict, "GitPullRequestExistsException",
			"TF401179: An active pull request for the source and target branch already exists.")
	}
	pull := pullhost.PullRequest{Title: wanted.Title, Body: wanted.Description, Source: source, Target: target, Draft: wanted.IsDraft}
	for _, label := range wanted.Labels {
		pull.Labels = append(pull.Labels, label.Name)
	}
	return http.StatusCreated, a.json(a.repository.Add(pull)), nil
}

// onPull finds the pull request of a request.
func (a *api) onPull(answer func(*http.Request, *pullhost.PullRequest) (int, any, *failure)) endpoint {
	return func(r *http.Request) (int, any, *failure) {
		number, _ := strconv.Atoi(r.PathValue("number"))
		pull := a.repository.Pull(number)
		if pull == nil {
			return 0, nil, refuse(http.StatusNotFound, "GitPullRequestNotFoundException", "TF401180: The requested pull request was not found.")
		}
		return answer(r, pull)
	}
}

// get returns a pull request. If a merge was requested before, it is carried out now.
func (a *api) get(_ *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	view := a.json(pull)
	switch {
	case pull.Completing && a.failing != "":
		pull.Completing, pull.Failure = false, a.failing
	case pull.Completing:
		a.repository.Merge(pull)
	}
	pull.Checked = true
	return http.StatusOK, view, nil
}

func (a *api) update(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	var wanted struct {
		Status                string
		LastMergeSourceCommit commitJSON
		CompletionOptions     struct{ MergeStrategy string }
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	if pull.State != pullhost.Open {
		return 0, nil, refuse(http.StatusBadRequest, "GitPullRequestNotEditableException", "TF401181: The pull request cannot be edited due to its state.")
	}
	switch wanted.Status {
	case "abandoned":
		a.repository.Close(pull)
	case "completed":
		if refused := a.mayComplete(pull, wanted.LastMergeSourceCommit.CommitID, wanted.CompletionOptions.MergeStrategy); refused != nil {
			return 0, nil, refused
		}
		// Conflicts are found in the background and not reported.
		pull.Completing, pull.Method, pull.Failure = !a.repository.Conflicts(pull), wanted.CompletionOptions.MergeStrategy, ""
	}
	return http.StatusOK, a.json(pull), nil
}

func (a *api) mayComplete(pull *pullhost.PullRequest, head, strategy string) *failure {
	switch {
	case head == "":
		return refuse(http.StatusBadRequest, "InvalidArgumentValueException", "Invalid argument value.\r\nParameter name: lastMergeSourceCommit")
	case head != pull.Head:
		return refuse(http.StatusConflict, "GitPullRequestStaleException", "TF401192: The source branch has been modified since the last merge attempt.")
	case !a.satisfied(pull):
		return refuse(http.StatusForbidden, "GitPullRequestUpdateRejectedByPolicyException",
			"TF402387: One or more branch policies block this pull request: Status %s", a.required)
	case pull.Draft:
		return refuse(http.StatusBadRequest, "InvalidArgumentValueException", "A draft pull request cannot be completed.")
	case !slices.Contains([]string{"noFastForward", "squash", "rebase", "rebaseMerge"}, strategy):
		return refuse(http.StatusBadRequest, "InvalidArgumentValueException", "Invalid argument value.\r\nParameter name: mergeStrategy")
	default:
		return nil
	}
}

// satisfied reports whether the required status is set: the newest one of its name, of no iteration or of the newest
// one.
func (a *api) satisfied(pull *pullhost.PullRequest) bool {
	for i := len(pull.Statuses) - 1; i >= 0; i-- {
		if status := pull.Statuses[i]; status.Name == a.required && (status.Iteration == len(pull.Iterations) || status.Iteration == 0) {
			return status.State == "succeeded"
		}
	}
	return a.required == ""
}

// iterations are the pushes to the source branch.
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-request-iterations/list
func (a *api) iterations(_ *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	values := []map[string]any{}
	for i, commit := range pull.Iterations {
		values = append(values, map[string]any{
			"id": i + 1, "createdDate": pull.Created.UTC(), "sourceRefCommit": commitJSON{commit}, "reason": "push",
		})
	}
	return http.StatusOK, map[string]any{"value": values, "count": len(values)}, nil
}

func (a *api) addReviewer(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	id := r.PathValue("reviewer")
	if id != Reviewer {
		return 0, nil, refuse(http.StatusBadRequest, "InvalidArgumentValueException", "Invalid argument value.\r\nParameter name: %s is not a known identity.", id)
	}
	pull.Reviewers = append(pull.Reviewers, id)
	return http.StatusOK, reviewerJSON{ID: id}, nil
}

func (a *api) addThread(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	var wanted struct {
		Comments []struct {
			Content string `json:"content"`
		} `json:"comments"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	for _, comment := range wanted.Comments {
		pull.Comments = append(pull.Comments, comment.Content)
	}
	return http.StatusOK, map[string]any{"id": len(pull.Comments), "comments": wanted.Comments}, nil
}

func (a *api) setStatus(r *http.Request, pull *pullhost.PullRequest) (int, any, *failure) {
	var wanted struct {
		State, Description string
		IterationID        int
		Context            struct{ Genre, Name string }
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	if wanted.Context.Name == "" || !slices.Contains([]string{"notSet", "pending", "succeeded", "failed", "error", "notApplicable"}, wanted.State) {
		return 0, nil, refuse(http.StatusBadRequest, "InvalidArgumentValueException", "Invalid argument value.\r\nParameter name: status")
	}
	name := wanted.Context.Genre + "/" + wanted.Context.Name
	switch {
	case a.reset && name == a.required && wanted.IterationID == 0:
		return 0, nil, refuse(http.StatusForbidden, "GitPullRequestStatusRejectedByPolicyException",
			"Pull request status rejected by status policy. Policy configuration requires status to be posted on iteration")
	case wanted.IterationID < 0 || wanted.IterationID > len(pull.Iterations):
		return 0, nil, refuse(http.StatusBadRequest, "InvalidArgumentValueException", "Invalid argument value.\r\nParameter name: iterationId")
	}
	pull.Statuses = append(pull.Statuses, pullhost.Status{
		Name: name, State: wanted.State, Description: wanted.Description, Iteration: wanted.IterationID,
	})
	return http.StatusOK, map[string]any{
		"id": len(pull.Statuses), "state": wanted.State, "description": wanted.Description,
		"context": map[string]string{"genre": wanted.Context.Genre, "name": wanted.Context.Name},
	}, nil
}
