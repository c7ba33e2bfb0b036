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

// Package gitlabhost is a fake of GitLab's API for tests: one project in nested groups, with its merge requests in
// memory. It behaves as GitLab does down to status codes, error bodies, pagination and conditional requests. It serves
// no Git.
package gitlabhost

import (
	"cmp"
	"crypto/sha256"
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
	// Token is the one that the host takes.
	Token = "glpat-t0ken"
	// projectName is the path of the project.
	projectName = "org/group/fleet"
	// Reviewer is the name of a user.
	Reviewer = pullhost.Known

	reviewerID = 7
	projectID  = 42
	draft      = "Draft: "
)

// Server is a GitLab.
type Server struct{ *pullhost.Host }

// New starts a GitLab.
func New() Server {
	return Server{pullhost.New(func(address string, repository *pullhost.Repository) http.Handler {
		api := &api{address: address, repository: repository}
		return api.routes()
	})}
}

// RepositoryURL is what is cloned.
func (s Server) RepositoryURL() string { return s.URL() + "/" + projectName + ".git" }

// RateLimited answers as GitLab does beyond its limits.
func RateLimited(retryAfter time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		w.Header().Set("RateLimit-Limit", "60")
		w.Header().Set("RateLimit-Remaining", "0")
		w.Header().Set("RateLimit-Reset", strconv.FormatInt(time.Now().Add(retryAfter).Unix(), 10))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte("Retry later\n"))
	}
}

type api struct {
	address    string
	repository *pullhost.Repository
}

// failure is an answer that is not a success.
type failure struct {
	status  int
	message any
}

func errNotFound(what string) *failure {
	return &failure{http.StatusNotFound, "404 " + what + " Not Found"}
}

// endpoint answers a request with a status and what is encoded as JSON.
type endpoint func(w http.ResponseWriter, r *http.Request) (int, any, *failure)

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(route string, answer endpoint) {
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" /api/v4"+path, func(w http.ResponseWriter, r *http.Request) { serve(w, r, answer) })
	}
	const mergeRequests = "/projects/{project}/merge_requests"
	handle("GET "+mergeRequests, a.list)
	handle("POST "+mergeRequests, a.create)
	handle("GET "+mergeRequests+"/{number}", a.get)
	handle("PUT "+mergeRequests+"/{number}", a.update)
	handle("PUT "+mergeRequests+"/{number}/merge", a.merge)
	handle("POST "+mergeRequests+"/{number}/notes", a.comment)
	handle("POST /projects/{project}/statuses/{commit}", a.setStatus)
	handle("GET /users", a.users)
	return mux
}

func serve(w http.ResponseWriter, r *http.Request, answer endpoint) {
	status, body, refused := 0, any(nil), (*failure)(nil)
	switch project := r.PathValue("project"); {
	case r.Header.Get("Authorization") != "Bearer "+Token && r.Header.Get("PRIVATE-TOKEN") != Token:
		refused = &failure{http.StatusUnauthorized, "401 Unauthorized"}
	case project != "" && project != projectName:
		refused = errNotFound("Project")
	default:
		status, body, refused = answer(w, r)
	}
	if refused != nil {
		status, body = refused.status, map[string]any{"message": refused.message}
	}
	content, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusOK && r.Method == http.MethodGet {
		tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(content))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(content)
}

type userJSON struct {
	ID       int    `json:"id"`
	Username string `json:"username"`
}

type mergeRequestJSON struct {
	ID              int        `json:"id"`
	IID             int        `json:"iid"`
	ProjectID       int        `json:"project_id"`
	SourceProjectID int        `json:"source_project_id"`
	TargetProjectID int        `json:"target_project_id"`
	Title           string     `json:"title"`
	Description     string     `json:"description"`
	State           string     `json:"state"`
	SourceBranch    string     `json:"source_branch"`
	TargetBranch    string     `json:"target_branch"`
	SHA             string     `json:"sha"`
	Draft           bool       `json:"draft"`
	Labels          []string   `json:"labels"`
	Reviewers       []userJSON `json:"reviewers"`
	CreatedAt       time.Time  `json:"created_at"`
	WebURL          string     `json:"web_url"`
}

