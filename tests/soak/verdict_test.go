//go:build soak && linux

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

package soak

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

// settling is the time limit for everything to settle after the failures have stopped. A promotion that has failed
// several times waits minutes for its next attempt.
const settling = 15 * time.Minute

// source is a gated source.
type source struct{ sourcev1.GitRepository }

func (w *world) source(ctx context.Context, name string) (*source, error) {
	s := &source{}
	return s, w.Client.Get(ctx, playground.InFluxNamespace(name), &s.GitRepository)
}

// revision returns the published revision, or "" if there is none.
func (s *source) revision() string {
	if s.Status.Artifact == nil {
		return ""
	}
	return s.Status.Artifact.Revision
}

func (s *source) held() bool { return s.Spec.Suspend && s.gatesOpen(metav1.ConditionFalse) }

func (s *source) gatesOpen(status metav1.ConditionStatus) bool {
	condition := apimeta.FindStatusCondition(s.Status.Conditions, gatingv1.GatesOpenCondition)
	return condition != nil && condition.Status == status && condition.ObservedGeneration == s.Generation
}

// gated returns the names of the gated sources.
func (w *world) gated() []string { return append(slices.Clone(w.sources), "app-prod") }

// expectSettled expects that nothing was lost: each healthy Pipeline has promoted its revision everywhere, or stops
// where someone closed its pull request.
func (w *world) expectSettled(ctx context.Context, what string) {
	began := time.Now()
	for _, p := range w.pipelines {
		if p.doomed {
			continue
		}
		var last error
		err := within(ctx, settling-time.Since(began), func(ctx context.Context) error {
			last = w.settled(ctx, p)
			return last
		})
		if err != nil {
			w.violation("%s: promotion lost: %s: %s", what, p, last)
		}
		w.took("until a Pipeline had settled, without trouble", time.Since(began))
	}
	w.say("%s: all Pipelines that are well have settled after %s", what, time.Since(began).Round(time.Second))
}

func (w *world) settled(ctx context.Context, p *pipeline) error {
	pipeline := &pipelinesv1.Pipeline{}
	if err := w.Client.Get(ctx, types.NamespacedName{Namespace: p.namespace, Name: p.name}, pipeline); err != nil {
		return err
	}
	revision, ready := p.targets[0].runs(), apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition)
	if pipeline.Status.Revision != revision || ready == nil {
		return fmt.Errorf("its revision is %q, not %q", pipeline.Status.Revision, revision)
	}
	switch ready.Reason {
	case pipelinesv1.PromotionAbandonedReason:
		return nil
	case pipelinesv1.UpToDateReason:
		for _, t := range p.targets {
			if t.runs() != revision {
				return fmt.Errorf("%s runs %s, not %s", t.namespace, t.runs(), revision)
			}
		}
		return nil
	default:
		return fmt.Errorf("%s: %s", ready.Reason, ready.Message)
	}
}

// expectReleased expects that all sources have published the newest revision.
func (w *world) expectReleased(ctx context.Context) {
	head, err := w.github.Branches(repositoryOwner, "held")
	if err != nil {
		w.violation("%s", err)
	}
	for _, name := range w.sources {
		err := within(ctx, patience, func(ctx context.Context) error {
			s, err := w.source(ctx, name)
			if err != nil {
				return err
			}
			if !s.gatesOpen(metav1.ConditionTrue) || s.Spec.Suspend || !strings.HasSuffix(s.revision(), head["main"]) {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		if err != nil {
			w.violation("source %s did not publish %s once its gate was open: %s", name, head["main"], err)
		}
	}
}

// expectNoDoubles expects one pull request for each promotion on each host: no revision is promoted twice.
func (w *world) expectNoDoubles() {
	hosts := []*githost.Server{w.github}
	for _, host := range w.hostile {
		hosts = append(hosts, host)
	}
	for _, p := range w.pipelines {
		if !slices.Contains(hosts, p.host) {
			continue
		}
		pulls, err := p.host.PullRequests(repositoryOwner, p.repository)
		if err != nil {
			w.violation("%s", err)
		}
		seen := map[string]bool{}
		for _, pull := range pulls {
			promotion := pull.Head
			if p.doomed {
				// A Pipeline that was replaced promotes the same revision again.
				promotion += started.FindString(pull.Body)
			}
			if seen[promotion] {
				w.violation("%s: there is more than one pull request of %s", p, promotion)
			}
			seen[promotion] = true
		}
	}
	w.expectNoDoublesOfPlayground()
}

// started matches the time of a promotion in the body of its pull request.
var started = regexp.MustCompile(`Sluice-Started: \S+`)

func (w *world) expectNoDoublesOfPlayground() {
	byBranch := map[string]int{}
	for page := 1; ; page++ {
		options := gitea.ListPullRequestsOptions{State: gitea.StateAll, ListOptions: gitea.ListOptions{Page: page, PageSize: 50}}
		pulls, _, err := w.Git.Client.ListRepoPullRequests(w.Git.Username, "fleet", options)
		if err != nil {
			w.violation("%s", err)
		}
		if len(pulls) == 0 {
			return
		}
		for _, pull := range pulls {
			byBranch[pull.Title]++
			if byBranch[pull.Title] == 2 {
				w.violation("the playground: there is more than one pull request %q", pull.Title)
			}
		}
	}
}

// expectPlaygroundSettled expects that the application that Flux deploys runs one version everywhere.
func (w *world) expectPlaygroundSettled(ctx context.Context) {
	err := within(ctx, settling, func(ctx context.Context) error {
		var versions []string
		for _, env := range playground.Environments {
			version, err := w.RunningVersion(ctx, env)
			if err != nil {
				return err
			}
			versions = append(versions, version)
		}
		if len(slices.Compact(versions)) != 1 {
			return fmt.Errorf("it runs %v", versions)
		}
		return nil
	})
	if err != nil {
		why, _ := w.Why(ctx)
		w.violation("the playground's application has not settled: %s: %s", err, why)
	}
}

// expectNoPanics expects that no controller has panicked, even if it recovered.
func (w *world) expectNoPanics() {
	for _, r := range w.controllers {
		log, err := os.ReadFile(r.LogPath)
		if err != nil {
			w.violation("%s", err)
		}
		for line := range strings.Lines(string(log)) {
			for _, sign := range []string{"panic:", "Observed a panic", "fatal error:", "DATA RACE"} {
				if strings.Contains(line, sign) {
					w.violation("%s: %s", r.Name, line)
				}
			}
		}
	}
}
