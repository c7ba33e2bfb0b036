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

package githost_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

func TestFaults(t *testing.T) {
	tests := []struct {
		name   string
		fault  githost.Fault
		status int
		header string // of Retry-After
		body   string
	}{
		{"bad credentials", githost.Unauthorized(), http.StatusUnauthorized, "", `"message":"Bad credentials"`},
		{"a lacking permission", githost.Forbidden(), http.StatusForbidden, "", "Resource not accessible by personal access token"},
		{"a secondary rate limit", githost.SecondaryRateLimit(time.Minute), http.StatusForbidden, "60", `#about-secondary-rate-limits"`},
		{"too many requests", githost.TooManyRequests(30 * time.Second), http.StatusTooManyRequests, "30", "secondary rate limit"},
		{"a broken server", githost.InternalServerError(), http.StatusInternalServerError, "", "<html>"},
		{"whatever the test says", githost.Respond(http.StatusBadGateway, http.Header{"Retry-After": {"5"}}, "no"), http.StatusBadGateway, "5", "no"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.open("feature")
			rule := w.host.FailNext("GET", `/pulls/1$`, 1, test.fault)
			response, body := w.do(http.MethodGet, "repos/org/fleet/pulls/1", nil, "")
			w.Expect(response.StatusCode).To(Equal(test.status))
			w.Expect(response.Header.Get("Retry-After")).To(Equal(test.header))
			w.Expect(body).To(ContainSubstring(test.body))
			response, _ = w.do(http.MethodGet, "repos/org/fleet/pulls/1", nil, "")
			w.Expect(response.StatusCode).To(Equal(http.StatusOK))
			w.Expect(rule.Hits()).To(Equal(1))
		})
	}
}

func TestFaultsHitWhatTheyAreFor(t *testing.T) {
	w := newWorld(t)
	get := func() int {
		response, _ := w.do(http.MethodGet, "repos/org/fleet?a=b", nil, "")
		return response.StatusCode
	}
	w.host.FailNext("POST", `/repos/org/fleet`, 1, githost.Unauthorized())
	w.host.FailNext("", `/repos/org/other`, 1, githost.Unauthorized())
	w.Expect(get()).To(Equal(http.StatusOK))
	twice := w.host.FailNext("", `fleet\?a=b$`, 2, githost.Unauthorized())
	always := w.host.FailNext("GET", ``, githost.Always, githost.InternalServerError())
	w.Expect([]int{get(), get(), get(), get()}).To(Equal([]int{401, 401, 500, 500}))
	w.Expect(twice.Hits()).To(Equal(2))
	always.Remove()
	w.Expect(get()).To(Equal(http.StatusOK))
	w.Expect(always.Hits()).To(Equal(2))
}

func TestCutConnections(t *testing.T) {
	tests := []struct {
		name  string
		fault githost.Fault
		done  int
	}{
		{"before the request is carried out leaves nothing done", githost.CutBefore(), 0},
		{"after the request is carried out leaves it done", githost.CutAfter(), 1},
	}
	for _, test := range tests {
		t.Run("of an API call, "+test.name, func(t *testing.T) {
			w := newWorld(t)
			w.commit("feature", "a.yaml", "a: 1\n")
			w.host.FailNext("POST", `/pulls$`, 1, test.fault)
			_, _, err := w.client.PullRequests.Create(w.ctx, owner, repo, newPull("feature", "main"))
			w.Expect(err).To(MatchError(ContainSubstring("EOF")))
			w.Expect(w.host.PullRequests(owner, repo)).To(HaveLen(test.done))
			calls := w.host.Calls()
			w.Expect(calls[len(calls)-1]).To(Equal(githost.Call{Method: "POST", Path: "/api/v3/repos/org/fleet/pulls"}))
		})
		t.Run("of a push, "+test.name, func(t *testing.T) {
			w := newWorld(t)
			dir := w.clone(writeToken)
			w.change(dir, "feature", "a.yaml", "a: 1\n")
			w.host.FailNext("POST", `/git-receive-pack$`, 1, test.fault)
			_, err := w.git(dir, "push", "--quiet", "origin", "feature")
			w.Expect(err).To(HaveOccurred())
			w.Expect(w.branches()).To(HaveLen(1 + test.done))
			w.Expect(w.host.Pushes(owner, repo)).To(HaveLen(test.done))
		})
	}
	t.Run("of a clone fail it", func(t *testing.T) {
		w := newWorld(t)
		w.host.FailNext("POST", `/git-upload-pack$`, githost.Always, githost.CutBefore())
		_, err := w.git("", "clone", "--quiet", w.remote(writeToken), w.t.TempDir())
		w.Expect(err).To(HaveOccurred())
	})
}

