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

package world

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is a kind that is watched.
type kind struct {
	// name is the name in messages, and resource is that in rules.
	name     string
	resource schema.GroupResource
	// fields limits the objects. It may be nil.
	fields fields.Selector
	list   func() client.ObjectList
	store  interface {
		in(namespace string) objectStore
	}
	// optional kinds may be missing from the cluster.
	optional bool
}

// feed watches a kind in one namespace, or in all of them.
type feed struct {
	*kind
	namespace string
	kube      client.WithWatch
	health    *health

	once   sync.Once
	synced chan struct{}
	cancel context.CancelFunc
}

// patience is the longest time between two attempts to reach an API server that does not answer.
const patience = 2 * time.Second

// run watches until the context ends, or the user may not any more.
func (f *feed) run(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer f.cancel()
	objects := f.store.in(f.namespace)
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: f.listObjects, WatchFuncWithContext: f.watchObjects}, f.kube),
		nil, syncing{objects, f.arrived},
		cache.ReflectorOptions{
			Name: f.name, TypeDescription: f.name, Logger: new(klog.Logger),
			Backoff: &wait.Backoff{Duration: patience / 8, Factor: 2, Cap: patience, Steps: 4, Jitter: 0.2},
		})
	reflector.RunWithContext(ctx)
	if f.health.isDenied(f) {
		_ = objects.Replace(nil, "") // an empty list has no objects that can't be read
	}
	f.arrived()
}

// arrived reports that the objects are known, or can't be.
func (f *feed) arrived() { f.once.Do(func() { close(f.synced) }) }

func (f *feed) options(options *metav1.ListOptions) *client.ListOptions {
	return &client.ListOptions{Namespace: f.namespace, FieldSelector: f.fields, Raw: options}
}

func (f *feed) listObjects(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	objects := f.kind.list()
	err := f.kube.List(ctx, objects, f.options(&options))
	f.report(ctx, err)
	return objects, err
}

func (f *feed) watchObjects(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	watching, err := f.kube.Watch(ctx, f.kind.list(), f.options(&options))
	f.report(ctx, err)
	return watching, err
}

// report tells whether a request succeeded. A denied feed ends.
func (f *feed) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err):
		f.health.works(f)
	case apierrors.IsForbidden(err):
		f.health.deny(f)
		f.cancel()
	default:
		f.health.fails(f, err)
	}
}

// syncing is a store that reports its first objects.
type syncing struct {
	objectStore
	arrived func()
}

func (s syncing) Replace(objects []any, version string) error {
	defer s.arrived()
	return s.objectStore.Replace(objects, version)
}
