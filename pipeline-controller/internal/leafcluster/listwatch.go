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
	"math"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

const (
	// pageSize is the number of objects in a page.
	pageSize = 100
	// maxObjects limits the objects of one namespace of a leaf cluster that the controller keeps in memory.
	maxObjects = 10000
)

// lookUp is the operation that fails if a kind is not found. Other operations have the names of RBAC verbs.
const lookUp = "look up"

// run lists and watches until the context is cancelled.
func (w *watch) run(ctx context.Context) {
	// Errors are reported in the status of the affected Pipelines. The reflector would log each of them.
	ctx = klog.NewContext(ctx, logr.Discard())
	delay := w.server.retries().DelayWithReset(clock.RealClock{}, 2*time.Minute)
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		w.follow(ctx)
		return false, nil
	})
}

// follow lists and watches until an error, or until the resourceVersion of the watch has expired.
func (w *watch) follow(ctx context.Context) {
	resource, err := w.server.Resource(ctx, w.key.kind)
	if err != nil {
		w.failed(ctx, lookUp, err)
		return
	}
	logger, backoff := logr.Discard(), w.server.retries()
	lw := &listerWatcher{watch: w, resource: resource, decoder: application.NewDecoder(resource.Kind, w.key.expr)}
	reflector := cache.NewReflectorWithOptions(lw, nil, store{w}, cache.ReflectorOptions{Name: resource.String(), Logger: &logger, Backoff: &backoff})
	reflector.WatchListPageSize = pageSize
	// Errors are handled where they occur.
	_ = reflector.ListAndWatchWithContext(ctx)
}

// listerWatcher lists and watches for the reflector.
type listerWatcher struct {
	watch    *watch
	resource apireader.Resource
	decoder  *application.Decoder
	// listed counts the objects of the current list.
	listed int
}

var _ cache.ListerWatcherWithContext = &listerWatcher{}

// IsWatchListSemanticsUnSupported makes the reflector list in pages and then watch. Pages can be limited, and servers
// of all versions support them.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// List is not called by the reflector.
func (l *listerWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch is not called by the reflector.
func (l *listerWatcher) Watch(options metav1.ListOptions) (apiwatch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext returns a page.
func (l *listerWatcher) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	l.watch.unwatched()
	lists := l.watch.server.lists
	select {
	case lists <- struct{}{}:
		defer func() { <-lists }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := l.page(ctx, options)
	if err != nil {
		// The continue token may expire. Then the list starts again.
		if options.Continue == "" || !apierrors.IsResourceExpired(err) {
			l.watch.failed(ctx, "list", err)
		}
		return nil, err
	}
	return list, nil
}

// page returns a page whose size respects the limit for the whole list.
func (l *listerWatcher) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		l.listed = 0
	}
	most := math.MaxInt
	if l.watch.server.isLeaf() {
		most = maxObjects - l.listed
	}
	list, err := l.watch.server.List(ctx, l.resource, l.watch.key.namespace, options, most, l.decode)
	if err != nil {
		return nil, err
	}
	// An empty page counts as one object. Otherwise a server could send an endless list of them.
	if l.listed += max(len(list.Items), 1); l.listed > maxObjects && l.watch.server.isLeaf() {
		return nil, apireader.ErrTooMany
	}
	return list, nil
}

func (l *listerWatcher) decode(raw []byte) (runtime.Object, error) { return l.decoder.Decode(raw) }

// WatchWithContext starts a watch.
func (l *listerWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	failed := func(err error) { l.watch.failed(ctx, "watch", err) }
	follower := apireader.Follower{Decode: l.decodeEvent, Failed: failed}
	opened, err := l.watch.server.Watch(ctx, l.resource, l.watch.key.namespace, options, l.watch.server.answerTime(), follower)
	if err != nil {
		if !apierrors.IsResourceExpired(err) {
			failed(err)
		}
		return nil, err
	}
	l.watch.recovered()
	return opened, nil
}

func (l *listerWatcher) decodeEvent(event apiwatch.EventType, raw []byte) (runtime.Object, error) {
	object, err := l.decoder.Decode(raw)
	if err != nil {
		return nil, err
	}
	if event == apiwatch.Added || event == apiwatch.Modified {
		if err := l.watch.admit(object.Key()); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// store is the reflector's store.
type store struct{ watch *watch }

var _ cache.ReflectorStore = store{}

func (s store) Add(obj any) error { return s.Update(obj) }

func (s store) Update(obj any) error {
	s.watch.set(obj.(*application.Object))
	return nil
}

func (s store) Delete(obj any) error {
	s.watch.remove(obj.(*application.Object).Key())
	return nil
}

func (s store) Replace(objects []any, _ string) error {
	all := make([]*application.Object, len(objects))
	for i, obj := range objects {
		all[i] = obj.(*application.Object)
	}
	s.watch.replace(all)
	return nil
}

// Resync is never called, since there is no resync period.
func (s store) Resync() error { return nil }
