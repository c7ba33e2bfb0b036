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
	// unknownLimit is how long to wait where a host does not say: GitHub's
	// documentation asks for a minute at least, and for longer each time.
	unknownLimit = time.Minute
	// maxUnknownLimit is the longest wait of that kind.
	maxUnknownLimit = time.Hour
	// maxLimit is the longest that a host is believed. GitHub's own limits end within the hour.
	maxLimit = 24 * time.Hour
)

var errSlow = errors.New("the host is slow to answer others with the same credential")

// budget is what one host grants one credential, whoever uses it. Requests take
// turns: hosts ask for that, and were several under way when the first of them
// meets a limit, the others would go on against it.
type budget struct {
	now func() time.Time
	// turn holds one value while somebody has it.
	turn chan struct{}
	// patience is how long the turn is waited for: a host that does not answer is not to hold up those one after the other who
	// have others to look after.
	patience time.Duration

	mu sync.Mutex
	// until is the end of the newest limit.
	until time.Time
	// unknown counts the limits in a row whose end the host did not tell.
	unknown int
	used    time.Time
}

func newBudget(now func() time.Time) *budget {
	return &budget{now: now, turn: make(chan struct{}, 1), patience: requestTimeout, used: now()}
}

// take waits for the turn, for a while. It fails while a limit holds, and must be followed by release if it does not.
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
	// One that went before may have met a limit.
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

// idle reports whether nobody has asked since then, and nothing is lost by forgetting it.
func (b *budget) idle(since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used.Before(since) && !b.until.After(b.now())
}

// lastNeeded is when somebody asked last, or when the limit ends if that is later.
func (b *budget) lastNeeded() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.After(b.used) {
		return b.until
	}
	return b.used
}

// spend draws from a response how it stands with the budget. It returns an error if the response itself says that a limit was met.
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

// refusedByLimit reports whether a request was refused since a limit was met, and
// not for what it asked. It classifies by itself, since go-github v53 takes most
// of today's secondary limits for plain errors.
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

// saidLimit returns until when a host wants no requests; zero where it does not say.
func saidLimit(response *http.Response, now time.Time, refused bool) time.Time {
	// Azure DevOps asks in successes too to slow down. Elsewhere the header means another thing, such as a service that is down.
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

// limitHeader returns a header about the limit: GitHub, Bitbucket and Azure DevOps put X- before its name, GitLab does not.
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
	// No host's clock is in the seventies: this one counts from now, as the header's own standard has it.
	case seconds < 1e9:
		return now.Add(time.Duration(seconds) * time.Second)
	default:
		return time.Unix(seconds, 0)
	}
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
