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
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

var (
	modelEnvironments = []string{"dev", "test", "staging", "prod-EU", "prod"}
	modelGates        = []string{"freeze", "signoff", "weekend"}
	modelPeople       = []string{"ada", "bob", modelController}
)

// modelController is the user name of approvals by HTTP.
const modelController = "controller"

// worldEvent is an event that is not caused by the controller.
type worldEvent struct {
	// weight is the relative frequency.
	weight int
	// happen applies the event, or returns false if it is not possible now.
	happen func(*model) bool
}

// worldEvents are the events that may occur between any two steps of the controller.
var worldEvents = []worldEvent{
	{14, (*model).applicationApplies},
	{8, (*model).applicationRecovers},
	{6, (*model).applicationFlickers},
	{2, (*model).applicationWanders},
	{1, (*model).applicationVanishes},
	{6, (*model).release},
	{7, (*model).gateFlips},
	{1, (*model).gateComesOrGoes},
	{10, (*model).personApproves},
	{2, (*model).personTakesApprovalBack},
	{4, (*model).personEditsSpec},
	{6, (*model).personResumes},
	{3, (*model).personAsks},
	{9, (*model).personMerges},
	{4, (*model).personCloses},
	{3, (*model).personReopens},
	{1, (*model).personEditsBase},
	{5, (*model).someoneTouches},
	{20, (*model).personCreates},
	{1, (*model).personDeletes},
	{8, (*model).timePasses},
	{12, (*model).watchDelivers},
	{1, (*model).outageBegins},
	{10, (*model).outageEnds},
}

// happens applies a random event.
func (m *model) happens() {
	total := 0
	for _, event := range worldEvents {
		total += event.weight
	}
	for {
		n := m.random.IntN(total)
		for _, event := range worldEvents {
			if n -= event.weight; n < 0 {
				if event.happen(m) {
					return
				}
				break
			}
		}
	}
}

// setApplication changes an application.
func (m *model) setApplication(namespace string, state application.State) {
	if state.Known && state.Ready {
		m.everReady[namespace+" "+state.Revision] = true
	}
	if m.cluster.application(namespace) == state {
		return
	}
	m.note("application in %s: known %t, ready %t, reconciling %t, on %q", namespace, state.Known, state.Ready, state.Reconciling, state.Revision)
	if !state.Known {
		m.cluster.remove(applicationObjects, namespace)
		return
	}
	m.cluster.put(applicationObjects, namespace, state)
}

func ready(revision string) application.State {
	return application.State{Known: true, Ready: true, Revision: revision}
}

func unready(revision string) application.State {
	return application.State{Known: true, Revision: revision, Message: "health check failed"}
}

// anyTarget picks an environment of the spec and one of its targets.
func (m *model) anyTarget() (env, namespace string, ok bool) {
	pipeline := m.cluster.pipeline()
	if pipeline == nil || len(pipeline.Spec.Environments) == 0 {
		return "", "", false
	}
	picked := pick(m, pipeline.Spec.Environments)
	if len(picked.Targets) == 0 {
		return "", "", false
	}
	return picked.Name, pick(m, picked.Targets).Namespace, true
}

// desired returns the revision that Flux applies in an environment: that of the base branch, or the last notified one.
func (m *model) desired(env string) string {
	if revision := m.host.base[env]; revision != "" {
		return revision
	}
	return m.host.notified[env]
}

func (m *model) applicationApplies() bool {
	env, namespace, ok := m.anyTarget()
	if !ok || m.desired(env) == "" {
		return false
	}
	if m.chance(0.25) {
		m.setApplication(namespace, unready(m.desired(env)))
		return true
	}
	m.setApplication(namespace, ready(m.desired(env)))
	return true
}

