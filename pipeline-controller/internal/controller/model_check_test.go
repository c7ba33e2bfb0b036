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
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
)

// transitions are those of docs/architecture.md. A promotion that is superseded is abandoned from wherever it was.
// TestDiagram compares them.
var transitions = map[pipelinesv1.PromotionState][]pipelinesv1.PromotionState{
	"unapproved":  {"unattempted"},
	"unattempted": {"created", "failed", "succeeded", "abandoned"},
	"failed":      {"created", "succeeded", "abandoned"},
	"created":     {"succeeded", "abandoned"},
	// Its pull request was reopened by a person, and may have been merged before anyone has looked.
	"abandoned": {"created", "succeeded"},
}

// TestDiagram compares the diagram of states in the documentation with the transitions that the model allows.
func TestDiagram(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/architecture.md")
	g.Expect(err).NotTo(HaveOccurred())
	drawn := map[pipelinesv1.PromotionState][]pipelinesv1.PromotionState{}
	for _, arrow := range regexp.MustCompile(`(?m)^    (\w+) --> (\w+):`).FindAllStringSubmatch(string(page), -1) {
		from := pipelinesv1.PromotionState(arrow[1])
		drawn[from] = append(drawn[from], pipelinesv1.PromotionState(arrow[2]))
	}
	g.Expect(drawn).To(HaveLen(len(transitions)))
	for from, to := range transitions {
		g.Expect(drawn[from]).To(ConsistOf(to), string(from))
	}
}

// past is the model's record of the promotions into an environment.
type past struct {
	// record is the last one.
	record *pipelinesv1.PromotionRecord
	// superseded is true once another revision has replaced it, a person has requested a new start, or the environment
	// was removed.
	superseded bool
	// arrived is true once the environment was seen to run the revision.
	arrived bool
	// hurried is true once it was attempted early for one of these reasons.
	hurried bool
	// lastStart is the latest start of a promotion that was attempted.
	lastStart int64
}

// checkOpen checks the first rule: at most one open pull request per environment.
func (m *model) checkOpen() {
	open := map[string]*modelPullRequest{}
	for _, pr := range m.host.open() {
		if other := open[pr.id.environment]; other != nil {
			m.fail("pull requests %d and %d into %s are both open", other.number, pr.number, pr.id.environment)
		}
		open[pr.id.environment] = pr
	}
}

// observed is the oracle's view of what a process has seen.
func (c *modelClaim) observed() oracle {
	return oracle{
		spec:      &c.pipeline.Spec,
		read:      func(namespace string) application.State { return c.reads[namespace] },
		everReady: everReadyIn(c.pipeline),
	}
}

func everReadyIn(pipeline *pipelinesv1.Pipeline) func(environment, namespace string) string {
	return func(environment, namespace string) string {
		for _, t := range targetsIn(pipeline, environment) {
			if t.Namespace == namespace {
				return t.ReadyRevision
			}
		}
		return ""
	}
}

// checkAttempt checks that a process does what it has claimed, and what the algorithm requires.
func (m *model) checkAttempt(p *process, promotion promote.Promotion, kind plan.ActionKind) {
	id := idOf(promotion)
	if p.claim == nil || p.claim.id != id {
		m.fail("%s acts on %v without a claim", p.name, id)
	}
	if p.claim.pipeline.Spec.Suspend {
		m.fail("%s promotes in a suspended Pipeline", p.name)
	}
	p.hasConfirmed = false
	stands := p.claim.observed().stand()
	if stands.environment != id.environment || !sameRevision(stands.revision, id.revision) {
		m.fail("%s promotes %v, but from what it has seen the run of %s stands at %q: %s", p.name, id, stands.revision, stands.environment, stands.reason)
	}
	configured := p.claim.pipeline.PromotionInto(p.claim.pipeline.Environment(id.environment))
	if (kind == plan.Notify) != (configured.Strategy.Notification != nil) {
		m.fail("%s promotes %v by %s, which isn't its strategy", p.name, id, kind)
	}
}

// permission records which conditions of a promotion are met, and the number of changes of the cluster until then.
type permission struct {
	gates, approvals, unchanged  bool
	gatesAt, approvalsAt, specAt int
}

