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
	"bytes"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"slices"
	"strings"
)

const maxGitBody = 1 << 30

// Push is a push that moved refs.
type Push struct {
	// Login is the user who pushed.
	Login string
	// Updates are the refs that moved, by name.
	Updates []RefUpdate
}

// RefUpdate is the move of one ref.
type RefUpdate struct {
	// Ref is its full name.
	Ref string
	// Old and New are the objects before and after the move, or empty.
	Old, New string
}

// Pushes returns the pushes of Git clients that moved a ref, in order. It does not include changes through the API or
// by functions such as CommitFiles.
func (s *Server) Pushes(owner, name string) ([]Push, error) {
	repo, err := s.repository(owner, name)
	if err != nil {
		return nil, err
	}
	repo.mu.Lock()
	defer repo.mu.Unlock()
	return slices.Clone(repo.pushes), nil
}

func (s *Server) gitRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{owner}/{repo}/info/refs", func(w http.ResponseWriter, r *http.Request) {
		s.serveGit(w, r, r.URL.Query().Get("service"), "/info/refs")
	})
	mux.HandleFunc("POST /{owner}/{repo}/git-upload-pack", func(w http.ResponseWriter, r *http.Request) {
		s.serveGit(w, r, "git-upload-pack", "/git-upload-pack")
	})
	mux.HandleFunc("POST /{owner}/{repo}/git-receive-pack", func(w http.ResponseWriter, r *http.Request) {
		s.serveGit(w, r, "git-receive-pack", "/git-receive-pack")
	})
	return mux
}

func (s *Server) serveGit(w http.ResponseWriter, r *http.Request, service, path string) {
	_, password, _ := r.BasicAuth()
	token, known := s.token(password)
	if !known {
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Invalid username or token. Password authentication is not supported for Git operations.",
			http.StatusUnauthorized)
		return
	}
	repo, err := s.repository(r.PathValue("owner"), strings.TrimSuffix(r.PathValue("repo"), ".git"))
	if err != nil || !token.sees(repo) {
		http.Error(w, "Repository not found.", http.StatusNotFound)
		return
	}
	if service != "git-upload-pack" && service != "git-receive-pack" {
		http.Error(w, "Please upgrade your git client.", http.StatusForbidden)
		return
	}
	writes := service == "git-receive-pack"
	if writes && !token.may(true, contents) {
		http.Error(w, "Write access to repository not granted.", http.StatusForbidden)
		return
	}
	backend, err := s.backendRequest(w, r, "/"+repo.fullName()+".git"+path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if writes && r.Method == http.MethodPost {
		s.receivePack(w, backend, repo, token.Login)
		return
	}
	s.backend(token.Login).ServeHTTP(w, backend)
}

// backendRequest converts a client's request for git's CGI backend: with the path on disk, without the credential, and
// with a known length, because CGI does not support chunks.
func (s *Server) backendRequest(w http.ResponseWriter, r *http.Request, path string) (*http.Request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxGitBody))
	if err != nil {
		return nil, err
	}
	backend := r.Clone(r.Context())
	backend.URL.Path, backend.URL.RawPath = path, ""
	backend.Header.Del("Authorization")
	backend.Body = io.NopCloser(bytes.NewReader(body))
	backend.ContentLength = int64(len(body))
	backend.TransferEncoding = nil
	return backend, nil
}

func (s *Server) backend(login string) http.Handler {
	return &cgi.Handler{
		Path:   s.gitPath,
		Args:   []string{"http-backend"},
		Root:   "/",
		Dir:    s.dir,
		Env:    append([]string{"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + login}, s.gitEnv...),
		Logger: log.New(io.Discard, "", 0),
		Stderr: io.Discard,
	}
}

// receivePack accepts one push at a time, and responds after its effects: a client that has the response finds the pull
// request closed or merged.
func (s *Server) receivePack(w http.ResponseWriter, r *http.Request, repo *repository, login string) {
	answer := httptest.NewRecorder()
	if err := repo.receive(login, func() { s.backend(login).ServeHTTP(answer, r) }); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (r *repository) receive(login string, push func()) error {
	if err := r.lock(); err != nil {
		return err
	}
	defer r.mu.Unlock()
	before, err := r.git.refs("refs/")
	if err != nil {
		return err
	}
	push()
	after, err := r.git.refs("refs/")
	if err != nil {
		return err
	}
	if updates := refUpdates(before, after); len(updates) > 0 {
		r.pushes = append(r.pushes, Push{Login: login, Updates: updates})
	}
	return r.sync(login)
}

func refUpdates(before, after map[string]string) []RefUpdate {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var updates []RefUpdate
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			updates = append(updates, RefUpdate{Ref: "refs/" + name, Old: before[name], New: after[name]})
		}
	}
	return updates
}
