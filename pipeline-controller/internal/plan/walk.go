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
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// stage is an environment in the order of a run.
type stage struct {
	*pipelinesv1.Environment
	// before is the environment in which a revision must settle before it is promoted into this one. The root has none:
	// the revision on which it has settled is the run's.
	before *pipelinesv1.Environment
}

// stages returns the environments in the order of a run.
func stages(spec *pipelinesv1.PipelineSpec) iter.Seq[stage] {
	return func(yield func(stage) bool) {
		var before *pipelinesv1.Environment
		for i := range spec.Environments {
			env := &spec.Environments[i]
			if !yield(stage{Environment: env, before: before}) {
				return
			}
			before = env
		}
	}
}

// run implements the algorithm in docs/architecture.md: the revision that has settled in the root is promoted into
// every environment whose turn has come. The state of each environment is written to the status. While something blocks
// the Pipeline, nothing is promoted.
func (p *planner) run(blocked *standing) {
	stages := stages(&p.pipeline.Spec)
	for stage := range stages {
		if stage.before == nil {
			p.stand(stage.Name, p.settleRoot(stage.Environment))
		}
	}
	if blocked == nil {
		p.supersede(p.pipeline.Status.Revision)
	}
	for stage := range stages {
		switch {
		case stage.before == nil:
		case !p.environment(stage.before.Name).State.Settled():
			p.stand(stage.Name, p.behind(stage.before.Name))
		default:
			p.stand(stage.Name, p.visit(stage.Environment, blocked))
		}
	}
}

// settleRoot returns the revision that the Pipeline promotes, or why the root has not settled.
func (p *planner) settleRoot(env *pipelinesv1.Environment) standing {
	current, unsettled := p.settled(env)
	p.pipeline.Status.Revision = current
	if unsettled != nil {
		return *unsettled
	}
	return runs("runs " + revision.Short(current) + ", which is promoted from here")
}

// settled returns the revision on which an environment has settled, or why it has not.
func (p *planner) settled(env *pipelinesv1.Environment) (string, *standing) {
	notReady := func(format string, args ...any) (string, *standing) {
		return "", new(stands(pipelinesv1.EnvironmentNotReady, format, args...))
	}
	states := p.Targets[env.Name]
	if len(states) == 0 {
		return notReady("it has no targets, so there is no revision to promote")
	}
	if unknown := p.unknownTarget(env); unknown != nil {
		return "", unknown
	}
	first := p.readyOn(env, 0)
	for i, state := range states {
		readyOn := p.readyOn(env, i)
		switch {
		case readyOn == "" && !state.Ready:
			return notReady("%s is not ready: %s", p.describe(env, i), state.Message)
		case readyOn == "":
			return notReady("%s has not applied any revision", p.describe(env, i))
		case !revision.Equal(readyOn, first):
			return notReady("its targets run different revisions, %s and %s", revision.Short(first), revision.Short(readyOn))
		}
	}
	return first, nil
}

// readyOn returns the revision on which a target counts as ready: the one on which it is ready now, or, in an
// environment whose targets settle individually, the one on which it was last ready. It may be empty.
func (p *planner) readyOn(env *pipelinesv1.Environment, i int) string {
	state := p.Targets[env.Name][i]
	switch {
	case !state.Known:
		return ""
	case state.Ready:
		return state.Revision
	case env.Settle == pipelinesv1.SettleIndividually:
		return p.environment(env.Name).Targets[i].ReadyRevision
	}
	return ""
}

// behind returns the state of an environment whose turn has not come: it waits for the same as the previous one.
func (p *planner) behind(before string) standing {
	waitsFor := p.environment(before)
	if waitsFor.State == pipelinesv1.EnvironmentBehind {
		return stands(pipelinesv1.EnvironmentBehind, "%s", waitsFor.Message)
	}
	return stands(pipelinesv1.EnvironmentBehind, "waits for %s: %s", before, waitsFor.Message)
}