func (a *api) json(pull *pullhost.PullRequest) mergeRequestJSON {
	view := mergeRequestJSON{
		ID: 1000 + pull.Number, IID: pull.Number,
		ProjectID: projectID, SourceProjectID: projectID, TargetProjectID: projectID,
		Title: pull.Title, Description: pull.Body,
		State:        map[pullhost.State]string{pullhost.Open: "opened", pullhost.Merged: "merged", pullhost.Closed: "closed"}[pull.State],
		SourceBranch: pull.Source, TargetBranch: pull.Target, SHA: pull.Head,
		Draft: strings.HasPrefix(pull.Title, draft), Labels: append([]string{}, pull.Labels...), Reviewers: []userJSON{},
		CreatedAt: pull.Created.UTC(), WebURL: fmt.Sprintf("%s/%s/-/merge_requests/%d", a.address, projectName, pull.Number),
	}
	for _, name := range pull.Reviewers {
		view.Reviewers = append(view.Reviewers, userJSON{reviewerID, name})
	}
	return view
}

func (a *api) list(w http.ResponseWriter, r *http.Request) (int, any, *failure) {
	query := r.URL.Query()
	pulls := slices.DeleteFunc(a.repository.Pulls(query.Get("source_branch")), func(p *pullhost.PullRequest) bool {
		state := query.Get("state")
		return state != "" && state != "all" && state != a.json(p).State
	})
	if query.Get("sort") != "asc" {
		slices.Reverse(pulls)
	}
	views := []mergeRequestJSON{}
	for _, pull := range page(w, r, pulls) {
		views = append(views, a.json(pull))
	}
	return http.StatusOK, views, nil
}

// page returns the part that was asked for, and tells in headers of the others.
func page[T any](w http.ResponseWriter, r *http.Request, items []T) []T {
	positive := func(name string, otherwise int) int {
		if number, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil && number > 0 {
			return number
		}
		return otherwise
	}
	number, size := positive("page", 1), min(positive("per_page", 20), 100)
	last := max(1, (len(items)+size-1)/size)
	tell := func(name string, value int) {
		text := ""
		if value >= 1 && value <= last {
			text = strconv.Itoa(value)
		}
		w.Header().Set(name, text)
	}
	tell("X-Page", number)
	tell("X-Prev-Page", number-1)
	tell("X-Next-Page", number+1)
	tell("X-Total-Pages", last)
	w.Header().Set("X-Per-Page", strconv.Itoa(size))
	w.Header().Set("X-Total", strconv.Itoa(len(items)))
	start := min((number-1)*size, len(items))
	return items[start:min(start+size, len(items))]
}

