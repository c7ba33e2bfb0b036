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

package scm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

func TestOpen(t *testing.T) {
	for _, c := range []struct{ name, hostType, url, api string }{
		{"github.com has its API on a host of its own", "github", "https://github.com/org/fleet.git", "https://api.github.com/"},
		{"any other GitHub has it below /api/v3", "github", "https://git.example.com:8443/org/fleet", "https://git.example.com:8443/api/v3/"},
		{"a GitHub whose name starts with api too", "github", "https://api.example.com/org/fleet/", "https://api.example.com/api/v3/"},
		{"a Gitea at the root of its host", "gitea", "https://git.example.com/org/fleet.git", "https://git.example.com"},
		{"a Gitea below a path", "gitea", "http://example.com:3000/git/tea/org/fleet.git", "http://example.com:3000/git/tea"},
		{"user and password of the URL are dropped", "gitea", "https://u:s3cret@example.com/org/fleet", "https://example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			host, err := Open(c.hostType, Repository{URL: c.url, Token: "t"})
			g.Expect(err).NotTo(HaveOccurred())
			var at location
			var api string
			switch host := host.(type) {
			case *gitHub:
				at, api = host.location, host.client.BaseURL.String()
			case *giteaHost:
				at, api = host.location, host.root.String()
			}
			g.Expect(at.owner + "/" + at.name).To(Equal("org/fleet"))
			g.Expect(api).To(Equal(c.api))
			g.Expect(at.String()).NotTo(ContainSubstring("s3cret"))
		})
	}

	for _, c := range []struct {
		name, hostType string
		repository     Repository
		message        string
	}{
		{"a type that is not supported names those that are", "svn", Repository{URL: "https://example.com/org/fleet", Token: "t"}, `"svn" are not supported: use one of gitea, github`},
		{"no type", "", Repository{URL: "https://example.com/org/fleet", Token: "t"}, "gitea, github"},
		{"no token", "github", Repository{URL: "https://example.com/org/fleet"}, "no token"},
		{"no owner", "github", Repository{URL: "https://example.com/fleet", Token: "t"}, "names no owner"},
		{"no repository", "gitea", Repository{URL: "https://example.com/org/.git", Token: "t"}, "names no owner"},
		{"no path", "gitea", Repository{URL: "https://example.com", Token: "t"}, "names no owner"},
		{"a longer path on GitHub", "github", Repository{URL: "https://example.com/group/org/fleet", Token: "t"}, "not owner/repository"},
		{"an ssh URL", "github", Repository{URL: "ssh://git@example.com/org/fleet", Token: "t"}, `scheme "ssh"`},
		{"a URL that cannot be parsed", "github", Repository{URL: "https://u:s3cret@example.com/%zz", Token: "t"}, "cannot be parsed"},
		{"a CA bundle without a certificate", "github", Repository{URL: "https://example.com/org/fleet", Token: "t", CABundle: []byte("junk")}, "no certificate"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			g := NewWithT(t)
			_, err := Open(c.hostType, c.repository)
			g.Expect(err).To(MatchError(ContainSubstring(c.message)))
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cret"))
		})
	}
}

func TestGitHubRateLimits(t *testing.T) {
	reset := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	for _, c := range []struct {
		name  string
		limit func(*githost.Server)
		// after is how long the limit lasts from when it is met; 0 for one that ends at reset.
		after time.Duration
		calls int
	}{
		{
			name: "a secondary limit holds until Retry-After has passed",
			limit: func(s *githost.Server) {
				s.FailNext("", "/pulls", githost.Always, githost.SecondaryRateLimit(60*time.Second))
			},
			after: 60 * time.Second,
			calls: 1,
		},
		{
			name: "too many requests hold until Retry-After has passed",
			limit: func(s *githost.Server) {
				s.FailNext("", "/pulls", githost.Always, githost.TooManyRequests(90*time.Second))
			},
			after: 90 * time.Second,
			calls: 1,
		},
		{
			name:  "a primary limit that is met holds until it is reset",
			limit: func(s *githost.Server) { s.SetRateLimit(gitHubToken, 0, reset) },
			calls: 1,
		},
		{
			name:  "a primary limit that the last request used up holds until it is reset",
			limit: func(s *githost.Server) { s.SetRateLimit(gitHubToken, 1, reset) },
			calls: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestGitHub(t)
			host := h.open(t, func(*Repository) {})
			c.limit(h.server)

			before := time.Now()
			_, first := host.Find(t.Context(), "b")
			met := time.Now()
			_, second := host.Get(t.Context(), 1)
			g.Expect(h.server.Count("", "/pulls")).To(Equal(c.calls), "not one call is made before the limit ends")

			var limited *RateLimitedError
			g.Expect(errors.As(second, &limited)).To(BeTrue(), "%v", second)
			if c.after == 0 {
				g.Expect(limited.Until).To(BeTemporally("==", reset))
				return
			}
			g.Expect(errors.As(first, &limited)).To(BeTrue(), "%v", first)
			g.Expect(limited.Until).To(And(BeTemporally(">=", before.Add(c.after)), BeTemporally("<=", met.Add(c.after))))
			g.Expect(first).NotTo(MatchError(ErrUnauthorized), "a limit is no refusal of the token")
		})
	}
}

