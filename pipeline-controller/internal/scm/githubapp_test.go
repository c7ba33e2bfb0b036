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
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

const issuing = "/app/installations/"

// newAppKey returns a key, and its PEM.
func newAppKey(t *testing.T) (*rsa.PrivateKey, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// testApp is a GitHub with an App that is installed in the repository.
type testApp struct {
	testGitHub
	app    githost.App
	secret map[string][]byte
}

func newTestApp(t *testing.T, lifetime time.Duration) testApp {
	h := testApp{testGitHub: newTestGitHub(t)}
	key, content := newAppKey(t)
	h.app = githost.App{ID: 12, Installation: 34, Key: &key.PublicKey, Repositories: []string{"org/fleet"}, TokenLifetime: lifetime}
	h.server.AddApp(h.app)
	h.secret = map[string][]byte{appIDKey: []byte("12\n"), appInstallationKey: []byte("34"), appPrivateKeyKey: content}
	return h
}

func (h testApp) repositoryOf(g *WithT, secret map[string][]byte) Repository {
	app, err := GitHubAppFromSecret(secret)
	g.Expect(err).NotTo(HaveOccurred())
	return Repository{URL: h.repository.URL, App: app, CABundle: h.repository.CABundle}
}

func TestAGitHubAppKeepsTheContract(t *testing.T) {
	g := NewWithT(t)
	h := newTestApp(t, 0)
	testHost := h.testHost
	testHost.repository = h.repositoryOf(g, h.secret)
	testContract(t, testHost)
	g.Expect(h.server.Count("POST", issuing)).To(BeNumerically(">", 0))
}

func TestAnAppsTokenIsUsedForAsLongAsItLasts(t *testing.T) {
	for _, c := range []struct {
		name     string
		lifetime time.Duration
		tokens   int
	}{
		{"one that lasts for an hour is asked for once", time.Hour, 1},
		{"one that is about to end is replaced before it does", refreshBefore - time.Minute, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestApp(t, c.lifetime)
			hosts := NewHosts(onLoopback)
			for range 3 {
				host, err := hosts.Open("github", h.repositoryOf(g, h.secret))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
			}
			g.Expect(h.server.Count("POST", issuing)).To(Equal(c.tokens))
		})
	}

	t.Run("one that was revoked is replaced after it was refused", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestApp(t, 0)
		hosts := NewHosts(onLoopback)
		repository := h.repositoryOf(g, h.secret)
		host, err := hosts.Open("github", repository)
		g.Expect(err).NotTo(HaveOccurred())
		token, err := hosts.AppToken(t.Context(), "github", repository)
		g.Expect(err).NotTo(HaveOccurred())
		h.server.RemoveToken(string(token))
		_, err = host.Find(t.Context(), "b")
		g.Expect(err).To(MatchError(ErrUnauthorized))
		expectNoSecret(g, err, string(token))
		g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
		g.Expect(h.server.Count("POST", issuing)).To(Equal(2))
	})

	t.Run("Git gets the same one as the API", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestApp(t, 0)
		hosts := NewHosts(onLoopback)
		repository := h.repositoryOf(g, h.secret)
		token, err := hosts.AppToken(t.Context(), "", Repository{URL: "https://github.com/org/fleet"})
		g.Expect(err).To(MatchError(ContainSubstring("no GitHub App")))
		g.Expect(token).To(BeEmpty())
		token, err = hosts.AppToken(t.Context(), "github", repository)
		g.Expect(err).NotTo(HaveOccurred())
		host, err := hosts.Open("github", repository)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
		g.Expect(h.server.Count("POST", issuing)).To(Equal(1))

		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host.CloneURL()+"/info/refs?service=git-upload-pack", nil)
		g.Expect(err).NotTo(HaveOccurred())
		request.SetBasicAuth(AppUsername, string(token))
		response, err := h.server.Transport().RoundTrip(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	})

	for _, owner := range []string{"org", "rita"} {
		t.Run("the installation is found by its owner, such as "+owner, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestApp(t, refreshBefore-time.Minute)
			h.app.Owner, h.app.OwnerIsUser = owner, owner == "rita"
			h.server.AddApp(h.app)
			delete(h.secret, appInstallationKey)
			h.secret[appOwnerKey] = []byte(owner)
			host, err := NewHosts(onLoopback).Open("github", h.repositoryOf(g, h.secret))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
			g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
			g.Expect(h.server.Count("GET", "/(orgs|users)/"+owner+"/installation$")).To(Equal(map[string]int{"org": 1, "rita": 2}[owner]), "not again for the next token")
		})
	}

	t.Run("the address of the API may be given", func(t *testing.T) {
		g := NewWithT(t)
		h := newTestApp(t, 0)
		h.secret[appBaseURLKey] = []byte(h.server.APIURL())
		host, err := NewHosts(onLoopback).Open("github", h.repositoryOf(g, h.secret))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
	})
}

