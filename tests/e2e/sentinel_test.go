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

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// holder is the field manager in whose name gate-controller holds sources.
const holder = "gate-controller"

// sentinel watches the sources of a group, and records what they publish while they must not. A watch misses no state
// of an object.
type sentinel struct {
	mu sync.Mutex
	// latest is the last seen state of each object.
	latest map[string]*unstructured.Unstructured
	// closed means that nothing new may be published.
	closed bool
	// allowed is what each object had published before that, by UID.
	allowed map[types.UID]string
	leaked  []string
	resumed map[string]int
	// told are the sources that have had GatesOpen=True since then.
	told map[string]bool
}

// post watches the sources and HelmReleases of a group until the spec ends.
func post(ctx context.Context, group string) *sentinel {
	GinkgoHelper()
	s := &sentinel{latest: map[string]*unstructured.Unstructured{}, resumed: map[string]int{}, told: map[string]bool{}}
	lists := []schema.GroupVersionKind{
		helmv2.GroupVersion.WithKind(helmv2.HelmReleaseKind + "List"), sourcev1.GroupVersion.WithKind(sourcev1.ExternalArtifactKind + "List"),
	}
	for _, kind := range gatingv1.SourceKinds {
		lists = append(lists, sourcev1.GroupVersion.WithKind(kind+"List"))
	}
	for _, kind := range lists {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		options := &client.ListOptions{Namespace: flux}
		client.MatchingLabels{groupLabel: group}.ApplyToList(options)
		Expect(world.Client.List(ctx, list, options)).To(Succeed())
		Expect(list.Items).To(BeEmpty())
		options.Raw = &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
		watcher, err := world.Client.Watch(context.Background(), list, options)
		Expect(err).NotTo(HaveOccurred())
		stopped := make(chan struct{})
		go func() {
			for event := range watcher.ResultChan() {
				s.see(event)
			}
			select {
			case <-stopped:
			default:
				s.see(watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "the watch of " + kind.Kind + " ended"}})
			}
		}()
		DeferCleanup(func() {
			close(stopped)
			watcher.Stop()
		})
	}
	return s
}

func (s *sentinel) see(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := event.Object.(*unstructured.Unstructured)
	switch {
	case !ok || event.Type == watch.Error:
		s.leaked = append(s.leaked, fmt.Sprintf("nobody knows what was published: %v", event.Object))
		return
	case event.Type == watch.Deleted:
		delete(s.latest, key(obj))
		return
	}
	s.latest[key(obj)] = obj
	if !s.closed {
		return
	}
	if published := published(obj); published != "" && published != s.allowed[obj.GetUID()] {
		s.leaked = append(s.leaked, fmt.Sprintf("%s has published %s; allowed is only what it had before: %q", key(obj), published, s.allowed[obj.GetUID()]))
	}
	if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend"); !suspended {
		s.resumed[key(obj)]++
	}
	if gatesOpen(obj).Status == metav1.ConditionTrue {
		s.told[key(obj)] = true
	}
}

// close forbids new artifacts: each object may only publish what it has published already, and later objects nothing.
func (s *sentinel) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.allowed = map[types.UID]string{}
	for _, obj := range s.latest {
		s.allowed[obj.GetUID()] = published(obj)
	}
}

// open allows all objects to publish.
func (s *sentinel) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

func (s *sentinel) leaks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.leaked)
}

// resumptions counts the states of each source without a suspension since close.
func (s *sentinel) resumptions() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.resumed)
}

// opened lists the sources that have had GatesOpen=True since close.
func (s *sentinel) opened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.told))
}

// sources returns all objects.
func (s *sentinel) sources() []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sources []*unstructured.Unstructured
	for _, obj := range s.latest {
		sources = append(sources, obj.DeepCopy())
	}
	return sources
}

