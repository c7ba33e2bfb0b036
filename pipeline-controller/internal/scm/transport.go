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
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/hosthttp"
)

const (
	// unknownLimit is how long to wait where a host does not say: GitHub's documentation asks for a minute at least.
	unknownLimit = time.Minute
	// maxLimit is the longest that a host is believed. GitHub's own limits end within the hour.
	maxLimit = 24 * time.Hour

	maxRedirects = 5
)

// transport authenticates requests, and tells rate limits as RateLimitedError. While one holds it lets no request through: going on is what
// hosts ban for. It classifies by itself, since go-github v53 takes most of
// today's secondary limits for plain errors, and go-github-ratelimit v2 either
// sleeps within the call or lets later calls through.
type transport struct {
	next  http.RoundTripper
	token Token
	now   func() time.Time

	mu sync.Mutex
	// until is the end of the newest limit.
	until time.Time
}

// newHTTPClient returns a client for the API at one origin.
func newHTTPClient(api url.URL, repository Repository) (*http.Client, error) {
	next, err := hosthttp.NewTransport(repository.CABundle, func(*http.Request) int64 { return maxResponse })
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &transport{next: next, token: repository.Token, now: time.Now},
		Timeout:   requestTimeout,
		// Hosts redirect within themselves, for a repository that was renamed. Anywhere
		// else the token must not go, and without it there is nothing to be had.
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if request.URL.Scheme != api.Scheme || request.URL.Host != api.Host {
				return fmt.Errorf("the host redirects to %s://%s, which is not followed", request.URL.Scheme, request.URL.Host)
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return nil
		},
	}, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if until := t.limit(); until.After(t.now()) {
		return nil, &RateLimitedError{Until: until}
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(t.token))
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	until, limited := limitedUntil(response, t.now())
	if !limited {
		return response, nil
	}
	_ = response.Body.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.until) {
		t.until = until
	}
	return nil, &RateLimitedError{Until: t.until}
}

func (t *transport) limit() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}

// limitedUntil tells whether a response says that a rate limit was met, and when that ends.
func limitedUntil(response *http.Response, now time.Time) (time.Time, bool) {
	retryAfter := response.Header.Get("Retry-After")
	exhausted := response.Header.Get("X-RateLimit-Remaining") == "0"
	switch response.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusForbidden:
		if retryAfter == "" && !exhausted && !tellsOfSecondaryLimit(response) {
			return time.Time{}, false
		}
	default:
		return time.Time{}, false
	}

	until := now.Add(unknownLimit)
	if seconds, err := strconv.ParseInt(retryAfter, 10, 32); err == nil && seconds > 0 {
		until = now.Add(time.Duration(seconds) * time.Second)
	} else if date, err := http.ParseTime(retryAfter); err == nil {
		until = date
	} else if reset, err := strconv.ParseInt(response.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil && exhausted {
		until = time.Unix(reset, 0)
	}
	if !until.After(now) {
		until = now.Add(unknownLimit)
	}
	if longest := now.Add(maxLimit); until.After(longest) {
		until = longest
	}
	return until, true
}

// tellsOfSecondaryLimit reads the body, and leaves it to be read again.
func tellsOfSecondaryLimit(response *http.Response) bool {
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	if err != nil {
		return false
	}
	var body struct {
		Message       string `json:"message"`
		Documentation string `json:"documentation_url"`
	}
	if json.Unmarshal(content, &body) != nil {
		return false
	}
	return strings.HasPrefix(body.Message, "You have exceeded a secondary rate limit") ||
		strings.HasSuffix(body.Documentation, "secondary-rate-limits") ||
		strings.HasSuffix(body.Documentation, "#abuse-rate-limits")
}
