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

package githost

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Always is the number of times for a Rule that applies until it is removed.
const Always = -1

// Fault replaces the handling of a request, or follows it.
type Fault func(w http.ResponseWriter, r *http.Request, carryOut http.Handler)

// Rule is an active Fault. Its methods are safe for concurrent use.
type Rule struct {
	method string
	path   *regexp.Regexp
	fault  Fault

	mu   sync.Mutex
	left int
	hits int
}

// FailNext applies the fault to the next requests, up to the number of times, with the method (any if empty) and a
// Call.Path that matches pathRegexp anywhere. If several rules match, the oldest one applies. It panics if pathRegexp
// is not valid.
func (s *Server) FailNext(method, pathRegexp string, times int, fault Fault) *Rule {
	rule := &Rule{method: method, path: regexp.MustCompile(pathRegexp), fault: fault, left: times}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule)
	return rule
}

// Hits returns the number of requests that the rule has failed.
func (r *Rule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// Remove disables the rule.
func (r *Rule) Remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = 0
}

func (r *Rule) claims(method, path string) bool {
	if r.method != "" && r.method != method || !r.path.MatchString(path) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	r.hits++
	return true
}

func (s *Server) injectFaults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		rules := slices.Clone(s.rules)
		s.mu.Unlock()
		for _, rule := range rules {
			if rule.claims(r.Method, r.URL.RequestURI()) {
				rule.fault(w, r, next)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Respond sends the status, header and body, without handling the request.
func Respond(status int, header http.Header, body string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// CutBefore closes the connection without handling the request.
func CutBefore() Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		cut(w)
	}
}

// CutAfter handles the request, and then closes the connection without a response. The client can't know the outcome.
func CutAfter() Fault {
	return func(w http.ResponseWriter, r *http.Request, carryOut http.Handler) {
		carryOut.ServeHTTP(discardResponse{}, r)
		cut(w)
	}
}

// cut sends the first line of a response and closes the connection. Without this line, curl, which git uses, and
// net/http's Transport would treat the connection as idle and retry.
func cut(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\n"))
	_ = connection.Close()
}

// Unauthorized is GitHub's response to a wrong, revoked or expired token.
func Unauthorized() Fault { return respondError(errBadCredentials(), nil) }

// Forbidden is GitHub's response to a token that lacks a permission.
func Forbidden() Fault { return respondError(errForbidden(), nil) }

// SecondaryRateLimit is GitHub's response to a client that sends too many requests: 403 with Retry-After. As on GitHub,
// the X-RateLimit headers do not show it: the primary limit is not reached.
func SecondaryRateLimit(retryAfter time.Duration) Fault {
	return respondError(&apiError{
		status: http.StatusForbidden,
		Message: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. " +
			"If you reach out to GitHub Support for help, please include the request ID.",
		DocumentationURL: docsURL + "/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits",
	}, secondaryLimitHeader(retryAfter))
}

// TooManyRequests is GitHub's other response to a client that sends too many requests: 429 with Retry-After.
func TooManyRequests(retryAfter time.Duration) Fault {
	return respondError(&apiError{
		status:           http.StatusTooManyRequests,
		Message:          "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
		DocumentationURL: docsURL + "/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits",
	}, secondaryLimitHeader(retryAfter))
}

// InternalServerError is a 500 without JSON, as from a proxy in front of a Git host.
func InternalServerError() Fault {
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	return Respond(http.StatusInternalServerError, header, "<html><body>Whoa there! Something went wrong.</body></html>\n")
}

func respondError(failure *apiError, header http.Header) Fault {
	body, err := json.Marshal(failure.body())
	if err != nil {
		panic(err)
	}
	all := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	maps.Copy(all, header)
	return Respond(failure.status, all, string(body))
}

func secondaryLimitHeader(retryAfter time.Duration) http.Header {
	header := http.Header{}
	header.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	budget := budget{remaining: requestsPerHour - 1, reset: time.Now().Add(time.Hour)}
	budget.tell(header)
	return header
}

// discardResponse discards the response to a request whose connection is cut afterwards.
type discardResponse struct{}

func (discardResponse) Header() http.Header            { return http.Header{} }
func (discardResponse) Write(data []byte) (int, error) { return len(data), nil }
func (discardResponse) WriteHeader(int)                {}
