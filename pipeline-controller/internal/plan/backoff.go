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

package plan

import (
	"fmt"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 15 * time.Minute
	// longestRateLimit is the maximum pause that is accepted from a Git host.
	longestRateLimit = 24 * time.Hour
)

// backoffFor doubles with each attempt, up to a limit. It varies by a fifth, so promotions that failed together are not
// retried together. It is a pure function.
func backoffFor(pipeline *pipelinesv1.Pipeline, env, revision string, attempts int32) time.Duration {
	wait := mostBackoff
	if doublings := max(attempts-1, 0); doublings < 10 {
		wait = min(firstBackoff<<doublings, mostBackoff)
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%s/%s/%d", pipeline.UID, env, revision, attempts)
	spread := time.Duration(hash.Sum32()%1000) * wait / 5 / 1000
	return (wait - spread).Round(time.Second)
}

// RateLimited reports whether requests for a promotion are rate limited by the Git host. If the limit is farther away
// than the maximum, it was recorded before the wall clock was set back.
func RateLimited(record *pipelinesv1.PromotionRecord, now time.Time) bool {
	limit := record.RateLimitedUntil
	return limit != nil && now.Before(limit.Time) && limit.Sub(now) <= longestRateLimit
}

// rateLimited requeues the Pipeline at the end of the rate limit.
func (p *planner) rateLimited(record *pipelinesv1.PromotionRecord) bool {
	if !RateLimited(record, p.Now) {
		return false
	}
	p.wakeAt(record.RateLimitedUntil.Time)
	return true
}

// tooSoon reports whether the next attempt, of the promotion or of one of its steps, is in the future, and requeues the
// Pipeline for then. If the time is farther away than any backoff, it was written before the wall clock was set back,
// and is ignored.
func (p *planner) tooSoon(record *pipelinesv1.PromotionRecord, next *metav1.Time) bool {
	if p.rateLimited(record) {
		return true
	}
	if next == nil || !p.Now.Before(next.Time) || next.Sub(p.Now) > mostBackoff || p.impatient {
		return false
	}
	p.wakeAt(next.Time)
	return true
}

// nextTry describes when the next attempt is due.
func nextTry(record *pipelinesv1.PromotionRecord) string {
	due := record.NextAttemptTime
	if limit := record.RateLimitedUntil; limit != nil && (due == nil || limit.After(due.Time)) {
		due = limit
	}
	return due.UTC().Format(time.RFC3339)
}
