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

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Found maps references to what they refer to.
// +kubebuilder:object:generate=false
type Found map[GateReference]Finding

// Finding is what a reference refers to: a gate, or nothing.
// +kubebuilder:object:generate=false
type Finding struct {
	// Gate is nil if it was not found, or if access to it is denied.
	Gate *Gate
	// Denied says why access to the gate is denied. It is empty if access is allowed.
	Denied string
}

// Finder finds gates and decides who may refer to them.
// +kubebuilder:object:generate=false
type Finder struct {
	// Gate returns the gate with the name, or nil if there is none.
	Gate func(types.NamespacedName) (*Gate, error)
	// NamespaceLabels returns the labels of a namespace, by which a gate's spec.accessFrom selects.
	NamespaceLabels func(namespace string) (map[string]string, error)
	// NoCrossNamespaceRefs denies access to gates in other namespaces, regardless of their spec.accessFrom.
	NoCrossNamespaceRefs bool
}

// Find returns the gates that an object in the namespace refers to. Errors come from the functions of the Finder.
func (f Finder) Find(namespace string, refs []GateReference) (Found, error) {
	found := Found{}
	for _, ref := range refs {
		if _, known := found[ref]; known {
			continue
		}
		finding, err := f.find(namespace, ref.NamespacedName(namespace))
		if err != nil {
			return nil, fmt.Errorf("getting gate %s: %w", ref, err)
		}
		found[ref] = finding
	}
	return found, nil
}

func (f Finder) find(namespace string, name types.NamespacedName) (Finding, error) {
	foreign := name.Namespace != namespace
	if foreign && f.NoCrossNamespaceRefs {
		return Finding{Denied: "cross-namespace references are disabled"}, nil
	}
	gate, err := f.Gate(name)
	if gate == nil || err != nil || !foreign {
		return Finding{Gate: gate}, err
	}
	var namespaceLabels map[string]string
	if gate.Spec.AccessFrom != nil {
		if namespaceLabels, err = f.NamespaceLabels(namespace); err != nil {
			return Finding{}, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
		}
	}
	if !gate.allowsAccessFrom(namespaceLabels) {
		return Finding{Denied: "its spec.accessFrom doesn't allow namespace " + namespace}, nil
	}
	return Finding{Gate: gate}, nil
}

// allowsAccessFrom decides as Flux does for its own objects: any of the selectors may match, and a selector without
// labels matches every namespace.
func (g *Gate) allowsAccessFrom(namespaceLabels labels.Set) bool {
	if g.Spec.AccessFrom == nil {
		return false
	}
	for _, selector := range g.Spec.AccessFrom.NamespaceSelectors {
		if labels.SelectorFromSet(selector.MatchLabels).Matches(namespaceLabels) {
			return true
		}
	}
	return false
}
