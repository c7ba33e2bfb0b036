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
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

func TestOpen(t *testing.T) {
	for _, c := range []struct{ name, hostType, url, api, owner, clone string }{
		{name: "github.com has its API on a host of its own", hostType: "github", url: "https://github.com/org/fleet.git",
			api: "https://api.github.com/", owner: "org", clone: "https://github.com/org/fleet.git"},
		{name: "so does a GitHub Enterprise Cloud", hostType: "github", url: "https://acme.ghe.com/org/fleet",
			api: "https://api.acme.ghe.com/", owner: "org", clone: "https://acme.ghe.com/org/fleet.git"},
		{name: "any other GitHub has it below /api/v3", hostType: "github", url: "https://git.example.com:8443/org/fleet",
			api: "https://git.example.com:8443/api/v3/", owner: "org", clone: "https://git.example.com:8443/org/fleet.git"},
		{name: "a GitHub whose name starts with api too", hostType: "github", url: "https://api.example.com/org/fleet/",
			api: "https://api.example.com/api/v3/", owner: "org", clone: "https://api.example.com/org/fleet.git"},
		{name: "a Gitea at the root of its host", hostType: "gitea", url: "https://git.example.com/org/fleet.git",
			api: "https://git.example.com", owner: "org", clone: "https://git.example.com/org/fleet.git"},
		{name: "a Gitea below a path", hostType: "gitea", url: "http://example.com:3000/git/tea/org/fleet.git",
			api: "http://example.com:3000/git/tea", owner: "org", clone: "http://example.com:3000/git/tea/org/fleet.git"},
		{name: "user and password of the URL are dropped", hostType: "gitea", url: "https://u:s3cret@example.com/org/fleet",
			api: "https://example.com", owner: "org", clone: "https://example.com/org/fleet.git"},
		{name: "a GitLab project in a group", hostType: "gitlab", url: "https://gitlab.com/org/fleet.git",
			api: "https://gitlab.com", owner: "org", clone: "https://gitlab.com/org/fleet.git"},
		{name: "a GitLab project in nested groups", hostType: "gitlab", url: "https://git.example.com/org/a/b.c/fleet",
			api: "https://git.example.com", owner: "org/a/b.c", clone: "https://git.example.com/org/a/b.c/fleet.git"},
		{name: "what is cloned from a Bitbucket", hostType: "bitbucket-server", url: "https://git.example.com/scm/org/fleet.git",
			api: "https://git.example.com", owner: "org", clone: "https://git.example.com/scm/org/fleet.git"},
		{name: "the page of a repository on a Bitbucket below a path", hostType: "bitbucket-server", url: "https://example.com/bitbucket/projects/ORG/repos/fleet/browse",
			api: "https://example.com/bitbucket", owner: "ORG", clone: "https://example.com/bitbucket/scm/ORG/fleet.git"},
		{name: "a person's repository on a Bitbucket", hostType: "bitbucket-server", url: "https://git.example.com/users/rita/repos/fleet",
			api: "https://git.example.com", owner: "~rita", clone: "https://git.example.com/scm/~rita/fleet.git"},
		{name: "the path that a Bitbucket has for SSH", hostType: "bitbucket-server", url: "https://git.example.com/org/fleet.git",
			api: "https://git.example.com", owner: "org", clone: "https://git.example.com/scm/org/fleet.git"},
		{name: "a repository of Azure DevOps Services", hostType: "azure-devops", url: "https://dev.azure.com/acme/My%20Project/_git/fleet",
			api: "https://dev.azure.com/acme", owner: "My Project", clone: "https://dev.azure.com/acme/My%20Project/_git/fleet"},
		{name: "one that has its project's name", hostType: "azure-devops", url: "https://acme@dev.azure.com/acme/_git/fleet",
			api: "https://dev.azure.com/acme", owner: "fleet", clone: "https://dev.azure.com/acme/fleet/_git/fleet"},
		{name: "one of an organization with a host of its own", hostType: "azure-devops", url: "https://acme.visualstudio.com/org/_git/fleet",
			api: "https://acme.visualstudio.com", owner: "org", clone: "https://acme.visualstudio.com/org/_git/fleet"},
		{name: "the older form of that, with a collection", hostType: "azure-devops", url: "https://acme.visualstudio.com/DefaultCollection/org/_git/fleet",
			api: "https://acme.visualstudio.com/DefaultCollection", owner: "org", clone: "https://acme.visualstudio.com/DefaultCollection/org/_git/fleet"},
		{name: "a collection of an Azure DevOps Server", hostType: "azure-devops", url: "https://git.example.com/tfs/Collection/org/_git/fleet",
			api: "https://git.example.com/tfs/Collection", owner: "org", clone: "https://git.example.com/tfs/Collection/org/_git/fleet"},
		{name: "github.com shows its type", url: "https://github.com/org/fleet",
			api: "https://api.github.com/", owner: "org", clone: "https://github.com/org/fleet.git"},
		{name: "gitlab.com shows its type", url: "https://GitLab.com/org/fleet",
			api: "https://gitlab.com", owner: "org", clone: "https://gitlab.com/org/fleet.git"},
		{name: "dev.azure.com shows its type", url: "https://dev.azure.com/acme/org/_git/fleet",
			api: "https://dev.azure.com/acme", owner: "org", clone: "https://dev.azure.com/acme/org/_git/fleet"},
		{name: "one of a project of its own name, in a collection of an Azure DevOps Server", hostType: "azure-devops", url: "https://git.example.com/tfs/Collection/_git/fleet",
			api: "https://git.example.com/tfs/Collection", owner: "fleet", clone: "https://git.example.com/tfs/Collection/fleet/_git/fleet"},
		{name: "visualstudio.com shows its type", url: "https://acme.visualstudio.com/_git/fleet",
			api: "https://acme.visualstudio.com", owner: "fleet", clone: "https://acme.visualstudio.com/fleet/_git/fleet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			host, err := NewHosts(onLoopback).Open(c.hostType, Repository{URL: c.url, Token: "t"})
			g.Expect(err).NotTo(HaveOccurred())
			at := locationOf(host)
			api := at.root.String()
			if host, ok := host.(*gitHub); ok {
				api = host.client.BaseURL.String()
			}
			g.Expect(at.owner).To(Equal(c.owner))
			g.Expect(at.name).To(Equal("fleet"))
			g.Expect(api).To(Equal(c.api))
			g.Expect(host.CloneURL()).To(Equal(c.clone))
			g.Expect(at.String()).NotTo(ContainSubstring("s3cret"))
		})
	}

	for _, c := range []struct {
		name, hostType string
		repository     Repository
		message        string
	}{
		{"a type that is not supported names those that are", "svn", Repository{URL: "https://example.com/org/fleet", Token: "t"}, `"svn" are not supported: use one of azure-devops, bitbucket-server, gitea, github, gitlab`},
		{"no type of a host that does not show it", "", Repository{URL: "https://github.com.example.com/org/fleet", Token: "t"},
			"of Git host github.com.example.com can't be derived from its URL: set the type to one of azure-devops, bitbucket-server, gitea, github, gitlab"},
		{"Bitbucket Cloud", "bitbucket-server", Repository{URL: "https://bitbucket.org/org/fleet", Token: "t"}, "is Bitbucket Cloud"},
		{"a URL of another host for Bitbucket", "bitbucket-server", Repository{URL: "https://example.com/org/group/fleet", Token: "t"}, "not one of Bitbucket"},
		{"a URL of another host for Azure DevOps", "azure-devops", Repository{URL: "https://dev.azure.com/acme/org/fleet", Token: "t"}, "not one of Azure DevOps"},
		{"a project within a project of Azure DevOps", "azure-devops", Repository{URL: "https://dev.azure.com/acme/a/b/_git/fleet", Token: "t"}, "not one of Azure DevOps"},
		{"a GitHub App elsewhere", "gitlab", Repository{URL: "https://gitlab.com/org/fleet", App: &GitHubApp{}}, "type github only"},
		{"a GitHub App with another key", "github", Repository{URL: "https://github.com/org/fleet", App: &GitHubApp{PrivateKey: "s3cret"}}, "not an RSA key"},
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
			_, err := NewHosts(onLoopback).Open(c.hostType, c.repository)
			g.Expect(err).To(MatchError(ContainSubstring(c.message)))
			g.Expect(err.Error()).NotTo(ContainSubstring("s3cret"))
		})
	}
}