func (a *api) create(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	var wanted struct {
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		SourceBranch string          `json:"source_branch"`
		TargetBranch string          `json:"target_branch"`
		Labels       json.RawMessage `json:"labels"`
		ReviewerIDs  []int           `json:"reviewer_ids"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	switch {
	case wanted.Title == "":
		return 0, nil, &failure{http.StatusBadRequest, map[string][]string{"title": {"can't be blank"}}}
	case wanted.SourceBranch == wanted.TargetBranch:
		return 0, nil, &failure{http.StatusUnprocessableEntity, []string{"You can't use same project/branch for source and target"}}
	case !a.repository.HasBranch(wanted.SourceBranch):
		return 0, nil, &failure{http.StatusBadRequest, []string{fmt.Sprintf("Source branch %q does not exist", wanted.SourceBranch)}}
	case !a.repository.HasBranch(wanted.TargetBranch):
		return 0, nil, &failure{http.StatusBadRequest, []string{fmt.Sprintf("Target branch %q does not exist", wanted.TargetBranch)}}
	}
	if known := a.repository.OpenPull(wanted.SourceBranch, wanted.TargetBranch); known != nil {
		return 0, nil, &failure{http.StatusConflict, []string{
			fmt.Sprintf("Another open merge request already exists for this source branch: !%d", known.Number),
		}}
	}
	pull := pullhost.PullRequest{
		Title: wanted.Title, Body: wanted.Description, Source: wanted.SourceBranch, Target: wanted.TargetBranch,
		Labels: labels(wanted.Labels),
	}
	// A reviewer who is unknown is passed over.
	if slices.Contains(wanted.ReviewerIDs, reviewerID) {
		pull.Reviewers = []string{Reviewer}
	}
	return http.StatusCreated, a.json(a.repository.Add(pull)), nil
}

// labels are a list, or one text with commas.
func labels(raw json.RawMessage) []string {
	var list []string
	var text string
	if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &text) == nil && text != "" {
		list = strings.Split(text, ",")
	}
	return list
}

func decode(r *http.Request, into any) *failure {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return &failure{http.StatusBadRequest, "400 Bad Request"}
	}
	return nil
}

func (a *api) pull(r *http.Request) (*pullhost.PullRequest, *failure) {
	number, _ := strconv.Atoi(r.PathValue("number"))
	if pull := a.repository.Pull(number); pull != nil {
		return pull, nil
	}
	return nil, &failure{http.StatusNotFound, "404 Not found"}
}

func (a *api) get(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	pull, refused := a.pull(r)
	if refused != nil {
		return 0, nil, refused
	}
	return http.StatusOK, a.json(pull), nil
}

func (a *api) update(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	pull, refused := a.pull(r)
	if refused != nil {
		return 0, nil, refused
	}
	var wanted struct {
		StateEvent string `json:"state_event"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	if wanted.StateEvent == "close" && pull.State == pullhost.Open {
		a.repository.Close(pull)
	}
	return http.StatusOK, a.json(pull), nil
}

func (a *api) merge(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	pull, refused := a.pull(r)
	if refused != nil {
		return 0, nil, refused
	}
	var wanted struct {
		SHA    string `json:"sha"`
		Squash bool   `json:"squash"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	switch {
	case pull.State != pullhost.Open || strings.HasPrefix(pull.Title, draft):
		return 0, nil, &failure{http.StatusMethodNotAllowed, "405 Method Not Allowed"}
	case wanted.SHA != "" && wanted.SHA != pull.Head:
		return 0, nil, &failure{http.StatusConflict, "SHA does not match HEAD of source branch: " + pull.Head}
	case a.repository.Conflicts(pull):
		return 0, nil, &failure{http.StatusUnprocessableEntity, "Branch cannot be merged"}
	}
	pull.Method = "merge"
	if wanted.Squash {
		pull.Method = "squash"
	}
	a.repository.Merge(pull)
	return http.StatusOK, a.json(pull), nil
}

func (a *api) comment(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	pull, refused := a.pull(r)
	if refused != nil {
		return 0, nil, refused
	}
	var wanted struct {
		Body string `json:"body"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	pull.Comments = append(pull.Comments, wanted.Body)
	return http.StatusCreated, map[string]any{"id": len(pull.Comments), "body": wanted.Body}, nil
}

// setStatus takes a status for a job: what is pending cannot become so, while what is done begins anew.
func (a *api) setStatus(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	var wanted struct {
		State       string  `json:"state"`
		Ref         *string `json:"ref"`
		Name        string  `json:"name"`
		Description string  `json:"description"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	commit := r.PathValue("commit")
	if !a.repository.HasCommit(commit) {
		return 0, nil, errNotFound("Commit")
	}
	if wanted.Ref != nil && !a.repository.HasBranch(*wanted.Ref) {
		return 0, nil, errNotFound("References for commit")
	}
	if !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, wanted.State) {
		return 0, nil, &failure{http.StatusBadRequest, "state does not have a valid value"}
	}
	statuses := a.repository.Statuses[commit]
	if len(statuses) > 0 && statuses[len(statuses)-1].State == "pending" && wanted.State == "pending" {
		return 0, nil, &failure{http.StatusBadRequest, `Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via "enqueue")`}
	}
	status := pullhost.Status{Name: cmp.Or(wanted.Name, "default"), State: wanted.State, Description: wanted.Description}
	a.repository.Statuses[commit] = append(statuses, status)
	return http.StatusCreated, map[string]any{"sha": commit, "name": status.Name, "status": status.State}, nil
}

func (a *api) users(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	users := []userJSON{}
	if r.URL.Query().Get("username") == Reviewer {
		users = append(users, userJSON{reviewerID, Reviewer})
	}
	return http.StatusOK, users, nil
}
