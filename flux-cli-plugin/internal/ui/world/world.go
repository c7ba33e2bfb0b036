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

// Package world watches everything that the page shows, with the rights of its user. It never reads a Secret.
package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/source"
)

// Options say what is watched.
type Options struct {
	Kube client.WithWatch
	// Namespaces are watched where all namespaces can't be.
	Namespaces []string
	Now        func() time.Time
}

// World is what the cluster has, as far as the user may see it.
type World struct {
	Options
	health    *health
	pipelines *store[*pipelinesv1.Pipeline]
	gates     *store[*gatingv1.Gate]
	passes    *store[*gatingv1.GatePass]
	// Each kind has a store of its own.
	sources []*store[source.Source]
	events  []*store[*corev1.Event]
	feeds   []*feed

	mu        sync.Mutex
	listeners map[chan struct{}]struct{}
}

// Start watches until the context ends. It returns when everything has been listed once, or when the context of the
// start ends.
func Start(ctx, starting context.Context, options Options) (*World, error) {
	w := newWorld(options)
	for _, kind := range w.kinds() {
		if err := w.feed(starting, kind); err != nil {
			return nil, err
		}
	}
	for _, f := range w.feeds {
		go f.run(ctx)
	}
	for _, f := range w.feeds {
		select {
		case <-f.synced:
		case <-starting.Done():
			return nil, fmt.Errorf("listing %s failed: %w", f.name, starting.Err())
		}
	}
	return w, nil
}

func newWorld(options Options) *World {
	w := &World{Options: options, listeners: map[chan struct{}]struct{}{}}
	w.health = &health{now: options.Now, changed: w.changed, failing: map[*feed]error{}}
	w.pipelines = storeOf[*pipelinesv1.Pipeline](w)
	w.gates = storeOf[*gatingv1.Gate](w)
	w.passes = storeOf[*gatingv1.GatePass](w)
	return w
}

// storeOf returns a store of whole objects.
func storeOf[T client.Object](w *World) *store[T] {
	return &store[T]{
		objects: map[client.ObjectKey]T{}, changed: w.changed,
		read: func(object runtime.Object) (T, bool) {
			typed, ok := object.(T)
			return typed, ok
		},
	}
}

func sourceOf(object runtime.Object) (source.Source, bool) {
	read, ok := object.(*unstructured.Unstructured)
	if !ok {
		return source.Source{}, false
	}
	found, gated, err := source.Of(read.GetKind(), read)
	found.ManagedFields = nil
	return found, gated && err == nil
}

// kinds returns everything that is watched.
func (w *World) kinds() []*kind {
	kinds := []*kind{
		{name: "Pipelines", resource: pipelinesv1.GroupVersion.WithResource("pipelines").GroupResource(), store: w.pipelines, list: func() client.ObjectList { return &pipelinesv1.PipelineList{} }},
		{name: "Gates", resource: gatingv1.GroupVersion.WithResource("gates").GroupResource(), store: w.gates, list: func() client.ObjectList { return &gatingv1.GateList{} }},
		{name: "GatePasses", resource: gatingv1.GroupVersion.WithResource("gatepasses").GroupResource(), store: w.passes, list: func() client.ObjectList { return &gatingv1.GatePassList{} }},
	}
	for _, involved := range []string{pipelinesv1.PipelineKind, gatingv1.GateKind} {
		events := storeOf[*corev1.Event](w)
		w.events = append(w.events, events)
		kinds = append(kinds, &kind{
			name: "events of " + involved + "s", resource: corev1.Resource("events"), store: events,
			fields: fields.OneTermEqualSelector("involvedObject.kind", involved), list: func() client.ObjectList { return &corev1.EventList{} },
		})
	}
	for _, held := range gatingv1.HeldKinds() {
		sources := &store[source.Source]{objects: map[client.ObjectKey]source.Source{}, changed: w.changed, read: sourceOf}
		w.sources = append(w.sources, sources)
		guessed, _ := apimeta.UnsafeGuessKindToResource(held)
		kinds = append(kinds, &kind{
			name: plural(held.Kind), resource: guessed.GroupResource(), store: sources, optional: true,
			list: func() client.ObjectList {
				list := &unstructured.UnstructuredList{}
				list.SetGroupVersionKind(schema.GroupVersionKind{Group: held.Group, Version: held.Version, Kind: held.Kind + "List"})
				return list
			},
		})
	}
	return kinds
}

