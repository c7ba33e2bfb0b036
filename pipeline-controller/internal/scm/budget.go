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
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// unknownLimit is the wait if a host does not report one. GitHub's documentation requires at least a minute, and
	// longer each time.
	unknownLimit = time.Minute
	// maxUnknownLimit is the maximum of such a wait.
	maxUnknownLimit = time.Hour
	// maxLimit is the maximum wait that is accepted from a host. GitHub's own limits end within an hour.
	maxLimit = 24 * time.Hour
)

var errSlow = errors.New("the host is slow to respond to other requests with the same credential")

// budget is the rate limit of one credential on one host, for all its users. Requests take turns: hosts require that,
// and concurrent requests would continue after the first one has met a limit.
type budget struct {
	now func() time.Time
	// turn contains one value while a request is running.
	turn chan struct{}
	// patience is how long a request waits for its turn. Otherwise a host that does not respond would block all waiting
	// workers one after the other.
	patience time.Duration

	mu sync.Mutex
	// until is the end of the latest limit.
	until time.Time
	// unknown counts consecutive limits without a reported end.
	unknown int
	used    time.Time
}

func newBudget(now func() time.Time) *budget {
	return &budget{now: now, turn: make(chan struct{}, 1), patience: requestTimeout, used: now()}
}

// take waits for the turn, up to the patience. It fails while a limit applies. If it succeeds, release must be called.
func (b *budget) take(ctx context.Context) error {
	if err := b.limited(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.patience, errSlow)
	defer cancel()
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// An earlier request may have met a limit.
	if err := b.limited(); err != nil {
		b.release()
		return err
	}
	return nil
}

func (b *budget) release() { <-b.turn }

func (b *budget) limited() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = b.now()
	if b.until.After(b.used) {
		return &RateLimitedError{Until: b.until}
	}
	return nil
}

// idle reports whether there was no request since then, and nothing is lost by forgetting the budget.
func (b *budget) idle(since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.Before(since) && !b.until.After(b.now())
}

// lastNeeded returns the time of the last request, or the end of the limit if that is later.
func (b *budget) lastNeeded() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.After(b.used) {
		return b.until
	}
	return b.used
}

// spend updates the budget from a response. It returns an error if the response itself reports a limit.
func (b *budget) spend(response *http.Response) error {
	refused := refusedByLimit(response)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	until := saidLimit(response, now, refused)
	switch {
	case !refused:
		b.unknown = 0
	case until.IsZero():
		until = now.Add(min(unknownLimit<<min(b.unknown, 10), maxUnknownLimit))
		b.unknown++
	}
	if longest := now.Add(maxLimit); until.After(longest) {
		until = longest
	}
	if until.After(b.until) {
		b.until = until
	}
	if !refused {
		return nil
	}
	return &RateLimitedError{Until: b.until}
}

// refusedByLimit reports whether a request was rejected because of a limit. It does not use go-github v53, which treats
// most current secondary limits as plain errors.
func refusedByLimit(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return response.Header.Get("Retry-After") != "" || usedUp(response.Header) || tellsOfSecondaryLimit(response)
	default:
		return false
	}
}

// saidLimit returns the end of the limit that a host reports, or zero.
func saidLimit(response *http.Response, now time.Time, refused bool) time.Time {
	// Azure DevOps requests delays in successful responses too. On other hosts the header has other meanings, such as
	// maintenance.
	if success := response.StatusCode < http.StatusMultipleChoices; refused || success {
		if until := retryAfter(response.Header, now); until.After(now) {
			return until
		}
	}
	if until := reset(response.Header, now); usedUp(response.Header) && until.After(now) {
		return until
	}
	return time.Time{}
}

func retryAfter(header http.Header, now time.Time) time.Time {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return now.Add(time.Duration(seconds) * time.Second)
	}
	date, _ := http.ParseTime(value)
	return date
}

// limitHeader returns a header about the limit. GitHub, Bitbucket and Azure DevOps prefix its name with X-, GitLab does
// not.
func limitHeader(header http.Header, name string) string {
	if value := header.Get("X-RateLimit-" + name); value != "" {
		return value
	}
	return header.Get("RateLimit-" + name)
}

func usedUp(header http.Header) bool { return limitHeader(header, "Remaining") == "0" }

func reset(header http.Header, now time.Time) time.Time {
	seconds, err := strconv.ParseInt(limitHeader(header, "Reset"), 10, 64)
	switch {
	case err != nil:
		return time.Time{}
	// A small value cannot be a Unix time: it is relative, as in the header's own standard.
	case seconds < 1e9:
		return now.Add(time.Duration(seconds) * time.Second)
	default:
		return time.Unix(seconds, 0)
	}
}

// tellsOfSecondaryLimit reads the body, and restores it for other readers.
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
