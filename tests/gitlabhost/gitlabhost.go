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

// Package gitlabhost is a fake of GitLab's API for tests: one project in nested groups with merge requests, in memory.
// It imitates status codes, error bodies, pagination and conditional requests. It does not serve Git.
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
	// Token is the accepted token.
	Token = "glpat-t0ken"
	// projectName is the path of the project.
	projectName = "org/group/fleet"
	// Reviewer is the name of a user.
	Reviewer = pullhost.Known

	// SecondReviewer is the name of another user.
	SecondReviewer = "sam"

	projectID = 42
	draft     = "Draft: "
)

var (
	reviewerNames = []string{Reviewer, SecondReviewer}
	reviewerIDs   = map[string]int{Reviewer: 7, SecondReviewer: 8}
)

// Server is a fake GitLab.
type Server struct {
	*pullhost.Host
	api *api
}

// New starts a server.
func New() Server {
	api := &api{reviewers: 100}
	return Server{api: api, Host: pullhost.New(func(address string, repository *pullhost.Repository) http.Handler {
		api.address, api.repository = address, repository
		return api.routes()
	})}
}

// AddPipeline creates a pipeline of the project for a commit. It is visible after this number of requests for it,
// because GitLab creates pipelines in the background. Merge requests have their own refs, such as
// refs/merge-requests/1/head.
func (s Server) AddPipeline(commit, ref string, after int) {
	s.Change(func(*pullhost.Repository) {
		s.api.addPipeline(pipeline{commit: commit, ref: ref, hiddenFor: after, state: "running"})
	})
}

// FinishPipelines completes the project's pipelines with success or failure.
func (s Server) FinishPipelines(state string) {
	s.Change(func(*pullhost.Repository) {
		for i := range s.api.pipelines {
			if !s.api.pipelines[i].external {
				s.api.pipelines[i].state = state
			}
		}
	})
}

// RequirePipelines sets the project's setting "Pipelines must succeed".
func (s Server) RequirePipelines() {
	s.Change(func(*pullhost.Repository) { s.api.mustSucceed = true })
}

// Check determines which merge requests can be merged, as the host does in the background.
func (s Server) Check() {
	s.Change(func(r *pullhost.Repository) {
		for _, pull := range r.Pulls("") {
			pull.Checked = true
		}
	})
}

// FailMerges makes merges fail with status 200: the merge request stays open, and merge_error has the reason.
// https://docs.gitlab.com/api/merge_requests/#merge-a-merge-request
func (s Server) FailMerges(mergeError string) {
	s.Change(func(*pullhost.Repository) { s.api.mergeError = mergeError })
}

// Free limits merge requests to one reviewer. Others are dropped without an error.
// https://docs.gitlab.com/user/project/merge_requests/reviews/
func (s Server) Free() {
	s.Change(func(*pullhost.Repository) { s.api.reviewers = 1 })
}

// FastForward sets the merge method "Fast-forward merge", which creates no merge commits.
// https://docs.gitlab.com/user/project/merge_requests/methods/
func (s Server) FastForward() {
	s.Change(func(*pullhost.Repository) { s.api.fastForward = true })
}

// RepositoryURL returns the clone address.
func (s Server) RepositoryURL() string { return s.URL() + "/" + projectName + ".git" }

// RateLimited responds as GitLab does beyond its limits.
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
	address     string
	repository  *pullhost.Repository
	pipelines   []pipeline
	mustSucceed bool
	fastForward bool
	mergeError  string
	// reviewers is the maximum number of reviewers of a merge request.
	reviewers int
}

// pipeline is a pipeline of a commit. Its ID is its index.
type pipeline struct {
	commit, ref, state string
	// external is true if statuses created it.
	external  bool
	hiddenFor int
}

// failure is an error response.
type failure struct {
	status  int
	message any
}

func errNotFound(what string) *failure {
	return &failure{http.StatusNotFound, "404 " + what + " Not Found"}
}

