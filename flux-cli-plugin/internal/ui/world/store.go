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
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store keeps the objects of a kind in all namespaces that are watched.
type store[T any] struct {
	// read returns what is kept of an object, or false if nothing is.
	read    func(runtime.Object) (T, bool)
	changed func()

	mu      sync.RWMutex
	objects map[client.ObjectKey]T
}

// all returns everything that is kept, in no order.
func (s *store[T]) all() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]T, 0, len(s.objects))
	for _, object := range s.objects {
		all = append(all, object)
	}
	return all
}

// in returns the part of the store for a namespace, or for all namespaces.
func (s *store[T]) in(namespace string) objectStore { return part[T]{s, namespace} }

// objectStore is what a reflector needs.
type objectStore interface {
	Add(object any) error
	Update(object any) error
	Delete(object any) error
	Replace(objects []any, version string) error
	Resync() error
}

// part is the objects of a store that one reflector owns.
type part[T any] struct {
	*store[T]
	namespace string
}

func (p part[T]) Add(object any) error { return p.Update(object) }

func (p part[T]) Update(object any) error {
	key, kept, ok, err := p.keep(object)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if ok {
		p.objects[key] = kept
	} else {
		delete(p.objects, key)
	}
	p.mu.Unlock()
	p.changed()
	return nil
}

func (p part[T]) Delete(object any) error {
	key, _, _, err := p.keep(object)
	if err != nil {
		return err
	}
	p.mu.Lock()
	delete(p.objects, key)
	p.mu.Unlock()
	p.changed()
	return nil
}

// Replace replaces the objects of the reflector, and no others.
func (p part[T]) Replace(objects []any, _ string) error {
	replaced := map[client.ObjectKey]T{}
	for _, object := range objects {
		key, kept, ok, err := p.keep(object)
		if err != nil {
			return err
		}
		if ok {
			replaced[key] = kept
		}
	}
	p.mu.Lock()
	for key, kept := range p.objects {
		if p.namespace != "" && key.Namespace != p.namespace {
			replaced[key] = kept
		}
	}
	p.objects = replaced
	p.mu.Unlock()
	p.changed()
	return nil
}

func (part[T]) Resync() error { return nil }

func (p part[T]) keep(object any) (key client.ObjectKey, kept T, ok bool, _ error) {
	typed, isObject := object.(client.Object)
	if !isObject {
		return key, kept, false, fmt.Errorf("unexpected %T", object)
	}
	kept, ok = p.read(typed)
	return client.ObjectKeyFromObject(typed), kept, ok, nil
}