// mayGoAhead checks what the claimed promotion needs against the current cluster.
func (m *model) mayGoAhead(claim *modelClaim) permission {
	now := permission{
		gatesAt: m.cluster.seen(gateObjects), approvalsAt: m.cluster.seen(approvalObjects), specAt: m.cluster.seen(pipelineObjects),
	}
	pipeline := m.cluster.pipeline()
	if pipeline == nil {
		return now
	}
	promotion := claim.pipeline.PromotionInto(claim.pipeline.Environment(claim.id.environment))
	now.unchanged = pipeline.UID == claim.pipeline.UID && pipeline.Generation == claim.pipeline.Generation && pipeline.DeletionTimestamp == nil
	now.gates, _ = gatesOpen(promotion.Gates, m.cluster.gate)
	now.approvals = approved(promotion, claim.id.environment, claim.id.revision, m.cluster.approvals())
	return now
}

// checkConfirmed checks that nothing was confirmed that was forbidden the whole time.
func (m *model) checkConfirmed(p *process, before, after permission) {
	switch {
	case !before.unchanged && !after.unchanged && before.specAt == after.specAt:
		m.fail("%s goes ahead with %v, though the Pipeline has changed", p.name, p.claim.id)
	case !before.gates && !after.gates && before.gatesAt == after.gatesAt:
		m.fail("%s goes ahead with %v, though its gates are not open", p.name, p.claim.id)
	case !before.approvals && !after.approvals && before.approvalsAt == after.approvalsAt:
		m.fail("%s goes ahead with %v, though it is not approved", p.name, p.claim.id)
	}
}

// checkTouch checks that external changes are only made for a promotion that was confirmed and has not ended. Another
// process may have ended it a moment ago.
func (m *model) checkTouch(p *process, id promotionID) {
	if !p.hasConfirmed {
		m.fail("%s touches the outside world for %v, which was not confirmed", p.name, id)
	}
	if p.overtaken {
		m.count("actions overtaken by another process")
		return
	}
	pipeline := m.cluster.pipeline()
	if pipeline == nil || pipeline.UID != p.claim.pipeline.UID {
		m.fail("%s promotes %v of a Pipeline that is gone", p.name, id)
	}
	record := recordIn(pipeline, id.environment)
	if record == nil || idOfRecord(id.environment, record) != id || record.Attempts == 0 || record.State.Ended() {
		m.fail("%s promotes %v, but the status has %s", p.name, id, describeRecord(record))
	}
}

// checkCreated checks that a promotion opens only one pull request.
func (m *model) checkCreated(p *process, pr *modelPullRequest) {
	m.checkTouch(p, pr.id)
	m.count("pull requests created")
	m.host.created[pr.id]++
	if m.host.created[pr.id] > 1 && !m.overlapped[pr.id] {
		m.fail("pull request %d is the second one of %v", pr.number, pr.id)
	}
}

// checkWithdrawal checks that only pull requests of superseded promotions are withdrawn.
func (m *model) checkWithdrawal(p *process, promotion promote.Promotion) {
	id := idOf(promotion)
	m.overtake(p)
	// Another process may have removed the finalizer of the deleted Pipeline a moment ago.
	if seen, ok := p.cache[pipelineObjects].objects[modelPipeline.Name].(*pipelinesv1.Pipeline); p.overtaken || !ok || seen.DeletionTimestamp != nil {
		return
	}
	if p.claim == nil || p.claim.id != id {
		m.fail("%s withdraws %v without a claim", p.name, id)
	}
	if record := recordIn(p.claim.pipeline, id.environment); !record.Superseded {
		m.fail("%s withdraws %v, which nothing has superseded", p.name, id)
	}
}

// checkSuperseded checks that a withdrawal starts only if the promotion is no longer needed. Then it is completed.
func (m *model) checkSuperseded(p *process, env string, after *pipelinesv1.Pipeline) {
	past, is := m.pastOf(env), recordIn(after, env)
	// Once its pull request is known, a promotion into an environment that runs the revision is followed to its end.
	notNeeded := past.arrived && is.State != pipelinesv1.PromotionCreated
	promotion := after.PromotionInto(after.Environment(env))
	notified := promotion != nil && promotion.Strategy.PullRequest == nil && is.State != pipelinesv1.PromotionCreated
	if !past.superseded && !notNeeded && !notified {
		m.fail("%s begins to withdraw %v, which nothing has superseded", p.name, idOfRecord(env, is))
	}
}

