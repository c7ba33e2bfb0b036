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
	"net/http"
	"strconv"
	"time"
)

const requestsPerHour = 5000

// budget is what a token has left of its primary rate limit.
type budget struct {
	remaining int
	reset     time.Time
}

// SetRateLimit sets how many API requests the token has left until reset, when it gets GitHub's 5000 for an hour again.
// With none left, the response is 403 with X-RateLimit-Remaining: 0.
func (s *Server) SetRateLimit(token string, remaining int, reset time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budgets[token] = &budget{remaining: remaining, reset: reset}
}

// RateLimitRemaining returns how many API requests the token has left.
func (s *Server) RateLimitRemaining(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budgetOf(token).remaining
}

// spend takes one request out of the token's budget, unless the request is free, and sets the headers with the rest.
func (s *Server) spend(token string, free bool, header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	budget := s.budgetOf(token)
	if !free && budget.remaining > 0 {
		budget.remaining--
	}
	budget.tell(header)
}

func (b *budget) tell(header http.Header) {
	header.Set("X-RateLimit-Limit", strconv.Itoa(requestsPerHour))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(b.remaining))
	header.Set("X-RateLimit-Used", strconv.Itoa(requestsPerHour-b.remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(b.reset.Unix(), 10))
	header.Set("X-RateLimit-Resource", "core")
}

func (s *Server) exhausted(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budgetOf(token).remaining == 0
}

func (s *Server) budgetOf(token string) *budget {
	known := s.budgets[token]
	if known == nil || !time.Now().Before(known.reset) {
		known = &budget{remaining: requestsPerHour, reset: time.Now().Add(time.Hour)}
		s.budgets[token] = known
	}
	return known
}
