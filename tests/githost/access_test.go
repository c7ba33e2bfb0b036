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
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v53/github"
	. "github.com/onsi/gomega"
)

func TestTokens(t *testing.T) {
	get := func(w *world, client *github.Client) error {
		_, _, err := client.PullRequests.Get(w.ctx, owner, repo, 1)
		return err
	}
	create := func(w *world, client *github.Client) error {
		_, _, err := client.PullRequests.Create(w.ctx, owner, repo, newPull("other", "main"))
		return err
	}
	createRef := func(w *world, client *github.Client) error {
		_, _, err := client.Git.CreateRef(w.ctx, owner, repo, reference("refs/heads/new", w.first))
		return err
	}
	const forbidden = "Resource not accessible by personal access token"
	tests := []struct {
		name    string
		token   string
		ask     func(*world, *github.Client) error
		status  int // 0 if it is allowed
		message string
	}{
		{"one that writes may open pull requests", writeToken, create, 0, ""},
		{"one that reads may see them", readToken, get, 0, ""},
		{"one that reads may not open them", readToken, create, http.StatusForbidden, forbidden},
		{"one that reads may not make branches", readToken, createRef, http.StatusForbidden, forbidden},
		{"one for contents may make branches", contentsToken, createRef, 0, ""},
		{"one for contents may not open pull requests", contentsToken, create, http.StatusForbidden, forbidden},
		{"one for contents may not even see them", contentsToken, get, http.StatusForbidden, forbidden},
		{"one for another repository finds nothing", strangerToken, get, http.StatusNotFound, "Not Found"},
		{"without one, nothing is found", "", get, http.StatusNotFound, "Not Found"},
		{"a wrong one is bad", "wrong", get, http.StatusUnauthorized, "Bad credentials"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.open("feature")
			w.commit("other", "o.yaml", "a: 1\n")
			err := test.ask(w, w.clientWith(test.token))
			if test.status == 0 {
				w.Expect(err).NotTo(HaveOccurred())
				return
			}
			status, message, _ := w.refusal(err)
			w.Expect(status).To(Equal(test.status))
			w.Expect(message).To(Equal(test.message))
		})
	}
	t.Run("a repository that there is not is not found", func(t *testing.T) {
		w := newWorld(t)
		_, _, err := w.client.Repositories.Get(w.ctx, owner, "nothing")
		status, _, _ := w.refusal(err)
		w.Expect(status).To(Equal(http.StatusNotFound))
	})
}

// do makes a request as no client library would, and returns the response with its body read.
func (w *world) do(method, path string, header http.Header, body string) (*http.Response, string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.ctx, method, w.host.APIURL()+path, strings.NewReader(body))
	w.Expect(err).NotTo(HaveOccurred())
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	if request.Header.Get("Authorization") == "" {
		request.Header.Set("Authorization", "token "+writeToken)
	}
	response, err := w.client.Client().Transport.(authorizing).next.RoundTrip(request)
	w.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	w.Expect(err).NotTo(HaveOccurred())
	return response, string(content)
}

