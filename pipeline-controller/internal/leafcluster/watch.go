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

package leafcluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

const (
	// gatherTime is how long Pipelines wait for further news of a cluster: when one is connected, there is news of all targets in it at once.
	gatherTime = 100 * time.Millisecond
	// flickerTime is longer than Flux's controllers take, as a rule, to look at an application that hasn't changed.
	flickerTime = 5 * time.Second
)

// enqueue has a Pipeline be reconciled after a while. It may be called while any lock is held.
type enqueue func(pipeline types.NamespacedName, after time.Duration)

// watchKey identifies a watch within a cluster: of a kind, as Pipelines name it, in a namespace, with the expression that finds revisions, if
// there is one. On the management cluster the namespace is empty, unless the controller is confined to one or there is an expression.
type watchKey struct {
	kind      schema.GroupVersionKind
	namespace string
	expr      string
}

// subscriber is a Pipeline that wants to know of an object, by one of the names that the cluster has.
type subscriber struct {
	cluster  kubeconfig.Reference
	pipeline types.NamespacedName
}

// watch knows the states of the objects of a kind in a namespace of a cluster, and for how long they hold. It follows the objects while it
// runs, which it does for as long as the cluster is connected, and remembers their states beyond that.
type watch struct {
	key     watchKey
	server  *server
	enqueue enqueue

	mu sync.RWMutex
	// subscribers has, by the object, who is told of its changes. Guarded by mu.
	subscribers map[types.NamespacedName]map[subscriber]struct{}
	// states are those of all objects there. Guarded by mu.
	states map[types.NamespacedName]application.State
	// missing has since when a wanted object is known not to exist. Guarded by mu.
	missing map[types.NamespacedName]time.Time
	// started is when the session began, or the watch in it, and synced whether it has listed since then. Guarded by mu.
	started time.Time
	synced  bool
	// failing is why the objects can't be listed or watched now; nil if they can. Guarded by mu.
	failing *failure
	// failingSince is from when on they could not, for whatever reason. Guarded by mu.
	failingSince time.Time
	// notified is the reason for which the states are known not to hold any more, and the Pipelines were told. Guarded by mu.
	notified string
}

func newWatch(key watchKey, server *server, enqueue enqueue) *watch {
	w := &watch{key: key, server: server, enqueue: enqueue, subscribers: map[types.NamespacedName]map[subscriber]struct{}{}}
	w.restart()
	return w
}

// restart has the states not hold any more until they are listed anew.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started, w.synced, w.failing, w.notified = time.Now(), false, nil, pipelinesv1.ConnectingReason
}

// subscribe has a subscriber be told of the changes of an object.
func (w *watch) subscribe(object types.NamespacedName, s subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subscribers[object] == nil {
		w.subscribers[object] = map[subscriber]struct{}{}
	}
	w.subscribers[object][s] = struct{}{}
}

// unsubscribe ends that, and returns of how many objects others are told.
func (w *watch) unsubscribe(object types.NamespacedName, s subscriber) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subscribers[object], s)
	if len(w.subscribers[object]) == 0 {
		delete(w.subscribers, object)
	}
	return len(w.subscribers)
}

// read returns the state of an object. It is told apart whether there is no such object or whether that isn't known.
func (w *watch) read(name types.NamespacedName) application.State {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing := w.failureLocked(now); failing != nil {
		return failing.state()
	}
	if !w.synced {
		return application.UnknownBecause(pipelinesv1.ConnectingReason, "waiting for the initial list of "+w.key.kind.Kind, w.started)
	}
	if state, ok := w.states[name]; ok {
		return state
	}
	if w.missing == nil {
		w.missing = map[types.NamespacedName]time.Time{}
	}
	if _, ok := w.missing[name]; !ok {
		w.missing[name] = now
	}
	return application.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "it does not exist", w.missing[name])
}

// begun reports whether the watch has begun, or has had the time to.
func (w *watch) begun() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.synced || time.Since(w.started) > w.server.timing.Grace
}

