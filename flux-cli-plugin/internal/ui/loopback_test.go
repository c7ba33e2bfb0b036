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

package ui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const testHost = "127.0.0.1:8080"

// testGuard is a guard of a page that says what it is.
func testGuard() *guard {
	return newGuard(testHost, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the page")) }))
}

func TestTheGuardLetsOnlyTheBrowserOfTheTokenIn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		target string
		header map[string]string
		// cookie is "session" for that of the page.
		cookie string
		want   int
		says   string
	}{
		{name: "a session sees the page", cookie: "session", want: http.StatusOK, says: "the page"},
		{name: "a session that the browser's user opens sees the page", cookie: "session", header: map[string]string{"Sec-Fetch-Site": "none"}, want: http.StatusOK, says: "the page"},
		{name: "the page's own requests are answered", cookie: "session", header: map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + testHost}, want: http.StatusOK, says: "the page"},
		{name: "nobody else sees it", want: http.StatusUnauthorized, says: "works once"},
		{name: "another session does not", cookie: "other", want: http.StatusUnauthorized},
		{name: "a token that is wrong opens nothing", target: "/?token=wrong", want: http.StatusUnauthorized, says: "earlier run"},
		{name: "a token opens no other path", target: "/pipelines/a/b?token=TOKEN", want: http.StatusUnauthorized},
		{name: "a token is not posted", method: http.MethodPost, target: "/?token=TOKEN", want: http.StatusUnauthorized},
		{name: "a name that a stranger's DNS resolves to this machine gets nothing", cookie: "session", header: map[string]string{"Host": "evil.example:8080"}, want: http.StatusForbidden, says: "the host must be"},
		{name: "neither does localhost, whose cookies are others", cookie: "session", header: map[string]string{"Host": "localhost:8080"}, want: http.StatusForbidden},
		{name: "neither does another port", cookie: "session", header: map[string]string{"Host": "127.0.0.1:9090"}, want: http.StatusForbidden},
		{name: "a rebinding host gets nothing for a token", target: "/?token=TOKEN", header: map[string]string{"Host": "evil.example:8080"}, want: http.StatusForbidden},
		{name: "another origin gets nothing", cookie: "session", header: map[string]string{"Origin": "https://evil.example"}, want: http.StatusForbidden, says: "other origins"},
		{name: "neither does another port of this machine as an origin", cookie: "session", header: map[string]string{"Origin": "http://127.0.0.1:9090"}, want: http.StatusForbidden},
		{name: "neither does an origin without a name", cookie: "session", header: map[string]string{"Origin": "null"}, want: http.StatusForbidden},
		{name: "a read that another site starts gets nothing", cookie: "session", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: http.StatusForbidden, says: "cross-site"},
		{name: "a read that another port starts gets nothing, although it is the same site", cookie: "session", header: map[string]string{"Sec-Fetch-Site": "same-site"}, want: http.StatusForbidden},
		{name: "a site that no browser knows gets nothing", cookie: "session", header: map[string]string{"Sec-Fetch-Site": "<script>"}, want: http.StatusForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			guard := testGuard()
			request := newRequest(guard, tt.method, tt.target)
			for name, value := range tt.header {
				request.Header.Set(name, value)
			}
			if host := tt.header["Host"]; host != "" {
				request.Host = host
			}
			if tt.cookie != "" {
				value := strings.ReplaceAll(tt.cookie, "session", guard.session)
				request.AddCookie(&http.Cookie{Name: guard.cookie, Value: value})
			}
			answer := httptest.NewRecorder()
			guard.ServeHTTP(answer, request)
			g.Expect(answer.Code).To(Equal(tt.want))
			g.Expect(answer.Body.String()).To(ContainSubstring(tt.says))
			g.Expect(answer.Body.String() == "the page").To(Equal(tt.want == http.StatusOK))
			g.Expect(answer.Header()).NotTo(HaveKey("Set-Cookie"))
			g.Expect(answer.Header()).NotTo(HaveKey("Access-Control-Allow-Origin"))
		})
	}
}

func newRequest(guard *guard, method, target string) *http.Request {
	if target == "" {
		target = "/"
	}
	request := httptest.NewRequest(method, strings.ReplaceAll(target, "TOKEN", guard.token), nil)
	request.Host = testHost
	return request
}

func TestTheTokenIsExchangedOnceForACookie(t *testing.T) {
	g := NewWithT(t)
	guard := testGuard()
	first := httptest.NewRecorder()
	guard.ServeHTTP(first, newRequest(guard, http.MethodGet, "/?token=TOKEN"))
	g.Expect(first.Code).To(Equal(http.StatusSeeOther))
	g.Expect(first.Header().Get("Location")).To(Equal("/"), "the token is not in the address any more")
	g.Expect(first.Header().Get("Referrer-Policy")).To(Equal("no-referrer"))
	cookies := first.Result().Cookies()
	g.Expect(cookies).To(HaveLen(1))
	g.Expect(cookies[0].Name).To(Equal("sluice-ui-8080"), "cookies of all ports of a host are together")
	g.Expect(cookies[0].HttpOnly).To(BeTrue())
	g.Expect(cookies[0].SameSite).To(Equal(http.SameSiteStrictMode))
	g.Expect(cookies[0].Domain).To(BeEmpty())
	g.Expect(cookies[0].Value).NotTo(Equal(guard.token))

	again := httptest.NewRecorder()
	guard.ServeHTTP(again, newRequest(guard, http.MethodGet, "/?token=TOKEN"))
	g.Expect(again.Code).To(Equal(http.StatusUnauthorized))
	g.Expect(again.Header()).NotTo(HaveKey("Set-Cookie"))

	back := newRequest(guard, http.MethodGet, "/?token=TOKEN")
	back.AddCookie(cookies[0])
	same := httptest.NewRecorder()
	guard.ServeHTTP(same, back)
	g.Expect(same.Code).To(Equal(http.StatusSeeOther), "the browser's history may have the address")
}

func TestTheServerListensOnThisMachineOnlyAndEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	server, err := Listen(0, http.NotFoundHandler())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.listener.Addr().String()).To(HavePrefix("127.0.0.1:"))
	g.Expect(server.URL()).To(HavePrefix("http://127.0.0.1:"))

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	stop()
	g.Eventually(ended, 10*time.Second).Should(Receive(BeNil()))
	_, err = http.Get(server.URL())
	g.Expect(err).To(HaveOccurred())
}

func TestTwoRunsHaveDifferentSecrets(t *testing.T) {
	g := NewWithT(t)
	one, other := testGuard(), testGuard()
	g.Expect(one.token).NotTo(Equal(other.token))
	g.Expect(one.session).NotTo(Equal(other.session))
	g.Expect(len(one.token)).To(BeNumerically(">=", 26), "128 bits")
}
