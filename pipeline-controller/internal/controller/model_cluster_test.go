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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// The model has one namespace, and one Pipeline in it.
const modelNamespace = "default"

var modelPipeline = types.NamespacedName{Namespace: modelNamespace, Name: "app"}

// modelKind is a kind of object in the model's cluster. Each has its own watch, so a cache may be up to date with one
// and stale with another.
type modelKind int

const (
	pipelineObjects modelKind = iota
	gateObjects
	approvalObjects
	// applicationObjects are stored as application.State.
	applicationObjects
	modelKinds
)

// modelCluster is an API server: objects with resource versions, and every change of them in order, as watches deliver
// them. Stored objects are never modified, only replaced.
type modelCluster struct {
	scheme  *runtime.Scheme
	version int
	uids    int
	kinds   [modelKinds]struct {
		objects map[string]any
		changes []modelChange
	}
}

// modelChange is one event of a watch. The object is nil if it was deleted.
type modelChange struct {
	name   string
	object any
}

func newModelCluster(scheme *runtime.Scheme) *modelCluster {
	c := &modelCluster{scheme: scheme}
	for kind := range c.kinds {
		c.kinds[kind].objects = map[string]any{}
	}
	return c
}

func (c *modelCluster) get(kind modelKind, name string) any { return c.kinds[kind].objects[name] }

func (c *modelCluster) put(kind modelKind, name string, object any) {
	if meta, ok := object.(client.Object); ok {
		c.version++
		meta.SetResourceVersion(strconv.Itoa(c.version))
	}
	c.kinds[kind].objects[name] = object
	c.kinds[kind].changes = append(c.kinds[kind].changes, modelChange{name, object})
}

func (c *modelCluster) remove(kind modelKind, name string) {
	delete(c.kinds[kind].objects, name)
	c.kinds[kind].changes = append(c.kinds[kind].changes, modelChange{name: name})
}

// seen returns the number of changes of a kind: two equal results mean that nothing changed between them.
func (c *modelCluster) seen(kind modelKind) int { return len(c.kinds[kind].changes) }

func (c *modelCluster) newUID() types.UID {
	c.uids++
	return types.UID(fmt.Sprintf("uid-%d", c.uids))
}

// pipeline returns the current Pipeline, or nil.
func (c *modelCluster) pipeline() *pipelinesv1.Pipeline {
	pipeline, _ := c.get(pipelineObjects, modelPipeline.Name).(*pipelinesv1.Pipeline)
	return pipeline
}

func (c *modelCluster) gate(name string) *gatingv1.Gate {
	gate, _ := c.get(gateObjects, name).(*gatingv1.Gate)
	return gate
}

func (c *modelCluster) application(namespace string) application.State {
	return applicationIn(c.kinds[applicationObjects].objects, namespace)
}

func (c *modelCluster) approvals() []*pipelinesv1.PromotionApproval {
	return approvalsIn(c.kinds[approvalObjects].objects)
}

func applicationIn(objects map[string]any, namespace string) application.State {
	if state, ok := objects[namespace].(application.State); ok {
		return state
	}
	return application.Unknown("not found")
}

func approvalsIn(objects map[string]any) []*pipelinesv1.PromotionApproval {
	var all []*pipelinesv1.PromotionApproval
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[name].(*pipelinesv1.PromotionApproval))
	}
	return all
}

func conflict(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, name, errors.New("it has been modified"))
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
}

// updateStatus replaces the status of the Pipeline if the update is based on the newest version. The status goes
// through JSON, in which an API server loses fractions of seconds.
func (c *modelCluster) updateStatus(update *pipelinesv1.Pipeline) (before, after *pipelinesv1.Pipeline, err error) {
	before = c.pipeline()
	switch {
	case before == nil:
		return nil, nil, notFound(update.Name)
	case before.UID != update.UID || before.ResourceVersion != update.ResourceVersion:
		return nil, nil, conflict(update.Name)
	}
	after = &pipelinesv1.Pipeline{TypeMeta: before.TypeMeta}
	before.ObjectMeta.DeepCopyInto(&after.ObjectMeta)
	before.Spec.DeepCopyInto(&after.Spec)
	if err := throughJSON(update.Status, &after.Status); err != nil {
		return nil, nil, err
	}
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return before, before, nil
	}
	c.put(pipelineObjects, update.Name, after)
	return before, after, nil
}

func throughJSON(in, out any) error {
	content, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, out)
}