// locationOf returns the part that all hosts have in common.
func locationOf(host Host) location {
	switch host := host.(type) {
	case *azure:
		return host.location
	case *bitbucket:
		return host.location
	case *giteaHost:
		return host.location
	case *gitHub:
		return host.location
	case *gitLab:
		return host.location
	default:
		panic(host)
	}
}

// standIns are addresses of a repository for each type of host, below that of a server which stands in for one, and
// what such a host answers where there is no pull request.
var standIns = []struct{ hostType, path, empty string }{
	{"azure-devops", "/acme/org/_git/fleet", `{"value":[]}`},
	{"bitbucket-server", "/projects/org/repos/fleet", `{"values":[],"isLastPage":true}`},
	{"gitea", "/org/fleet", `[]`},
	{"github", "/org/fleet", `[]`},
	{"gitlab", "/org/group/fleet", `[]`},
}

func TestRedirects(t *testing.T) {
	for _, c := range standIns {
		hostType := c.hostType
		serve := func(t *testing.T, redirect func(*http.Request) string) (find func() error, sent *[]string) {
			sent = &[]string{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				*sent = append(*sent, r.Header.Get("Authorization"))
				if to := redirect(r); to != "" {
					http.Redirect(w, r, to, http.StatusTemporaryRedirect)
					return
				}
				_, _ = w.Write([]byte(c.empty))
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(hostType, Repository{URL: server.URL + c.path, Token: "t0ken"})
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
			g.Expect(*sent).To(HaveLen(2))
			g.Expect((*sent)[0]).NotTo(BeEmpty())
			g.Expect((*sent)[1]).To(Equal((*sent)[0]))
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

func TestARedirectThatTurnsAChangeIntoAReadIsNotFollowed(t *testing.T) {
	for _, c := range []struct{ hostType, path, pullRequest string }{
		{"azure-devops", "/org/project/_git/fleet", `{"pullRequestId":1,"status":"active","value":[{"id":1,"sourceRefCommit":{"commitId":"c0ffee"}}]}`},
		{"bitbucket-server", "/scm/org/fleet.git", `{"id":1,"state":"OPEN"}`},
		{"gitea", "/org/fleet", `{"number":1,"state":"open"}`},
		{"github", "/org/fleet", `{"number":1,"state":"open"}`},
		{"gitlab", "/org/group/fleet", `{"iid":1,"state":"opened","last_pipeline":{"id":1,"ref":"b"}}`},
	} {
		t.Run(c.hostType, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					// So does Gitea for a repository that was renamed.
					http.Redirect(w, r, "/renamed", http.StatusMovedPermanently)
					return
				}
				_, _ = w.Write([]byte(c.pullRequest))
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(c.hostType, Repository{URL: server.URL + c.path, Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"close", "comment", "create", "status"} {
				g.Expect(operations[name](t.Context(), host)).To(MatchError(ContainSubstring(" to "+server.URL+"/renamed: if the repository was moved, correct its URL")), name)
			}
		})
	}
}

// operations are all that can be asked of a host.
var operations = map[string]func(context.Context, Host) error{
	"find":    func(ctx context.Context, h Host) error { _, err := h.Find(ctx, "b"); return err },
	"get":     func(ctx context.Context, h Host) error { _, err := h.Get(ctx, 1); return err },
	"close":   func(ctx context.Context, h Host) error { _, err := h.Close(ctx, 1); return err },
	"comment": func(ctx context.Context, h Host) error { return h.Comment(ctx, 1, "text") },
	"merge":   func(ctx context.Context, h Host) error { return h.Merge(ctx, 1, MergeCommit, "c0ffee") },
	"create": func(ctx context.Context, h Host) error {
		_, err := h.Create(ctx, NewPullRequest{Title: "t", Branch: "b", Base: "main", Labels: []string{"l"}, Reviewers: []string{"r"}, Draft: true})
		return err
	},
	"status": func(ctx context.Context, h Host) error {
		return h.SetStatus(ctx, PullRequest{Number: 1, URL: "https://example.com/1", Branch: "b", HeadCommit: "c0ffee"}, StatusPending, "d")
	},
}

func TestFailuresOfAHostAreToldWithoutTheToken(t *testing.T) {
	// Whatever the form in which hosts send errors, each has all that came with the request in it.
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			decoded, _ := base64.StdEncoding.DecodeString(sent)
			message := fmt.Sprintf("you sent\n%s %q", r.Header.Get("Authorization"), decoded)
			body, _ := json.Marshal(map[string]any{"message": message, "errors": []map[string]string{{"message": message}}})
			_, _ = w.Write(body)
		}
	}
	for _, standIn := range standIns {
		for _, c := range []struct {
			name    string
			handler http.HandlerFunc
			is      error
			message string
			// taken says that it is fine for operations whose answer tells nothing.
			taken bool
		}{
			{name: "a 401 that repeats the token", handler: echo(401), is: ErrUnauthorized},
			{name: "a 403 that repeats the token", handler: echo(403), is: ErrUnauthorized},
			{name: "a 404 that repeats the token", handler: echo(404), is: ErrNotFound},
			{name: "a 409 that repeats the token", handler: echo(409)},
			{name: "a 422 that repeats the token", handler: echo(422)},
			{name: "a 429 that repeats the token", handler: echo(429), message: "rate limited"},
			{name: "a 500 that repeats the token", handler: echo(500)},
			{name: "a page of HTML", handler: func(w http.ResponseWriter, r *http.Request) { githost.InternalServerError()(w, r, nil) }},
			{name: "a redirect to a host that is named after the token", handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://t0ken.example.com/t0ken", http.StatusTemporaryRedirect)
			}, message: "not followed"},
			{name: "a success that is not JSON", handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("t0ken")) }, taken: true},
			{name: "a connection that is cut", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, message: "EOF"},
		} {
			t.Run(standIn.hostType+": "+c.name, func(t *testing.T) {
				g := NewWithT(t)
				server := httptest.NewServer(c.handler)
				t.Cleanup(server.Close)
				repository := Repository{URL: strings.Replace(server.URL, "//", "//user:t0ken@", 1) + standIn.path, Token: "t0ken"}
				for name, call := range operations {
					host, err := NewHosts(onLoopback).Open(standIn.hostType, repository)
					g.Expect(err).NotTo(HaveOccurred())
					err = call(t.Context(), host)
					if err == nil && c.taken {
						continue
					}
					g.Expect(err).To(MatchError(ContainSubstring(" in "+server.URL+standIn.path+": ")), name)
					if c.is != nil {
						g.Expect(err).To(MatchError(c.is), name)
					}
					g.Expect(err.Error()).To(ContainSubstring(c.message), name)
					g.Expect(err.Error()).NotTo(ContainSubstring("\n"), name)
					expectNoSecret(g, err, "t0ken")
				}
			})
		}
		t.Run(standIn.hostType+": a response without end", func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`[{"title":"`))
				for page := []byte(strings.Repeat("x", 1<<20)); ; {
					if _, err := w.Write(page); err != nil {
						return
					}
				}
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(standIn.hostType, Repository{URL: server.URL + standIn.path, Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = host.Find(t.Context(), "b")
			g.Expect(err).To(MatchError(ContainSubstring("larger than allowed")))
		})
	}
}