func TestLimitedUntil(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	unix := func(after time.Duration) string { return strconv.FormatInt(now.Add(after).Unix(), 10) }
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		// want is how long the limit lasts, 0 for none.
		want time.Duration
	}{
		{name: "a success is no limit, whatever is left", status: 200, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Hour)}},
		{name: "a plain 403 is no limit", status: 403, header: map[string]string{"X-RateLimit-Remaining": "12"}, body: `{"message":"Resource not accessible"}`},
		{name: "a 403 that is not JSON is no limit", status: 403, body: "<html>"},
		{name: "a 503 is no limit", status: 503, header: map[string]string{"Retry-After": "9"}},
		{name: "a 403 with nothing remaining lasts until the reset", status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Hour)}, want: time.Hour},
		{name: "a 403 with Retry-After lasts as long as that", status: 403, header: map[string]string{"Retry-After": "30"}, want: 30 * time.Second},
		{name: "Retry-After goes before the reset", status: 403, header: map[string]string{"Retry-After": "30", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Hour)}, want: 30 * time.Second},
		{name: "a secondary limit known by its documentation lasts a minute", status: 403, body: `{"documentation_url":"https://docs.github.com/x#about-secondary-rate-limits"}`, want: time.Minute},
		{name: "a secondary limit known by its message lasts a minute", status: 403, body: `{"message":"You have exceeded a secondary rate limit. Please wait"}`, want: time.Minute},
		{name: "an abuse limit of older hosts lasts a minute", status: 403, body: `{"documentation_url":"https://developer.github.com/v3/#abuse-rate-limits"}`, want: time.Minute},
		{name: "a 429 that says nothing lasts a minute", status: 429, want: time.Minute},
		{name: "the reset of an hour's limit that is not used up does not count", status: 429, header: map[string]string{"X-RateLimit-Remaining": "7", "X-RateLimit-Reset": unix(time.Hour)}, want: time.Minute},
		{name: "Retry-After may be a date", status: 429, header: map[string]string{"Retry-After": now.Add(2 * time.Hour).Format(http.TimeFormat)}, want: 2 * time.Hour},
		{name: "a Retry-After of nonsense lasts a minute", status: 429, header: map[string]string{"Retry-After": "soon"}, want: time.Minute},
		{name: "a Retry-After of years lasts a day", status: 429, header: map[string]string{"Retry-After": "999999999"}, want: 24 * time.Hour},
		{name: "a Retry-After that overflows lasts a minute", status: 429, header: map[string]string{"Retry-After": "99999999999999999999"}, want: time.Minute},
		{name: "a reset in the past lasts a minute", status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, want: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			response := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
			for name, value := range c.header {
				response.Header.Set(name, value)
			}
			until, limited := limitedUntil(response, now)
			g.Expect(limited).To(Equal(c.want != 0))
			if limited {
				g.Expect(until).To(BeTemporally("==", now.Add(c.want)))
			}
			g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo(c.body), "the body can be read again")
		})
	}
}

func TestALimitEnds(t *testing.T) {
	g := NewWithT(t)
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	host, err := Open("gitea", Repository{URL: server.URL + "/org/fleet", Token: "t"})
	g.Expect(err).NotTo(HaveOccurred())
	clock := time.Now()
	host.(*giteaHost).client.Transport.(*transport).now = func() time.Time { return clock }

	_, err = host.Find(t.Context(), "b")
	g.Expect(err).To(MatchError(ContainSubstring("rate limited by the host until " + clock.Add(time.Minute).UTC().Format(time.RFC3339))))
	clock = clock.Add(time.Minute - 1)
	_, err = host.Find(t.Context(), "b")
	g.Expect(err).To(HaveOccurred())
	g.Expect(requests).To(Equal(1))
	clock = clock.Add(1)
	g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
	g.Expect(requests).To(Equal(2))
}