// applicationRecovers makes an application known and ready.
func (m *model) applicationRecovers() bool {
	env, namespace, ok := m.anyTarget()
	state := m.cluster.application(namespace)
	if !ok || state.Ready && state.Revision != "" {
		return false
	}
	for _, revision := range []string{state.Revision, m.desired(env), m.revisions[0]} {
		if revision != "" {
			m.setApplication(namespace, ready(revision))
			break
		}
	}
	return true
}

func (m *model) applicationFlickers() bool {
	_, namespace, ok := m.anyTarget()
	state := m.cluster.application(namespace)
	if !ok || !state.Known {
		return false
	}
	switch {
	case !state.Ready:
		state = ready(state.Revision)
	case m.chance(0.5):
		state = unready(state.Revision)
	default:
		state = application.State{Known: true, Reconciling: true, Revision: state.Revision, Message: "reconciling"}
	}
	m.setApplication(namespace, state)
	return true
}

func (m *model) applicationWanders() bool {
	_, namespace, ok := m.anyTarget()
	if !ok {
		return false
	}
	m.setApplication(namespace, pick(m, []application.State{ready(pick(m, m.revisions)), unready(pick(m, m.revisions)), unready("")}))
	return true
}

func (m *model) applicationVanishes() bool {
	_, namespace, ok := m.anyTarget()
	if !ok {
		return false
	}
	m.setApplication(namespace, application.Unknown("not found"))
	return true
}

// release brings a revision, new or old, to the first environment.
func (m *model) release() bool {
	pipeline := m.cluster.pipeline()
	if pipeline == nil || len(pipeline.Spec.Environments) == 0 {
		return false
	}
	revision := pick(m, m.revisions)
	for _, t := range pipeline.Spec.Environments[0].Targets {
		m.setApplication(t.Namespace, ready(revision))
		if m.chance(0.1) {
			break
		}
	}
	return true
}

func (m *model) gateFlips() bool {
	name := pick(m, modelGates)
	gate := m.cluster.gate(name)
	if gate == nil {
		return false
	}
	m.setGate(name, !gate.Spec.Closed && m.chance(0.7))
	return true
}

func (m *model) setGate(name string, closed bool) {
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: name, Generation: 1, UID: m.cluster.newUID()}}
	if old := m.cluster.gate(name); old != nil {
		gate = old.DeepCopy()
	}
	if gate.Spec.Closed != closed || gate.ResourceVersion == "" {
		m.note("gate %s: closed %t", name, closed)
		gate.Spec.Closed = closed
		gate.Generation++
		m.cluster.put(gateObjects, name, gate)
	}
}

func (m *model) gateComesOrGoes() bool {
	name := pick(m, modelGates)
	if m.cluster.gate(name) == nil {
		m.setGate(name, m.chance(0.5))
		return true
	}
	m.note("gate %s is deleted", name)
	m.cluster.remove(gateObjects, name)
	return true
}

// personApproves creates an approval, mostly of a promotion that waits for one.
func (m *model) personApproves() bool {
	pipeline := m.cluster.pipeline()
	if pipeline == nil {
		return false
	}
	spec := pipelinesv1.PromotionApprovalSpec{
		PipelineRef: meta.LocalObjectReference{Name: modelPipeline.Name}, Environment: pick(m, modelEnvironments),
		Revision: pick(m, m.revisions), ApprovedBy: pick(m, modelPeople),
	}
	if m.chance(0.9) {
		waiting := waitingForApproval(pipeline)
		if len(waiting) == 0 {
			return false
		}
		spec.Environment = pick(m, waiting)
		spec.Revision = pipeline.Status.Environments[spec.Environment].WaitingApproval.Revision
	}
	approval := pipelinesv1.NewPromotionApproval(modelNamespace, spec)
	if m.cluster.get(approvalObjects, approval.Name) != nil {
		return false
	}
	m.note("%s approves %s in %s", spec.ApprovedBy, spec.Revision, spec.Environment)
	approval.UID = m.cluster.newUID()
	m.cluster.put(approvalObjects, approval.Name, approval)
	return true
}

