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

// Package plan decides what a Pipeline needs next. It is pure: its input is the observed world, its output is the next
// status and at most one action. It has no client, and no clock other than the time in its input. So the same world
// always results in the same plan, and table tests cover every line of the algorithm.
//
// The caller writes the status with an optimistic lock on the Pipeline of the input (the claim), runs the action only
// if that write succeeded, and then writes what Record makes of the outcome.
package plan

import (
	"fmt"
	"slices"
	"time"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// UnknownTargetPoll is the interval between attempts to read an unknown target.
const UnknownTargetPoll = 30 * time.Second

// World is the input of a plan.
type World struct {
	// Pipeline as it was read, with its spec, its status, and the resourceVersion that a claim locks.
	Pipeline *pipelinesv1.Pipeline
	// Targets contains the states of each environment's targets, in the order of the spec, by the environment's name.
	Targets map[string][]application.State
	// Sources contains the states of the sources that SourcesOfInterest returns.
	Sources map[TargetKey]application.State
	// RevisionError is the error of spec.revision.expr, or nil.
	RevisionError error
	// Gates that the references of promotions resolve to.
	Gates gatingv1.Found
	// Approvals of the Pipeline. If there are too many, only some are included, and nothing is promoted.
	Approvals        []pipelinesv1.PromotionApproval
	TooManyApprovals bool
	// HTTPApprover is the user name of approvals by HTTP. It is only needed if those do not count.
	HTTPApprover string
	// PullRequests contains the observed pull requests of promotions that are created or abandoned, by environment.
	PullRequests map[string]PullRequest
	// Alerts of all namespaces, or nil if they can't be read or are not needed.
	Alerts *notificationv1.AlertList
	// Now is the time of the observation.
	Now time.Time
	// Queued is true if no action can be started now because others have their turn first.
	Queued bool
}

// ActionKind is the external change of an Action.
type ActionKind string

const (
	// OpenPullRequest sets the fields marked for the environment and opens a pull request.
	OpenPullRequest ActionKind = "OpenPullRequest"
	// Notify sends the promotion's event.
	Notify ActionKind = "Notify"
	// Withdraw closes the pull request of a superseded promotion and deletes its branch.
	Withdraw ActionKind = "Withdraw"
	// Renew creates the commit of an open pull request again, if the changed files have changed on the base branch.
	Renew ActionKind = "Renew"
	// ReportPreconditions sets the commit status of an open pull request.
	ReportPreconditions ActionKind = "ReportPreconditions"
	// Merge merges an open pull request.
	Merge ActionKind = "Merge"
)

// Action is an external change for the promotion that is identified by environment, revision and start time.
type Action struct {
	Kind        ActionKind
	Environment string
	Revision    string
	StartTime   metav1.Time
	// Why explains, for a Withdraw, what has replaced the promotion.
	Why string
	// CommitStatus is, for a ReportPreconditions, the new commit status.
	CommitStatus pipelinesv1.PreconditionsCommitStatus
}

// Plan is the result of planning.
type Plan struct {
	// Status is the next status of the Pipeline. If there is an Action, writing the status is the claim on it.
	Status pipelinesv1.PipelineStatus
	// Action to run after the status was written, or nil.
	Action *Action
	// StaleApprovals are approvals of revisions other than the one promoted into their environment, or of removed
	// environments. They must be deleted before the status is written: an approval must not outlive the run for which
	// it was given.
	StaleApprovals []pipelinesv1.PromotionApproval
	// RequeueAfter is when to plan again even without a change. If it is zero, only a change matters.
	RequeueAfter time.Duration
}

// planner is the state of planning. Its pipeline has its own copy of the status, which becomes the plan's.
type planner struct {
	World
	pipeline pipelinesv1.Pipeline
	// impatient is true if a person requested a reconcile or changed the spec. Backoff is skipped.
	impatient bool
	// forced is true if a person requested a new start of the current promotion.
	forced bool
	// standsAt is the environment whose promotion the run waits for, or "".
	standsAt string
	// shared explains which environments share a source that does not distinguish them, or is "".
	shared string
	// stopped is the state of the first environment that has not settled on the run's revision, or nil if all have.
	stopped *standing
	// discarded are the approvals of a promotion that a person restarted.
	discarded []pipelinesv1.PromotionApproval
	action    *Action
	wake      time.Time
}

// newPlanner copies what planning changes in place. Everything else in the status is replaced, never changed, so it is
// shared with the status of the world: most plans change nothing.
func newPlanner(world World) *planner {
	p := &planner{World: world, pipeline: *world.Pipeline}
	status := &p.pipeline.Status
	status.Conditions = slices.Clone(status.Conditions)
	copies := make([]pipelinesv1.EnvironmentStatus, 0, len(status.Environments))
	environments := make(map[string]*pipelinesv1.EnvironmentStatus, len(status.Environments))
	for name, env := range status.Environments {
		copies = append(copies, *env)
		environments[name] = &copies[len(copies)-1]
		environments[name].Promotion = env.Promotion.DeepCopy()
	}
	status.Environments = environments
	return p
}

// Next plans from the world.
func Next(world World) Plan {
	// The API server keeps whole seconds. A record's start has to survive that, since it identifies the promotion.
	observed := world.Now
	world.Now = observed.Truncate(time.Second)
	if err := CheckSize(world.Pipeline); err != nil {
		return refuse(world, err)
	}
	p := newPlanner(world)
	p.takeRequests()
	p.showTargets()
	p.followPullRequests()

	p.shared = p.sharedSource()
	pipeline, environment := p.blocked()
	p.run(environment)
	p.tendPullRequests()
	p.forgetEnvironments()
	p.conclude(pipeline)
	if !p.unchanged() && !p.fit() {
		return refuse(world, errTooLarge)
	}

	plan := Plan{Status: p.pipeline.Status, Action: p.action, StaleApprovals: p.staleApprovals()}
	if !p.wake.IsZero() {
		if plan.RequeueAfter = p.wake.Sub(observed); plan.RequeueAfter <= 0 {
			plan.RequeueAfter = time.Second
		}
	}
	if p.TooManyApprovals {
		// The unread approvals may be for the revision of the next run.
		plan.Status, plan.Action = standStill(world, stands(pipelinesv1.EnvironmentFailed, "nothing is promoted: the Pipeline has too many approvals: list them with "+
			"'kubectl -n %s get promotionapprovals --field-selector spec.pipelineRef.name=%s', and delete those that are not needed",
			world.Pipeline.Namespace, world.Pipeline.Name)), nil
	}
	return plan
}

// AwaitChores returns the status of a Pipeline while the owner of some of its approvals is not known.
func AwaitChores(world World) pipelinesv1.PipelineStatus {
	return standStill(world, stands(pipelinesv1.EnvironmentPromoting, "nothing is promoted until approvals of other revisions are deleted"))
}

// standStill returns the status of a Pipeline for which nothing is planned.
func standStill(world World, why standing) pipelinesv1.PipelineStatus {
	p := newPlanner(world)
	p.setReady(why.because(pipelinesv1.TooManyApprovalsReason))
	return p.pipeline.Status
}

func (p *planner) takeRequests() {
	requestedAt, ok := meta.ReconcileAnnotationValue(p.pipeline.Annotations)
	p.impatient = ok && requestedAt != p.pipeline.Status.LastHandledReconcileAt ||
		p.pipeline.Generation != p.pipeline.Status.ObservedGeneration
	p.forced = meta.ShouldHandleForceRequest(&p.pipeline)
	if ok {
		p.pipeline.Status.LastHandledReconcileAt = requestedAt
	}
}

// TargetKey identifies a target of a Pipeline: an environment and an index in its targets.
type TargetKey struct {
	Environment string
	Target      int
}

// validate returns errors that the schema accepts, either for manifests that are older than the schema or because it
// cannot detect them.
func validate(pipeline *pipelinesv1.Pipeline) error {
	for i := range pipeline.Spec.Environments {
		if !pipeline.Spec.Environments[i].HasValidName() {
			// The name is not quoted: it may be any text.
			return fmt.Errorf("invalid name of environments[%d]: it must consist of letters, digits and '_', '.', ':', '+', '-', "+
				"begin with a letter or digit, and have at most 128 characters", i)
		}
	}
	if app := pipeline.Spec.AppRef; pipeline.RevisionExpr() == "" && application.IsWorkload(schema.FromAPIVersionAndKind(app.APIVersion, app.Kind).Group) {
		return fmt.Errorf("kind %s has no revision: set spec.revision.expr", app.Kind)
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

// mayAct reports whether the plan can have an action. It has at most one.
func (p *planner) mayAct() bool { return p.action == nil && !p.Queued }

// claim sets the plan's action, if possible, and counts the attempt. The record must be part of the plan's status:
// writing it makes the claim. It includes the time of the next attempt, as if this one had failed, so an attempt that
// ends with the process is not repeated immediately. Record replaces that time.
func (p *planner) claim(kind ActionKind, env string, record *pipelinesv1.PromotionRecord) bool {
	if !p.mayAct() {
		return false
	}
	record.Attempts++
	record.LastAttemptTime = new(metav1.NewTime(p.Now))
	record.NextAttemptTime = new(metav1.NewTime(p.Now.Add(backoffFor(&p.pipeline, env, record.Revision, record.Attempts))))
	record.RateLimitedUntil = nil
	p.action = &Action{Kind: kind, Environment: env, Revision: record.Revision, StartTime: record.StartTime}
	return true
}

// staleApprovals returns the approvals that were discarded or no longer apply, including those for another name of the
// run's revision. It returns none while no revision has settled.
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

// environment returns the status of an environment. It creates it if necessary.
func (p *planner) environment(name string) *pipelinesv1.EnvironmentStatus {
	status := &p.pipeline.Status
	if status.Environments[name] == nil {
		status.Environments[name] = &pipelinesv1.EnvironmentStatus{}
	}
	return status.Environments[name]
}