func (w *watch) objects() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.states)
}

// admit refuses an object that is one too many.
func (w *watch) admit(name types.NamespacedName) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if _, known := w.states[name]; !known && w.server.isLeaf() && len(w.states) >= maxObjects {
		return apireader.ErrTooMany
	}
	return nil
}

// failed notes that the objects can't be listed or watched. What is known of them holds for a while longer.
func (w *watch) failed(ctx context.Context, to string, err error) {
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	why := w.server.failedTo(to, w.key, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing == nil {
		w.failingSince = now
	}
	w.failing = why.at(w.failing, now)
	w.checkLocked(now)
}

// unwatched notes that nothing is heard of changes until a new watch has begun, which may take many pages of a list.
func (w *watch) unwatched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced && w.failing == nil {
		now := time.Now()
		w.failing, w.failingSince = failureOf(w.server.address, context.DeadlineExceeded).at(nil, now), now
	}
}

// recovered notes that changes are heard of again.
func (w *watch) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = nil
	w.checkLocked(time.Now())
}

// check tells the Pipelines if what is known of the objects has become too old.
func (w *watch) check(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkLocked(now)
}

// checkLocked tells the Pipelines if the states have come to hold or not to hold, or don't hold for another reason.
func (w *watch) checkLocked(now time.Time) {
	why := ""
	if failing := w.failureLocked(now); failing != nil {
		why = failing.reason
	} else if !w.synced {
		why = pipelinesv1.ConnectingReason
	}
	if why != w.notified {
		w.notified = why
		w.notifyLocked()
	}
}

// failureLocked returns why the states don't hold; nil if they do, or if nothing has failed yet.
func (w *watch) failureLocked(now time.Time) *failure {
	if w.failing == nil || w.synced && now.Sub(w.failingSince) < w.server.timing.Grace {
		return nil
	}
	return w.failing
}

// notify queues all Pipelines that are subscribed.
func (w *watch) notify() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.notifyLocked()
}

func (w *watch) notifyLocked() {
	for _, subscribers := range w.subscribers {
		for s := range subscribers {
			w.enqueue(s.pipeline, gatherTime)
		}
	}
}

// changedLocked queues the Pipelines that are subscribed to an object. Flux's controllers make an application Unknown at each interval, and
// ready again a moment later: if that is all, the Pipelines are left alone for that moment.
func (w *watch) changedLocked(name types.NamespacedName, before, now application.State) {
	after := time.Duration(0)
	if before.Ready && now.Reconciling && before.Revision == now.Revision {
		after = flickerTime
	}
	for s := range w.subscribers[name] {
		w.enqueue(s.pipeline, after)
	}
}

// set takes an object that is new or has changed.
func (w *watch) set(object *application.Object) {
	name, now := object.Key(), w.kept(object)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.states[name]
	w.states[name] = now
	delete(w.missing, name)
	if !known || before != now {
		w.changedLocked(name, before, now)
	}
}

// remove takes an object that is gone.
func (w *watch) remove(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.states[name]; known {
		delete(w.states, name)
		w.changedLocked(name, application.State{}, application.State{})
	}
}

// replace takes all objects that there are.
func (w *watch) replace(objects []*application.Object) {
	states := make(map[types.NamespacedName]application.State, len(objects))
	for _, object := range objects {
		states[object.Key()] = w.kept(object)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.states
	// What kept the objects from being watched may do so still.
	w.states, w.synced = states, true
	for name := range states {
		delete(w.missing, name)
	}
	w.checkLocked(time.Now())
	for name, now := range states {
		if was, known := before[name]; !known || was != now {
			w.changedLocked(name, was, now)
		}
	}
	for name := range before {
		if _, still := states[name]; !still {
			w.changedLocked(name, application.State{}, application.State{})
		}
	}
}

// kept returns what is remembered of an object.
func (w *watch) kept(object *application.Object) application.State {
	state := object.State
	if w.server.isLeaf() {
		state.Object = corev1.ObjectReference{}
	}
	return state
}