func waitingForApproval(pipeline *pipelinesv1.Pipeline) []string {
	return slices.DeleteFunc(environmentsOf(pipeline, pipeline), func(env string) bool {
		return pipeline.Status.Environments[env].WaitingApproval.Revision == ""
	})
}

func (m *model) personTakesApprovalBack() bool {
	approvals := m.cluster.approvals()
	if len(approvals) == 0 {
		return false
	}
	approval := pick(m, approvals)
	m.note("%s takes back the approval of %s in %s", approval.Spec.ApprovedBy, approval.Spec.Revision, approval.Spec.Environment)
	m.cluster.remove(approvalObjects, approval.Name)
	return true
}

func (m *model) personEditsSpec() bool {
	if m.cluster.pipeline() == nil {
		return false
	}
	m.cluster.edit(func(pipeline *pipelinesv1.Pipeline) { m.changeSpec(&pipeline.Spec) })
	m.note("the spec is edited: %s", describeSpec(&m.cluster.pipeline().Spec))
	return true
}

func (m *model) changeSpec(spec *pipelinesv1.PipelineSpec) {
	environments := spec.Environments
	switch n := m.random.IntN(12); {
	case n == 0:
		spec.Suspend = !spec.Suspend
	case n == 1:
		spec.Promotion = m.somePromotion()
	case n == 2 && len(environments) > 0:
		environments[m.random.IntN(len(environments))].Promotion = m.somePromotion()
	case len(environments) < 2 || n < 5:
		if env := m.someEnvironment(); !slices.ContainsFunc(environments, func(other pipelinesv1.Environment) bool { return other.Name == env.Name }) {
			spec.Environments = slices.Insert(environments, m.random.IntN(len(environments)+1), env)
		}
	case n == 5:
		i := m.random.IntN(len(environments))
		spec.Environments = slices.Delete(environments, i, i+1)
	case n == 6:
		i, j := m.random.IntN(len(environments)), m.random.IntN(len(environments))
		environments[i], environments[j] = environments[j], environments[i]
	default:
		i := m.random.IntN(len(environments))
		changed := m.someEnvironment()
		changed.Name = environments[i].Name
		if m.chance(0.7) {
			changed.Targets = environments[i].Targets
		}
		environments[i] = changed
	}
}

// someEnvironment returns an environment with one to three targets. Sometimes it has none, or one of another
// environment.
func (m *model) someEnvironment() pipelinesv1.Environment {
	env := pipelinesv1.Environment{Name: pick(m, modelEnvironments)}
	if m.chance(0.15) {
		env.Settle = pipelinesv1.SettleIndividually
	}
	for i := range pick(m, []int{1, 1, 1, 1, 2, 2, 3, 0}) {
		owner := env.Name
		if m.chance(0.05) {
			owner = pick(m, modelEnvironments)
		}
		env.Targets = append(env.Targets, pipelinesv1.Target{Namespace: fmt.Sprintf("%s-%d", owner, i)})
	}
	if m.chance(0.3) {
		env.Promotion = m.somePromotion()
	}
	return env
}

func (m *model) somePromotion() *pipelinesv1.Promotion {
	if m.chance(0.05) {
		return nil
	}
	promotion := &pipelinesv1.Promotion{Manual: m.chance(0.15)}
	if m.chance(0.25) {
		promotion.Approvals = &pipelinesv1.Approvals{Required: int32(1 + m.random.IntN(2))}
		if m.chance(0.5) {
			byHTTP := m.chance(0.3)
			promotion.Approvals.HTTP = &byHTTP
		}
	}
	if m.chance(0.4) {
		promotion.Gates = &gatingv1.GateReferences{Require: pick(m, []gatingv1.Requirement{"", "all", "oneOf"})}
		for _, name := range modelGates[:1+m.random.IntN(2)] {
			promotion.Gates.Refs = append(promotion.Gates.Refs, gatingv1.GateReference(name))
		}
	}
	if m.chance(m.pullRequestShare) {
		promotion.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{Type: pipelinesv1.GitHub, URL: "https://git.example/fleet", BaseBranch: "main"}
		if m.chance(0.3) {
			promotion.Strategy.PullRequest.Merge = pipelinesv1.MergeAuto
		}
	}
	if promotion.Strategy.PullRequest == nil || m.chance(0.02) {
		promotion.Strategy.Notification = &pipelinesv1.NotificationPromotion{}
	}
	return promotion
}