// endpoint handles a request. It returns a status and a body for JSON.
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
	handle("GET /projects/{project}/repository/commits/{commit}", a.commit)
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
	MergeError      *string    `json:"merge_error"`
	MergeCommitSHA  *string    `json:"merge_commit_sha"`
	SquashCommitSHA *string    `json:"squash_commit_sha"`
	MergeStatus     string     `json:"detailed_merge_status"`
	// Lists omit HeadPipeline.
	HeadPipeline map[string]any `json:"head_pipeline,omitempty"`
	WebURL       string         `json:"web_url"`
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
	if pull.MergeError != "" {
		view.MergeError = &pull.MergeError
	}
	// https://docs.gitlab.com/api/merge_requests/#get-single-mr
	switch {
	case pull.State != pullhost.Merged:
	case !a.fastForward:
		view.MergeCommitSHA = &pull.MergeCommit
	case pull.Method == "squash":
		view.SquashCommitSHA = &pull.MergeCommit
	}
	view.MergeStatus = a.mergeStatus(pull)
	for _, name := range pull.Reviewers {
		view.Reviewers = append(view.Reviewers, userJSON{reviewerIDs[name], name})
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

// page returns the requested page, with headers that describe the others.
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
	// Unknown reviewers, and those beyond the limit, are ignored.
	for _, name := range reviewerNames {
		if slices.Contains(wanted.ReviewerIDs, reviewerIDs[name]) && len(pull.Reviewers) < a.reviewers {
			pull.Reviewers = append(pull.Reviewers, name)
		}
	}
	return http.StatusCreated, a.json(a.repository.Add(pull)), nil
}

// labels are a list, or a string with commas.
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
	view := a.json(pull)
	view.HeadPipeline = a.lastPipeline(pull.Head)
	return http.StatusOK, view, nil
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
	case a.mustSucceed && !a.succeeded(pull.Head):
		return 0, nil, &failure{http.StatusMethodNotAllowed, "405 Method Not Allowed"}
	case a.repository.Conflicts(pull):
		return 0, nil, &failure{http.StatusUnprocessableEntity, "Branch cannot be merged"}
	// Until it was found out in the background whether there are conflicts.
	// https://docs.gitlab.com/api/merge_requests/#merge-status
	case !pull.Checked:
		return 0, nil, &failure{http.StatusUnprocessableEntity, "Branch cannot be merged"}
	case a.mergeError != "":
		pull.MergeError = a.mergeError
		return http.StatusOK, a.json(pull), nil
	}
	pull.Method = "merge"
	if wanted.Squash {
		pull.Method = "squash"
	}
	if a.fastForward && !wanted.Squash {
		a.repository.FastForward(pull)
	} else {
		a.repository.Merge(pull)
	}
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