// held returns nil if a source was seen to be held in the given state or a later one. Otherwise it says what is
// missing.
func (s *sentinel) held(since *unstructured.Unstructured) error {
	obj, err := s.lastSeen(since)
	if err != nil {
		return err
	}
	if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend"); !suspended {
		return fmt.Errorf("%s is not suspended", key(obj))
	}
	gates := gatesOpen(obj)
	if gates.Status != metav1.ConditionFalse || gates.ObservedGeneration != obj.GetGeneration() {
		return fmt.Errorf("%s has generation %d and the condition %+v", key(obj), obj.GetGeneration(), gates)
	}
	return nil
}

// heldAndObserved returns nil if a source was seen to be held, and source-controller to have handled a request since.
func (s *sentinel) heldAndObserved(source *unstructured.Unstructured, token string) error {
	if err := s.held(source); err != nil {
		return err
	}
	obj, err := s.lastSeen(source)
	if err != nil {
		return err
	}
	if handled, _, _ := unstructured.NestedString(obj.Object, "status", "lastHandledReconcileAt"); handled != token {
		return fmt.Errorf("source-controller has handled the request %q for %s, not %q", handled, key(obj), token)
	}
	if observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration"); observed != obj.GetGeneration() {
		return fmt.Errorf("source-controller has observed generation %d of %s, which is at %d", observed, key(obj), obj.GetGeneration())
	}
	return nil
}

// released returns nil if a source was seen not to be held in the given state or a later one. Otherwise it says what is
// missing.
func (s *sentinel) released(since *unstructured.Unstructured) error {
	obj, err := s.lastSeen(since)
	if err != nil {
		return err
	}
	for _, manager := range suspendedBy(obj) {
		if manager == holder {
			return fmt.Errorf("%s is held", key(obj))
		}
	}
	gates := gatesOpen(obj)
	if gates.Status != metav1.ConditionTrue || gates.ObservedGeneration != obj.GetGeneration() {
		return fmt.Errorf("%s has generation %d and the condition %+v", key(obj), obj.GetGeneration(), gates)
	}
	return nil
}

// lastSeen returns the last seen state of an object, which must be the given one or a later one.
func (s *sentinel) lastSeen(since *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.latest[key(since)]
	if obj == nil || obj.GetUID() != since.GetUID() {
		return nil, fmt.Errorf("%s was not seen", key(since))
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), since.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	if order < 0 {
		return nil, fmt.Errorf("%s was seen at %s, which is before %s", key(since), obj.GetResourceVersion(), since.GetResourceVersion())
	}
	return obj, nil
}

// published returns what a source or HelmRelease has published, or "".
func published(obj *unstructured.Unstructured) string {
	if artifact, _, _ := unstructured.NestedMap(obj.Object, "status", "artifact"); artifact != nil {
		return fmt.Sprintf("%v with digest %v", artifact["revision"], artifact["digest"])
	}
	if history, _, _ := unstructured.NestedSlice(obj.Object, "status", "history"); len(history) > 0 {
		return fmt.Sprint(history[0].(map[string]any)["chartVersion"])
	}
	return ""
}

// gatesOpen returns the condition GatesOpen of a source.
func gatesOpen(obj *unstructured.Unstructured) metav1.Condition {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, each := range conditions {
		if found := each.(map[string]any); found["type"] == "GatesOpen" {
			generation, _ := found["observedGeneration"].(int64)
			return metav1.Condition{
				Type: "GatesOpen", Status: metav1.ConditionStatus(fmt.Sprint(found["status"])), Reason: fmt.Sprint(found["reason"]),
				Message: fmt.Sprint(found["message"]), ObservedGeneration: generation,
			}
		}
	}
	return metav1.Condition{}
}

// suspendedBy lists the field managers that own spec.suspend.
func suspendedBy(obj client.Object) []string {
	var managers []string
	for _, entry := range obj.GetManagedFields() {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.NewDecoder(entry.FieldsV1.GetRawReader()).Decode(&fields) != nil {
			continue
		}
		if _, owns := fields.Spec["f:suspend"]; owns {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}