// describeSpec returns a short description for the trace.
func describeSpec(spec *pipelinesv1.PipelineSpec) string {
	text := describePromotion(spec.Promotion)
	if spec.Suspend {
		text += " suspended"
	}
	for _, env := range spec.Environments {
		text += " " + env.Name + "["
		for _, t := range env.Targets {
			text += " " + t.Namespace
		}
		if env.Promotion != nil {
			text += " own promotion " + describePromotion(env.Promotion)
		}
		text += " " + string(env.Settle) + "]"
	}
	return text
}

func describePromotion(promotion *pipelinesv1.Promotion) string {
	if promotion == nil {
		return "no promotion"
	}
	text := fmt.Sprintf("%d approvals", promotion.RequiredApprovals())
	if promotion.Gates != nil {
		text += fmt.Sprintf(" gates %s %v", promotion.Gates.Require, promotion.Gates.Refs)
	}
	if promotion.Strategy.PullRequest != nil {
		text += " by pull request"
	}
	if promotion.Strategy.Notification != nil {
		text += " by notification"
	}
	return text
}

func (m *model) personResumes() bool {
	if pipeline := m.cluster.pipeline(); pipeline == nil || !pipeline.Spec.Suspend {
		return false
	}
	m.note("a person resumes the Pipeline")
	m.cluster.edit(func(pipeline *pipelinesv1.Pipeline) { pipeline.Spec.Suspend = false })
	return true
}

// personAsks requests a reconciliation, or restarts a promotion.
func (m *model) personAsks() bool {
	if m.cluster.pipeline() == nil {
		return false
	}
	force := m.chance(0.6)
	m.note("a person asks, with force %t", force)
	m.cluster.edit(func(pipeline *pipelinesv1.Pipeline) {
		token := fmt.Sprint(m.steps)
		annotations := map[string]string{meta.ReconcileRequestAnnotation: token}
		if force {
			annotations[meta.ForceRequestAnnotation] = token
		} else if old, ok := pipeline.Annotations[meta.ForceRequestAnnotation]; ok {
			annotations[meta.ForceRequestAnnotation] = old
		}
		pipeline.Annotations = annotations
	})
	return true
}

