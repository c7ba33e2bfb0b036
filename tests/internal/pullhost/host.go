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

// Package pullhost is the common part of the fakes of Git hosts that don't serve Git: one repository with pull requests
// in memory, and a server that counts requests and can refuse them.
package pullhost

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Host is a server with one repository. Its methods are safe for concurrent use.
type Host struct {
	server *httptest.Server

	mu         sync.Mutex
	repository *Repository
	refuse     http.HandlerFunc
	around     func(http.Handler) http.Handler
	requests   int
}

// New starts a host on a free loopback port. The API handles one request at a time.
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

// URL returns the address of the host without a trailing slash.
func (h *Host) URL() string { return h.server.URL }

// CA returns the certificate in PEM that verifies the host's certificate.
func (h *Host) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
}

// Requests returns the number of requests.
func (h *Host) Requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// Refuse gives all requests this response, until it is called with nil.
func (h *Host) Refuse(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = answer
}

// Around wraps the API's handler.
func (h *Host) Around(around func(http.Handler) http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.around = around
}

// Commit adds a commit to a branch and returns it. A missing branch is created from main.
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

// DeleteBranch deletes a branch. Its pull requests stay.
func (h *Host) DeleteBranch(branch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.repository.branches, branch)
}

// Conflict makes a branch conflict with all others.
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

// Change changes the repository, or the host's data about it, while no request is handled.
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
