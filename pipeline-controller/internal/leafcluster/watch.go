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
	"errors"
	"math"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

const (
	// pageSize is how many objects are asked for at once.
	pageSize = 100
	// maxObjects bounds what a leaf cluster can have the controller remember of one namespace.
	maxObjects = 10000
	// listsAtOnce bounds the lists of one API server that are under way at the same time.
	listsAtOnce = 2
	// beginPatience is how many times the time of grace the answer to a watch may take to begin.
	beginPatience = 3
	// flickerPatience is longer than Flux's controllers take, as a rule, to look at an application that hasn't changed.
	flickerPatience = 5 * time.Second
)

// watchKey identifies a watch within a cluster: of a kind, as Pipelines name it, in a namespace. On the management cluster the
// namespace is empty, unless the controller is confined to one.
type watchKey struct {
	kind      schema.GroupVersionKind
	namespace string
}

// watch follows the objects of a kind in a namespace of a cluster for as long as the cluster is connected, and remembers their states
// beyond that.
type watch struct {
	key        watchKey
	connection *connection

	// users are the clusters for which there are wishes for it. Guarded by Clusters.mu.
	users map[*cluster]struct{}
	// stop ends run; nil while it doesn't run. Guarded by Clusters.mu.
	stop context.CancelFunc

	mu sync.RWMutex
	// states are those of all objects there. Guarded by mu.
	states map[types.NamespacedName]target.State
	// missing tells since when a wanted object is known not to exist. Guarded by mu.
	missing map[types.NamespacedName]time.Time
	// started is when the session began, or the watch in it, and synced whether it has listed since then. Guarded by mu.
	started time.Time
	synced  bool
	// failing is why the objects can't be listed or watched now; nil if they can. Guarded by mu.
	failing *failure
	// failingSince is from when on they could not, for whatever reason. Guarded by mu.
	failingSince time.Time
	// told is the reason for which the states are known not to hold any more, and the Pipelines were told. Guarded by mu.
	told string
}

func newWatch(key watchKey, connection *connection) *watch {
	w := &watch{key: key, connection: connection, users: map[*cluster]struct{}{}}
	w.restart()
	return w
}

// restart has the states not hold any more until they are listed anew.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started, w.synced, w.failing, w.told = time.Now(), false, nil, pipelinesv1.ConnectingReason
}

// run lists and watches until the context ends.
func (w *watch) run(ctx context.Context) {
	// Whatever goes wrong is told in the status of the Pipelines concerned. The reflector would log it each time.
	ctx = klog.NewContext(ctx, logr.Discard())
	timing := w.connection.timing()
	delay := wait.Backoff{
		Duration: timing.BackoffMin, Cap: timing.BackoffMax, Factor: 2, Jitter: 1, Steps: 10,
	}.DelayWithReset(clock.RealClock{}, 2*time.Minute)
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		w.follow(ctx, timing)
		return false, nil
	})
}

// follow lists and watches until that fails, or the server has forgotten where the watch stood.
func (w *watch) follow(ctx context.Context, timing Timing) {
	found, err := w.connection.kinds.resource(ctx, w.key.kind)
	if err != nil {
		w.failed(ctx, "look up", err)
		return
	}
	logger := logr.Discard()
	reflector := cache.NewReflectorWithOptions(&listerWatcher{watch: w, resource: found}, nil, w, cache.ReflectorOptions{
		Name: found.String(), Logger: &logger,
		Backoff: &wait.Backoff{Duration: timing.BackoffMin, Cap: timing.BackoffMax, Factor: 2, Jitter: 1, Steps: 10},
	})
	reflector.WatchListPageSize = pageSize
	// Errors have been noted where they arose.
	_ = reflector.ListAndWatchWithContext(ctx)
}

// listerWatcher is what the reflector lists and watches with.
type listerWatcher struct {
	*watch
	resource resource
	// listed counts the objects of the list under way.
	listed int
}

var _ cache.ListerWatcherWithContext = &listerWatcher{}

