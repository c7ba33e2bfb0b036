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

package leafserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fluxcd/pkg/apis/meta"
)

// Object is an application in a Server.
type Object struct {
	Kind            Kind
	Namespace, Name string
	// Revision is its status.lastAppliedRevision.
	Revision string
	// Ready is the status of its Ready condition. Default: "True".
	Ready string
	// Message is the message of its Ready condition.
	Message string
	// Ballast is the number of additional bytes in its spec.
	Ballast int
}

// object is an object as it is served.
type object struct {
	key
	content json.RawMessage
}

type key struct {
	kind            Kind
	namespace, name string
}

// event is a change of an object.
type event struct {
	key
	version int
	content json.RawMessage
}

type store struct {
	mu      sync.Mutex
	version int
	objects map[key]json.RawMessage
	events  []event
	// oldest is the version before which events are dropped.
	oldest int
	// changed is closed at each change, and disconnected when all watches must end.
	changed, disconnected chan struct{}
	muted                 bool
}

func newStore() *store {
	return &store{version: 1, objects: map[key]json.RawMessage{}, changed: make(chan struct{}), disconnected: make(chan struct{})}
}

// Put creates or updates an object.
func (s *Server) Put(o Object) {
	if o.Kind == (Kind{}) {
		o.Kind = Kustomization
	}
	if o.Ready == "" {
		o.Ready = "True"
	}
	s.objects.put(o)
}

// Delete deletes an object.
func (s *Server) Delete(o Object) {
	if o.Kind == (Kind{}) {
		o.Kind = Kustomization
	}
	s.objects.delete(key{kind: o.Kind, namespace: o.Namespace, name: o.Name})
}

// Compact drops the events so far, so no watch can resume at an older version.
func (s *Server) Compact() {
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	s.objects.events, s.objects.oldest = nil, s.objects.version
}

// PutRaw creates or updates an object with any content.
func (s *Server) PutRaw(kind Kind, namespace, name string, content []byte) {
	s.objects.change(key{kind: kind, namespace: namespace, name: name}, func(int) ([]byte, string) { return content, "MODIFIED" })
}

func (s *store) put(o Object) {
	k := key{kind: o.Kind, namespace: o.Namespace, name: o.Name}
	s.change(k, func(version int) ([]byte, string) {
		content, _ := json.Marshal(map[string]any{
			"apiVersion": o.Kind.Group + "/" + o.Kind.Version, "kind": o.Kind.Kind,
			"metadata": map[string]any{
				"namespace": o.Namespace, "name": o.Name, "uid": o.Namespace + "-" + o.Name, "generation": 1, "resourceVersion": fmt.Sprint(version),
			},
			"spec": map[string]any{"ballast": string(make([]byte, o.Ballast))},
			"status": map[string]any{
				"observedGeneration": 1, "lastAppliedRevision": o.Revision,
				"conditions": []map[string]any{{"type": meta.ReadyCondition, "status": o.Ready, "message": o.Message, "observedGeneration": 1}},
			},
		})
		if _, known := s.objects[k]; known {
			return content, "MODIFIED"
		}
		return content, "ADDED"
	})
}

func (s *store) delete(k key) {
	s.change(k, func(int) ([]byte, string) { return s.objects[k], "DELETED" })
}

// change applies a change. tell returns its type.
func (s *store) change(k key, tell func(version int) ([]byte, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	content, what := tell(s.version)
	if what == "DELETED" {
		delete(s.objects, k)
	} else {
		s.objects[k] = content
	}
	s.events = append(s.events, event{key: k, version: s.version, content: fmt.Appendf(nil, `{"type":%q,"object":%s}`, what, content)})
	close(s.changed)
	s.changed = make(chan struct{})
}

// list returns the objects of a kind in a namespace, or in all namespaces, in order.
func (s *store) list(kind Kind, namespace string) ([]object, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []object
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}) {
		if k.matches(kind, namespace) {
			found = append(found, object{key: k, content: s.objects[k]})
		}
	}
	return found, s.version
}

// matches reports whether the object is in a namespace and of a kind, in any version.
func (k key) matches(kind Kind, namespace string) bool {
	return k.kind.Group == kind.Group && k.kind.Kind == kind.Kind && (namespace == "" || k.namespace == namespace)
}

// since returns the changes after a version, the current version, and a channel that is closed at the next change.
func (s *store) since(kind Kind, namespace string, version int) ([]json.RawMessage, int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		return nil, version, s.changed
	}
	if version < s.oldest {
		return []json.RawMessage{json.RawMessage(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`)}, s.version, s.changed
	}
	var events []json.RawMessage
	for _, e := range s.events {
		if e.version > version && e.matches(kind, namespace) {
			events = append(events, e.content)
		}
	}
	return events, s.version, s.changed
}

func (s *store) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.disconnected)
	s.disconnected = make(chan struct{})
}

func (s *store) disconnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disconnected
}

// mute stops sending on watches. What they miss is sent later.
func (s *store) mute(muted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = muted
	close(s.changed)
	s.changed = make(chan struct{})
}
