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

// Package pullhost is what the fakes of Git hosts have in common that serve no Git: one repository with its pull
// requests in memory, and a server that counts its requests and refuses them where a test tells it to.
package pullhost

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Host is a server with one repository. Its methods may be called from many goroutines.
type Host struct {
	server *httptest.Server

	mu         sync.Mutex
	repository *Repository
	refuse     http.HandlerFunc
	around     func(http.Handler) http.Handler
	requests   int
}

// New starts a host on a free port of the loopback interface. Requests reach the API one at a time.
func New(api func(address string, repository *Repository) http.Handler) *Host {
	h := &Host{repository: newRepository(), around: func(carryOut http.Handler) http.Handler { return carryOut }}
	var carryOut http.Handler
	h.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests++
		if h.refuse != nil {
			h.refuse(w, r)
			return
		}
		h.around(carryOut).ServeHTTP(w, r)
	}))
	carryOut = api(h.server.URL, h.repository)
	return h
}

// Close stops the host.
func (h *Host) Close() { h.server.Close() }

// URL is the address of the host without a trailing slash.
func (h *Host) URL() string { return h.server.URL }

// CA is the certificate, in PEM, that the host's certificate is trusted by.
func (h *Host) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
}

// Requests returns how many requests have reached the host.
func (h *Host) Requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// Refuse has all requests answered so, until it is called with nil.
func (h *Host) Refuse(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = answer
}

// Around has the API's answers pass through a handler that is made around it.
func (h *Host) Around(around func(http.Handler) http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.around = around
}

// Commit adds a commit to a branch, which is made from main if there is none, and returns it.
func (h *Host) Commit(branch string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.repository.commit(branch)
}

// Head returns the newest commit of a branch.
func (h *Host) Head(branch string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.repository.Head(branch)
}

// DeleteBranch deletes a branch. Its pull requests stay as they are.
func (h *Host) DeleteBranch(branch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.repository.branches, branch)
}

// Conflict makes a branch one that cannot be merged into any other.
func (h *Host) Conflict(branch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repository.conflicts[branch] = true
}

// Merge merges a pull request as a person.
func (h *Host) Merge(number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repository.Merge(h.repository.Pull(number))
}

// Change changes the repository, or what its host knows of it, while no request is carried out.
func (h *Host) Change(change func(*Repository)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h.repository)
}

// PullRequest returns a copy of a pull request.
func (h *Host) PullRequest(number int) PullRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *h.repository.Pull(number)
}

// Statuses returns the statuses of a commit, the newest last.
func (h *Host) Statuses(commit string) []Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.repository.Statuses[commit]
}
