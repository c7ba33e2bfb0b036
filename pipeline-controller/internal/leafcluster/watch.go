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
	"slices"
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
	// gatherTime delays reconciles to gather changes of a cluster: when it connects, the states of all its targets
	// change at once.
	gatherTime = 100 * time.Millisecond
	// flickerTime is how long an application still counts as ready after its Ready condition has become Unknown. It is
	// longer than Flux's controllers usually need to reconcile an unchanged application.
	flickerTime = 5 * time.Second
)

// enqueue queues a Pipeline after a delay. It may be called while any lock is held.
type enqueue func(pipeline types.NamespacedName, after time.Duration)

// watchKey identifies a watch within a cluster: the kind as in Pipelines, the namespace, and the expression for
// revisions, if there is one. In the management cluster the namespace is empty, unless the controller is confined to
// one or there is an expression.
type watchKey struct {
	kind      schema.GroupVersionKind
	namespace string
	expr      string
}

// subscriber is a Pipeline that subscribes to an object, by one of the names of its cluster.
type subscriber struct {
	cluster  kubeconfig.Reference
	pipeline types.NamespacedName
}

// watch keeps the states of the objects of a kind in a namespace of a cluster, and how long they are valid. It watches
// the objects while the cluster is connected, and keeps their states when it is not.
type watch struct {
	key     watchKey
	server  *server
	enqueue enqueue

	mu sync.RWMutex
	// subscribers of each object. Nearly all have one, for which a map would take ten times the memory. Guarded by mu.
	subscribers map[types.NamespacedName][]subscriber
	// states of all objects in the namespace. Guarded by mu.
	states map[types.NamespacedName]application.State
	// flickering contains the times until which objects that are being reconciled still count as ready. Guarded by mu.
	flickering map[types.NamespacedName]time.Time
	// missing contains the times from which wanted objects are known not to exist. Guarded by mu.
	missing map[types.NamespacedName]time.Time
	// started is the start of the session, or of the watch in it. synced is true once it has listed. Guarded by mu.
	started time.Time
	synced  bool
	// failing is the current failure to list or watch, or nil. Guarded by mu.
	failing *failure
	// failingSince is the start of the failures, whatever their reasons. Guarded by mu.
	failingSince time.Time
	// notified is the reason why the states are no longer valid, as reported to the Pipelines. Guarded by mu.
	notified string
}

func newWatch(key watchKey, server *server, enqueue enqueue) *watch {
	w := &watch{key: key, server: server, enqueue: enqueue, subscribers: map[types.NamespacedName][]subscriber{},
		states: map[types.NamespacedName]application.State{}, flickering: map[types.NamespacedName]time.Time{}}
	w.restart()
	return w
}

// restart marks the states as invalid until they are listed again.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started, w.synced, w.failing, w.notified = time.Now(), false, nil, pipelinesv1.ConnectingReason
}

// subscribe subscribes to an object.
func (w *watch) subscribe(object types.NamespacedName, s subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.subscribers[object], s) {
		w.subscribers[object] = append(w.subscribers[object], s)
	}
}

// unsubscribe removes a subscriber, and returns the number of objects with other subscribers.
func (w *watch) unsubscribe(object types.NamespacedName, s subscriber) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribers[object] = slices.DeleteFunc(w.subscribers[object], func(other subscriber) bool { return other == s })
	if len(w.subscribers[object]) == 0 {
		delete(w.subscribers, object)
	}
	return len(w.subscribers)
}

// read returns the state of an object. It distinguishes objects that do not exist from unknown ones.
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
	if state, ok := w.shownLocked(name, now); ok {
		return state
	}
	if w.missing == nil {
		w.missing = map[types.NamespacedName]time.Time{}
	}
	if _, ok := w.missing[name]; !ok {
		w.missing[name] = now
	}
	return application.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "not found", w.missing[name])
}

// begun reports whether the watch has started, or has had enough time to start.
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

