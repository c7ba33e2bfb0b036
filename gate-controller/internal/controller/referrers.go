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

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

const (
	// gateIndex finds the sources and Pipelines that refer to a gate, by its namespace and name.
	gateIndex = "gates"
	// repositoryIndex finds the HelmCharts of a HelmRepository.
	repositoryIndex = "helmrepository"
)

// referrers returns the sources that a gate can hold: those that refer to it, and the HelmCharts of the
// HelmRepositories among them. OCI HelmRepositories are not included.
func referrers(ctx context.Context, reader client.Reader, kinds []source.Kind, gate types.NamespacedName) ([]source.Source, error) {
	var found []source.Source
	seen := map[types.UID]bool{}
	add := func(obj source.Source) {
		if !seen[obj.GetUID()] && !source.HasNoArtifact(obj) {
			found = append(found, obj)
		}
		seen[obj.GetUID()] = true
	}
	for _, kind := range kinds {
		sources, err := list(ctx, reader, kind, client.MatchingFields{gateIndex: gate.String()})
		if err != nil {
			return nil, err
		}
		for _, obj := range sources {
			add(obj)
			if kind.Name != gatingv1.HelmRepositoryKind {
				continue
			}
			charts, err := chartsOf(ctx, reader, obj)
			if err != nil {
				return nil, err
			}
			for _, chart := range charts {
				add(chart)
			}
		}
	}
	return found, nil
}

// chartsOf returns the HelmCharts of a HelmRepository.
func chartsOf(ctx context.Context, reader client.Reader, repository client.Object) ([]source.Source, error) {
	return list(ctx, reader, source.HelmCharts,
		client.InNamespace(repository.GetNamespace()), client.MatchingFields{repositoryIndex: repository.GetName()})
}

func list(ctx context.Context, reader client.Reader, kind source.Kind, options ...client.ListOption) ([]source.Source, error) {
	objects := kind.NewList()
	if err := reader.List(ctx, objects, options...); err != nil {
		return nil, err
	}
	var sources []source.Source
	err := apimeta.EachListItem(objects, func(item runtime.Object) error {
		sources = append(sources, item.(source.Source))
		return nil
	})
	return sources, err
}

// gatesOf returns the names of the gates that a source or a Pipeline refers to itself.
func gatesOf(obj client.Object) []types.NamespacedName {
	var refs []gatingv1.GateReference
	switch obj := obj.(type) {
	case source.Source:
		own, _ := source.References(obj)
		refs = references(own)
	case *pipelinesv1.Pipeline:
		refs = obj.GateReferences()
	}
	names := make([]types.NamespacedName, len(refs))
	for i, ref := range refs {
		names[i] = ref.NamespacedName(obj.GetNamespace())
	}
	return names
}

// indexGates returns the keys of an object in gateIndex.
func indexGates(obj client.Object) []string {
	var keys []string
	for _, gate := range gatesOf(obj) {
		keys = append(keys, gate.String())
	}
	return keys
}
