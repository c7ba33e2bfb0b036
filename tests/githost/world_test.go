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
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

const (
	owner = "org"
	repo  = "fleet"

	writeToken    = "token-that-writes"
	readToken     = "token-that-reads"
	contentsToken = "token-that-pushes"
	strangerToken = "token-for-another-repository"
)

// world is a host with the repository org/fleet, in it one commit on main.
type world struct {
	*WithT
	t      *testing.T
	ctx    context.Context
	host   *githost.Server
	client *github.Client // of sluice-bot, who may write
	first  string         // the commit on main
}

func newWorld(t *testing.T) *world {
	t.Helper()
	g := NewWithT(t)
	host, err := githost.New()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(host.Close()).To(Succeed()) })
	g.Expect(host.AddRepository(owner, repo)).To(Succeed())
	host.AddToken(githost.Token{Value: writeToken, Login: "sluice-bot"})
	host.AddToken(githost.Token{Value: readToken, Login: "reader", Access: githost.ReadAccess})
	host.AddToken(githost.Token{Value: contentsToken, Login: "pusher", Access: githost.ContentsAccess})
	host.AddToken(githost.Token{Value: strangerToken, Login: "stranger", Repositories: []string{"org/other"}})
	w := &world{WithT: g, t: t, ctx: t.Context(), host: host}
	w.client = w.clientWith(writeToken)
	w.first = w.commit("main", "app.yaml", "version: v1.0.0\n")
	return w
}

// clientWith returns a client with a connection of its own, and with no token if it is empty.
func (w *world) clientWith(token string) *github.Client {
	w.t.Helper()
	transport := w.host.Transport()
	w.t.Cleanup(transport.CloseIdleConnections)
	client, err := github.NewEnterpriseClient(w.host.URL(), w.host.URL(), &http.Client{
		Transport: authorizing{token: token, next: transport},
	})
	w.Expect(err).NotTo(HaveOccurred())
	return client
}

type authorizing struct {
	token string
	next  http.RoundTripper
}

func (a authorizing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.next.RoundTrip(r)
}

func (w *world) commit(branch, path, content string) string {
	w.t.Helper()
	sha, err := w.host.CommitFiles(owner, repo, branch, map[string]string{path: content}, "Change "+path)
	w.Expect(err).NotTo(HaveOccurred())
	return sha
}

func (w *world) branches() map[string]string {
	w.t.Helper()
	branches, err := w.host.Branches(owner, repo)
	w.Expect(err).NotTo(HaveOccurred())
	return branches
}

func (w *world) file(ref, path string) string {
	w.t.Helper()
	content, err := w.host.ReadFile(owner, repo, ref, path)
	w.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// open opens a pull request from head, which it makes if there is none, into main.
func (w *world) open(head string) *github.PullRequest {
	w.t.Helper()
	if _, exists := w.branches()[head]; !exists {
		w.commit(head, strings.ReplaceAll(head, "/", "-")+".yaml", "new: true\n")
	}
	pull, _, err := w.client.PullRequests.Create(w.ctx, owner, repo, newPull(head, "main"))
	w.Expect(err).NotTo(HaveOccurred())
	return pull
}

func newPull(head, base string) *github.NewPullRequest {
	return &github.NewPullRequest{
		Title: github.String("Promote " + head), Body: github.String("Why."), Head: github.String(head), Base: github.String(base),
	}
}

func (w *world) pull(number int) *github.PullRequest {
	w.t.Helper()
	pull, _, err := w.client.PullRequests.Get(w.ctx, owner, repo, number)
	w.Expect(err).NotTo(HaveOccurred())
	return pull
}

// refusal returns what GitHub said no with: its status, message and, of its errors, the first one or none.
func (w *world) refusal(err error) (status int, message string, first github.Error) {
	w.t.Helper()
	var response *github.ErrorResponse
	w.Expect(errors.As(err, &response)).To(BeTrue(), "not a refusal: %v", err)
	if len(response.Errors) > 0 {
		first = response.Errors[0]
	}
	return response.Response.StatusCode, response.Message, first
}

// git runs a Git client that trusts the host and knows nothing of this machine.
func (w *world) git(dir string, args ...string) (string, error) {
	w.t.Helper()
	ca := filepath.Join(w.t.TempDir(), "ca.crt")
	w.Expect(os.WriteFile(ca, w.host.CA(), 0o600)).To(Succeed())
	cmd := exec.CommandContext(w.ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_SSL_CAINFO="+ca, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=dev", "GIT_AUTHOR_EMAIL=dev@example.com", "GIT_COMMITTER_NAME=dev", "GIT_COMMITTER_EMAIL=dev@example.com")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (w *world) mustGit(dir string, args ...string) string {
	w.t.Helper()
	output, err := w.git(dir, args...)
	w.Expect(err).NotTo(HaveOccurred(), output)
	return strings.TrimSpace(output)
}

func (w *world) remote(token string) string {
	w.t.Helper()
	address, err := url.Parse(w.host.RepositoryURL(owner, repo))
	w.Expect(err).NotTo(HaveOccurred())
	address.User = url.UserPassword("anyone", token)
	return address.String()
}

// clone returns a checkout of main.
func (w *world) clone(token string) string {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "checkout")
	w.mustGit("", "clone", "--quiet", w.remote(token), dir)
	return dir
}

// change commits a file to a new branch of the checkout, without pushing it.
func (w *world) change(dir, branch, path, content string) string {
	w.t.Helper()
	w.mustGit(dir, "checkout", "--quiet", "-B", branch)
	w.Expect(os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600)).To(Succeed())
	w.mustGit(dir, "add", ".")
	w.mustGit(dir, "commit", "--quiet", "-m", "Change "+path)
	return w.mustGit(dir, "rev-parse", "HEAD")
}