func TestAResponseThatTakesTooMuchMemoryIsNotRead(t *testing.T) {
	for _, standIn := range standIns {
		t.Run(standIn.hostType, func(t *testing.T) {
			g := NewWithT(t)
			// In memory, each of these few bytes is a pull request with all its fields.
			values := strings.Repeat("{},", mostRead/readPerObject) + "{}]"
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(strings.Replace(standIn.empty, "]", values, 1)))
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(standIn.hostType, Repository{URL: server.URL + standIn.path, Token: "t0ken"})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = host.Find(t.Context(), "b")
			g.Expect(err).To(MatchError(ContainSubstring("the response takes more than 64 MiB of memory")))
		})
	}
}

func TestValuesAreCountedOutsideOfTexts(t *testing.T) {
	for _, c := range []struct {
		content         string
		objects, values int64
	}{
		{`{"a":1}`, 1, 0},
		{`[1,{"a":[2]}]`, 3, 1},
		{`{"a":"{,[","b":"\",{[","c":"\\","d":2}`, 1, 3},
	} {
		t.Run(c.content, func(t *testing.T) {
			g := NewWithT(t)
			all := newReading()
			read := all.body(io.NopCloser(strings.NewReader(c.content)), func() {})
			_, err := io.Copy(io.Discard, iotest.OneByteReader(read))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(all.size).To(Equal(readPerByte*int64(len(c.content)) + readPerObject*c.objects + readPerValue*c.values))
			g.Expect(read.Close()).To(Succeed())
			g.Expect(all.size).To(BeZero())
		})
	}
}