func plural(kind string) string {
	if stem, found := strings.CutSuffix(kind, "y"); found {
		return stem + "ies"
	}
	return kind + "s"
}

// feed adds the feeds of a kind: one for all namespaces, or one for each namespace that may be listed.
func (w *World) feed(ctx context.Context, kind *kind) error {
	// A page of one is the cheapest question whether all may be listed.
	err := w.Kube.List(ctx, kind.list(), &client.ListOptions{Limit: 1, FieldSelector: kind.fields})
	switch {
	case err == nil:
		w.add(kind, "")
		return nil
	case apimeta.IsNoMatchError(err) && kind.optional:
		return nil
	case apimeta.IsNoMatchError(err):
		return fmt.Errorf("the cluster does not serve %s: check that Sluice is installed", kind.resource.Group)
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("listing %s failed: %w", kind.name, err)
	}
	for _, namespace := range w.Namespaces {
		w.add(kind, namespace)
	}
	if len(w.Namespaces) == 0 {
		return errors.New("you may not list " + kind.name + " in all namespaces")
	}
	return nil
}

func (w *World) add(kind *kind, namespace string) {
	w.feeds = append(w.feeds, &feed{kind: kind, namespace: namespace, kube: w.Kube, health: w.health, synced: make(chan struct{})})
}

// Listen returns a channel that receives a value after changes, until stop is called.
func (w *World) Listen() (changes <-chan struct{}, stop func()) {
	listener := make(chan struct{}, 1)
	w.mu.Lock()
	w.listeners[listener] = struct{}{}
	w.mu.Unlock()
	return listener, func() {
		w.mu.Lock()
		delete(w.listeners, listener)
		w.mu.Unlock()
	}
}

func (w *World) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for listener := range w.listeners {
		select {
		case listener <- struct{}{}:
		default: // it has one to receive already
		}
	}
}

// Snapshot is the world at a time. Its objects are shared, and must not be changed.
type Snapshot struct {
	Now       time.Time
	Pipelines []*pipelinesv1.Pipeline
	Gates     []*gatingv1.Gate
	Passes    []*gatingv1.GatePass
	Sources   []source.Source
	// Events are those of Gates and Pipelines.
	Events []*corev1.Event
	// Limits say what the user may not list.
	Limits []string
	// Away is nil while the API server answers.
	Away *Away
}

// Snapshot returns the world as it is now, sorted by name.
func (w *World) Snapshot() *Snapshot {
	taken := &Snapshot{
		Now: w.Now(), Pipelines: w.pipelines.all(), Gates: w.gates.all(), Passes: w.passes.all(), Sources: together(w.sources), Events: together(w.events),
		Limits: w.health.limits(w.feeds), Away: w.health.away(),
	}
	slices.SortFunc(taken.Pipelines, byName)
	slices.SortFunc(taken.Gates, byName)
	slices.SortFunc(taken.Passes, byName)
	slices.SortFunc(taken.Events, byName)
	slices.SortFunc(taken.Sources, func(a, b source.Source) int { return strings.Compare(a.String(), b.String()) })
	return taken
}

func together[T any](stores []*store[T]) []T {
	var all []T
	for _, store := range stores {
		all = append(all, store.all()...)
	}
	return all
}

func byName[T client.Object](a, b T) int {
	if order := strings.Compare(a.GetNamespace(), b.GetNamespace()); order != 0 {
		return order
	}
	return strings.Compare(a.GetName(), b.GetName())
}

// Pipeline returns a Pipeline, or nil.
func (s *Snapshot) Pipeline(key client.ObjectKey) *pipelinesv1.Pipeline {
	return find(s.Pipelines, key)
}

// Gate returns a Gate, or nil.
func (s *Snapshot) Gate(key client.ObjectKey) *gatingv1.Gate { return find(s.Gates, key) }

func find[T client.Object](objects []T, key client.ObjectKey) (none T) {
	for _, object := range objects {
		if client.ObjectKeyFromObject(object) == key {
			return object
		}
	}
	return none
}