// overtake records for all other processes that are acting that another one has acted after them.
func (m *model) overtake(by *process) {
	for _, p := range m.processes {
		if p != by && p.claim != nil {
			p.overtaken = true
		}
	}
}

// checkStatus checks a status that a process wrote.
func (m *model) checkStatus(p *process, before, after *pipelinesv1.Pipeline) {
	m.count("statuses written")
	m.overtake(p)
	if p.reads != nil {
		m.checkPlanned(p, after)
	}
	for _, env := range environmentsOf(before, after) {
		m.checkRecord(p, env, before, after)
	}
	for _, pr := range m.host.open() {
		record := recordIn(after, pr.id.environment)
		if record == nil || record.Revision != pr.id.revision || record.Attempts == 0 || record.State.Ended() {
			m.fail("%s loses sight of the open pull request %d of %v: the status has %s", p.name, pr.number, pr.id, describeRecord(record))
		}
	}
	p.reads = nil
}

// checkPlanned checks what a status contains of the observed state, and that no approval outlives its run.
func (m *model) checkPlanned(p *process, after *pipelinesv1.Pipeline) {
	claim := &modelClaim{pipeline: after, reads: p.reads}
	stands := claim.observed().stand()
	if stands.reason != "InvalidSpec" && stands.revision != after.Status.Revision {
		m.fail("%s has seen the run be of %q, and writes %q", p.name, stands.revision, after.Status.Revision)
	}
	if after.Spec.Suspend || after.Status.Revision == "" {
		return
	}
	for _, approval := range m.cluster.approvals() {
		record := recordIn(after, approval.Spec.Environment)
		attempted := record != nil && record.Attempts > 0 && record.Revision == approval.Spec.Revision && sameRevision(record.Revision, after.Status.Revision)
		if p.approvalsSeen[approval.UID] && approval.Spec.Revision != after.Status.Revision && !attempted {
			m.fail("%s makes %s the run's revision while an approval of %s is left", p.name, after.Status.Revision, approval.Spec.Revision)
		}
	}
	if stands.reason != "InvalidSpec" {
		m.checkNames(p, after)
	}
}

// checkNames checks that people are asked to approve exactly the name that would be promoted.
func (m *model) checkNames(p *process, after *pipelinesv1.Pipeline) {
	for env, status := range after.Status.Environments {
		waiting, record := status.WaitingApproval.Revision, status.Promotion
		if waiting != "" && (record == nil || record.Revision != waiting) {
			m.fail("%s asks for approval of %s in %s, but the status has %s", p.name, waiting, env, describeRecord(record))
		}
		if record != nil && record.Attempts == 0 && record.Revision != after.Status.Revision {
			m.fail("%s leaves the promotion into %s under the name %s, though nothing was attempted and the run's revision is %s", p.name, env, record.Revision, after.Status.Revision)
		}
	}
}

// checkRecord checks the steps that the record of an environment takes.
func (m *model) checkRecord(p *process, env string, before, after *pipelinesv1.Pipeline) {
	was, is, past := recordIn(before, env), recordIn(after, env), m.pastOf(env)
	current := after.Status.Revision
	forced := before.Status.LastHandledForceAt != after.Status.LastHandledForceAt
	if past.record != nil && (forced || after.Environment(env) == nil || current != "" && !sameRevision(current, past.record.Revision)) {
		past.superseded = true
	}
	if environment := after.Environment(env); past.record != nil && environment != nil && p.reads != nil {
		claim := &modelClaim{pipeline: after, reads: p.reads}
		past.arrived = past.arrived || claim.observed().runs(*environment, past.record.Revision)
	}
	if status := after.Status.Environments[env]; status != nil && len(status.History) > 10 {
		m.fail("the history of %s is too long for the API", env)
	}
	if is == nil {
		return
	}
	attempts := is.Attempts
	if past.record == nil || !past.record.StartTime.Equal(&is.StartTime) || past.record.Revision != is.Revision {
		m.checkBeginning(p, env, past, is)
	} else if was != nil {
		m.checkStep(p, env, was, is)
		attempts -= was.Attempts
	}
	if attempts != 0 {
		m.checkClaim(p, env, before, after, attempts)
	}
	// A failed step is recorded even if another process has written the record without it in the meantime.
	failed := p.claim != nil && p.overtaken
	if was != nil && idOfRecord(env, was) == idOfRecord(env, is) && was.PullRequest != nil && is.PullRequest != nil && stepAttempts(is) > stepAttempts(was) && !failed {
		m.checkStepClaim(p, env, before, after)
	}
	if is.Superseded && (was == nil || !was.Superseded) {
		m.checkSuperseded(p, env, after)
	}
	if is.ArrivalTime != nil && (was == nil || was.ArrivalTime == nil) {
		m.checkArrival(p, env, after)
	}
	past.record = is
}