// IsWatchListSemanticsUnSupported has the reflector list in pages and then watch: that can be bounded, and is the same with servers of
// all versions.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// List is not called by the reflector.
func (l *listerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch is not called by the reflector.
func (l *listerWatcher) Watch(options metav1.ListOptions) (apiwatch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext reads a page.
func (l *listerWatcher) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	l.unwatched()
	select {
	case l.connection.lists <- struct{}{}:
		defer func() { <-l.connection.lists }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := l.page(ctx, options)
	if err != nil {
		// What was begun may expire, and is begun anew.
		if options.Continue == "" || !apierrors.IsResourceExpired(err) {
			l.failed(ctx, "list", err)
		}
		return nil, err
	}
	return list, nil
}

// page reads a page of the newest state. The reflector's resourceVersion is left out: with its "0", a server that lags behind may go back
// in time, and a revision with it.
func (l *listerWatcher) page(ctx context.Context, options metav1.ListOptions) (*observedList, error) {
	query := url.Values{}
	if options.Limit > 0 {
		query.Set("limit", strconv.FormatInt(options.Limit, 10))
	}
	if options.Continue != "" {
		query.Set("continue", options.Continue)
	} else {
		l.listed = 0
	}
	content, err := l.connection.api.read(ctx, l.resource.path(l.key.namespace), query, maxAnswer)
	if err != nil {
		return nil, err
	}
	most := math.MaxInt
	if l.connection.isLeaf() {
		most = maxObjects - l.listed
	}
	list, err := observeList(content, l.resource.kind, most)
	if err != nil {
		return nil, err
	}
	// A page counts, if it is empty, too: there might be no end to them.
	if l.listed += max(len(list.Items), 1); l.listed > maxObjects && l.connection.isLeaf() {
		return nil, errTooMany
	}
	return list, nil
}

// WatchWithContext opens a watch.
func (l *listerWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {options.ResourceVersion}}
	patience := 10 * time.Minute
	if options.TimeoutSeconds != nil {
		query.Set("timeoutSeconds", strconv.FormatInt(*options.TimeoutSeconds, 10))
		patience = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	// It is the server that ends the watch. Should the server be gone without a trace, this does.
	watching, cancel := context.WithTimeout(ctx, patience+requestTimeout)
	// Nothing is heard of changes before it has begun. Some proxies have it begin with the first event, and an API server sends one, if
	// only a bookmark, each minute.
	unanswered := time.AfterFunc(beginPatience*l.connection.timing().Grace, cancel)
	body, err := l.connection.api.get(watching, l.resource.path(l.key.namespace), query)
	if !unanswered.Stop() && err == nil {
		_ = body.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		if watching.Err() != nil {
			err = context.DeadlineExceeded
		}
		cancel()
		if !apierrors.IsResourceExpired(err) {
			l.failed(ctx, "watch", err)
		}
		return nil, err
	}
	l.recovered()
	return apiwatch.NewStreamWatcher(&eventDecoder{
		body: body, cancel: cancel, kind: l.resource.kind, admit: l.admit,
		failed: func(err error) { l.failed(ctx, "watch", err) },
	}, reporter{}), nil
}

// admit refuses an object that is one too many.
func (w *watch) admit(name types.NamespacedName) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if _, known := w.states[name]; !known && w.connection.isLeaf() && len(w.states) >= maxObjects {
		return errTooMany
	}
	return nil
}

// failed notes that the objects can't be listed or watched. What is known of them holds for a while longer.
func (w *watch) failed(ctx context.Context, doing string, err error) {
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	why := w.failureOf(doing, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing == nil {
		w.failingSince = now
	}
	w.failing = why.at(w.failing, now)
	w.tellLocked(now)
}

// unwatched notes that nothing is heard of changes until a new watch has begun, which may take many pages of a list.
func (w *watch) unwatched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced && w.failing == nil {
		now := time.Now()
		w.failing, w.failingSince = failureOf(w.connection.server, context.DeadlineExceeded).at(nil, now), now
	}
}

func (w *watch) failureOf(doing string, err error) *failure {
	if expired := w.connection.expired(); expired != nil {
		return expired
	}
	server, kind := w.connection.server, w.key.kind
	where := "in namespace " + w.key.namespace
	if w.key.namespace == "" {
		where = "in all namespaces"
	}
	switch {
	case errors.Is(err, errNoKind), apierrors.IsNotFound(err):
		w.connection.kinds.forget(kind)
		return failed(pipelinesv1.KindNotInstalledReason, "the cluster has no kind %s in %s", kind.Kind, kind.GroupVersion())
	case apierrors.IsForbidden(err) && doing != "look up":
		return failed(pipelinesv1.ForbiddenReason, "%s may not %s objects of kind %s.%s %s", w.connection.who, doing, kind.Kind, kind.Group, where)
	case errors.Is(err, errTooMany):
		return failed(pipelinesv1.InvalidTargetReason, "there are more than %d objects of kind %s.%s %s", maxObjects, kind.Kind, kind.Group, where)
	}
	return failureOf(server, err)
}

var errTooMany = errors.New("there are too many objects")

func (w *watch) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = nil
	w.tellLocked(time.Now())
}

