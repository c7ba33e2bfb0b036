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

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// UnknownTargetPoll is how long after a target could not be read the next try is due.
const UnknownTargetPoll = 30 * time.Second

// World is all that a plan is made from.
type World struct {
	// Pipeline as it was read: its spec, its status, and the resourceVersion that a claim locks on.
	Pipeline *pipelinesv1.Pipeline
	// Targets holds the state of each environment's targets by the environment's name, in the order of the spec.
	Targets map[string][]target.State
	// Gates are what promotions' references to gates were found to name.
	Gates gatingv1.Found
	// Approvals are those of the Pipeline.
	Approvals []pipelinesv1.PromotionApproval
	// PullRequests holds, by environment, what became of the pull requests of promotions that are created, or were abandoned.
	PullRequests map[string]PullRequest
	// Now is the time of the observation.
	Now time.Time
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
	// ReportGates sets the commit status of an open pull request.
	ReportGates ActionKind = "ReportGates"
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
	// Gates is, for a ReportGates, what the commit status is to be.
	Gates pipelinesv1.GatesCommitStatus
}

// Plan is what to do about a World.
type Plan struct {
	// Status is the next status of the Pipeline. With an Action, writing it is the claim on that action.
	Status pipelinesv1.PipelineStatus
	// Action to take once the status was written; nil when there is nothing to do.
	Action *Action
	// StaleApprovals are of revisions that the run's has taken the place of, or of environments that are gone. They are to be
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
	action   *Action
	wake     time.Time
}

