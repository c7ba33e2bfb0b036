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

package plan_test

import (
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

var (
	now     = time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	earlier = metav1.NewTime(now.Add(-time.Hour))
)

// states reads targets from words: "v1" is ready on v1, "v1!" runs it but isn't ready, "!" runs nothing, "?" is
// unknown.
func states(words string) []application.State {
	var all []application.State
	for _, word := range strings.Fields(words) {
		revision, unready := strings.CutSuffix(word, "!")
		switch {
		case word == "?":
			all = append(all, application.Unknown("connection refused"))
		case unready:
			all = append(all, application.State{Known: true, Revision: revision, Message: "health check failed"})
		default:
			all = append(all, application.State{Known: true, Ready: true, Revision: revision})
		}
	}
	return all
}

// world has environments named dev, staging and prod with the given targets (fewer words, fewer environments), promoted
// by pull request.
func world(environments ...string) plan.World {
	names := []string{"dev", "staging", "prod"}
	w := plan.World{
		Pipeline: &pipelinesv1.Pipeline{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", UID: "u", Generation: 3},
			Spec: pipelinesv1.PipelineSpec{
				AppRef:    pipelinesv1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "app"},
				Promotion: &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{}}},
			},
			Status: pipelinesv1.PipelineStatus{
				ObservedGeneration: 3,
				Environments:       map[string]*pipelinesv1.EnvironmentStatus{},
			},
		},
		Targets:      map[string][]application.State{},
		Gates:        gatingv1.Found{},
		PullRequests: map[string]plan.PullRequest{},
		Now:          now,
	}
	for i, words := range environments {
		env := pipelinesv1.Environment{Name: names[i]}
		w.Targets[names[i]] = states(words)
		for range w.Targets[names[i]] {
			env.Targets = append(env.Targets, pipelinesv1.Target{Namespace: names[i]})
		}
		w.Pipeline.Spec.Environments = append(w.Pipeline.Spec.Environments, env)
	}
	if dev := w.Targets["dev"]; len(dev) > 0 && dev[0].Ready {
		w.Pipeline.Status.Revision = dev[0].Revision
	}
	return w
}

// runBefore says which revision the run had in the last pass, where it isn't today's.
func runBefore(revision string) func(*plan.World) {
	return func(w *plan.World) { w.Pipeline.Status.Revision = revision }
}

// record puts a promotion into the status, as an earlier pass has left it.
func record(env, revision string, state pipelinesv1.PromotionState, change ...func(*pipelinesv1.PromotionRecord)) func(*plan.World) {
	return func(w *plan.World) {
		r := &pipelinesv1.PromotionRecord{Revision: revision, State: state, StartTime: earlier}
		if state != pipelinesv1.PromotionUnapproved && state != pipelinesv1.PromotionUnattempted {
			r.Attempts = 1
		}
		if state == pipelinesv1.PromotionCreated {
			r.PullRequest = &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/7", Number: 7, Branch: "b"}
		}
		for _, c := range change {
			c(r)
		}
		w.Pipeline.Status.Environments[env] = &pipelinesv1.EnvironmentStatus{Promotion: r}
	}
}

// superseded is a promotion whose withdrawal has begun.
func superseded(r *pipelinesv1.PromotionRecord) { r.Superseded = true }

func attempted(times int32) func(*pipelinesv1.PromotionRecord) {
	return func(r *pipelinesv1.PromotionRecord) { r.Attempts = times }
}

func nextAttempt(in time.Duration) func(*pipelinesv1.PromotionRecord) {
	return func(r *pipelinesv1.PromotionRecord) {
		r.LastError = "no such branch"
		r.NextAttemptTime = &metav1.Time{Time: now.Add(in)}
	}
}

func rateLimited(in time.Duration) func(*pipelinesv1.PromotionRecord) {
	return func(r *pipelinesv1.PromotionRecord) {
		r.LastError = "rate limited"
		r.RateLimitedUntil = &metav1.Time{Time: now.Add(in)}
	}
}

func gates(require gatingv1.Requirement, refs ...gatingv1.GateReference) func(*plan.World) {
	return func(w *plan.World) {
		w.Pipeline.Spec.Promotion.Gates = &gatingv1.GateReferences{Require: require, Refs: refs}
	}
}

func gate(name gatingv1.GateReference, closed bool) func(*plan.World) {
	return func(w *plan.World) {
		w.Gates[name] = gatingv1.Finding{Gate: &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: closed}}}
	}
}

func pullRequest(env string, seen plan.PullRequest) func(*plan.World) {
	return func(w *plan.World) { w.PullRequests[env] = seen }
}

func spec(change func(*pipelinesv1.PipelineSpec)) func(*plan.World) {
	return func(w *plan.World) { change(&w.Pipeline.Spec) }
}

func byNotification(spec *pipelinesv1.PipelineSpec) {
	spec.Promotion.Strategy = pipelinesv1.Strategy{Notification: &pipelinesv1.NotificationPromotion{}}
}

// requested is a person's `flux reconcile`-like request, forced or not.
func requested(token string, forced bool) func(*plan.World) {
	return func(w *plan.World) {
		w.Pipeline.Annotations = map[string]string{meta.ReconcileRequestAnnotation: token}
		if forced {
			w.Pipeline.Annotations[meta.ForceRequestAnnotation] = token
		}
	}
}