// visit handles an environment whose turn has come, and advances the promotion into it if one is needed.
func (p *planner) visit(env *pipelinesv1.Environment, blocked *standing) standing {
	if blocked != nil && blocked.reason == pipelinesv1.SharedSourceReason {
		return *blocked // its targets do not show what it runs
	}
	current := p.pipeline.Status.Revision
	unsettled, reached := p.reach(env, current)
	if unsettled < 0 {
		if blocked == nil {
			p.arrived(env, current)
		}
		if len(env.Targets) == 0 {
			return stands(pipelinesv1.EnvironmentSkipped, "has no targets and is skipped")
		}
		s := runs("runs " + revision.Short(current))
		if record := p.environment(env.Name).Promotion; record != nil && record.IsOf(current) {
			s.since = record.ArrivalTime
		}
		return s
	}
	if blocked != nil {
		return *blocked
	}
	if unknown := p.unknownTarget(env); unknown != nil {
		return *unknown
	}
	p.environment(env.Name).WaitingApproval.Revision = ""
	if reached {
		return p.rollingOut(env, unsettled)
	}
	if !p.forced {
		if rolledBack := p.rolledBack(env, current); rolledBack != nil {
			return *rolledBack
		}
	}
	promotion := p.pipeline.PromotionInto(env)
	if promotion == nil {
		return stands(pipelinesv1.EnvironmentNotPromoted, "%s is not promoted: the Pipeline has no promotion for this environment", revision.Short(current))
	}
	return p.promote(env, promotion, current)
}

// rolledBack returns the state of an environment that had settled on the revision, which none of its targets runs now,
// or nil. It records the rollback. A target that is new to the environment was not rolled back.
func (p *planner) rolledBack(env *pipelinesv1.Environment, current string) *standing {
	record := p.environment(env.Name).Promotion
	if record == nil || record.ArrivalTime == nil || record.State != pipelinesv1.PromotionSucceeded || !record.IsOf(current) {
		return nil
	}
	now := p.environment(env.Name).Targets
	i := slices.IndexFunc(now, func(t pipelinesv1.TargetStatus) bool {
		return t.Revision != "" && (record.RollbackTime != nil || p.ranBefore(env.Name, t, current))
	})
	if i < 0 {
		return nil
	}
	if record.RollbackTime == nil {
		record.RollbackTime, record.RolledBackTo = new(metav1.NewTime(p.Now)), now[i].Revision
	}
	name := revision.Short(record.Revision)
	return new(stands(pipelinesv1.EnvironmentRolledBack, "rolled back from %s: %s runs %s; force the promotion to promote %s again",
		name, p.describe(env, i), revision.Short(now[i].Revision), name).from(record.RollbackTime))
}

// ranBefore reports whether a target was last ready on the revision.
func (p *planner) ranBefore(env string, target pipelinesv1.TargetStatus, current string) bool {
	before := p.World.Pipeline.Status.Environments[env]
	return before != nil && slices.ContainsFunc(before.Targets, func(old pipelinesv1.TargetStatus) bool {
		return sameApplication(old, target) && revision.Equal(old.ReadyRevision, current)
	})
}

// reach returns the index of the first target of an environment that has not settled on the revision, or -1, and
// whether any target runs it.
func (p *planner) reach(env *pipelinesv1.Environment, current string) (unsettled int, reached bool) {
	unsettled = -1
	for i, state := range p.Targets[env.Name] {
		settled := revision.Equal(p.readyOn(env, i), current)
		reached = reached || settled || revision.Equal(state.Revision, current)
		if !settled && unsettled < 0 {
			unsettled = i
		}
	}
	return unsettled, reached
}

// rollingOut returns the state of an environment that runs the revision, whose target with index i has not settled.
func (p *planner) rollingOut(env *pipelinesv1.Environment, i int) standing {
	state, source := p.Targets[env.Name][i], p.Sources[TargetKey{env.Name, i}]
	why := state.Message
	switch {
	case source.Lost != "":
		why = state.Source.String() + ": " + source.Lost
	case why == "":
		why = "it runs " + revision.Short(state.Revision)
	}
	return stands(pipelinesv1.EnvironmentRollingOut, "%s is rolling out: %s: %s", revision.Short(p.pipeline.Status.RevisionInto(env.Name)), p.describe(env, i), why)
}
