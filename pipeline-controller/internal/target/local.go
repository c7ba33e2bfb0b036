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

package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	// readTimeout bounds a read from the API server that is made while a watch has yet to start.
	readTimeout = 5 * time.Second
	// syncPatience is how long a watch may take to start. Until then targets are read from the API server one by one; after
	// that something is wrong that would have changes of them go unnoticed.
	syncPatience = time.Minute
)

// Local reads targets in the cluster that the controller runs in, from one watch a kind.
type Local struct {
	// Cache holds the watches.
	Cache cache.Cache
	// Live reads past the cache.
	Live client.Reader
	// Mapper knows which kinds the cluster has.
	Mapper meta.RESTMapper
	// Watch is called once for each kind, so that changes of its objects are heard of.
	Watch func(kind schema.GroupVersionKind) error

	mu sync.Mutex
	// watched tells since when kinds are watched. Guarded by mu.
	watched map[schema.GroupVersionKind]time.Time
}

// Read returns the state of the application object in a namespace. It never waits for a watch to start: until then the object
// is read from the API server, which also tells what keeps the watch from starting.
func (l *Local) Read(ctx context.Context, app pipelinesv1.LocalAppReference, namespace string) State {
	kind, err := l.served(app)
	if err != nil {
		return Unknown(err.Error())
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	reader, err := l.reader(ctx, kind, obj)
	if err != nil {
		return Unknown(fmt.Sprintf("watching %s: %s", kind.Kind, err))
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: app.Name}, obj); {
	case apierrors.IsNotFound(err):
		return Unknown("it does not exist")
	case err != nil:
		return Unknown(err.Error())
	}
	return StateOf(obj)
}

// served returns the version of the kind that the cluster serves: the one that is asked for, or, when that is gone, the
// cluster's preferred one. Pipelines outlive the versions of HelmRelease that they were written for.
func (l *Local) served(app pipelinesv1.LocalAppReference) (schema.GroupVersionKind, error) {
	asked := schema.FromAPIVersionAndKind(app.APIVersion, app.Kind)
	if asked.Group == "" {
		// No such kind is an application. Secrets are one, which the controller could read and nobody should probe through it.
		return schema.GroupVersionKind{}, fmt.Errorf("kind %s in %s is not an application", app.Kind, app.APIVersion)
	}
	mapping, err := l.Mapper.RESTMapping(asked.GroupKind(), asked.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = l.Mapper.RESTMapping(asked.GroupKind())
	}
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionKind{}, fmt.Errorf("the cluster has no kind %s in %s", app.Kind, app.APIVersion)
	}
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return mapping.GroupVersionKind, nil
}

// reader returns the cache once it holds the kind, and the API server before that.
func (l *Local) reader(ctx context.Context, kind schema.GroupVersionKind, obj client.Object) (client.Reader, error) {
	since, err := l.ensureWatched(kind)
	if err != nil {
		return nil, err
	}
	informer, err := l.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	switch {
	case informer.HasSynced():
		return l.Cache, nil
	case time.Since(since) > syncPatience:
		return nil, errors.New("the watch does not start; may the controller get, list and watch this kind in all namespaces?")
	}
	return l.Live, nil
}

func (l *Local) ensureWatched(kind schema.GroupVersionKind) (since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, ok := l.watched[kind]; ok {
		return since, nil
	}
	if err := l.Watch(kind); err != nil {
		return time.Time{}, err
	}
	if l.watched == nil {
		l.watched = map[schema.GroupVersionKind]time.Time{}
	}
	l.watched[kind] = time.Now()
	return l.watched[kind], nil
}

// Trim is a cache transform that drops what weighs most in an application object and is never read here: the managed fields,
// the spec, the inventory of a Kustomization. Kinds that aren't read as unstructured objects are left alone.
func Trim(in any) (any, error) {
	if obj, ok := in.(*unstructured.Unstructured); ok {
		obj.SetManagedFields(nil)
		unstructured.RemoveNestedField(obj.Object, "spec")
		unstructured.RemoveNestedField(obj.Object, "status", "inventory")
	}
	return in, nil
}