// checkBeginning checks that a promotion starts only if one is due.
func (m *model) checkBeginning(p *process, env string, past *past, is *pipelinesv1.PromotionRecord) {
	m.count("promotions begun")
	// A promotion that was withdrawn, because its environment did without, may be needed again. Its pull request may
	// have been seen closed only now.
	withdrawn := past.record != nil && past.record.Superseded && past.record.State != pipelinesv1.PromotionSucceeded
	if last := past.record; last != nil && last.Attempts > 0 && sameRevision(last.Revision, is.Revision) && !past.superseded && !withdrawn {
		m.fail("%s starts %s into %s again, though nobody has requested it: before it was %s", p.name, is.Revision, env, describeRecord(last))
	}
	if is.State != pipelinesv1.PromotionUnapproved && is.State != pipelinesv1.PromotionUnattempted {
		m.fail("%s begins a promotion into %s as %s", p.name, env, is.State)
	}
	past.superseded, past.arrived, past.hurried = false, false, false
}

// checkStep checks a transition.
func (m *model) checkStep(p *process, env string, was, is *pipelinesv1.PromotionRecord) {
	if is.State == was.State {
		return
	}
	m.count(fmt.Sprintf("%s → %s", was.State, is.State))
	if was.State == pipelinesv1.PromotionAbandoned && is.State == pipelinesv1.PromotionCreated {
		pr := m.host.pullRequest(is.PullRequest.Number)
		pr.foreign, pr.endSeen = m.overlapped[pr.id], false
	}
	if !slices.Contains(transitions[was.State], is.State) && !(p.overtaken && !was.State.Ended()) {
		m.fail("%s takes %s into %s from %s to %s", p.name, is.Revision, env, was.State, is.State)
	}
	if is.State == pipelinesv1.PromotionSucceeded {
		m.checkSuccess(p, env, is)
	}
	if is.State.Ended() {
		p.unrecorded = nil
	}
}

// checkSuccess checks that a promotion in state succeeded was successful.
func (m *model) checkSuccess(p *process, env string, is *pipelinesv1.PromotionRecord) {
	id := idOfRecord(env, is)
	event := m.host.events[id]
	if m.merged(id, is) || m.host.heldAlready[id] || event != nil && event.accepted > 0 || is.ArrivalTime != nil {
		return
	}
	m.fail("%s writes that %v has succeeded: it was neither merged nor notified, and has not arrived", p.name, id)
}

// checkArrival checks that all targets run a revision that is recorded as arrived.
func (m *model) checkArrival(p *process, env string, after *pipelinesv1.Pipeline) {
	claim := &modelClaim{pipeline: after, reads: p.reads}
	if !claim.observed().runs(*after.Environment(env), after.Status.Revision) {
		m.fail("%s writes that %s has arrived in %s, and has not seen that", p.name, after.Status.Revision, env)
	}
}

// merged reports whether a pull request of the promotion was: one that was made for it, or that it has taken over.
func (m *model) merged(id promotionID, record *pipelinesv1.PromotionRecord) bool {
	for _, pr := range m.host.find(id.branch()) {
		if pr.state == "merged" && (pr.id == id || record.PullRequest != nil && record.PullRequest.Number == int64(pr.number)) {
			return true
		}
	}
	return false
}

