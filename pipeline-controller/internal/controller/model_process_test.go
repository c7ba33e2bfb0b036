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
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
	"github.com/sluice-toolkit/sluice/runtime/announce"
	"github.com/sluice-toolkit/sluice/runtime/ownwrites"
)

// verdict is the outcome of a call to the API server or to a host.
type verdict int

const (
	// proceed makes the call.
	proceed verdict = iota
	// refuse fails the call before anything is done.
	refuse
	// limit fails a call to a host, and all later ones for a while.
	limit
	// lost makes the call, and loses the response.
	lost
	// die makes the call, and kills the process before it receives the response.
	die
)

func (v verdict) String() string {
	return [...]string{proceed: "", refuse: ", refused", limit: ", rate limited", lost: ", answer lost", die: ", dies of it"}[v]
}

// process is a replica of the controller. A reconcile runs as a coroutine that stops before each external call. The
// model decides when it continues, what the outcome of the call is, and what happens before that.
type process struct {
	model *model
	name  string
	// skew is how far its clock is ahead.
	skew       time.Duration
	reconciler *PipelineReconciler
	cache      *modelCache
	// due is when the Pipeline is next taken from the queue. It is zero if the Pipeline is not queued.
	due time.Time

	next  func() (string, bool)
	stop  func()
	yield func(string) bool
	// standsBefore is the next call of the reconcile. It is empty if none runs.
	standsBefore string
	verdict      verdict
	result       ctrl.Result
	err          error
	died         bool

	// observing is true from the start of an observation to the write of the status that is planned from it.
	observing bool
	// reads are the observed targets.
	reads map[string]application.State
	// approvalsSeen are the observed approvals.
	approvalsSeen map[types.UID]bool
	// claim is the last successful claim, while its action is in progress.
	claim *modelClaim
	// overtaken is true if another process has acted since that.
	overtaken bool
	// hasConfirmed is true once the action was confirmed.
	hasConfirmed bool
	// unrecorded is an accepted event whose promotion has not been recorded as ended yet.
	unrecorded *modelEvent
}

// modelClaim is the Pipeline after a claim, and the targets that the claim was planned from.
type modelClaim struct {
	pipeline *pipelinesv1.Pipeline
	id       promotionID
	reads    map[string]application.State
}

// errDied unwinds a process that dies.
var errDied = errors.New("died")

func newProcess(m *model, name string) *process {
	p := &process{model: m, name: name}
	p.reconciler = &PipelineReconciler{
		Client: modelClient{process: p}, Live: modelReader{process: p}, Targets: modelTargets{p},
		PullRequests: modelPullRequests{p}, Notifications: modelNotifications{p},
		Announcer: announce.To(m.cluster.scheme, &record.FakeRecorder{}, &record.FakeRecorder{}), NoCrossNamespaceRefs: true,
		Now: func() time.Time { return m.now.Add(p.skew) }, Actions: modelPool{p}, Polls: modelPool{p},
		HTTPApprover: func(context.Context) (string, error) { return modelController, nil },
	}
	p.restart()
	return p
}

// modelPool runs a task as part of the reconcile that submits it, or queues it.
type modelPool struct{ *process }

func (p modelPool) Do(task workpool.Task) bool {
	m := p.model
	if !m.settling && m.chance(0.1) {
		m.count("tasks that wait for their turn")
		p.queue(time.Duration(m.random.IntN(60)) * time.Second)
		return false
	}
	p.queue(task.Run(logr.NewContext(context.Background(), logr.Discard())))
	return true
}

func (modelPool) Running(string) bool { return false }
func (modelPool) Cancel(string)       {}

func (p modelPool) Waited(string) time.Duration {
	return time.Duration(p.model.random.IntN(2)) * queuePatience
}

// restart starts with a new cache, and queues every Pipeline.
func (p *process) restart() {
	m := p.model
	p.cache = newModelCache(m.cluster, func(modelKind) int {
		if m.profile.stale && !m.settling && m.chance(0.5) {
			return m.random.IntN(4)
		}
		return 0
	})
	p.skew = time.Duration(m.random.IntN(5)-2) * m.profile.skew
	p.due = m.now
	p.reconciler.polls = polls{}
	p.reconciler.own = ownwrites.Log{}
	p.forget()
	p.unrecorded = nil
}

// forget ends the claim.
func (p *process) forget() {
	p.claim, p.overtaken, p.hasConfirmed, p.observing = nil, false, false, false
}

// running reports whether a reconcile is in progress.
func (p *process) running() bool { return p.standsBefore != "" }

// begin starts a reconcile and lets it run up to its first call.
func (p *process) begin() {
	p.due = time.Time{}
	p.died = false
	p.next, p.stop = iter.Pull(p.reconcile)
	p.model.count("reconciles")
	p.resume(proceed)
}

func (p *process) reconcile(yield func(string) bool) {
	defer func() {
		if reason := recover(); reason != nil && reason != errDied {
			panic(reason)
		} else if reason == errDied {
			p.died = true
		}
	}()
	p.yield = yield
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	p.result, p.err = p.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: modelPipeline})
}

