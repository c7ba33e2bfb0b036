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

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

const (
	// lookTimeout bounds a look at a pull request: a Git host that hangs must not keep a worker from other Pipelines for long.
	lookTimeout = 10 * time.Second

	// soonestLook and latestLook bound how long it takes from one look at a pull request to the next. Between them it is a
	// twentieth of the promotion's age: who has waited for a day won't notice ten minutes.
	soonestLook = 30 * time.Second
	latestLook  = 10 * time.Minute
	lookAgePart = 20
)

// looks remembers what was last seen of pull requests, so that Git hosts aren't asked at every change of a Pipeline or a target.
// It is kept in memory: after a restart everything is looked at once.
type looks struct {
	mu   sync.Mutex
	seen map[types.UID]map[string]look
}

// look is what was seen of the pull request of an environment, and how Pipeline and promotion were then.
type look struct {
	url         string
	state       pipelinesv1.PromotionState
	generation  int64
	requestedAt string
	arrived     bool
	plan.PullRequest
}

func (l *looks) get(pipeline types.UID, env string) (look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, ok := l.seen[pipeline][env]
	return seen, ok
}

func (l *looks) set(pipeline types.UID, env string, seen look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[types.UID]map[string]look{}
	}
	if l.seen[pipeline] == nil {
		l.seen[pipeline] = map[string]look{}
	}
	l.seen[pipeline][env] = seen
}

// forget has the environment's pull request looked at again, if it has one.
func (l *looks) forget(pipeline types.UID, env string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen[pipeline], env)
}

func (l *looks) forgetPipeline(pipeline types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, pipeline)
}

// pullRequests returns what is known of the pull requests of all environments, after having looked at those for which that is due.
func (r *PipelineReconciler) pullRequests(ctx context.Context, world plan.World) map[string]plan.PullRequest {
	pipeline, found := world.Pipeline, map[string]plan.PullRequest{}
	for _, env := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		record := pipeline.Status.Environments[env].Promotion
		if !followed(pipeline, record) {
			r.looks.forget(pipeline.UID, env)
			continue
		}
		if record.RateLimitedUntil != nil && world.Now.Before(record.RateLimitedUntil.Time) {
			continue
		}
		seen, ok := r.looks.get(pipeline.UID, env)
		if !ok || seen.due(world, env) {
			seen = r.look(ctx, world, env)
			r.looks.set(pipeline.UID, env, seen)
		}
		found[env] = seen.PullRequest
	}
	return found
}

// followed tells whether it matters what becomes of a promotion's pull request. A person may open again one that was closed.
func followed(pipeline *pipelinesv1.Pipeline, record *pipelinesv1.PromotionRecord) bool {
	if record == nil || record.PullRequest == nil {
		return false
	}
	return record.State == pipelinesv1.PromotionCreated ||
		record.State == pipelinesv1.PromotionAbandoned && !record.Superseded && revision.Equal(record.Revision, pipeline.Status.Revision)
}

// due tells whether to look again: in time, when a person or a webhook asks for it, when the spec may have mended what was
// wrong, and when the environment runs the revision, so that the pull request must have been merged.
func (l look) due(world plan.World, env string) bool {
	pipeline, record := world.Pipeline, world.Pipeline.Status.Environments[env].Promotion
	return l.url != record.PullRequest.URL || l.state != record.State || l.generation != pipeline.Generation ||
		l.requestedAt != requestedAt(pipeline) || !world.Now.Before(l.NextLook) || !l.arrived && hasArrived(world, env)
}

// hasArrived tells whether a target of the environment runs what is promoted into it.
func hasArrived(world plan.World, env string) bool {
	record := world.Pipeline.Status.Environments[env].Promotion
	return slices.ContainsFunc(world.Targets[env], func(state target.State) bool { return revision.Equal(state.Revision, record.Revision) })
}

func (r *PipelineReconciler) look(ctx context.Context, world plan.World, env string) look {
	pipeline := world.Pipeline
	record := pipeline.Status.Environments[env].Promotion
	seen := look{url: record.PullRequest.URL, state: record.State, generation: pipeline.Generation, requestedAt: requestedAt(pipeline), arrived: hasArrived(world, env)}
	promotion, ok := promotionOf(pipeline, env)
	if ok && promotion.Strategy.PullRequest != nil {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		seen.PullRequest = r.PullRequests.Look(ctx, promotion, record.PullRequest)
	} else {
		seen.Err = errors.New("the environment is no longer promoted by pull request")
	}
	seen.NextLook = world.Now.Add(lookInterval(record, seen.Err, world.Now))
	return seen
}

// lookInterval is how long what was seen counts.
func lookInterval(record *pipelinesv1.PromotionRecord, err error, now time.Time) time.Duration {
	switch {
	case err != nil:
		return soonestLook
	case record.State == pipelinesv1.PromotionAbandoned:
		return latestLook
	}
	return min(max(now.Sub(record.StartTime.Time)/lookAgePart, soonestLook), latestLook)
}

// requestedAt changes whenever a person or a webhook asks for a look.
func requestedAt(pipeline *pipelinesv1.Pipeline) string {
	return pipeline.Annotations[meta.ReconcileRequestAnnotation] + pipeline.Annotations[pipelinesv1.WebhookAnnotation]
}