// patch applies a JSON merge patch of metadata. No other part of an object is ever patched.
func (c *modelCluster) patch(kind modelKind, name string, patch []byte) (client.Object, error) {
	stored, ok := c.get(kind, name).(client.Object)
	if !ok {
		return nil, notFound(name)
	}
	changed := stored.DeepCopyObject().(client.Object)
	changed.SetResourceVersion("")
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&struct {
		Metadata any `json:"metadata"`
	}{metadataOf(changed)}); err != nil {
		return nil, fmt.Errorf("the model's API server takes patches of metadata alone: %w", err)
	}
	if locked := changed.GetResourceVersion(); locked != "" && locked != stored.GetResourceVersion() {
		return nil, conflict(name)
	}
	if changed.GetDeletionTimestamp() != nil && len(changed.GetFinalizers()) == 0 {
		c.remove(kind, name)
	} else {
		c.put(kind, name, changed)
	}
	c.collectGarbage()
	return changed, nil
}

func metadataOf(obj client.Object) *metav1.ObjectMeta {
	switch obj := obj.(type) {
	case *pipelinesv1.Pipeline:
		return &obj.ObjectMeta
	case *pipelinesv1.PromotionApproval:
		return &obj.ObjectMeta
	}
	panic(fmt.Sprintf("the model patches no %T", obj))
}

// collectGarbage deletes objects whose only owners are deleted Pipelines.
func (c *modelCluster) collectGarbage() {
	pipeline := c.pipeline()
	for _, approval := range c.approvals() {
		if len(approval.OwnerReferences) > 0 && !slices.ContainsFunc(approval.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return pipeline != nil && owner.UID == pipeline.UID
		}) {
			c.remove(approvalObjects, approval.Name)
		}
	}
}

// edit changes the Pipeline like a person.
func (c *modelCluster) edit(change func(*pipelinesv1.Pipeline)) {
	pipeline := c.pipeline().DeepCopy()
	spec := pipeline.Spec.DeepCopy()
	change(pipeline)
	if !equality.Semantic.DeepEqual(*spec, pipeline.Spec) {
		pipeline.Generation++
	}
	c.put(pipelineObjects, pipeline.Name, pipeline)
}

// modelCache is a process' view of the cluster: the changes of each kind up to some point.
type modelCache [modelKinds]struct {
	at      int
	objects map[string]any
}

// newModelCache returns a cache that lacks the last changes of each kind, like one that was filled from another replica
// of the API server.
func newModelCache(c *modelCluster, behind func(modelKind) int) *modelCache {
	cache := &modelCache{}
	for kind := range modelKinds {
		cache[kind].objects = map[string]any{}
		changes := c.kinds[kind].changes
		for cache[kind].at < len(changes)-min(behind(kind), len(changes)) {
			cache.take(c, kind)
		}
	}
	return cache
}

// take applies the next change of a kind, and returns the object before and after.
func (cache *modelCache) take(c *modelCluster, kind modelKind) (name string, before, after any) {
	change := c.kinds[kind].changes[cache[kind].at]
	cache[kind].at++
	before = cache[kind].objects[change.name]
	if change.object == nil {
		delete(cache[kind].objects, change.name)
	} else {
		cache[kind].objects[change.name] = change.object
	}
	return change.name, before, change.object
}

// passes reports whether the controller's predicates pass a change: see SetupWithManager.
func passes(kind modelKind, before, after any) bool {
	if before == nil || after == nil || kind == approvalObjects {
		return true
	}
	if kind == applicationObjects {
		return before != after
	}
	update := event.UpdateEvent{ObjectOld: before.(client.Object), ObjectNew: after.(client.Object)}
	if kind == gateObjects {
		return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}).Update(update)
	}
	return true
}

// concerns reports whether the cached Pipeline refers to the object: the indexes that map objects to Pipelines contain
// no other.
func (cache *modelCache) concerns(kind modelKind, name string) bool {
	pipeline, ok := cache[pipelineObjects].objects[modelPipeline.Name].(*pipelinesv1.Pipeline)
	switch {
	case kind == pipelineObjects || kind == approvalObjects:
		return true
	case !ok:
		return false
	case kind == gateObjects:
		return slices.Contains(indexGates(pipeline), modelNamespace+"/"+name)
	}
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			if t.Namespace == name {
				return true
			}
		}
	}
	return false
}

// modelClient is a manager's client: it reads from the process's cache and writes to the cluster. Methods that the
// model does not need are those of the nil interface.
type modelClient struct {
	client.Client
	*process
}

func (c modelClient) Scheme() *runtime.Scheme { return c.model.cluster.scheme }

func (c modelClient) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind := kindOf(obj)
	c.catchUpABit(kind)
	return copyInto(c.cache[kind].objects[key.Name], key.Name, obj)
}

