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

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// SourcesOfInterest returns the sources that matter for the plan: those that may track the branch that promotions are
// merged into, and those that may block the rollout of a promoted revision.
func (w *World) SourcesOfInterest() ([]TargetKey, []application.SourceOf) {
	var keys []TargetKey
	var sources []application.SourceOf
	for i := range w.Pipeline.Spec.Environments {
		env := &w.Pipeline.Spec.Environments[i]
		for j, state := range w.Targets[env.Name] {
			source := state.Source
			if i == 0 {
				source = w.rootSource(state)
			} else if !w.rollsOut(env.Name, state) {
				continue
			}
			if source != (application.Source{}) {
				keys = append(keys, TargetKey{env.Name, j})
				sources = append(sources, application.SourceOf{Target: env.Targets[j], Source: source})
			}
		}
	}
	return keys, sources
}

// rootSource returns the source of a target of the first environment, which may track the branch that promotions are
// merged into.
func (w *World) rootSource(state application.State) application.Source {
	if w.Pipeline.RevisionExpr() != "" || state.RevisionSource.Kind != "GitRepository" || len(w.mergedInto()) == 0 {
		return application.Source{}
	}
	return state.RevisionSource
}

// mergedInto returns the branches that promotions are merged into.
func (w *World) mergedInto() []application.Branch {
	var branches []application.Branch
	for env := range w.Pipeline.PromotedEnvironments() {
		if promotion := w.Pipeline.PromotionInto(env); promotion != nil && promotion.Strategy.PullRequest != nil {
			branches = append(branches, application.Branch{URL: promotion.Strategy.PullRequest.URL, Name: promotion.Strategy.PullRequest.BaseBranch})
		}
	}
	return branches
}

// rollsOut reports whether a target does not run the revision yet that was promoted into its environment, or whose pull
// request may be merged at any time.
func (w *World) rollsOut(env string, state application.State) bool {
	status := w.Pipeline.Status.Environments[env]
	if !state.Known || status == nil || status.Promotion == nil || state.Ready && revision.Equal(state.Revision, status.Promotion.Revision) {
		return false
	}
	return status.Promotion.State == pipelinesv1.PromotionCreated || status.Promotion.State == pipelinesv1.PromotionSucceeded
}

// sharedSource finds two environments that take their revision from the same source, so the source does not show what
// each of them runs. It returns what to do about it, or "".
func (p *planner) sharedSource() string {
	if p.pipeline.RevisionExpr() != "" {
		return ""
	}
	type place struct {
		source  application.Source
		cluster pipelinesv1.CrossNamespaceClusterReference
	}
	type use struct{ env, namespace string }
	uses := map[place][]use{}
	for i := range p.pipeline.Spec.Environments {
		env := &p.pipeline.Spec.Environments[i]
		for j, state := range p.Targets[env.Name] {
			at, now := place{source: state.RevisionSource}, use{env.Name, env.Targets[j].Namespace}
			if at.source == (application.Source{}) {
				continue
			}
			if cluster := env.Targets[j].ClusterRef; cluster != nil {
				at.cluster = *cluster
			}
			for _, other := range uses[at] {
				if other.env != now.env && other.namespace != now.namespace {
					return fmt.Sprintf("environments %s and %s take their revision from the same source, %s: set spec.revision.expr, "+
						"such as object.spec.images[0].newTag, or give each environment its own source",
						other.env, now.env, at.source)
				}
			}
			uses[at] = append(uses[at], now)
		}
	}
	return ""
}

// promotionLoop finds a source of the first environment that tracks a branch that promotions are merged into. It
// returns what to do about it, or "".
func (p *planner) promotionLoop() string {
	if len(p.pipeline.Spec.Environments) == 0 {
		return ""
	}
	root := p.pipeline.Spec.Environments[0].Name
	for i, state := range p.Targets[root] {
		follows := p.Sources[TargetKey{root, i}].Follows
		if follows == (application.Branch{}) {
			continue
		}
		for _, merged := range p.mergedInto() {
			if follows.Name == merged.Name && scm.SameRepository(follows.URL, merged.URL) {
				return fmt.Sprintf("%s of environment %s follows branch %s, which promotions are merged into, %s",
					state.RevisionSource, root, merged.Name, endOfLoop)
			}
		}
	}
	return ""
}

// holdup explains why an environment does not run the revision that was promoted into it, or returns "" if that is
// unknown.
func (p *planner) holdup(env *pipelinesv1.Environment, current string) string {
	for i, state := range p.Targets[env.Name] {
		if state.Ready && revision.Equal(state.Revision, current) {
			continue
		}
		if why := p.holdupOf(env, i, state); why != "" {
			return why
		}
	}
	return ""
}

func (p *planner) holdupOf(env *pipelinesv1.Environment, i int, state application.State) string {
	source, name, app := p.Sources[TargetKey{env.Name, i}], state.Source, p.describe(env, i)
	switch {
	case state.Suspended:
		return app + " is suspended"
	case name == application.Source{}:
		return unready(app, state)
	case !source.Known:
		return fmt.Sprintf("%s can't be read: %s", name, source.Message)
	case source.Lost != "":
		return fmt.Sprintf("%s: %s", name, source.Lost)
	case source.Held != "":
		return fmt.Sprintf("%s is held: %s", name, source.Held)
	case source.Suspended:
		return fmt.Sprintf("%s is suspended", name)
	case !source.Ready:
		return unready(name.String(), source)
	case !state.Ready:
		return unready(app, state)
	}
	return fmt.Sprintf("%s has fetched %s", name, revision.Short(source.Revision))
}

func unready(name string, state application.State) string {
	if state.Ready {
		return ""
	}
	return fmt.Sprintf("%s is not ready: %s", name, state.Message)
}
