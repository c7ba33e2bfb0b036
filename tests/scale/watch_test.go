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

package scale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// sourceState is the watched state of a source.
type sourceState struct {
	// suspended is spec.suspend.
	suspended bool
	// open is true if GatesOpen is True, and told if it is of the current generation.
	open, told bool
	// done is true if source-controller has completed the current generation.
	done bool
	// revision is the revision of the artifact.
	revision string
}

func stateOf(obj *unstructured.Unstructured) (sourceState, error) {
	var view struct {
		Metadata struct {
			Generation int64 `json:"generation"`
		} `json:"metadata"`
		Spec struct {
			Suspend bool `json:"suspend"`
		} `json:"spec"`
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
			Artifact           struct {
				Revision string `json:"revision"`
			} `json:"artifact"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &view); err != nil {
		return sourceState{}, err
	}
	state := sourceState{suspended: view.Spec.Suspend, revision: view.Status.Artifact.Revision}
	if condition := apimeta.FindStatusCondition(view.Status.Conditions, gatingv1.GatesOpenCondition); condition != nil {
		state.open = condition.Status == metav1.ConditionTrue
		state.told = condition.ObservedGeneration == view.Metadata.Generation
	}
	ready := apimeta.FindStatusCondition(view.Status.Conditions, meta.ReadyCondition)
	state.done = view.Status.ObservedGeneration == view.Metadata.Generation &&
		(state.suspended || ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == view.Metadata.Generation)
	return state, nil
}

// sighting records when sources enter a state.
type sighting struct {
	is     func(sourceState) bool
	ctx    context.Context
	cancel func()
	events chan sighted
}

type sighted struct {
	source string
	at     time.Time
	err    error
}

// watchSources watches sources, and records from now on when each of them enters one of the states.
func (w *world) watchSources(ctx context.Context, states ...func(sourceState) bool) ([]*sighting, error) {
	var sightings []*sighting
	ctx, cancel := context.WithTimeout(ctx, patience)
	for _, is := range states {
		s := &sighting{is: is, events: make(chan sighted, 16<<10)}
		s.ctx, s.cancel = context.WithCancel(ctx)
		sightings = append(sightings, s)
	}
	go func() {
		defer cancel()
		for _, s := range sightings {
			<-s.ctx.Done()
		}
	}()
	for _, kind := range gatingv1.SourceKinds {
		changes, err := w.watchKind(ctx, kind)
		if err != nil {
			cancel()
			return nil, err
		}
		go follow(changes, sightings)
	}
	return sightings, nil
}

func (w *world) watchKind(ctx context.Context, kind string) (watch.Interface, error) {
	list := listOf(kind)
	if err := w.client.List(ctx, list, client.InNamespace(localcluster.FluxNamespace), client.Limit(1)); err != nil {
		return nil, err
	}
	now := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	return w.client.Watch(ctx, list, client.InNamespace(localcluster.FluxNamespace), now)
}

// listOf returns an empty list of sources of a kind.
func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(sourcev1.GroupVersion.WithKind(kind + "List"))
	return list
}

// all waits until all sources are in a state.
func (w *world) all(ctx context.Context, what string, are func(sourceState) bool) error {
	return poll(ctx, fmt.Sprintf("all sources to be %s", what), func(ctx context.Context) error {
		states, err := w.states(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, state := range states {
			if are(state) {
				n++
			}
		}
		if n < len(w.sources) {
			return fmt.Errorf("%d of %d are", n, len(w.sources))
		}
		return nil
	})
}

// states returns the states of all sources by name.
func (w *world) states(ctx context.Context) (map[string]sourceState, error) {
	states := map[string]sourceState{}
	for _, kind := range gatingv1.SourceKinds {
		list := listOf(kind)
		if err := w.client.List(ctx, list, client.InNamespace(localcluster.FluxNamespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			state, err := stateOf(&list.Items[i])
			if err != nil {
				return nil, err
			}
			states[list.Items[i].GetName()] = state
		}
	}
	return states, nil
}

func follow(changes watch.Interface, sightings []*sighting) {
	defer changes.Stop()
	tell := func(event sighted, state *sourceState) {
		for _, s := range sightings {
			if state == nil || s.is(*state) {
				s.tell(event)
			}
		}
	}
	for change := range changes.ResultChan() {
		now := time.Now()
		obj, ok := change.Object.(*unstructured.Unstructured)
		if !ok {
			tell(sighted{err: fmt.Errorf("watching: %v", change.Object)}, nil)
			return
		}
		state, err := stateOf(obj)
		if err != nil {
			tell(sighted{err: err}, nil)
			return
		}
		tell(sighted{source: obj.GetName(), at: now}, &state)
	}
	tell(sighted{err: fmt.Errorf("a watch has ended")}, nil)
}

func (s *sighting) tell(event sighted) {
	select {
	case s.events <- event:
	case <-s.ctx.Done():
	}
}

// times returns, in order, the time from a moment until each of n sources was first seen.
func (s *sighting) times(n int, after time.Time) ([]time.Duration, error) {
	defer s.cancel()
	seen := map[string]time.Duration{}
	for len(seen) < n {
		select {
		case event := <-s.events:
			if event.err != nil {
				return nil, event.err
			}
			if _, again := seen[event.source]; !again {
				seen[event.source] = event.at.Sub(after)
			}
		case <-s.ctx.Done():
			return nil, fmt.Errorf("%d of %d sources had come into the state: %w", len(seen), n, context.Cause(s.ctx))
		}
	}
	return slices.Sorted(maps.Values(seen)), nil
}