func (c modelClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.catchUpABit(approvalObjects)
	c.startObserving()
	return copyApprovals(approvalsIn(c.cache[approvalObjects].objects), list, opts)
}

func (c modelClient) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	content, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var patched client.Object
	err = c.api(fmt.Sprintf("patch %s with %s", obj.GetName(), content), func() (err error) {
		pipeline := c.model.cluster.pipeline()
		patched, err = c.model.cluster.patch(kindOf(obj), obj.GetName(), content)
		if pipeline != nil && c.model.cluster.pipeline() == nil {
			c.model.checkGone(c.process, pipeline)
		}
		return err
	})
	if err != nil {
		return err
	}
	return copyInto(patched, obj.GetName(), obj)
}

func (c modelClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	return c.api("delete "+obj.GetName(), func() error {
		stored, ok := c.model.cluster.get(kindOf(obj), obj.GetName()).(client.Object)
		switch {
		case !ok:
			return notFound(obj.GetName())
		case options.Preconditions != nil && *options.Preconditions.UID != stored.GetUID():
			return conflict(obj.GetName())
		}
		c.model.cluster.remove(kindOf(obj), obj.GetName())
		return nil
	})
}

func (c modelClient) Status() client.SubResourceWriter { return modelStatus{process: c.process} }

type modelStatus struct {
	client.SubResourceWriter
	*process
}

func (s modelStatus) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	s.observing = false
	update := obj.(*pipelinesv1.Pipeline)
	sent := update.DeepCopy()
	var stored *pipelinesv1.Pipeline
	err := s.api("update the status", func() error {
		before, after, err := s.model.cluster.updateStatus(sent)
		if err != nil {
			return err
		}
		if before != after {
			s.model.checkStatus(s.process, before, after)
		}
		stored = after
		return nil
	})
	if err != nil {
		return err
	}
	stored.DeepCopyInto(update)
	return nil
}

// modelReader reads without the cache, and cannot list.
type modelReader struct {
	client.Reader
	*process
}

func (r modelReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return r.api("read "+key.Name, func() error {
		return copyInto(r.model.cluster.get(kindOf(obj), key.Name), key.Name, obj)
	})
}

// modelTargets reads applications from the process's cache. If two environments share an application, it has the same
// state in both.
type modelTargets struct{ *process }

func (modelTargets) Want(context.Context, *pipelinesv1.Pipeline) {}

func (modelTargets) Forget(types.NamespacedName) {}

func (modelTargets) Refresh(types.NamespacedName) {}

// ReadSources has nothing to read: applications of the model have no sources.
func (modelTargets) ReadSources(_ context.Context, _ *pipelinesv1.Pipeline, of []application.SourceOf) []application.State {
	return make([]application.State, len(of))
}

func (t modelTargets) Read(_ context.Context, _ *pipelinesv1.Pipeline, of pipelinesv1.Target) application.State {
	namespace := of.Namespace
	if state, ok := t.reads[namespace]; ok && t.observing {
		return state
	}
	t.catchUpABit(applicationObjects)
	state := applicationIn(t.cache[applicationObjects].objects, namespace)
	if t.observing {
		t.reads[namespace] = state
	}
	return state
}

func kindOf(obj client.Object) modelKind {
	switch obj.(type) {
	case *pipelinesv1.Pipeline:
		return pipelineObjects
	case *gatingv1.Gate:
		return gateObjects
	case *pipelinesv1.PromotionApproval:
		return approvalObjects
	}
	panic(fmt.Sprintf("the model has no %T", obj))
}

func copyInto(stored any, name string, out client.Object) error {
	switch stored := stored.(type) {
	case *pipelinesv1.Pipeline:
		stored.DeepCopyInto(out.(*pipelinesv1.Pipeline))
	case *gatingv1.Gate:
		stored.DeepCopyInto(out.(*gatingv1.Gate))
	case *pipelinesv1.PromotionApproval:
		stored.DeepCopyInto(out.(*pipelinesv1.PromotionApproval))
	default:
		return notFound(name)
	}
	return nil
}

func copyApprovals(approvals []*pipelinesv1.PromotionApproval, list client.ObjectList, opts []client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	name, ok := options.FieldSelector.RequiresExactMatch(pipelinesv1.ApprovalPipelineField)
	if !ok {
		return errors.New("approvals are listed by Pipeline")
	}
	out := list.(*pipelinesv1.PromotionApprovalList)
	for _, approval := range approvals {
		if approval.Spec.PipelineRef.Name == name {
			out.Items = append(out.Items, *approval.DeepCopy())
		}
	}
	return nil
}