func TestALimitMetForAnAppsTokenHoldsForAllOfTheApp(t *testing.T) {
	g := NewWithT(t)
	h := newTestApp(t, 0)
	var clock clock
	hosts := hostsAt(&clock)
	repository := h.repositoryOf(g, h.secret)
	h.server.FailNext("POST", issuing, 1, githost.SecondaryRateLimit(time.Minute))
	for range 2 {
		host, err := hosts.Open("github", repository)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = host.Find(t.Context(), "b")
		g.Expect(isLimited(err)).To(BeTrue(), "%v", err)
		_, err = hosts.AppToken(t.Context(), "github", repository)
		g.Expect(isLimited(err)).To(BeTrue(), "%v", err)
	}
	g.Expect(h.server.Calls()).To(HaveLen(1))
	clock.set(clock.now().Add(time.Minute))
	_, err := hosts.AppToken(t.Context(), "github", repository)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestAnAppThatIsRefusedIsToldWithoutItsKey(t *testing.T) {
	_, otherKey := newAppKey(t)
	for _, c := range []struct {
		name    string
		change  func(h testApp)
		kind    error
		message string
	}{
		{"another key", func(h testApp) { h.secret[appPrivateKeyKey] = otherKey }, ErrUnauthorized, "could not be decoded"},
		{"another App", func(h testApp) { h.secret[appIDKey] = []byte("13") }, ErrUnauthorized, "GitHub App 13 got no token for its installation 34: status 401"},
		{"another installation", func(h testApp) { h.secret[appInstallationKey] = []byte("35") }, ErrUnauthorized, "installation 35: status 404"},
		{"an owner who has not installed it", func(h testApp) {
			delete(h.secret, appInstallationKey)
			h.secret[appOwnerKey] = []byte("nobody")
		}, ErrUnauthorized, "has no installation of nobody: status 404"},
		{"a host that fails", func(h testApp) { h.server.FailNext("POST", issuing, 1, githost.InternalServerError()) }, nil, "status 500"},
		{"an answer without a token", func(h testApp) {
			h.server.FailNext("POST", issuing, 1, githost.Respond(http.StatusCreated, nil, "{}"))
		}, nil, "has no token"},
		{"an answer that repeats what was sent", func(h testApp) {
			h.server.FailNext("POST", issuing, 1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"message":` + strconv.Quote(r.Header.Get("Authorization")) + `}`))
			})
		}, ErrUnauthorized, "[redacted]"},
		{"a redirect", func(h testApp) {
			h.server.FailNext("POST", issuing, 1, githost.Respond(http.StatusTemporaryRedirect, http.Header{"Location": {"https://example.com/"}}, ""))
		}, ErrUnauthorized, "status 307"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestApp(t, 0)
			c.change(h)
			host, err := NewHosts(onLoopback).Open("github", h.repositoryOf(g, h.secret))
			g.Expect(err).NotTo(HaveOccurred())
			_, err = host.Find(t.Context(), "b")
			g.Expect(err).To(MatchError(ContainSubstring(c.message)))
			if c.kind != nil {
				g.Expect(err).To(MatchError(c.kind))
			}
			expectNoSecret(g, err, "eyJ", string(h.secret[appPrivateKeyKey][40:80]))
		})
	}
}

func TestAnAppFromASecret(t *testing.T) {
	_, key := newAppKey(t)
	for _, c := range []struct {
		name    string
		data    map[string]string
		message string
	}{
		{"no key", map[string]string{appIDKey: "1", appInstallationKey: "2"}, "'githubAppPrivateKey' is missing"},
		{"no App", map[string]string{appPrivateKeyKey: string(key), appInstallationKey: "2"}, "'githubAppID' is missing"},
		{"no installation", map[string]string{appPrivateKeyKey: string(key), appIDKey: "2"}, "'githubAppInstallationID' is missing"},
		{"an installation and its owner", map[string]string{appPrivateKeyKey: string(key), appIDKey: "1", appInstallationKey: "2", appOwnerKey: "org"}, "both 'githubAppInstallationID' and 'githubAppInstallationOwner'"},
		{"a name for a number", map[string]string{appPrivateKeyKey: string(key), appIDKey: "sluice", appInstallationKey: "2"}, "'githubAppID' is missing or not a number"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			g := NewWithT(t)
			data := map[string][]byte{}
			for name, value := range c.data {
				data[name] = []byte(value)
			}
			_, err := GitHubAppFromSecret(data)
			g.Expect(err).To(MatchError(ContainSubstring(c.message)))
		})
	}
	t.Run("a Secret of another kind has none", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(GitHubAppFromSecret(map[string][]byte{"token": []byte("t")})).To(BeNil())
	})
}
