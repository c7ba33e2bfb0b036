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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

const (
	gateIndex   = "gates"
	targetIndex = "targets"
)

// Options are settings of the controller.
type Options struct {
	// Concurrent is how many Pipelines are reconciled at once.
	Concurrent int
	// RateLimiter paces retries.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
}

// SetupWithManager starts the controller with the manager. Kinds of application objects are watched from when the first
// Pipeline names them.
func (r *PipelineReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &pipelinesv1.Pipeline{}, gateIndex, indexGates); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &pipelinesv1.Pipeline{}, targetIndex, indexTargets); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &pipelinesv1.PromotionApproval{}, pipelinesv1.ApprovalPipelineField, indexApprovals); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		// Changes of the status count, too. One that the cache shows only after another plan was made, which then had nothing to write
		// because it was made from the status before, would go unnoticed otherwise.
		For(&pipelinesv1.Pipeline{}).
		Watches(&gatingv1.Gate{}, handler.EnqueueRequestsFromMapFunc(r.pipelinesOfGate), builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&pipelinesv1.PromotionApproval{}, handler.EnqueueRequestsFromMapFunc(pipelineOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Concurrent, RateLimiter: options.RateLimiter})
	if !r.NoCrossNamespaceRefs {
		b = b.WatchesMetadata(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.pipelinesIn),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	built, err := b.Build(r)
	if err != nil {
		return err
	}
	r.Targets = &target.Local{
		Cache:  mgr.GetCache(),
		Live:   mgr.GetAPIReader(),
		Mapper: mgr.GetRESTMapper(),
		Watch: func(kind schema.GroupVersionKind) error {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(kind)
			return built.Watch(source.Kind[client.Object](mgr.GetCache(), obj, r.queuePipelinesOfTarget(), stateChanged()))
		},
	}
	return nil
}

// namespaceMetadata is what is read and held of Namespaces: the gates' spec.accessFrom selects by their labels.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

func indexGates(obj client.Object) []string {
	var keys []string
	for _, ref := range obj.(*pipelinesv1.Pipeline).GateReferences() {
		keys = append(keys, ref.NamespacedName(obj.GetNamespace()).String())
	}
	return keys
}

func indexTargets(obj client.Object) []string {
	pipeline := obj.(*pipelinesv1.Pipeline)
	app := pipeline.Spec.AppRef
	kind := schema.FromAPIVersionAndKind(app.APIVersion, app.Kind).GroupKind()
	var keys []string
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			if t.ClusterRef == nil {
				keys = append(keys, targetKey(kind, t.Namespace, app.Name))
			}
		}
	}
	return keys
}

// targetKey leaves the version out: the cluster may serve another one than the Pipeline names.
func targetKey(kind schema.GroupKind, namespace, name string) string {
	return strings.Join([]string{kind.String(), namespace, name}, "/")
}

func (r *PipelineReconciler) pipelinesOfGate(ctx context.Context, gate client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{gateIndex: client.ObjectKeyFromObject(gate).String()})
}

// pipelinesIn returns the Pipelines in a namespace, whose labels decide which gates of other namespaces they may refer to.
func (r *PipelineReconciler) pipelinesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(namespace.GetName()))
}

// flickerPatience is longer than Flux's controllers take, as a rule, to look at an application that hasn't changed.
const flickerPatience = 5 * time.Second

// queuePipelinesOfTarget queues the Pipelines of an application object that has changed. Flux's controllers make an application
// Unknown at each interval, and ready again a moment later: if that is all, the Pipelines are left alone for that moment.
func (r *PipelineReconciler) queuePipelinesOfTarget() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, obj client.Object, to queue, wait time.Duration) {
		for _, request := range r.pipelinesOfTarget(ctx, obj) {
			to.AddAfter(request, wait)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, to queue) { add(ctx, e.Object, to, 0) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, to queue) { add(ctx, e.Object, to, 0) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, to queue) {
			wait := time.Duration(0)
			if flickers(e.ObjectOld, e.ObjectNew) {
				wait = flickerPatience
			}
			add(ctx, e.ObjectNew, to, wait)
		},
	}
}

// flickers tells whether an application has only ceased to be ready because its controller looks at it.
func flickers(before, after client.Object) bool {
	old, oldOK := before.(*unstructured.Unstructured)
	now, nowOK := after.(*unstructured.Unstructured)
	if !oldOK || !nowOK {
		return false
	}
	was, is := target.StateOf(old), target.StateOf(now)
	return was.Ready && is.Reconciling && was.Revision == is.Revision
}

func (r *PipelineReconciler) pipelinesOfTarget(ctx context.Context, obj client.Object) []reconcile.Request {
	kind := obj.GetObjectKind().GroupVersionKind().GroupKind()
	return r.requests(ctx, client.MatchingFields{targetIndex: targetKey(kind, obj.GetNamespace(), obj.GetName())})
}

func (r *PipelineReconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var pipelines pipelinesv1.PipelineList
	if err := r.List(ctx, &pipelines, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing Pipelines failed")
		return nil
	}
	requests := make([]reconcile.Request, len(pipelines.Items))
	for i := range pipelines.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&pipelines.Items[i])
	}
	return requests
}

// stateChanged passes changes of what is read of an application object: most of its changes are none for a Pipeline.
func stateChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(*unstructured.Unstructured)
		after, afterOK := e.ObjectNew.(*unstructured.Unstructured)
		return !beforeOK || !afterOK || target.StateOf(before) != target.StateOf(after)
	}}
}