// checkClaim checks that an attempt is due, and allows the process to act on it. The first withdrawal may be immediate.
func (m *model) checkClaim(p *process, env string, before, after *pipelinesv1.Pipeline, attempts int32) {
	was, is := recordIn(before, env), recordIn(after, env)
	id := idOfRecord(env, is)
	if attempts != 1 || p.claim != nil {
		m.fail("%s claims %d attempts at %v at once", p.name, attempts, id)
	}
	if was != nil && idOfRecord(env, was) == id {
		now, past := m.now.Add(p.skew), m.pastOf(env)
		asked := before.Status.LastHandledReconcileAt != after.Status.LastHandledReconcileAt ||
			before.Status.ObservedGeneration != after.Status.ObservedGeneration || before.Status.Revision != after.Status.Revision
		switch {
		case is.State.Ended():
			m.fail("%s attempts %v, which is %s", p.name, id, is.State)
		case was.RateLimitedUntil != nil && now.Before(was.RateLimitedUntil.Time):
			m.fail("%s attempts %v while it must not contact the host", p.name, id)
		case was.NextAttemptTime != nil && now.Before(was.NextAttemptTime.Time) && !asked:
			if past.hurried || !is.Superseded {
				m.fail("%s attempts %v before its time", p.name, id)
			}
			past.hurried = true
		}
	} else if id.started <= m.pastOf(env).lastStart {
		m.fail("%s begins %v no later than a promotion before it", p.name, id)
	}
	m.pastOf(env).lastStart = max(m.pastOf(env).lastStart, id.started)
	m.checkRetryTime(p, id, is.NextAttemptTime)
	m.count("actions claimed")
	if was != nil && was.NextAttemptTime != nil && was.LastError == "" && idOfRecord(env, was) == id {
		m.count("interrupted attempts repeated")
	}
	p.claim = &modelClaim{pipeline: after, id: id, reads: p.reads}
}

// checkRetryTime checks that an attempt that ends with its process is not repeated immediately.
func (m *model) checkRetryTime(p *process, id promotionID, next *metav1.Time) {
	if next == nil || !next.After(m.now.Add(p.skew)) {
		m.fail("%s claims %v without a time for the next attempt", p.name, id)
	}
}

// stepAttempts counts the attempts at steps of a pull request that have not succeeded yet.
func stepAttempts(record *pipelinesv1.PromotionRecord) (attempts int32) {
	for _, step := range []*pipelinesv1.StepStatus{record.PullRequest.Reporting, record.PullRequest.Merging} {
		if step != nil {
			attempts += step.Attempts
		}
	}
	return attempts
}

// checkStepClaim checks that a step of an open pull request is due, and allows the process to run it.
func (m *model) checkStepClaim(p *process, env string, before, after *pipelinesv1.Pipeline) {
	was, is := recordIn(before, env), recordIn(after, env)
	id, now := idOfRecord(env, is), m.now.Add(p.skew)
	asked := before.Status.LastHandledReconcileAt != after.Status.LastHandledReconcileAt || before.Status.ObservedGeneration != after.Status.ObservedGeneration
	switch {
	case stepAttempts(is) != stepAttempts(was)+1 || p.claim != nil:
		m.fail("%s claims several steps of %v at once", p.name, id)
	case is.State != pipelinesv1.PromotionCreated:
		m.fail("%s takes a step of %v, which is %s", p.name, id, is.State)
	case is.RateLimitedUntil != nil && now.Before(is.RateLimitedUntil.Time):
		m.fail("%s takes a step of %v while it must not contact the host", p.name, id)
	}
	for _, step := range [][2]*pipelinesv1.StepStatus{{was.PullRequest.Reporting, is.PullRequest.Reporting}, {was.PullRequest.Merging, is.PullRequest.Merging}} {
		if step[1] != nil && (step[0] == nil || step[1].Attempts > step[0].Attempts) && step[1].Attempts > 0 {
			m.checkRetryTime(p, id, step[1].NextAttemptTime)
		}
		early := step[0] != nil && step[0].NextAttemptTime != nil && now.Before(step[0].NextAttemptTime.Time) && !asked
		if early && step[1] != nil && step[1].Attempts > step[0].Attempts {
			m.fail("%s takes a step of %v before its time", p.name, id)
		}
	}
	p.claim = &modelClaim{pipeline: after, id: id, reads: p.reads}
}

