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
	"github.com/sluice-toolkit/sluice/runtime/gates"
)

const (
	gateIndex      = "gates"
	namespaceIndex = "targetNamespaces"
)

// Options are settings of the controller.
type Options struct {
	// Concurrent is how many Pipelines are reconciled at once.
	Concurrent int
	// RateLimiter paces retries.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// Sources queue Pipelines besides the changes of objects: when a target has changed, when a task has ended.
	Sources []source.Source
	// Confined is true for a controller that sees the objects of its own namespace only, and so no Namespaces.
	Confined bool
}

// SetupWithManager starts the controller with the manager.
func (r *PipelineReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &pipelinesv1.Pipeline{}, gateIndex, indexGates); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &pipelinesv1.Pipeline{}, namespaceIndex, indexTargetNamespaces); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &pipelinesv1.PromotionApproval{}, pipelinesv1.ApprovalPipelineField, indexApprovals); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		// Changes of the status count, too. One that the cache shows only after another plan was made, which then had nothing to write
		// because it was made from the status before, would go unnoticed otherwise.
		For(&pipelinesv1.Pipeline{}).
		Watches(&gatingv1.Gate{}, handler.EnqueueRequestsFromMapFunc(r.pipelinesOfGate), builder.WithPredicates(gateTurned())).
		Watches(&pipelinesv1.PromotionApproval{}, handler.EnqueueRequestsFromMapFunc(pipelineOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Concurrent, RateLimiter: options.RateLimiter})
	for _, source := range options.Sources {
		b = b.WatchesRawSource(source)
	}
	if !options.Confined {
		b = b.WatchesMetadata(gates.NamespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.pipelinesOfNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
}

// gateTurned passes what matters of a Gate: that it was opened or closed, and the reason given for it.
func gateTurned() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{})
}

// specChanged passes updates of an object's spec. (GenerationChangedPredicate misses one: an object that was deleted and created
// again while its watch was interrupted comes as an update, and its generation may be the same.)
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
}

func indexGates(obj client.Object) []string {
	var keys []string
	for _, ref := range obj.(*pipelinesv1.Pipeline).GateReferences() {
		keys = append(keys, ref.NamespacedName(obj.GetNamespace()).String())
	}
	return keys
}

func indexTargetNamespaces(obj client.Object) []string {
	var namespaces []string
	for _, env := range obj.(*pipelinesv1.Pipeline).Spec.Environments {
		for _, t := range env.Targets {
			if t.ClusterRef == nil {
				namespaces = append(namespaces, t.Namespace)
			}
		}
	}
	return namespaces
}

func (r *PipelineReconciler) pipelinesOfGate(ctx context.Context, gate client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{gateIndex: client.ObjectKeyFromObject(gate).String()})
}

// pipelinesOfNamespace returns the Pipelines that the labels of a namespace matter to. They decide which gates of other namespaces the
// Pipelines in it may refer to; or, where that is denied to all, which Pipelines may have targets in it.
func (r *PipelineReconciler) pipelinesOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	if r.NoCrossNamespaceRefs {
		return r.requests(ctx, client.MatchingFields{namespaceIndex: namespace.GetName()})
	}
	return r.requests(ctx, client.InNamespace(namespace.GetName()))
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