// admit returns an error if there are too many objects.
func (w *watch) admit(name types.NamespacedName) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if _, known := w.states[name]; !known && w.server.isLeaf() && len(w.states) >= maxObjects {
		return apireader.ErrTooMany
	}
	return nil
}

// failed records a failure to list or watch. The states remain valid for the time of grace.
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

// unwatched records that no changes are received until a new watch starts, which may take many pages of a list.
func (w *watch) unwatched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced && w.failing == nil {
		now := time.Now()
		w.failing, w.failingSince = failureOf(w.server.address, context.DeadlineExceeded).at(nil, now), now
	}
}

// recovered records that changes are received again.
func (w *watch) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = nil
	w.checkLocked(time.Now())
}

// check notifies the Pipelines if the states have become too old.
func (w *watch) check(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkLocked(now)
}

// checkLocked notifies the Pipelines if the states have become valid or invalid, or are invalid for another reason.
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

// failureLocked returns why the states are invalid. It is nil if they are valid, or if there was no failure yet.
func (w *watch) failureLocked(now time.Time) *failure {
	if w.failing == nil || w.synced && now.Sub(w.failingSince) < w.server.timing.Grace {
		return nil
	}
	return w.failing
}

// notify queues all subscribed Pipelines.
func (w *watch) notify() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.notifyLocked()
}

func (w *watch) notifyLocked() {
	for _, subscribers := range w.subscribers {
		for _, s := range subscribers {
			w.enqueue(s.pipeline, gatherTime)
		}
	}
}

// changedLocked queues the Pipelines that are subscribed to an object.
func (w *watch) changedLocked(name types.NamespacedName, after time.Duration) {
	for _, s := range w.subscribers[name] {
		w.enqueue(s.pipeline, after)
	}
}

// shownLocked returns the state of an object that counts now, if the object exists.
func (w *watch) shownLocked(name types.NamespacedName, now time.Time) (application.State, bool) {
	state, known := w.states[name]
	if now.Before(w.flickering[name]) {
		state.Ready, state.Reconciling, state.Message = true, false, ""
	}
	return state, known
}

// setLocked stores an object that is new or has changed. Flux's controllers set the Ready condition of an application
// to Unknown at each interval, and to True again a moment later. For flickerTime, that is no change.
func (w *watch) setLocked(name types.NamespacedName, state application.State, now time.Time) {
	before, known := w.shownLocked(name, now)
	w.states[name] = state
	delete(w.missing, name)
	if !state.Reconciling || before.Revision != state.Revision {
		delete(w.flickering, name)
	} else if before.Ready && w.flickering[name].IsZero() {
		w.flickering[name] = now.Add(flickerTime)
		w.changedLocked(name, flickerTime)
	}
	if after, _ := w.shownLocked(name, now); !known || before != after {
		w.changedLocked(name, 0)
	}
}

// removeLocked removes a deleted object.
func (w *watch) removeLocked(name types.NamespacedName) {
	if _, known := w.states[name]; known {
		delete(w.states, name)
		delete(w.flickering, name)
		w.changedLocked(name, 0)
	}
}

// set stores an object that is new or has changed.
func (w *watch) set(object *application.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setLocked(object.Key(), w.kept(object), time.Now())
}

// remove removes a deleted object.
func (w *watch) remove(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(name)
}

// replace stores all existing objects.
func (w *watch) replace(objects []*application.Object) {
	states := make(map[types.NamespacedName]application.State, len(objects))
	for _, object := range objects {
		states[object.Key()] = w.kept(object)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	// The cause that prevented the watch may persist.
	w.synced = true
	w.checkLocked(now)
	for name := range w.states {
		if _, still := states[name]; !still {
			w.removeLocked(name)
		}
	}
	for name, state := range states {
		w.setLocked(name, state, now)
	}
}

// kept returns the state of an object in memory.
func (w *watch) kept(object *application.Object) application.State {
	state := object.State
	if w.server.isLeaf() {
		state.Object = corev1.ObjectReference{}
	}
	return state
}