func TestGitEndpointsFailAsTold(t *testing.T) {
	w := newWorld(t)
	w.host.FailNext("GET", `/info/refs`, 1, githost.Respond(http.StatusServiceUnavailable, nil, "down"))
	output, err := w.git("", "ls-remote", w.remote(writeToken))
	w.Expect(err).To(HaveOccurred())
	w.Expect(output).To(ContainSubstring("503"))
	w.mustGit("", "ls-remote", w.remote(writeToken))
}

func TestCallsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.open("feature")
	_, _, err := w.client.PullRequests.List(w.ctx, owner, repo, &github.PullRequestListOptions{Head: "org:feature"})
	w.Expect(err).NotTo(HaveOccurred())
	_, _, err = w.client.PullRequests.Get(w.ctx, owner, repo, 5)
	w.Expect(err).To(HaveOccurred())
	w.Expect(w.host.Calls()).To(Equal([]githost.Call{
		{Method: "POST", Path: "/api/v3/repos/org/fleet/pulls", Status: 201},
		{Method: "GET", Path: "/api/v3/repos/org/fleet/pulls?head=org%3Afeature", Status: 200},
		{Method: "GET", Path: "/api/v3/repos/org/fleet/pulls/5", Status: 404},
	}))
	w.clone(writeToken)
	w.Expect(w.host.Count("GET", "/pulls")).To(Equal(2))
	w.Expect(w.host.Count("", "/pulls")).To(Equal(3))
	w.Expect(w.host.Count("POST", "/git-upload-pack$")).To(BeNumerically(">", 0))
}

func TestManyClientsAtOnce(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(writeToken)
	names := strings.Fields("a b c d e f g h")
	for _, name := range names {
		w.mustGit(dir, "checkout", "--quiet", "main")
		w.change(dir, "feature-"+name, name+".yaml", "a: 1\n")
	}
	var clients sync.WaitGroup
	for _, name := range names {
		clients.Go(func() {
			if output, err := w.git(dir, "push", "--quiet", "origin", "feature-"+name); err != nil {
				t.Errorf("push of %s: %v: %s", name, err, output)
				return
			}
			pull, _, err := w.client.PullRequests.Create(w.ctx, owner, repo, newPull("feature-"+name, "main"))
			if err != nil {
				t.Errorf("pull request of %s: %v", name, err)
				return
			}
			if _, _, err := w.client.PullRequests.Merge(w.ctx, owner, repo, pull.GetNumber(), "", nil); err != nil {
				t.Errorf("merge of %s: %v", name, err)
			}
		})
	}
	clients.Wait()
	w.Expect(w.host.Pushes(owner, repo)).To(HaveLen(len(names)))
	pulls, err := w.host.PullRequests(owner, repo)
	w.Expect(err).NotTo(HaveOccurred())
	for _, pull := range pulls {
		w.Expect(pull.Merged).To(BeTrue())
		w.Expect(w.file("main", strings.TrimPrefix(pull.Head, "feature-")+".yaml")).To(Equal("a: 1\n"))
	}
}
