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

// resource is how an API server serves a kind.
type resource struct {
	kind schema.GroupVersionKind
	name string
}

// path is that of the objects in a namespace, or in all namespaces.
func (r resource) path(namespace string) []string {
	path := []string{"apis", r.kind.Group, r.kind.Version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, r.name)
}

func (r resource) String() string { return r.name + "." + r.kind.Group }

// errNoKind says that an API server doesn't serve a kind.
var errNoKind = errors.New("no such kind")

// kinds knows how an API server serves the kinds that were asked for. It asks for one kind at a time: a whole discovery is large, and
// most of it is about kinds that nobody wants.
type kinds struct {
	api *api

	// asking is held while the server is asked, so that it is asked once.
	asking sync.Mutex
	// mu guards known. It is not held while something is waited for.
	mu    sync.Mutex
	known map[schema.GroupVersionKind]resource
}

// resource returns the one of a kind, in the version that is asked for, or, where that is gone, in the first of the others that the
// server prefers. Pipelines outlive the versions of HelmRelease that they were written for.
func (k *kinds) resource(ctx context.Context, kind schema.GroupVersionKind) (resource, error) {
	if known, ok := k.recall(kind); ok {
		return known, nil
	}
	k.asking.Lock()
	defer k.asking.Unlock()
	if known, ok := k.recall(kind); ok {
		return known, nil
	}
	found, err := k.find(ctx, kind)
	if err != nil {
		return resource{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[schema.GroupVersionKind]resource{}
	}
	k.known[kind] = found
	return found, nil
}

func (k *kinds) recall(kind schema.GroupVersionKind) (resource, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.known[kind]
	return known, ok
}

// forget has a kind be looked up anew.
func (k *kinds) forget(kind schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, kind)
}

func (k *kinds) find(ctx context.Context, kind schema.GroupVersionKind) (resource, error) {
	found, err := k.inVersion(ctx, kind)
	if !errors.Is(err, errNoKind) {
		return found, err
	}
	versions, err := k.versions(ctx, kind.Group)
	if err != nil {
		return resource{}, err
	}
	for _, version := range versions {
		if version == kind.Version {
			continue
		}
		found, err := k.inVersion(ctx, kind.GroupKind().WithVersion(version))
		if !errors.Is(err, errNoKind) {
			return found, err
		}
	}
	return resource{}, errNoKind
}

func (k *kinds) inVersion(ctx context.Context, kind schema.GroupVersionKind) (resource, error) {
	var list metav1.APIResourceList
	if err := k.ask(ctx, &list, kind.Group, kind.Version); err != nil {
		return resource{}, err
	}
	for _, candidate := range list.APIResources {
		if candidate.Kind == kind.Kind && !strings.Contains(candidate.Name, "/") {
			if len(validation.IsDNS1123Label(candidate.Name)) > 0 || !candidate.Namespaced {
				return resource{}, errNoKind
			}
			return resource{kind: kind, name: candidate.Name}, nil
		}
	}
	return resource{}, errNoKind
}

// maxVersions bounds how many versions of a group are looked at.
const maxVersions = 10

// versions returns those of a group, the preferred one first.
func (k *kinds) versions(ctx context.Context, group string) ([]string, error) {
	var served metav1.APIGroup
	if err := k.ask(ctx, &served, group); err != nil {
		return nil, err
	}
	var versions []string
	for _, version := range append([]metav1.GroupVersionForDiscovery{served.PreferredVersion}, served.Versions...) {
		// What is no version could lead to another path.
		valid := len(validation.IsDNS1035Label(version.Version)) == 0
		if valid && !slices.Contains(versions, version.Version) && len(versions) < maxVersions {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// ask reads a document of the discovery. What does not exist there is a kind that does not.
func (k *kinds) ask(ctx context.Context, into any, path ...string) error {
	content, err := k.api.read(ctx, append([]string{"apis"}, path...), nil, maxDocument)
	if apierrors.IsNotFound(err) {
		return errNoKind
	}
	if err != nil {
		return fmt.Errorf("looking up the kind: %w", err)
	}
	if json.Unmarshal(content, into) != nil {
		return errNonsense
	}
	return nil
}

// checkKind returns why objects of a kind are never looked at, in any cluster.
func checkKind(kind schema.GroupVersionKind) error {
	switch {
	case kind.Group == "":
		// No such kind is an application. Secrets are one, which nobody should be able to probe through the controller.
		return fmt.Errorf("kind %s in %s is not an application", kind.Kind, kind.Version)
	case len(validation.IsDNS1123Subdomain(kind.Group)) > 0, len(validation.IsDNS1035Label(kind.Version)) > 0:
		return fmt.Errorf("%s is not the version of an API", kind.GroupVersion())
	}
	return nil
}
