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

package apireader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource is a kind as an API server serves it.
type Resource struct {
	// Kind in the served version.
	Kind schema.GroupVersionKind
	// Name in paths, such as "kustomizations".
	Name string
}

// path returns the path of the objects in a namespace, or in all namespaces.
func (r Resource) path(namespace string) []string {
	path := []string{"apis", r.Kind.Group, r.Kind.Version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, r.Name)
}

func (r Resource) String() string { return r.Name + "." + r.Kind.Group }

// resources caches how the server serves the requested kinds. It looks up one kind at a time: the whole discovery is
// large, and most of it is about other kinds.
//
// controller-runtime's lazy mapper would need less code. But it first reads the whole discovery, whatever its size.
// While it looks up one kind, it blocks lookups of kinds that it already knows. And it never forgets a kind.
type resources struct {
	// asking is held during lookups, so each kind is looked up once.
	asking sync.Mutex
	// mu guards known. It is never held while waiting.
	mu sync.Mutex
	// known kinds. Guarded by mu.
	known map[schema.GroupVersionKind]Resource
}

// Resource returns the resource of a kind, in the requested version. If the server does not serve that version, it
// returns the first other one that the server prefers. Pipelines outlive the versions of HelmRelease that they were
// written for.
func (r *Reader) Resource(ctx context.Context, kind schema.GroupVersionKind) (Resource, error) {
	if known, ok := r.resources.recall(kind); ok {
		return known, nil
	}
	r.resources.asking.Lock()
	defer r.resources.asking.Unlock()
	if known, ok := r.resources.recall(kind); ok {
		return known, nil
	}
	found, err := r.find(ctx, kind)
	if err != nil {
		return Resource{}, err
	}
	r.resources.remember(kind, found)
	return found, nil
}

// ForgetResource forces a new lookup of the kind.
func (r *Reader) ForgetResource(kind schema.GroupVersionKind) {
	r.resources.mu.Lock()
	defer r.resources.mu.Unlock()
	delete(r.resources.known, kind)
}

func (r *resources) recall(kind schema.GroupVersionKind) (Resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[kind]
	return known, ok
}

func (r *resources) remember(kind schema.GroupVersionKind, found Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[schema.GroupVersionKind]Resource{}
	}
	r.known[kind] = found
}

func (r *Reader) find(ctx context.Context, kind schema.GroupVersionKind) (Resource, error) {
	found, err := r.inVersion(ctx, kind)
	if !errors.Is(err, ErrNoKind) {
		return found, err
	}
	versions, err := r.versions(ctx, kind.Group)
	if err != nil {
		return Resource{}, err
	}
	for _, version := range versions {
		if version == kind.Version {
			continue
		}
		found, err := r.inVersion(ctx, kind.GroupKind().WithVersion(version))
		if !errors.Is(err, ErrNoKind) {
			return found, err
		}
	}
	return Resource{}, ErrNoKind
}

func (r *Reader) inVersion(ctx context.Context, kind schema.GroupVersionKind) (Resource, error) {
	var list metav1.APIResourceList
	if err := r.ask(ctx, &list, kind.Group, kind.Version); err != nil {
		return Resource{}, err
	}
	for _, candidate := range list.APIResources {
		if candidate.Kind == kind.Kind && !strings.Contains(candidate.Name, "/") {
			if len(validation.IsDNS1123Label(candidate.Name)) > 0 || !candidate.Namespaced {
				return Resource{}, ErrNoKind
			}
			return Resource{Kind: kind, Name: candidate.Name}, nil
		}
	}
	return Resource{}, ErrNoKind
}

// maxVersions limits how many versions of a group are looked up.
const maxVersions = 10

// versions returns the versions of a group, the preferred one first.
func (r *Reader) versions(ctx context.Context, group string) ([]string, error) {
	var served metav1.APIGroup
	if err := r.ask(ctx, &served, group); err != nil {
		return nil, err
	}
	var versions []string
	for _, version := range append([]metav1.GroupVersionForDiscovery{served.PreferredVersion}, served.Versions...) {
		// An invalid version could lead to another path.
		valid := len(validation.IsDNS1035Label(version.Version)) == 0
		if valid && !slices.Contains(versions, version.Version) && len(versions) < maxVersions {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// ask reads a discovery document. If it does not exist, the kind does not exist.
func (r *Reader) ask(ctx context.Context, into any, path ...string) error {
	content, err := r.read(ctx, append([]string{"apis"}, path...), nil, maxDocument)
	if apierrors.IsNotFound(err) {
		return ErrNoKind
	}
	if err != nil {
		return fmt.Errorf("looking up the kind: %w", err)
	}
	if json.Unmarshal(content, into) != nil {
		return ErrMalformed
	}
	return nil
}