func TestErrorBodies(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		status                   int
		expected                 string
	}{
		{
			"of validation name the resource, field and code", "POST", "repos/org/fleet/pulls",
			`{"title":"T","head":"nowhere","base":"main"}`, http.StatusUnprocessableEntity,
			`{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"invalid","field":"head"}],` +
				`"documentation_url":"https://docs.github.com/rest","status":"422"}`,
		},
		{
			"of what is not JSON say so", "POST", "repos/org/fleet/pulls", `{`, http.StatusBadRequest,
			`{"message":"Problems parsing JSON","documentation_url":"https://docs.github.com/rest","status":"400"}`,
		},
		{
			"of a branch that is missing say so", "GET", "repos/org/fleet/branches/no/where", ``, http.StatusNotFound,
			`{"message":"Branch not found","documentation_url":"https://docs.github.com/rest","status":"404"}`,
		},
		{
			"of an unknown path say that it is not found", "GET", "nothing/here", ``, http.StatusNotFound,
			`{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`,
		},
		{
			"of a method that a path lacks say that it is not found", "DELETE", "repos/org/fleet/pulls", ``, http.StatusNotFound,
			`{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			response, body := w.do(test.method, test.path, nil, test.body)
			w.Expect(response.StatusCode).To(Equal(test.status))
			w.Expect(response.Header.Get("Content-Type")).To(Equal("application/json; charset=utf-8"))
			w.Expect(body).To(MatchJSON(test.expected))
		})
	}
}

func TestPagination(t *testing.T) {
	w := newWorld(t)
	w.open("feature")
	for number := range 65 {
		_, _, err := w.client.Issues.CreateComment(w.ctx, owner, repo, 1, &github.IssueComment{Body: github.String(fmt.Sprint(number))})
		w.Expect(err).NotTo(HaveOccurred())
	}
	tests := []struct {
		name                    string
		options                 github.ListOptions
		items                   int
		prev, next, last, first int
	}{
		{"thirty a page, if nothing is said", github.ListOptions{}, 30, 0, 2, 3, 0},
		{"a page in the middle links to all others", github.ListOptions{Page: 2}, 30, 1, 3, 3, 1},
		{"the last page is what is left", github.ListOptions{Page: 3}, 5, 2, 0, 0, 1},
		{"a page beyond the last is empty", github.ListOptions{Page: 9}, 0, 3, 0, 0, 1},
		{"all on one page need no links", github.ListOptions{PerPage: 100}, 65, 0, 0, 0, 0},
		{"no more than a hundred a page", github.ListOptions{PerPage: 1000}, 65, 0, 0, 0, 0},
		{"as many as asked for", github.ListOptions{PerPage: 60, Page: 2}, 5, 1, 0, 0, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			comments, response, err := w.client.Issues.ListComments(w.ctx, owner, repo, 1, &github.IssueListCommentsOptions{ListOptions: test.options})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(comments).To(HaveLen(test.items))
			g.Expect([]int{response.PrevPage, response.NextPage, response.LastPage, response.FirstPage}).
				To(Equal([]int{test.prev, test.next, test.last, test.first}))
		})
	}
	t.Run("the links keep what else was asked", func(t *testing.T) {
		w := newWorld(t)
		w.open("one")
		w.open("two")
		response, _ := w.do(http.MethodGet, "repos/org/fleet/pulls?state=all&per_page=1", nil, "")
		w.Expect(response.Header.Get("Link")).To(ContainSubstring(
			"<" + w.host.APIURL() + `repos/org/fleet/pulls?page=2&per_page=1&state=all>; rel="next"`))
	})
}

func TestConditionalRequests(t *testing.T) {
	w := newWorld(t)
	w.open("feature")
	const path = "repos/org/fleet/pulls/1"
	response, _ := w.do(http.MethodGet, path, nil, "")
	etag := response.Header.Get("ETag")
	w.Expect(etag).NotTo(BeEmpty())

	left := w.host.RateLimitRemaining(writeToken)
	response, body := w.do(http.MethodGet, path, http.Header{"If-None-Match": {etag}}, "")
	w.Expect(response.StatusCode).To(Equal(http.StatusNotModified))
	w.Expect(response.Header.Get("ETag")).To(Equal(etag))
	w.Expect(body).To(BeEmpty())
	w.Expect(w.host.RateLimitRemaining(writeToken)).To(Equal(left), "what is not modified costs nothing")

	w.commit("feature", "more.yaml", "a: 1\n")
	response, _ = w.do(http.MethodGet, path, http.Header{"If-None-Match": {etag}}, "")
	w.Expect(response.StatusCode).To(Equal(http.StatusOK))
	w.Expect(response.Header.Get("ETag")).NotTo(Equal(etag))
	w.Expect(w.host.RateLimitRemaining(writeToken)).To(Equal(left - 1))
}

func TestPrimaryRateLimit(t *testing.T) {
	w := newWorld(t)
	reset := time.Now().Add(time.Hour)
	w.host.SetRateLimit(writeToken, 1, reset)
	_, response, err := w.client.Repositories.Get(w.ctx, owner, repo)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.Rate.Limit).To(Equal(5000))
	w.Expect(response.Rate.Remaining).To(Equal(0))

	// Another client, since this one knows now and would not ask.
	_, _, err = w.clientWith(writeToken).Repositories.Get(w.ctx, owner, repo)
	var limit *github.RateLimitError
	w.Expect(errors.As(err, &limit)).To(BeTrue())
	w.Expect(limit.Rate.Reset.Unix()).To(Equal(reset.Unix()))
	w.Expect(w.host.Count("GET", "/repos/org/fleet$")).To(Equal(2))

	_, _, err = w.clientWith(readToken).Repositories.Get(w.ctx, owner, repo)
	w.Expect(err).NotTo(HaveOccurred(), "another token has a budget of its own")

	w.host.SetRateLimit(writeToken, 0, time.Now())
	_, response, err = w.clientWith(writeToken).Repositories.Get(w.ctx, owner, repo)
	w.Expect(err).NotTo(HaveOccurred(), "after the reset there is a new budget")
	w.Expect(response.Rate.Remaining).To(Equal(4999))
}
