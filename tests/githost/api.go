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
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const maxAPIBody = 1 << 20

// request is an API request for a repository. The repository is locked while it is handled.
type request struct {
	*http.Request
	repo  *repository
	token Token
}

// reply is a success response. Its body is encoded after the repository is unlocked, so it shares no memory with it.
type reply struct {
	status int
	header http.Header
	body   any
}

type endpoint func(*request) (*reply, error)

func (s *Server) apiRoutes() http.Handler {
	mux := http.NewServeMux()
	handle := func(route string, needs permission, answer endpoint) {
		method, path, _ := strings.Cut(route, " ")
		mux.Handle(method+" "+apiPrefix+"/repos/{owner}/{repo}"+path, s.repositoryAPI(needs, answer))
	}
	handle("GET ", contents, getRepository)
	handle("GET /branches", contents, listBranches)
	handle("GET /branches/{branch...}", contents, getBranch)

	handle("GET /git/ref/{ref...}", contents, getRef)
	handle("GET /git/matching-refs/{ref...}", contents, listMatchingRefs)
	handle("POST /git/refs", contents, createRef)
	handle("PATCH /git/refs/{ref...}", contents, updateRef)
	handle("DELETE /git/refs/{ref...}", contents, deleteRef)

	handle("GET /pulls", pullRequests, listPulls)
	handle("POST /pulls", pullRequests, createPull)
	handle("GET /pulls/{number}", pullRequests, getPull)
	handle("PATCH /pulls/{number}", pullRequests, updatePull)
	handle("GET /pulls/{number}/merge", pullRequests, isPullMerged)
	handle("PUT /pulls/{number}/merge", pullRequests, mergePull)
	handle("POST /pulls/{number}/requested_reviewers", pullRequests, requestReviewers)
	handle("GET /issues/{number}/comments", pullRequests, listComments)
	handle("POST /issues/{number}/comments", pullRequests, createComment)
	handle("GET /issues/{number}/labels", pullRequests, listLabels)
	handle("POST /issues/{number}/labels", pullRequests, addLabels)

	handle("POST /statuses/{sha}", commitStatuses, createStatus)
	// A ref contains slashes and is followed by other segments, which a pattern can't express.
	handle("GET /commits/{refAndWhat...}", commitStatuses, getCommitStatuses)

	mux.HandleFunc("POST "+apiPrefix+"/app/installations/{installation}/access_tokens", s.createInstallationToken)
	mux.HandleFunc("GET "+apiPrefix+"/orgs/{owner}/installation", s.findInstallation(false))
	mux.HandleFunc("GET "+apiPrefix+"/users/{owner}/installation", s.findInstallation(true))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		token, known := s.authenticate(r)
		if !known {
			s.write(w, r, token, nil, errBadCredentials())
			return
		}
		s.write(w, r, token, nil, errNotFound())
	})
	return mux
}

func (s *Server) repositoryAPI(needs permission, answer endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, known := s.authenticate(r)
		if !known {
			s.write(w, r, token, nil, errBadCredentials())
			return
		}
		if s.exhausted(token.Value) {
			s.write(w, r, token, nil, errRateLimit(token.Login))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAPIBody)
		result, err := s.inRepository(r, token, needs, answer)
		s.write(w, r, token, result, err)
	})
}

func (s *Server) inRepository(r *http.Request, token Token, needs permission, answer endpoint) (*reply, error) {
	repo, err := s.repository(r.PathValue("owner"), r.PathValue("repo"))
	if err != nil || !token.sees(repo) {
		return nil, errNotFound()
	}
	if !token.may(r.Method != http.MethodGet, needs) {
		return nil, errForbidden()
	}
	if err := repo.lock(); err != nil {
		return nil, err
	}
	defer repo.mu.Unlock()
	return answer(&request{Request: r, repo: repo, token: token})
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, token Token, result *reply, err error) {
	if err != nil {
		var failure *apiError
		if !errors.As(err, &failure) {
			failure = &apiError{status: http.StatusInternalServerError, Message: err.Error()}
		}
		result = &reply{status: failure.status, body: failure.body()}
	}
	header := w.Header()
	for name, values := range result.header {
		header[name] = values
	}
	var body []byte
	if result.body != nil {
		body, err = json.Marshal(result.body)
		if err != nil {
			panic(err)
		}
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	status := result.status
	if r.Method == http.MethodGet && status == http.StatusOK {
		etag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(append(body, header.Get("Link")...)))
		header.Set("ETag", etag)
		header.Set("Cache-Control", "private, max-age=60, s-maxage=60")
		header.Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP")
		if matches(r.Header.Get("If-None-Match"), etag) {
			status, body = http.StatusNotModified, nil
			header.Del("Content-Type")
		}
	}
	s.spend(token.Value, status == http.StatusNotModified || token.Login == "", header)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// matches is the weak comparison of If-None-Match in RFC 9110.
func matches(ifNoneMatch, etag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || candidate != "" && strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}

func (r *request) decode(into any) error {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return &apiError{status: http.StatusBadRequest, Message: "Problems parsing JSON"}
	}
	return nil
}

func ok(body any) (*reply, error) { return &reply{status: http.StatusOK, body: body}, nil }

func created(body any) (*reply, error) { return &reply{status: http.StatusCreated, body: body}, nil }

func noContent() (*reply, error) { return &reply{status: http.StatusNoContent}, nil }

func listOf[T any](r *request, items []T) (*reply, error) {
	part, header := page(r, items)
	if part == nil {
		part = []T{}
	}
	return &reply{status: http.StatusOK, header: header, body: part}, nil
}

type userJSON struct {
	Login string `json:"login"`
	Type  string `json:"type"`
}

func user(login string) userJSON { return userJSON{Login: login, Type: "User"} }

// timestamp is a time in GitHub's format: UTC in whole seconds, or null.
func timestamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(time.RFC3339))
}

// nullable is null for an empty string.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