// checkMerge checks that Sluice only merges what it must merge, and what may continue.
func (m *model) checkMerge(p *process, pr *modelPullRequest) {
	if p.claim == nil || !p.hasConfirmed {
		m.fail("%s merges pull request %d, which was not confirmed", p.name, pr.number)
	}
	promotion := p.claim.pipeline.PromotionInto(p.claim.pipeline.Environment(p.claim.id.environment))
	stands := p.claim.observed().stand()
	switch {
	case pr.id.branch() != p.claim.id.branch():
		m.fail("%s merges pull request %d of %v for %v", p.name, pr.number, pr.id, p.claim.id)
	case promotion.Strategy.PullRequest.Merge != pipelinesv1.MergeAuto:
		m.fail("%s merges pull request %d, which is for people to merge", p.name, pr.number)
	case stands.environment != pr.id.environment || !sameRevision(stands.revision, pr.id.revision):
		m.fail("%s merges pull request %d of %v, but the run of %s stands at %q", p.name, pr.number, pr.id, stands.revision, stands.environment)
	case pr.reported == nil || !pr.reported.Met:
		m.fail("%s merges pull request %d, whose commit status doesn't allow it", p.name, pr.number)
	}
}

func (m *model) pastOf(env string) *past {
	if m.pasts[env] == nil {
		m.pasts[env] = &past{}
	}
	return m.pasts[env]
}

func recordIn(pipeline *pipelinesv1.Pipeline, env string) *pipelinesv1.PromotionRecord {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.Promotion
	}
	return nil
}

func targetsIn(pipeline *pipelinesv1.Pipeline, env string) []pipelinesv1.TargetStatus {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.Targets
	}
	return nil
}

func idOfRecord(env string, record *pipelinesv1.PromotionRecord) promotionID {
	return promotionID{env, record.Revision, record.StartTime.Unix()}
}

func describeRecord(record *pipelinesv1.PromotionRecord) string {
	if record == nil {
		return "no promotion"
	}
	return fmt.Sprintf("%s of %d, %s after %d attempts, last error %q", record.Revision, record.StartTime.Unix(), record.State, record.Attempts, record.LastError)
}

// environmentsOf returns the names of all environments that either status has, in order.
func environmentsOf(before, after *pipelinesv1.Pipeline) []string {
	names := maps.Clone(after.Status.Environments)
	if names == nil {
		return slices.Sorted(maps.Keys(before.Status.Environments))
	}
	maps.Copy(names, before.Status.Environments)
	return slices.Sorted(maps.Keys(names))
}

// checkFixedPoint checks that the Pipeline has reached the result of the algorithm, if nothing changes any more.
func (m *model) checkFixedPoint() {
	pipeline := m.cluster.pipeline()
	if pipeline == nil {
		return
	}
	if pipeline.DeletionTimestamp != nil {
		m.fail("the Pipeline is still there a while after its deletion")
	}
	stands := oracle{spec: &pipeline.Spec, read: m.cluster.application, everReady: everReadyIn(pipeline)}.stand()
	m.checkTargets(pipeline)
	m.checkRecords(pipeline, stands)

	reason := stands.reason
	switch {
	case reason == "InvalidSpec":
	case pipeline.Spec.Suspend:
		reason = "Suspended"
	case stands.environment != "":
		reason = m.reasonOfPromotion(pipeline, stands)
	}
	m.checkConditions(pipeline, stands, reason)
}

// readyStatus maps each reason of the Ready condition to its status.
var readyStatus = map[string]metav1.ConditionStatus{
	"UpToDate": "True", "EnvironmentNotReady": "True", "RollingOut": "True", "WaitingForPreconditions": "True", "PullRequestOpen": "True",
	"Promoted": "True", "RolledBack": "True", "PromotionAbandoned": "True", "NoPromotion": "True", "Suspended": "True",
	"PromotionFailed": "False", "PullRequestUnknown": "False", "GateNotFound": "False", "TargetNotReadable": "False", "InvalidSpec": "False",
}

