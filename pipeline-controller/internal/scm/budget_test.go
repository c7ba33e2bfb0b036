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
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestABudgetIsDrawnFromResponses(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	unix := func(after time.Duration) string { return strconv.FormatInt(now.Add(after).Unix(), 10) }
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		// want is how long no request is made, 0 for none.
		want time.Duration
		// taken says that the response itself is no refusal.
		taken bool
	}{
		{name: "a success leaves the budget as it is", status: 200, header: map[string]string{"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": unix(time.Hour)}, taken: true},
		{name: "a success with nothing remaining was the last one until the reset", status: 200, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Hour)}, want: time.Hour, taken: true},
		{name: "one that is unchanged was as well", status: 304, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Hour)}, want: time.Hour, taken: true},
		{name: "GitLab's headers have no X", status: 200, header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": unix(time.Minute)}, want: time.Minute, taken: true},
		{name: "a reset in seconds counts from now", status: 200, header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "55"}, want: 55 * time.Second, taken: true},
		{name: "Azure DevOps asks in a success to slow down", status: 200, header: map[string]string{"Retry-After": "12", "X-RateLimit-Remaining": "3"}, want: 12 * time.Second, taken: true},
		{name: "nothing remaining without a reset, as Bitbucket says, is no limit yet", status: 200, header: map[string]string{"X-RateLimit-Remaining": "0"}, taken: true},
		{name: "a plain 403 is no limit", status: 403, header: map[string]string{"X-RateLimit-Remaining": "12"}, body: `{"message":"Resource not accessible"}`, taken: true},
		{name: "a 403 that is not JSON is no limit", status: 403, body: "<html>", taken: true},
		{name: "a 503 is no limit", status: 503, header: map[string]string{"Retry-After": "9"}, taken: true},
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
		{name: "a reset in the past lasts a minute", status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(-time.Hour)}, want: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			response := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
			for name, value := range c.header {
				response.Header.Set(name, value)
			}
			clock := now
			budget := newBudget(func() time.Time { return clock })
			err := budget.spend(response)
			var limited *RateLimitedError
			g.Expect(errors.As(err, &limited)).To(Equal(!c.taken), "%v", err)
			g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo(c.body), "the body can be read again")

			if c.want != 0 {
				clock = now.Add(c.want - 1)
				g.Expect(errors.As(budget.take(t.Context()), &limited)).To(BeTrue())
				g.Expect(limited.Until).To(BeTemporally("==", now.Add(c.want)))
			}
			clock = now.Add(c.want)
			g.Expect(budget.take(t.Context())).To(Succeed())
		})
	}

	t.Run("limits whose end is not told last longer each time, for up to an hour", func(t *testing.T) {
		g := NewWithT(t)
		clock := now
		budget := newBudget(func() time.Time { return clock })
		meet := func(status int) time.Duration {
			_ = budget.spend(&http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody})
			left := max(0, budget.until.Sub(clock))
			clock = clock.Add(left)
			return left
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			g.Expect(meet(429)).To(Equal(want * time.Minute))
		}
		g.Expect(meet(200)).To(BeZero())
		g.Expect(meet(429)).To(Equal(time.Minute), "a success resets the backoff")
	})
}