// expectNoSecret checks all texts of an error and of the errors that it wraps.
func expectNoSecret(g *WithT, err error, secrets ...string) {
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, secret := range secrets {
			for _, spelling := range []string{secret, base64.StdEncoding.EncodeToString([]byte(":" + secret))} {
				g.Expect(fmt.Sprintf("%+v %#v", e, e)).NotTo(ContainSubstring(spelling))
			}
		}
	}
}

func TestATokenThatIsCutWithTheWordsOfAHostIsNotTold(t *testing.T) {
	const token = "t0ken-of-which-nobody-is-to-see-a-part"
	for _, standIn := range standIns {
		t.Run(standIn.hostType, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				if decoded, err := base64.StdEncoding.DecodeString(sent); err == nil {
					sent = strings.TrimPrefix(string(decoded), ":")
				}
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = w.Write([]byte(strings.Repeat("-", maxMessage-len(sent)/2) + sent))
			}))
			t.Cleanup(server.Close)
			host, err := NewHosts(onLoopback).Open(standIn.hostType, Repository{URL: server.URL + standIn.path, Token: token})
			g.Expect(err).NotTo(HaveOccurred())
			for name, call := range operations {
				err := call(t.Context(), host)
				g.Expect(err).To(HaveOccurred(), name)
				g.Expect(err.Error()).NotTo(ContainSubstring(token[:len("t0ken")]), name)
			}
		})
	}
}

func TestADuplicateOnBitbucketIsKnownThoughTheOtherOneIsLong(t *testing.T) {
	g := NewWithT(t)
	h := newTestBitbucket(t)
	host := h.open(t, func(*Repository) {})
	h.commit("promote/long")
	wanted := NewPullRequest{Title: "t", Body: strings.Repeat("long ", 20_000), Branch: "promote/long", Base: "main"}
	_, err := host.Create(t.Context(), wanted)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = host.Create(t.Context(), wanted)
	g.Expect(err).To(MatchError(ErrAlreadyExists))
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