func (m *model) anyPullRequest(state string) *modelPullRequest {
	var found []*modelPullRequest
	for _, pr := range m.host.pullRequests {
		if pr.state == state {
			found = append(found, pr)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return pick(m, found)
}

func (m *model) personMerges() bool {
	pr := m.anyPullRequest("open")
	if pr == nil {
		return false
	}
	m.note("a person merges pull request %d of %v", pr.number, pr.id)
	m.host.merge(pr)
	return true
}

func (m *model) personCloses() bool {
	pr := m.anyPullRequest("open")
	if pr == nil {
		return false
	}
	m.note("a person closes pull request %d of %v", pr.number, pr.id)
	pr.state, pr.closedBySluice = "closed", false
	return true
}

// personReopens reopens a pull request whose branch exists. If a process has seen its end, Sluice ignores it.
func (m *model) personReopens() bool {
	pr := m.anyPullRequest("closed")
	if pr == nil || !m.host.branches[pr.id.branch()] {
		return false
	}
	for _, other := range m.host.find(pr.id.branch()) {
		if other.state == "open" {
			return false
		}
	}
	m.note("a person reopens pull request %d of %v", pr.number, pr.id)
	pr.state, pr.closedBySluice = "open", false
	pipeline := m.cluster.pipeline()
	if pipeline == nil {
		pr.foreign = true
		return true
	}
	record := recordIn(pipeline, pr.id.environment)
	if record == nil || idOfRecord(pr.id.environment, record) != pr.id || pr.endSeen {
		pr.foreign = true
	}
	return true
}

func (m *model) personEditsBase() bool {
	env, revision := pick(m, modelEnvironments), pick(m, m.revisions)
	m.note("a person sets %s to %s on the base branch", env, revision)
	m.host.base[env] = revision
	return true
}

// someoneTouches makes an unrelated change of the Pipeline, which changes only its resource version for the model.
func (m *model) someoneTouches() bool {
	if m.cluster.pipeline() == nil {
		return false
	}
	m.note("someone writes a label")
	m.cluster.edit(func(pipeline *pipelinesv1.Pipeline) {
		pipeline.Labels = map[string]string{"touched": fmt.Sprint(m.steps)}
	})
	return true
}

func (m *model) personCreates() bool {
	if m.cluster.pipeline() != nil {
		return false
	}
	m.createPipeline()
	return true
}

func (m *model) personDeletes() bool {
	pipeline := m.cluster.pipeline()
	if pipeline == nil || pipeline.DeletionTimestamp != nil {
		return false
	}
	m.note("a person deletes the Pipeline")
	if len(pipeline.Finalizers) == 0 {
		m.cluster.remove(pipelineObjects, pipeline.Name)
		m.cluster.collectGarbage()
		clear(m.pasts)
		return true
	}
	m.cluster.edit(func(pipeline *pipelinesv1.Pipeline) {
		pipeline.DeletionTimestamp = &metav1.Time{Time: m.now.Truncate(time.Second)}
		pipeline.Generation++
	})
	return true
}

func (m *model) createPipeline() {
	pipeline := &pipelinesv1.Pipeline{}
	pipeline.Namespace, pipeline.Name = modelPipeline.Namespace, modelPipeline.Name
	pipeline.UID = m.cluster.newUID()
	pipeline.Generation = 1
	pipeline.Status.ObservedGeneration = -1
	pipeline.Spec.AppRef = pipelinesv1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "app"}
	pipeline.Spec.Promotion = m.somePromotion()
	for _, name := range modelEnvironments[:2+m.random.IntN(3)] {
		env := m.someEnvironment()
		env.Name = name
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, env)
	}
	m.note("the Pipeline is created: %s", describeSpec(&pipeline.Spec))
	m.cluster.put(pipelineObjects, pipeline.Name, pipeline)
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			if !m.cluster.application(t.Namespace).Known {
				m.setApplication(t.Namespace, ready(m.revisions[0]))
			}
		}
	}
}

// timePasses lets some time pass, and only little during a reconcile, because actions are short.
func (m *model) timePasses() bool {
	if slices.ContainsFunc(m.processes, (*process).running) {
		m.now = m.now.Add(time.Duration(m.random.IntN(2000)) * time.Millisecond)
		return true
	}
	m.now = m.now.Add(time.Duration(m.random.IntN(120)) * time.Second)
	if m.chance(0.1) {
		m.now = m.now.Add(time.Duration(m.random.IntN(30)) * time.Minute)
	}
	return true
}

func (m *model) watchDelivers() bool {
	p := pick(m, m.processes)
	for kind := range modelKinds {
		for p.cache[kind].at < m.cluster.seen(kind) && m.chance(0.7) {
			p.catchUp(kind)
		}
	}
	return true
}

func (m *model) outageBegins() bool {
	if m.profile.faults == 0 || m.outage || m.settling {
		return false
	}
	m.note("all calls fail from now on")
	m.outage = true
	return true
}

func (m *model) outageEnds() bool {
	if !m.outage {
		return false
	}
	m.note("calls get through again")
	m.outage = false
	return true
}