func (m *model) checkConditions(pipeline *pipelinesv1.Pipeline, stands standing, reason string) {
	if readyStatus[reason] == metav1.ConditionTrue && lingers(pipeline, stands.environment) {
		reason = "PromotionFailed"
	}
	m.count("at rest: " + reason)
	ready := apimeta.FindStatusCondition(pipeline.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != reason || ready.Status != readyStatus[reason] || ready.ObservedGeneration != pipeline.Generation {
		m.fail("Ready should be %s with the reason %s, and is %+v", readyStatus[reason], reason, ready)
	}
	if stalled := apimeta.IsStatusConditionTrue(pipeline.Status.Conditions, "Stalled"); stalled != (reason == "InvalidSpec") {
		m.fail("Stalled is %t while Ready has the reason %s", stalled, reason)
	}
	if reason == "InvalidSpec" {
		return
	}
	pending := stands.revision == "" && len(pipeline.Spec.Environments) > 0
	if apimeta.IsStatusConditionTrue(pipeline.Status.Conditions, "PromotionPending") != pending || pipeline.Status.Revision != stands.revision {
		m.fail("the run's revision should be %q, and is %q", stands.revision, pipeline.Status.Revision)
	}
	if settled := apimeta.IsStatusConditionTrue(pipeline.Status.Conditions, "Settled"); settled != (stands.reason == "UpToDate") {
		m.fail("Settled is %t while the run stands at %q: %s", settled, stands.environment, stands.reason)
	}
	m.checkStates(pipeline)
}

// checkStates checks that every environment has a state, and that those after the first that has not settled wait for
// it.
func (m *model) checkStates(pipeline *pipelinesv1.Pipeline) {
	behind := false
	for _, env := range pipeline.Spec.Environments {
		status := pipeline.Status.Environments[env.Name]
		if status == nil || status.State == "" || status.Message == "" || status.Since == nil {
			m.fail("%s says nothing of where it stands: %+v", env.Name, status)
		}
		if behind != (status.State == pipelinesv1.EnvironmentBehind) {
			m.fail("%s is %s, and it is %t that one before it has not settled", env.Name, status.State, behind)
		}
		behind = behind || !status.State.Settled()
	}
}

// lingers reports whether another promotion than the current one has an error.
func lingers(pipeline *pipelinesv1.Pipeline, standsAt string) bool {
	if pipeline.Spec.Suspend {
		standsAt = ""
	}
	for env, status := range pipeline.Status.Environments {
		if record := status.Promotion; env != standsAt && record != nil && !record.State.Ended() && record.LastError != "" {
			return true
		}
	}
	return false
}

// checkTargets checks that the status shows the current targets.
func (m *model) checkTargets(pipeline *pipelinesv1.Pipeline) {
	for _, env := range pipeline.Spec.Environments {
		shown := targetsIn(pipeline, env.Name)
		if len(shown) != len(env.Targets) {
			m.fail("the status of %s shows %d of %d targets", env.Name, len(shown), len(env.Targets))
		}
		for i, t := range env.Targets {
			state := m.cluster.application(t.Namespace)
			if shown[i].Ready != state.Ready || shown[i].Revision != state.Revision || state.Ready && shown[i].ReadyRevision != state.Revision {
				m.fail("the status shows target %s as %+v, and it is %+v", t.Namespace, shown[i], state)
			}
			if ready := shown[i].ReadyRevision; ready != "" && !m.everReady[t.Namespace+" "+ready] {
				m.fail("target %s is said to have been ready on %s, and never was", t.Namespace, ready)
			}
		}
	}
}

// checkRecords checks that only the run's revision has records of promotions, that each record is correct, and that
// every open pull request has one.
func (m *model) checkRecords(pipeline *pipelinesv1.Pipeline, stands standing) {
	active := !pipeline.Spec.Suspend && stands.reason != "InvalidSpec"
	for _, env := range environmentsOf(pipeline, pipeline) {
		record := recordIn(pipeline, env)
		if active && pipeline.Environment(env) == nil {
			m.fail("the status still has environment %s, which has left the spec", env)
		}
		if record == nil {
			continue
		}
		if active && stands.revision != "" && !sameRevision(record.Revision, stands.revision) {
			m.fail("%s still has a promotion of %s, though the run is of %s", env, record.Revision, stands.revision)
		}
		if active && record.State == pipelinesv1.PromotionCreated {
			m.checkFollowed(pipeline, env, record)
		}
		if active && record.State == pipelinesv1.PromotionAbandoned {
			m.checkAbandoned(env, record)
		}
	}
}

// checkFollowed checks that a pull request that is recorded as open is open.
func (m *model) checkFollowed(pipeline *pipelinesv1.Pipeline, env string, record *pipelinesv1.PromotionRecord) {
	pr := m.host.pullRequest(record.PullRequest.Number)
	if pr.state != "open" {
		m.fail("%s is said to wait for pull request %d, which is %s", env, pr.number, pr.state)
	}
	promotion := pipeline.PromotionInto(pipeline.Environment(env))
	if promotion == nil {
		return
	}
	open, _ := gatesOpen(promotion.Gates, m.cluster.gate)
	met := open && approved(promotion, env, record.Revision, m.cluster.approvals())
	if pr.reported == nil || pr.reported.Met != met {
		m.fail("the commit status of pull request %d is %+v, and should say that the preconditions are met: %t", pr.number, pr.reported, met)
	}
}

// checkAbandoned checks that a promotion was only given up on request.
func (m *model) checkAbandoned(env string, record *pipelinesv1.PromotionRecord) {
	if record.PullRequest == nil {
		m.fail("%s of %s is abandoned, though nobody can have closed a pull request of it", record.Revision, env)
	}
	if pr := m.host.pullRequest(record.PullRequest.Number); pr.state == "closed" && pr.closedBySluice {
		m.fail("%s of %s is abandoned, though nobody has closed pull request %d but Sluice itself", record.Revision, env, pr.number)
	}
}

// reasonOfPromotion returns the reason that Ready must have while a promotion is needed, and checks its record.
func (m *model) reasonOfPromotion(pipeline *pipelinesv1.Pipeline, stands standing) string {
	env := stands.environment
	record := recordIn(pipeline, env)
	if record == nil || !sameRevision(record.Revision, stands.revision) {
		m.fail("%s needs %s, and the status has %s", env, stands.revision, describeRecord(record))
	}
	promotion := pipeline.PromotionInto(pipeline.Environment(env))
	open, missing := gatesOpen(promotion.Gates, m.cluster.gate)
	met := open && approved(promotion, env, record.Revision, m.cluster.approvals())
	switch {
	case record.State == pipelinesv1.PromotionSucceeded && record.RollbackTime != nil:
		m.checkRolledBack(pipeline, env, record)
		return "RolledBack"
	case record.State == pipelinesv1.PromotionSucceeded:
		return "Promoted"
	case record.State == pipelinesv1.PromotionAbandoned:
		return "PromotionAbandoned"
	case record.State == pipelinesv1.PromotionCreated:
		return "PullRequestOpen"
	case met:
		m.fail("%s of %s waits for nothing, and is not promoted: %s", record.Revision, env, describeRecord(record))
	case missing:
		return "GateNotFound"
	}
	return "WaitingForPreconditions"
}

// checkRolledBack checks that the environment had arrived on the revision, and which other one it runs.
func (m *model) checkRolledBack(pipeline *pipelinesv1.Pipeline, env string, record *pipelinesv1.PromotionRecord) {
	runs := func(t pipelinesv1.Target) bool { return m.cluster.application(t.Namespace).Revision != "" }
	if record.ArrivalTime == nil || record.RolledBackTo == "" || !slices.ContainsFunc(pipeline.Environment(env).Targets, runs) {
		m.fail("%s is said to be rolled back, and is not: %+v", env, record)
	}
}

// checkGone checks, when a Pipeline is gone, that its pull requests were closed, or that the patience with the host was
// used up.
func (m *model) checkGone(p *process, pipeline *pipelinesv1.Pipeline) {
	m.overtake(p)
	patience := m.now.Sub(pipeline.DeletionTimestamp.Time) >= finalizerPatience-2*m.profile.skew
	for _, pr := range m.host.open() {
		if !patience {
			m.fail("the Pipeline is gone after %s, and pull request %d is open", m.now.Sub(pipeline.DeletionTimestamp.Time).Round(time.Second), pr.number)
		}
		pr.foreign = true
	}
	clear(m.pasts)
}
