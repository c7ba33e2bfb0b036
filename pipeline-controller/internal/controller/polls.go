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
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
)

const (
	// pollTimeout is the timeout of a poll. A Git host that hangs must not block a worker for long.
	pollTimeout = 10 * time.Second

	// soonestPoll and latestPoll limit the interval between polls of a pull request. Between them it is a twentieth of
	// the promotion's age: whoever has waited for a day won't notice ten minutes.
	soonestPoll = 30 * time.Second
	latestPoll  = 10 * time.Minute
	pollAgePart = 20
)

// polls caches the last observed state of pull requests, so Git hosts are not polled at every change of a Pipeline or a
// target. It is in memory only: after a restart every pull request is polled once.
type polls struct {
	mu   sync.Mutex
	seen map[types.UID]map[string]*poll
}

// poll is the observed state of an environment's pull request, with the state of the Pipeline and the promotion at that
// time. It is empty until the first poll.
type poll struct {
	url         string
	state       pipelinesv1.PromotionState
	generation  int64
	requestedAt string
	arrived     bool
	plan.PullRequest
}

// get returns the last observed state.
func (l *polls) get(pipeline types.UID, env string) (poll, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen[pipeline][env]
	if seen == nil || seen.url == "" {
		return poll{}, false
	}
	return *seen, true
}

// begin returns the entry for a new poll.
func (l *polls) begin(pipeline types.UID, env string) *poll {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[types.UID]map[string]*poll{}
	}
	if l.seen[pipeline] == nil {
		l.seen[pipeline] = map[string]*poll{}
	}
	if l.seen[pipeline][env] == nil {
		l.seen[pipeline][env] = &poll{}
	}
	return l.seen[pipeline][env]
}

// end stores the result of a poll, unless the pull request has changed or its Pipeline was deleted since begin.
func (l *polls) end(pipeline types.UID, env string, place *poll, seen poll) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[pipeline][env] == place {
		*place = seen
	}
}

// forget triggers a poll of the environment's pull request, if it has one.
func (l *polls) forget(pipeline types.UID, env string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen[pipeline], env)
}

func (l *polls) forgetPipeline(pipeline types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, pipeline)
}

// pullRequests returns the observed states of the pull requests of all environments, and polls those that are due. Each
// poll triggers a reconcile.
func (r *PipelineReconciler) pullRequests(world plan.World) map[string]plan.PullRequest {
	pipeline, found := world.Pipeline, map[string]plan.PullRequest{}
	for _, env := range slices.Sorted(maps.Keys(pipeline.Status.Environments)) {
		record := pipeline.Status.Environments[env].Promotion
		if !followed(pipeline, record) {
			r.polls.forget(pipeline.UID, env)
			continue
		}
		if plan.RateLimited(record, world.Now) {
			continue
		}
		if seen, ok := r.polls.get(pipeline.UID, env); !ok || seen.due(world, env) {
			r.Polls.Do(r.pollTask(world, env))
		}
		if seen, ok := r.polls.get(pipeline.UID, env); ok && seen.isOf(record) {
			if seen.expired(world.Now) {
				seen.NextPoll = time.Time{} // it is running
			}
			found[env] = seen.PullRequest
		}
	}
	return found
}

// pollTask polls the pull request of an environment.
func (r *PipelineReconciler) pollTask(world plan.World, env string) workpool.Task {
	pipeline := world.Pipeline.DeepCopy()
	name, arrived := client.ObjectKeyFromObject(pipeline), hasArrived(world, env)
	promotion, _ := promotionOf(pipeline, env)
	place := r.polls.begin(pipeline.UID, env)
	return workpool.Task{Key: name.String() + "/" + env, Pipeline: name, Host: hostOf(promotion), Run: func(ctx context.Context) time.Duration {
		r.polls.end(pipeline.UID, env, place, r.poll(ctx, pipeline, env, arrived))
		return 0
	}}
}

// followed reports whether the state of a promotion's pull request matters. A person may reopen one that was closed.
func followed(pipeline *pipelinesv1.Pipeline, record *pipelinesv1.PromotionRecord) bool {
	if record == nil || record.PullRequest == nil {
		return false
	}
	return record.State == pipelinesv1.PromotionCreated ||
		record.State == pipelinesv1.PromotionAbandoned && !record.Superseded && revision.Equal(record.Revision, pipeline.Status.Revision)
}

// due reports whether to poll again: at its time, when a person or a webhook requests it, when a change of the spec may
// have fixed an error, and when the environment runs the revision, so the pull request must have been merged.
func (l poll) due(world plan.World, env string) bool {
	pipeline, record := world.Pipeline, world.Pipeline.Status.Environments[env].Promotion
	return !l.isOf(record) || l.generation != pipeline.Generation ||
		l.requestedAt != requestedAt(pipeline) || l.expired(world.Now) || !l.arrived && hasArrived(world, env)
}

// expired reports whether the observed state is outdated. If the next poll is farther away than any planned one, the
// wall clock was set back.
func (l poll) expired(now time.Time) bool {
	return !now.Before(l.NextPoll) || l.NextPoll.Sub(now) > latestPoll
}

// isOf reports whether the poll was made in the current state of the promotion. The result of any other poll is
// meaningless.
func (l poll) isOf(record *pipelinesv1.PromotionRecord) bool {
	return l.url == record.PullRequest.URL && l.state == record.State
}

// hasArrived reports whether a target of the environment runs the revision that is promoted into it.
func hasArrived(world plan.World, env string) bool {
	record := world.Pipeline.Status.Environments[env].Promotion
	return slices.ContainsFunc(world.Targets[env], func(state application.State) bool { return revision.Equal(state.Revision, record.Revision) })
}

func (r *PipelineReconciler) poll(ctx context.Context, pipeline *pipelinesv1.Pipeline, env string, arrived bool) poll {
	record := pipeline.Status.Environments[env].Promotion
	seen := poll{url: record.PullRequest.URL, state: record.State, generation: pipeline.Generation, requestedAt: requestedAt(pipeline), arrived: arrived}
	promotion, ok := promotionOf(pipeline, env)
	if ok && promotion.Strategy.PullRequest != nil {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		seen.PullRequest = r.PullRequests.Poll(ctx, promotion, record.PullRequest)
	} else {
		seen.Err = errors.New("the environment is no longer promoted by pull request")
	}
	// It is compared with times that are read later, and plans only have the wall clock.
	now := r.Now().Round(0)
	seen.NextPoll = now.Add(pollInterval(record, seen.Err, now))
	return seen
}

// pollInterval returns how long the result of a poll is valid.
func pollInterval(record *pipelinesv1.PromotionRecord, err error, now time.Time) time.Duration {
	switch {
	case err != nil:
		return soonestPoll
	case record.State == pipelinesv1.PromotionAbandoned:
		return latestPoll
	}
	return min(max(now.Sub(record.StartTime.Time)/pollAgePart, soonestPoll), latestPoll)
}

// requestedAt changes whenever a person or a webhook requests a check.
func requestedAt(pipeline *pipelinesv1.Pipeline) string {
	return pipeline.Annotations[meta.ReconcileRequestAnnotation] + pipeline.Annotations[pipelinesv1.WebhookAnnotation]
}