// setStatus sets the status of a job. A pending job can't become pending, and a completed one starts again.
func (a *api) setStatus(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	var wanted struct {
		State       string `json:"state"`
		Ref         string `json:"ref"`
		PipelineID  int    `json:"pipeline_id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	if refused := decode(r, &wanted); refused != nil {
		return 0, nil, refused
	}
	commit := r.PathValue("commit")
	if !a.repository.HasCommit(commit) {
		return 0, nil, errNotFound("Commit")
	}
	if !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, wanted.State) {
		return 0, nil, &failure{http.StatusBadRequest, "state does not have a valid value"}
	}
	id, refused := a.pipelineFor(commit, wanted.Ref, wanted.PipelineID)
	if refused != nil {
		return 0, nil, refused
	}
	statuses := a.repository.Statuses[commit]
	// A status is a job of its pipeline.
	statuses = slices.DeleteFunc(slices.Clone(statuses), func(s pullhost.Status) bool { return s.Pipeline != id })
	if len(statuses) > 0 && statuses[len(statuses)-1].State == "pending" && wanted.State == "pending" {
		return 0, nil, &failure{http.StatusBadRequest, `Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via "enqueue")`}
	}
	status := pullhost.Status{Name: cmp.Or(wanted.Name, "default"), State: wanted.State, Description: wanted.Description}
	status.Pipeline = id
	a.repository.Statuses[commit] = append(a.repository.Statuses[commit], status)
	return http.StatusCreated, map[string]any{
		"id": len(a.repository.Statuses[commit]), "sha": commit, "ref": a.pipelines[id-1].ref, "name": status.Name, "status": status.State,
		"description": status.Description, "pipeline_id": id,
	}, nil
}

func (a *api) users(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	users := []userJSON{}
	name := r.URL.Query().Get("username")
	if id, known := reviewerIDs[name]; known {
		users = append(users, userJSON{id, name})
	}
	return http.StatusOK, users, nil
}

// mergeStatus is why a merge request can't be merged, or that it can.
// https://docs.gitlab.com/api/merge_requests/#merge-status
func (a *api) mergeStatus(pull *pullhost.PullRequest) string {
	switch {
	case pull.State != pullhost.Open:
		return "not_open"
	case strings.HasPrefix(pull.Title, draft):
		return "draft_status"
	case !pull.Checked:
		return "checking"
	case a.repository.Conflicts(pull):
		return "conflict"
	case a.mustSucceed && !a.succeeded(pull.Head):
		return "ci_must_pass"
	default:
		return "mergeable"
	}
}

func (a *api) addPipeline(added pipeline) int {
	a.pipelines = append(a.pipelines, added)
	return len(a.pipelines)
}

// commit shows one, with its newest pipeline. https://docs.gitlab.com/api/commits/#get-a-single-commit
func (a *api) commit(_ http.ResponseWriter, r *http.Request) (int, any, *failure) {
	commit := r.PathValue("commit")
	if !a.repository.HasCommit(commit) {
		return 0, nil, errNotFound("Commit")
	}
	return http.StatusOK, map[string]any{
		"id": commit, "short_id": commit[:8], "title": "commit", "message": "commit", "last_pipeline": a.lastPipeline(commit),
	}, nil
}

// lastPipeline returns the newest visible pipeline of a commit, or nil.
func (a *api) lastPipeline(commit string) map[string]any {
	for i := len(a.pipelines) - 1; i >= 0; i-- {
		found := &a.pipelines[i]
		if found.commit != commit {
			continue
		}
		if found.hiddenFor > 0 {
			found.hiddenFor--
			continue
		}
		return map[string]any{"id": i + 1, "sha": commit, "ref": found.ref, "status": found.state}
	}
	return nil
}

// pipelineFor returns the pipeline that a status belongs to: the one that is named, else the newest of the commit and
// the ref, else one that is made for it beside the others. A ref that is given must be the pipeline's.
// https://docs.gitlab.com/api/commits/#set-the-pipeline-status-of-a-commit
func (a *api) pipelineFor(commit, ref string, id int) (int, *failure) {
	for i := len(a.pipelines) - 1; i >= 0; i-- {
		if found := a.pipelines[i]; found.commit == commit && (ref == "" || found.ref == ref) && (id == 0 || id == i+1) && found.hiddenFor == 0 {
			return i + 1, nil
		}
	}
	switch {
	case id != 0:
		return 0, errNotFound("Pipeline for pipeline_id, sha and ref")
	case ref != "" && !a.repository.HasBranch(ref):
		return 0, errNotFound("References for commit")
	default:
		return a.addPipeline(pipeline{commit: commit, ref: ref, external: true, state: "success"}), nil
	}
}

// succeeded reports whether the head pipeline of a merge request has succeeded: that of its own ref, or else the
// newest.
func (a *api) succeeded(commit string) bool {
	head := 0
	for i, candidate := range a.pipelines {
		if candidate.commit == commit && (head == 0 || !candidate.external || a.pipelines[head-1].external) {
			head = i + 1
		}
	}
	if head == 0 || a.pipelines[head-1].state != "success" {
		return false
	}
	newest := map[string]string{}
	for _, status := range a.repository.Statuses[commit] {
		if status.Pipeline == head {
			newest[status.Name] = status.State
		}
	}
	for _, state := range newest {
		if state != "success" {
			return false
		}
	}
	return true
}
