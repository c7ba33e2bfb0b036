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

// sourceState is what is watched of a source.
type sourceState struct {
	// suspended is spec.suspend.
	suspended bool
	// open and told are the condition GatesOpen: whether it is True, and whether it is of the current generation.
	open, told bool
	// done is whether source-controller has nothing left to do about the current generation.
	done bool
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
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &view); err != nil {
		return sourceState{}, err
	}
	state := sourceState{suspended: view.Spec.Suspend}
	if condition := apimeta.FindStatusCondition(view.Status.Conditions, gatingv1.GatesOpenCondition); condition != nil {
		state.open = condition.Status == metav1.ConditionTrue
		state.told = condition.ObservedGeneration == view.Metadata.Generation
	}
	ready := apimeta.FindStatusCondition(view.Status.Conditions, meta.ReadyCondition)
	state.done = view.Status.ObservedGeneration == view.Metadata.Generation &&
		(state.suspended || ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == view.Metadata.Generation)
	return state, nil
}

// sighting waits for sources to come into a state.
type sighting struct {
	ctx    context.Context
	cancel func()
	events chan sighted
}

type sighted struct {
	source string
	at     time.Time
	err    error
}

// watchSources watches for changes of sources from now on after which they are in the state.
func (w *world) watchSources(ctx context.Context, is func(sourceState) bool) (*sighting, error) {
	s := &sighting{events: make(chan sighted, 16<<10)}
	s.ctx, s.cancel = context.WithTimeout(ctx, patience)
	for _, kind := range gatingv1.SourceKinds {
		changes, err := w.watchKind(s.ctx, kind)
		if err != nil {
			s.cancel()
			return nil, err
		}
		go s.follow(changes, is)
	}
	return s, nil
}

func (w *world) watchKind(ctx context.Context, kind string) (watch.Interface, error) {
	list := listOf(kind)
	if err := w.client.List(ctx, list, client.InNamespace(localcluster.FluxNamespace), client.Limit(1)); err != nil {
		return nil, err
	}
	now := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	return w.client.Watch(ctx, list, client.InNamespace(localcluster.FluxNamespace), now)
}

// listOf is an empty list of sources of a kind.
func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(sourcev1.GroupVersion.WithKind(kind + "List"))
	return list
}

// all waits until all sources are in a state.
func (w *world) all(ctx context.Context, what string, are func(sourceState) bool) error {
	return poll(ctx, fmt.Sprintf("all sources to be %s", what), func(ctx context.Context) error {
		n := 0
		for _, kind := range gatingv1.SourceKinds {
			list := listOf(kind)
			if err := w.client.List(ctx, list, client.InNamespace(localcluster.FluxNamespace)); err != nil {
				return err
			}
			for i := range list.Items {
				state, err := stateOf(&list.Items[i])
				if err != nil {
					return err
				}
				if are(state) {
					n++
				}
			}
		}
		if n < len(w.sources) {
			return fmt.Errorf("%d of %d are", n, len(w.sources))
		}
		return nil
	})
}

func (s *sighting) follow(changes watch.Interface, is func(sourceState) bool) {
	defer changes.Stop()
	for change := range changes.ResultChan() {
		now := time.Now()
		obj, ok := change.Object.(*unstructured.Unstructured)
		if !ok {
			s.tell(sighted{err: fmt.Errorf("watching: %v", change.Object)})
			return
		}
		if state, err := stateOf(obj); err != nil || is(state) {
			s.tell(sighted{source: obj.GetName(), at: now, err: err})
		}
	}
	s.tell(sighted{err: fmt.Errorf("a watch has ended")})
}

func (s *sighting) tell(event sighted) {
	select {
	case s.events <- event:
	case <-s.ctx.Done():
	}
}

// times returns, in order, how long after a moment each of n sources was first seen.
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