// check tells the Pipelines if what is known of the objects has become too old.
func (w *watch) check(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked(now)
}

// tellLocked has the Pipelines look if the states have come to hold or not to hold, or don't hold for another reason.
func (w *watch) tellLocked(now time.Time) {
	why := ""
	if failing := w.failureLocked(now); failing != nil {
		why = failing.reason
	} else if !w.synced {
		why = pipelinesv1.ConnectingReason
	}
	if why != w.told {
		w.told = why
		w.connection.clusters.tellWatch(w)
	}
}

// failureLocked returns why the states don't hold; nil if they do, or if nothing has failed yet.
func (w *watch) failureLocked(now time.Time) *failure {
	if w.failing == nil || w.synced && now.Sub(w.failingSince) < w.connection.timing().Grace {
		return nil
	}
	return w.failing
}

// begun tells whether the watch has begun, or has had the time to.
func (w *watch) begun() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.synced || time.Since(w.started) > w.connection.timing().Grace
}

// read returns the state of an object. It is told apart whether there is no such object or whether that isn't known.
func (w *watch) read(name types.NamespacedName) target.State {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing := w.failureLocked(now); failing != nil {
		return failing.state()
	}
	if !w.synced {
		return target.UnknownBecause(pipelinesv1.ConnectingReason, "waiting for the first look at "+w.key.kind.Kind, w.started)
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
	return target.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "it does not exist", w.missing[name])
}

func (w *watch) objects() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.states)
}

// The reflector takes the watch for the store of what it finds.

// Add takes an object that is new.
func (w *watch) Add(obj any) error { return w.Update(obj) }

// Update takes an object that is new or has changed.
func (w *watch) Update(obj any) error {
	object := obj.(*observed)
	name, now := object.name(), w.keep(object)
	w.mu.Lock()
	before, known := w.states[name]
	w.states[name] = now
	delete(w.missing, name)
	w.mu.Unlock()
	if !known || before != now {
		w.tell(name, before, now)
	}
	return nil
}

// Delete takes an object that is gone.
func (w *watch) Delete(obj any) error {
	name := obj.(*observed).name()
	w.mu.Lock()
	_, known := w.states[name]
	delete(w.states, name)
	w.mu.Unlock()
	if known {
		w.tell(name, target.State{}, target.State{})
	}
	return nil
}

// Replace takes all objects that there are.
func (w *watch) Replace(objects []any, _ string) error {
	states := make(map[types.NamespacedName]target.State, len(objects))
	for _, obj := range objects {
		object := obj.(*observed)
		states[object.name()] = w.keep(object)
	}
	w.mu.Lock()
	before := w.states
	// What kept the objects from being watched may do so still.
	w.states, w.synced = states, true
	for name := range states {
		delete(w.missing, name)
	}
	w.tellLocked(time.Now())
	w.mu.Unlock()

	for name, now := range states {
		if was, known := before[name]; !known || was != now {
			w.tell(name, was, now)
		}
	}
	for name := range before {
		if _, still := states[name]; !still {
			w.tell(name, target.State{}, target.State{})
		}
	}
	return nil
}

// Resync is not called without a period for it.
func (w *watch) Resync() error { return nil }

// keep returns what is remembered of an object.
func (w *watch) keep(object *observed) target.State {
	state := object.state
	if w.connection.isLeaf() {
		state.Object = corev1.ObjectReference{}
	}
	return state
}

// tell queues the Pipelines of an object that has changed. Flux's controllers make an application Unknown at each interval, and ready
// again a moment later: if that is all, the Pipelines are left alone for that moment.
func (w *watch) tell(name types.NamespacedName, before, now target.State) {
	patience := time.Duration(0)
	if before.Ready && now.Reconciling && before.Revision == now.Revision {
		patience = flickerPatience
	}
	w.connection.clusters.tellObject(w, name, patience)
}