// resume runs the reconcile up to its next call.
func (p *process) resume(v verdict) {
	p.verdict = v
	call, more := p.next()
	if more {
		p.standsBefore = call
		return
	}
	p.standsBefore = ""
	if p.died {
		p.perish()
		return
	}
	p.finish()
}

// kill ends the process before the next call of its reconcile.
func (p *process) kill() {
	if p.running() {
		p.stop()
		p.standsBefore = ""
	}
	p.perish()
}

func (p *process) perish() {
	p.model.count("crashes")
	p.unheard()
	p.restart()
}

// unheard notes that the process that posted an accepted event will never record it.
func (p *process) unheard() {
	if p.unrecorded != nil {
		p.unrecorded.unheard = true
		p.unrecorded = nil
	}
}

// finish puts the Pipeline back into the queue as controller-runtime does.
func (p *process) finish() {
	if p.unrecorded != nil && p.model.nothingIsLost() {
		p.model.fail("%s has notified, and did not record it", p.name)
	}
	p.forget()
	p.unheard()
	switch {
	case p.err != nil:
		p.model.note("%s: failed: %s", p.name, p.err)
		p.model.count("reconciles that failed")
		p.queue(time.Second)
	case p.result.RequeueAfter > 0:
		p.model.note("%s: done, again after %s", p.name, p.result.RequeueAfter)
		p.queue(p.result.RequeueAfter)
	default:
		p.model.note("%s: done", p.name)
	}
}

func (p *process) queue(after time.Duration) {
	if at := p.model.now.Add(after); p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

// call stops before a call until the model has decided on a verdict.
func (p *process) call(what string) verdict {
	if !p.yield(what) {
		panic(errDied)
	}
	return p.verdict
}

// api makes a call to the API server.
func (p *process) api(what string, do func() error) error {
	switch p.call(what) {
	case refuse, limit:
		return apierrors.NewServiceUnavailable("the API server is not available")
	case lost:
		_ = do() // nobody will know
		return apierrors.NewTimeoutError("the answer was lost", 1)
	case die:
		_ = do() // nobody will know
		panic(errDied)
	}
	err := do()
	if apierrors.IsConflict(err) {
		p.model.count("conflicts")
	}
	return err
}

// onHost makes a call to the Git host or to notification-controller.
func (p *process) onHost(what string, do func()) error {
	m := p.model
	v := p.call(what)
	if v == limit {
		m.host.limitedUntil = m.now.Add(time.Duration(1+m.random.IntN(600)) * time.Second)
		m.count("rate limits")
	}
	switch {
	case m.now.Before(m.host.limitedUntil):
		return &rateLimited{m.host.limitedUntil}
	case v == refuse:
		return errors.New("connection refused")
	}
	do()
	switch v {
	case lost:
		return errors.New("the connection was lost")
	case die:
		panic(errDied)
	}
	return nil
}

// pollError is the error of a poll. It depends on the step and the environment, not on the number of previous polls.
func (p *process) pollError(environment string) error {
	m := p.model
	hash := fnv.New64a()
	fmt.Fprint(hash, m.seed, m.steps, environment)
	switch {
	case m.now.Before(m.host.limitedUntil):
		return &rateLimited{m.host.limitedUntil}
	case !m.settling && float64(hash.Sum64())/math.MaxUint64 < m.faults():
		return errors.New("bad gateway")
	}
	return nil
}

// confirmed calls confirm, and checks the result.
func (p *process) confirmed(ctx context.Context, confirm promote.Confirm) (string, error) {
	before := p.model.mayGoAhead(p.claim)
	why, err := confirm(ctx)
	switch {
	case err != nil:
	case why != "":
		p.model.count("actions called off")
	default:
		p.model.checkConfirmed(p, before, p.model.mayGoAhead(p.claim))
		p.hasConfirmed = true
	}
	return why, err
}

// startObserving starts a new observation.
func (p *process) startObserving() {
	if !p.observing {
		p.forget()
		p.observing = true
		p.reads = map[string]application.State{}
	}
	p.approvalsSeen = map[types.UID]bool{}
	for _, approval := range approvalsIn(p.cache[approvalObjects].objects) {
		p.approvalsSeen[approval.UID] = true
	}
}

// catchUpABit delivers some pending changes of a kind to the cache, or all of them if caches are not stale.
func (p *process) catchUpABit(kind modelKind) {
	m := p.model
	behind := m.cluster.seen(kind) - p.cache[kind].at
	if m.profile.stale && !m.settling {
		if m.chance(0.6) {
			return
		}
		behind = m.random.IntN(behind + 1)
	}
	for range behind {
		p.catchUp(kind)
	}
}

// catchUp delivers the next change of a kind to the cache. The Pipeline is queued if the controller watches the change.
func (p *process) catchUp(kind modelKind) {
	name, before, after := p.cache.take(p.model.cluster, kind)
	if passes(kind, before, after) && p.cache.concerns(kind, name) {
		p.queue(0)
	}
}

// catchUpEntirely delivers all changes to the cache.
func (p *process) catchUpEntirely() {
	for kind := range modelKinds {
		for p.cache[kind].at < p.model.cluster.seen(kind) {
			p.catchUp(kind)
		}
	}
}