// Next plans from the world.
func Next(world World) Plan {
	// The API server keeps whole seconds. A record's start has to survive that, since it identifies the promotion.
	world.Now = world.Now.Truncate(time.Second)
	p := &planner{World: world, pipeline: world.Pipeline.DeepCopy()}
	p.takeRequests()
	p.showTargets()
	p.followPullRequests()

	unsettled := p.settle()
	stands := p.run(unsettled)
	p.tendPullRequests()
	p.forgetEnvironments()
	p.conclude(stands, unsettled)

	plan := Plan{Status: p.pipeline.Status, Action: p.action, StaleApprovals: p.staleApprovals()}
	if !p.wake.IsZero() {
		plan.RequeueAfter = max(p.wake.Sub(p.Now), time.Second)
	}
	return plan
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

// settle finds the revision that travels through the Pipeline, or what keeps the first environment from having one. A
// Pipeline without environments has nothing to wait for.
func (p *planner) settle() *verdict {
	p.pipeline.Status.Revision = ""
	if len(p.pipeline.Spec.Environments) == 0 {
		return nil
	}
	current, unsettled := p.settled(&p.pipeline.Spec.Environments[0])
	p.pipeline.Status.Revision = current
	return unsettled
}

// run is the algorithm of docs/architecture.md: the revision that has settled in the first environment travels on, one environment at a
// time, and the first environment that doesn't run it is where the run stands.
func (p *planner) run(unsettled *verdict) verdict {
	spec, current := &p.pipeline.Spec, p.pipeline.Status.Revision
	if err := validate(p.pipeline); err != nil {
		return stalled(pipelinesv1.InvalidSpecReason, "%s", err)
	}
	if spec.Suspend {
		return fine(pipelinesv1.SuspendedReason, "suspended: nothing is promoted")
	}
	p.supersede(current)
	if len(spec.Environments) == 0 {
		return fine(pipelinesv1.UpToDateReason, "there are no environments")
	}
	if unsettled != nil {
		return *unsettled
	}
	for i := range spec.Environments[1:] {
		if stop := p.advance(&spec.Environments[i+1], current); stop != nil {
			return *stop
		}
	}
	return fine(pipelinesv1.UpToDateReason, "every environment runs %s", revision.Short(current))
}

// validate finds what the schema lets through because manifests that existed before it did.
func validate(pipeline *pipelinesv1.Pipeline) error {
	for i := 1; i < len(pipeline.Spec.Environments); i++ {
		env := &pipeline.Spec.Environments[i]
		promotion := pipeline.PromotionInto(env)
		if promotion == nil {
			continue
		}
		if (promotion.Strategy.PullRequest == nil) == (promotion.Strategy.Notification == nil) {
			return fmt.Errorf("environment %s: the promotion's strategy must have exactly one of 'pull-request' and 'notification'", env.Name)
		}
	}
	return nil
}

// settled returns the revision that an environment has settled on, or what keeps it from one.
func (p *planner) settled(env *pipelinesv1.Environment) (string, *verdict) {
	states := p.Targets[env.Name]
	if len(states) == 0 {
		return "", pending("%s: it has no targets, so that there is no revision to promote", env.Name)
	}
	if unknown := p.unknownTarget(env); unknown != nil {
		return "", unknown
	}
	first := p.readyOn(env, 0)
	for i, state := range states {
		readyOn := p.readyOn(env, i)
		switch {
		case readyOn == "" && !state.Ready:
			return "", pending("%s: %s is not ready: %s", env.Name, p.describe(env, i), state.Message)
		case readyOn == "":
			return "", pending("%s: %s has not applied any revision", env.Name, p.describe(env, i))
		case !revision.Equal(readyOn, first):
			return "", pending("%s: its targets run different revisions, %s and %s", env.Name, revision.Short(first), revision.Short(readyOn))
		}
	}
	return first, nil
}

// readyOn returns the revision that a target counts as ready on: the one that it is ready on now, or, in an environment whose
// targets are never all ready at once, the one that it was last ready on. It is empty if there is none.
func (p *planner) readyOn(env *pipelinesv1.Environment, i int) string {
	state := p.Targets[env.Name][i]
	switch {
	case !state.Known:
		return ""
	case state.Ready:
		return state.Revision
	case env.Steady == pipelinesv1.SteadyEver:
		return p.environment(env.Name).Targets[i].ReadyRevision
	}
	return ""
}

// advance looks at one environment after the first. It returns nil when the run goes on to the next one.
func (p *planner) advance(env *pipelinesv1.Environment, current string) *verdict {
	states := p.Targets[env.Name]
	unsettled, reached := -1, false
	for i, state := range states {
		settled := revision.Equal(p.readyOn(env, i), current)
		reached = reached || settled || revision.Equal(state.Revision, current)
		if !settled && unsettled < 0 {
			unsettled = i
		}
	}
	if unsettled < 0 {
		p.arrived(env, current)
		return nil
	}
	if unknown := p.unknownTarget(env); unknown != nil {
		return unknown
	}
	p.environment(env.Name).WaitingApproval.Revision = ""
	if reached {
		why := states[unsettled].Message
		if why == "" {
			why = "it runs " + revision.Short(states[unsettled].Revision)
		}
		return ptr(fine(pipelinesv1.RollingOutReason, "%s: %s is rolling out: %s: %s", env.Name, revision.Short(current), p.describe(env, unsettled), why))
	}
	promotion := p.pipeline.PromotionInto(env)
	if promotion == nil {
		return ptr(fine(pipelinesv1.NoPromotionReason, "%s does not run %s, and no promotion is configured", env.Name, revision.Short(current)))
	}
	return ptr(p.drive(env, promotion, current))
}

// drive moves the promotion of the current revision into an environment one step on.
func (p *planner) drive(env *pipelinesv1.Environment, promotion *pipelinesv1.Promotion, current string) verdict {
	p.standsAt = env.Name
	status := p.environment(env.Name)
	if p.givenUp(env.Name, status.Promotion) {
		p.giveUp(status)
	}
	if p.forced && mayHavePullRequest(status.Promotion) && p.usesPullRequests(env.Name) {
		p.withdraw(env.Name, status.Promotion, "started anew")
	}
	if record := status.Promotion; record != nil && (!revision.Equal(record.Revision, current) || record.Superseded && !record.State.Ended()) {
		// Its pull request may still be open: there is never a second one beside it.
		return p.superseding(env.Name, record)
	}
	if status.Promotion == nil || p.forced {
		begin(status, current, p.Now)
	}

	record := status.Promotion
	if record.State == pipelinesv1.PromotionSucceeded {
		return fine(pipelinesv1.PromotedReason, "%s: %s was promoted and has yet to be rolled out", env.Name, revision.Short(current))
	}
	if record.State == pipelinesv1.PromotionAbandoned {
		return fine(pipelinesv1.PromotionAbandonedReason, "%s: %s is not promoted: %s", env.Name, revision.Short(current), record.Message)
	}

	if record.Repository != nil && record.State != pipelinesv1.PromotionCreated && promotion.Strategy.PullRequest == nil {
		// An attempt may have left a pull request, which must not be merged beside the notification.
		p.withdraw(env.Name, record, "promotions are notifications by now")
		return p.superseding(env.Name, record)
	}

	input := precondition.Input{
		Environment: env.Name, Revision: current, Promotion: promotion, Gates: p.Gates, Approvals: p.Approvals,
	}
	results := precondition.Evaluate(input)
	record.Approvers = precondition.Approvers(input)
	p.showPreconditions(status, current, results)
	if record.State == pipelinesv1.PromotionCreated {
		return p.awaitMerge(env.Name, promotion, record, results)
	}
	if !precondition.Met(results) {
		return held(env.Name, record, results)
	}
	if record.State == pipelinesv1.PromotionUnapproved {
		record.State = pipelinesv1.PromotionUnattempted
	}
	if p.tooSoon(record, record.NextAttemptTime) {
		return broken(pipelinesv1.PromotionFailedReason, "%s: promoting %s failed, next try at %s: %s",
			env.Name, revision.Short(current), nextTry(record), record.LastError)
	}

	kind := Notify
	if promotion.Strategy.PullRequest != nil {
		kind = OpenPullRequest
	}
	if !p.claim(kind, env.Name, record) {
		return progressing(pipelinesv1.PromotingReason, "%s: %s is promoted next", env.Name, revision.Short(current))
	}
	if promotion.Strategy.PullRequest != nil {
		record.Repository = repositoryOf(promotion.Strategy.PullRequest)
	}
	record.Message = "being promoted"
	return progressing(pipelinesv1.PromotingReason, "%s: promoting %s", env.Name, revision.Short(current))
}

// claim makes the action the plan's, unless it has one already, and counts the attempt. The record must be the one that the
// plan's status holds: writing it is what makes the claim.
func (p *planner) claim(kind ActionKind, env string, record *pipelinesv1.PromotionRecord) bool {
	if p.action != nil {
		return false
	}
	record.Attempts++
	record.LastAttemptTime = ptr(metav1.NewTime(p.Now))
	record.NextAttemptTime = nil
	record.RateLimitedUntil = nil
	p.action = &Action{Kind: kind, Environment: env, Revision: record.Revision, StartTime: record.StartTime}
	return true
}

// rateLimited tells whether the Git host wants not to be asked about the promotion yet. The Pipeline is looked at when it does.
func (p *planner) rateLimited(record *pipelinesv1.PromotionRecord) bool {
	limit := record.RateLimitedUntil
	if limit == nil || !p.Now.Before(limit.Time) {
		return false
	}
	p.wakeAt(limit.Time)
	return true
}

// tooSoon tells whether the time of the next attempt, at the promotion or at a step of it, is still to come, and has the Pipeline looked
// at then. A time that is farther away than any wait takes was written before the wall clock was put back, and is not waited for.
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

// staleApprovals returns the approvals that the run has left behind. While no revision has settled nothing is said of any.
func (p *planner) staleApprovals() []pipelinesv1.PromotionApproval {
	current := p.pipeline.Status.Revision
	if current == "" || p.pipeline.Spec.Suspend {
		return nil
	}
	var stale []pipelinesv1.PromotionApproval
	for _, approval := range p.Approvals {
		if !revision.Equal(approval.Spec.Revision, current) || p.pipeline.Environment(approval.Spec.Environment) == nil {
			stale = append(stale, approval)
		}
	}
	return stale
}

// nextTry tells when a record's next attempt is due.
func nextTry(record *pipelinesv1.PromotionRecord) string {
	due := record.NextAttemptTime
	if limit := record.RateLimitedUntil; limit != nil && (due == nil || limit.After(due.Time)) {
		due = limit
	}
	return due.UTC().Format(time.RFC3339)
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

func ptr[T any](v T) *T { return &v }
