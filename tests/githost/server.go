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

// Package githost is a fake of GitHub Enterprise for tests: its REST API over real bare Git repositories, which real
// Git clients reach over smart HTTP. It behaves as GitHub does down to status codes, error bodies and pagination,
// counts what it is asked, and fails where a test tells it to.
//
// Every repository is private. A client sees those that its token was given, everything else is Not Found.
//
// It needs the git binary, 2.38 or newer, and nothing else.
package githost

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const apiPrefix = "/api/v3"

// Server is a Git host. Its methods are safe for concurrent use.
type Server struct {
	dir     string
	gitPath string
	gitEnv  []string
	caPEM   []byte
	http    *httptest.Server
	api     http.Handler
	git     http.Handler
	lastID  atomic.Int64

	mu           sync.Mutex
	repositories map[string]*repository // by owner/name
	tokens       map[string]Token       // by value
	apps         map[int64]App          // by installation
	budgets      map[string]*budget     // by token value
	calls        []Call
	rules        []*Rule
}

// New starts a Git host without repositories and tokens on a free loopback port, with its own certificate authority.
// Its repositories are in a temporary directory that Close removes.
func New() (*Server, error) {
	gitPath, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("the fake Git host needs git: %w", err)
	}
	caPEM, certificate, err := newCertificates()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "githost-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		dir:          dir,
		gitPath:      gitPath,
		gitEnv:       isolatedGitEnv(dir),
		caPEM:        caPEM,
		repositories: map[string]*repository{},
		tokens:       map[string]Token{},
		apps:         map[int64]App{},
		budgets:      map[string]*budget{},
	}
	s.api = s.apiRoutes()
	s.git = s.gitRoutes()
	s.http = httptest.NewUnstartedServer(s.recordCalls(s.injectFaults(http.HandlerFunc(s.route))))
	s.http.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	// Tests cut connections and distrust certificates on purpose, so these errors are not logged.
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.Config.ReadHeaderTimeout = 10 * time.Second
	s.http.StartTLS()
	return s, nil
}

// Close stops the host, closes its connections, and removes its repositories.
func (s *Server) Close() error {
	s.http.CloseClientConnections()
	s.http.Close()
	return os.RemoveAll(s.dir)
}

// URL returns the address of the host without a trailing slash, such as https://127.0.0.1:41231, for go-github's
// NewEnterpriseClient.
func (s *Server) URL() string { return s.http.URL }

// APIURL returns the address of the REST API, with a trailing slash.
func (s *Server) APIURL() string { return s.http.URL + apiPrefix + "/" }

// RepositoryURL returns the clone address. The repository need not exist.
func (s *Server) RepositoryURL(owner, name string) string {
	return fmt.Sprintf("%s/%s/%s.git", s.http.URL, owner, name)
}

// CA returns the certificate of the host's certificate authority in PEM.
func (s *Server) CA() []byte { return append([]byte(nil), s.caPEM...) }

// Transport returns a new HTTP transport that trusts the host.
func (s *Server) Transport() *http.Transport {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.caPEM)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
}

// AddRepository creates an empty repository with the default branch main. CommitFiles or a push adds the first commit.
func (s *Server) AddRepository(owner, name string) error {
	if !validName(owner) || !validName(name) || strings.HasSuffix(name, ".git") {
		return fmt.Errorf("%q is not a name for a repository", owner+"/"+name)
	}
	fullName := owner + "/" + name
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.repositories[fullName]; exists {
		return fmt.Errorf("repository %s already exists", fullName)
	}
	store := &gitDir{path: filepath.Join(s.dir, owner, name+".git"), gitPath: s.gitPath, env: s.gitEnv}
	if err := store.init(); err != nil {
		return fmt.Errorf("repository %s: %w", fullName, err)
	}
	s.repositories[fullName] = &repository{
		id: s.newID(), owner: owner, name: name, host: s.URL(), git: store,
		newID: s.newID, statuses: map[string][]Status{},
	}
	return nil
}

// RepositoryDir returns the directory of the bare repository, for changes that are easier with git. The host detects
// them at the next request.
func (s *Server) RepositoryDir(owner, name string) (string, error) {
	repo, err := s.repository(owner, name)
	if err != nil {
		return "", err
	}
	return repo.git.path, nil
}

func (s *Server) newID() int64 { return s.lastID.Add(1) }

var errNoRepository = errors.New("no such repository")

func (s *Server) repository(owner, name string) (*repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	repo, exists := s.repositories[owner+"/"+name]
	if !exists {
		return nil, fmt.Errorf("%s/%s: %w", owner, name, errNoRepository)
	}
	return repo, nil
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, apiPrefix+"/") {
		s.api.ServeHTTP(w, r)
		return
	}
	s.git.ServeHTTP(w, r)
}

func validName(name string) bool {
	for _, c := range name {
		letterOrDigit := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letterOrDigit && !strings.ContainsRune("-_.", c) {
			return false
		}
	}
	return name != "" && name != "." && name != ".."
}
