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
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Loopback serves a handler on this machine, to the browser that opens its URL and to nobody else.
type Loopback struct {
	guard    *guard
	listener net.Listener
	server   *http.Server
}

// Listen listens on 127.0.0.1. Port 0 is any free port.
func Listen(port int, handler http.Handler) (*Loopback, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	checked := newGuard(listener.Addr().String(), handler)
	return &Loopback{guard: checked, listener: listener, server: &http.Server{
		Handler: checked, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}}, nil
}

// URL returns the address with the token that opens the page once.
func (l *Loopback) URL() string { return l.guard.origin + "/?" + tokenQuery + "=" + l.guard.token }

// Serve serves until the context ends.
func (l *Loopback) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = l.server.Close() }) // open pages are not waited for
	defer stop()
	if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const tokenQuery = "token"

// guard lets only the browser in that has opened the page with the token. Another page in the same browser can make
// requests to this machine, and so can other users of the machine, so it checks everything that a browser says about a
// request, also of those that only read.
type guard struct {
	host, origin string
	cookie       string
	token        string
	session      string
	used         atomic.Bool
	next         http.Handler
}

func newGuard(host string, next http.Handler) *guard {
	_, port, _ := net.SplitHostPort(host) // a listener's address has one
	return &guard{host: host, origin: "http://" + host, cookie: "sluice-ui-" + port, token: rand.Text(), session: rand.Text(), next: next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refusal := g.refuse(r); refusal != "" {
		forbid(w, http.StatusForbidden, refusal)
		return
	}
	token := r.URL.Query().Get(tokenQuery)
	switch {
	case g.hasSession(r) && token == "":
		g.next.ServeHTTP(w, r)
	case token != "" && r.Method == http.MethodGet && r.URL.Path == "/":
		g.open(w, r, token)
	default:
		forbid(w, http.StatusUnauthorized, "open the address that 'flux pipeline ui' has printed; it works once, so run the command again if it was used")
	}
}

// refuse returns why a request is refused, whoever makes it, or "".
func (g *guard) refuse(r *http.Request) string {
	if r.Host != g.host {
		// A name that a stranger's DNS resolves to this machine.
		return "the host must be " + g.host
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != g.origin {
		return "pages of other origins get no answer"
	}
	// All ports of a host are the same site.
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return ""
	default:
		return fmt.Sprintf("%s requests get no answer", strconv.Quote(site))
	}
}

// open exchanges the token for a session.
func (g *guard) open(w http.ResponseWriter, r *http.Request, token string) {
	switch {
	case g.hasSession(r):
	case !equal(token, g.token) || g.used.Swap(true):
		forbid(w, http.StatusUnauthorized, "this address was used already, or is of an earlier run; run 'flux pipeline ui' again")
		return
	default:
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (g *guard) hasSession(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookie)
	return err == nil && equal(cookie.Value, g.session)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// forbid answers with a text and nothing else.
func forbid(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, code)
}
