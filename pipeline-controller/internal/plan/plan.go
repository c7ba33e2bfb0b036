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

// Package plan decides what a Pipeline needs next. It is pure: the observed world goes in, the next status and at most one
// action come out. It has no client, and no clock but the time that it is given, so that the same world always gives the
// same plan, and every line of the algorithm is a table test.
//
// Whoever calls it writes the status with an optimistic lock on the Pipeline that was planned from (the claim), carries the
// action out only if that write won, and then writes what Record makes of the outcome.
package plan

import (
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// UnknownTargetPoll is how long after a target could not be read the next try is due.
const UnknownTargetPoll = 30 * time.Second

// World is all that a plan is made from.
type World struct {
	// Pipeline as it was read: its spec, its status, and the resourceVersion that a claim locks on.
	Pipeline *pipelinesv1.Pipeline
	// Targets holds the state of each environment's targets by the environment's name, in the order of the spec.
	Targets map[string][]application.State
	// Sources holds the states of those sources that SourcesOfInterest names.
	Sources map[TargetKey]application.State
	// RevisionError is what is wrong with spec.revision.expr; nil if nothing is.
	RevisionError error
	// Gates are what promotions' references to gates were found to name.
	Gates gatingv1.Found
	// Approvals are those of the Pipeline. If there are too many to look at they are some of them, and nothing is promoted.
	Approvals        []pipelinesv1.PromotionApproval
	TooManyApprovals bool
	// HTTPApprover is the name in which approvals by HTTP are made. It is needed where these don't count.
	HTTPApprover string
	// PullRequests holds, by environment, what became of the pull requests of promotions that are created, or were abandoned.
	PullRequests map[string]PullRequest
	// Now is the time of the observation.
	Now time.Time
	// Queued reports that no action can be taken now: others have their turn first.
	Queued bool
}

// ActionKind says what an Action does to the outside world.
type ActionKind string

const (
	// OpenPullRequest sets the fields marked for the environment and opens a pull request.
	OpenPullRequest ActionKind = "OpenPullRequest"
	// Notify posts the promotion's event.
	Notify ActionKind = "Notify"
	// Withdraw closes the pull request of a promotion that another revision has superseded, and deletes its branch.
	Withdraw ActionKind = "Withdraw"
	// Renew makes the commit of an open pull request anew, if what it changes is something else on the base branch by now.
	Renew ActionKind = "Renew"
	// ReportPreconditions sets the commit status of an open pull request.
	ReportPreconditions ActionKind = "ReportPreconditions"
	// Merge merges an open pull request.
	Merge ActionKind = "Merge"
)

// Action is a step to take in the outside world, for the promotion that is identified by environment, revision and start.
type Action struct {
	Kind        ActionKind
	Environment string
	Revision    string
	StartTime   metav1.Time
	// Why says, for a Withdraw, what has taken the promotion's place.
	Why string
	// CommitStatus is, for a ReportPreconditions, what the commit status is to be.
	CommitStatus pipelinesv1.PreconditionsCommitStatus
}

// Plan is what to do about a World.
type Plan struct {
	// Status is the next status of the Pipeline. With an Action, writing it is the claim on that action.
	Status pipelinesv1.PipelineStatus
	// Action to take once the status was written; nil when there is nothing to do.
	Action *Action
	// StaleApprovals are of revisions other than the one promoted into their environment, or of environments that are gone. They are to be
	// deleted before the status is written: an approval must not outlive the run that it was given in.
	StaleApprovals []pipelinesv1.PromotionApproval
	// RequeueAfter is when to look again though nothing was seen to change; zero when only a change can matter.
	RequeueAfter time.Duration
}

// planner carries a plan while it is made. Its pipeline is a copy; the copy's status becomes the plan's.
type planner struct {
	World
	pipeline *pipelinesv1.Pipeline
	// impatient is true when a person asked for a look at once or has changed the spec: waits for backoff end.
	impatient bool
	// forced is true when a person asked for the promotion that the run stands at to be started anew.
	forced bool
	// standsAt is the environment whose promotion the run waits for; empty if it waits for none.
	standsAt string
	// shared says which environments share a source that doesn't tell them apart; empty if none do.
	shared string
	// stopped is where the first environment stands that has not settled on the run's revision; nil if all have.
	stopped *standing
	// discarded are approvals of a promotion that a person has started anew.
	discarded []pipelinesv1.PromotionApproval
	action    *Action
	wake      time.Time
}

// Next plans from the world.
func Next(world World) Plan {
	// The API server keeps whole seconds. A record's start has to survive that, since it identifies the promotion.
	world.Now = world.Now.Truncate(time.Second)
	if err := CheckSize(world.Pipeline); err != nil {
		return refuse(world, err)
	}
	p := &planner{World: world, pipeline: world.Pipeline.DeepCopy()}
	p.takeRequests()
	p.showTargets()
	p.followPullRequests()

	p.shared = p.sharedSource()
	pipeline, environment := p.blocked()
	p.run(environment)
	p.tendPullRequests()
	p.forgetEnvironments()
	p.conclude(pipeline)
	if !p.fit() {
		return refuse(world, errTooLarge)
	}

	plan := Plan{Status: p.pipeline.Status, Action: p.action, StaleApprovals: p.staleApprovals()}
	if !p.wake.IsZero() {
		plan.RequeueAfter = max(p.wake.Sub(p.Now), time.Second)
	}
	if p.TooManyApprovals {
		// Of those that were not looked at, some may be of the revision that would take the run over.
		plan.Status, plan.Action = standStill(world, stands(pipelinesv1.EnvironmentFailed, "nothing is promoted: the Pipeline has too many approvals: delete some, "+
			"which 'kubectl get promotionapprovals --field-selector spec.pipelineRef.name=%s' lists", world.Pipeline.Name)), nil
	}
	return plan
}

// AwaitChores returns the status of a Pipeline until it is known of each of its approvals whose it is.
func AwaitChores(world World) pipelinesv1.PipelineStatus {
	return standStill(world, stands(pipelinesv1.EnvironmentPromoting, "nothing is promoted before approvals of other revisions have been deleted"))
}

// standStill is the status of a Pipeline which is not planned from.
func standStill(world World, why standing) pipelinesv1.PipelineStatus {
	p := &planner{World: world, pipeline: world.Pipeline.DeepCopy()}
	p.setReady(why.because(pipelinesv1.TooManyApprovalsReason))
	return p.pipeline.Status
}

func (p *planner) takeRequests() {
	requestedAt, ok := meta.ReconcileAnnotationValue(p.pipeline.Annotations)
	p.impatient = ok && requestedAt != p.pipeline.Status.LastHandledReconcileAt ||
		p.pipeline.Generation != p.pipeline.Status.ObservedGeneration
	p.forced = meta.ShouldHandleForceRequest(p.pipeline)
	if ok {
		p.pipeline.Status.LastHandledReconcileAt = requestedAt
	}
}

// TargetKey is a target of a Pipeline: one of an environment, by its place in the list.
type TargetKey struct {
	Environment string
	Target      int
}

// validate finds what the schema lets through because manifests that existed before it did, or because it can't tell.
func validate(pipeline *pipelinesv1.Pipeline) error {
	for i := range pipeline.Spec.Environments {
		if !pipeline.Spec.Environments[i].HasValidName() {
			// The name is not quoted: it could be any text.
			return fmt.Errorf("invalid name of environments[%d]: it must consist of letters, digits and '_', '.', ':', '+', '-', "+
				"begin with a letter or digit, and have at most 128 characters", i)
		}
	}
	if app := pipeline.Spec.AppRef; pipeline.RevisionExpr() == "" && application.IsWorkload(schema.FromAPIVersionAndKind(app.APIVersion, app.Kind).Group) {
		return fmt.Errorf("a %s has no revision of its own: set spec.revision.expr to the field that has it", app.Kind)
	}
	for i := 1; i < len(pipeline.Spec.Environments); i++ {
		env := &pipeline.Spec.Environments[i]
		promotion := pipeline.PromotionInto(env)
		if promotion == nil {
			continue
		}
		if promotion.Strategy == (pipelinesv1.Strategy{}) && pipeline.Spec.Promotion == nil {
			return fmt.Errorf("environment %s: its promotion has no strategy, and there is no spec.promotion to take it from: add one of them", env.Name)
		}
		if (promotion.Strategy.PullRequest == nil) == (promotion.Strategy.Notification == nil) {
			return fmt.Errorf("environment %s: the promotion's strategy must have exactly one of 'pull-request' and 'notification'", env.Name)
		}
		if pr := promotion.Strategy.PullRequest; pr != nil && !pr.HasValidPath() {
			return fmt.Errorf("environment %s: the promotion's path must begin at the root of the repository and have no '..', such as ./apps/prod", env.Name)
		}
	}
	return nil
}

// mayAct reports whether the plan can have an action: it has one at most.
func (p *planner) mayAct() bool { return p.action == nil && !p.Queued }

// claim makes the action the plan's, if it may have one, and counts the attempt. The record must be the one that the plan's status
// holds: writing it is what makes the claim. The time of the next attempt is written with it, as if this one had failed, so that one
// which ends with the process is not repeated at once. Record replaces it.
func (p *planner) claim(kind ActionKind, env string, record *pipelinesv1.PromotionRecord) bool {
	if !p.mayAct() {
		return false
	}
	record.Attempts++
	record.LastAttemptTime = new(metav1.NewTime(p.Now))
	record.NextAttemptTime = new(metav1.NewTime(p.Now.Add(backoffFor(p.pipeline, env, record.Revision, record.Attempts))))
	record.RateLimitedUntil = nil
	p.action = &Action{Kind: kind, Environment: env, Revision: record.Revision, StartTime: record.StartTime}
	return true
}

// staleApprovals returns the approvals that were discarded, or that the run has left behind, those of another name of its revision included. While no revision
// has settled nothing is said of any.
func (p *planner) staleApprovals() []pipelinesv1.PromotionApproval {
	if p.pipeline.Status.Revision == "" || p.pipeline.Spec.Suspend {
		return nil
	}
	stale := p.discarded
	for _, approval := range p.Approvals {
		env := approval.Spec.Environment
		if approval.Spec.Revision != p.pipeline.Status.RevisionInto(env) || p.pipeline.Environment(env) == nil {
			stale = append(stale, approval)
		}
	}
	return stale
}

func (p *planner) wakeAt(t time.Time) {
	if !t.IsZero() && (p.wake.IsZero() || t.Before(p.wake)) {
		p.wake = t
	}
}

// environment returns the status of an environment, which it makes if there is none.
func (p *planner) environment(name string) *pipelinesv1.EnvironmentStatus {
	status := &p.pipeline.Status
	if status.Environments == nil {
		status.Environments = map[string]*pipelinesv1.EnvironmentStatus{}
	}
	if status.Environments[name] == nil {
		status.Environments[name] = &pipelinesv1.EnvironmentStatus{}
	}
	return status.Environments[name]
}