func TestRedirects(t *testing.T) {
	for _, hostType := range []string{"github", "gitea"} {
		serve := func(t *testing.T, redirect func(*http.Request) string) (find func() error, sent *[]string) {
			sent = &[]string{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				*sent = append(*sent, r.Header.Get("Authorization"))
				if to := redirect(r); to != "" {
					http.Redirect(w, r, to, http.StatusTemporaryRedirect)
					return
				}
				_, _ = w.Write([]byte("[]"))
			}))
			t.Cleanup(server.Close)
			host, err := Open(hostType, Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
			if err != nil {
				t.Fatal(err)
			}
			return func() error { _, err := host.Find(t.Context(), "b"); return err }, sent
		}
		t.Run(hostType+": one within the host is followed with the token", func(t *testing.T) {
			g := NewWithT(t)
			find, sent := serve(t, func(r *http.Request) string {
				if r.URL.Path == "/renamed" {
					return ""
				}
				return "/renamed"
			})
			g.Expect(find()).To(Succeed())
			g.Expect(*sent).To(Equal([]string{"Bearer t0ken", "Bearer t0ken"}))
		})
		t.Run(hostType+": one to another host is not followed", func(t *testing.T) {
			g := NewWithT(t)
			stolen := 0
			thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen++ }))
			t.Cleanup(thief.Close)
			find, _ := serve(t, func(*http.Request) string { return thief.URL })
			g.Expect(find()).To(MatchError(ContainSubstring("redirects to " + thief.URL + ", which is not followed")))
			g.Expect(stolen).To(BeZero())
		})
		t.Run(hostType+": a circle of them ends", func(t *testing.T) {
			g := NewWithT(t)
			find, sent := serve(t, func(r *http.Request) string { return r.URL.String() })
			g.Expect(find()).To(MatchError(ContainSubstring("more than 5 redirects")))
			g.Expect(*sent).To(HaveLen(5))
		})
	}
}

func TestFailuresOfAHostAreToldWithoutTheToken(t *testing.T) {
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			body, _ := json.Marshal(map[string]string{"message": "you sent\n" + r.Header.Get("Authorization")})
			_, _ = w.Write(body)
		}
	}
	for _, hostType := range []string{"github", "gitea"} {
		for _, c := range []struct {
			name    string
			handler http.HandlerFunc
			is      error
			message string
		}{
			{name: "a 401 that repeats the token", handler: echo(401), is: ErrUnauthorized},
			{name: "a 403 that repeats the token", handler: echo(403), is: ErrUnauthorized},
			{name: "a 422 that repeats the token", handler: echo(422), message: "you sent Bearer [redacted]"},
			{name: "a 500 that repeats the token", handler: echo(500), message: "status 500"},
			{name: "a page of HTML", handler: func(w http.ResponseWriter, r *http.Request) { githost.InternalServerError()(w, r, nil) }, message: "status 500"},
			{name: "a success that is not JSON", handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("t0ken")) }},
			{name: "a connection that is cut", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, message: "EOF"},
			{name: "a response without end", handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`[{"title":"`))
				for page := []byte(strings.Repeat("x", 1<<20)); ; {
					if _, err := w.Write(page); err != nil {
						return
					}
				}
			}, message: "larger than allowed"},
		} {
			t.Run(hostType+": "+c.name, func(t *testing.T) {
				g := NewWithT(t)
				server := httptest.NewServer(c.handler)
				t.Cleanup(server.Close)
				host, err := Open(hostType, Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
				g.Expect(err).NotTo(HaveOccurred())
				_, err = host.Find(t.Context(), "b")
				g.Expect(err).To(HaveOccurred())
				g.Expect(err).To(MatchError(ContainSubstring("listing pull requests in " + server.URL + "/org/fleet: ")))
				if c.is != nil {
					g.Expect(err).To(MatchError(c.is))
				}
				g.Expect(err.Error()).To(ContainSubstring(c.message))
				for e := err; e != nil; e = errors.Unwrap(e) {
					g.Expect(fmt.Sprintf("%+v %#v", e, e)).NotTo(ContainSubstring("t0ken"))
				}
			})
		}
	}
}

func TestATokenDoesNotPrint(t *testing.T) {
	g := NewWithT(t)
	repository := Repository{URL: "https://example.com/org/fleet", Token: "t0ken"}
	encoded, err := json.Marshal(repository)
	g.Expect(err).NotTo(HaveOccurred())
	for _, printed := range []string{
		repository.Token.String(), fmt.Sprintf("%v %+v %#v", repository, repository, repository),
		fmt.Sprintf("%s %q", repository.Token, repository.Token), string(encoded),
	} {
		g.Expect(printed).NotTo(ContainSubstring("t0ken"))
	}
}
