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
	"time"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
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

// Options are the settings of the controller.
type Options struct {
	// Concurrent is the number of concurrent reconciles.
	Concurrent int
	// RateLimiter limits retries.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// Sources trigger reconciles in addition to changes of objects: after changes of targets and at the end of tasks.
	Sources []source.Source
	// Confined is true for a controller that only watches its own namespace, and therefore no Namespaces.
	Confined bool
}

// SetupWithManager registers the controller with the manager.
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
		// Changes of the status count too. Otherwise a change would be missed if the cache shows it only after another
		// plan, which wrote nothing because it was made from the previous status.
		For(&pipelinesv1.Pipeline{}).
		Watches(&gatingv1.Gate{}, handler.EnqueueRequestsFromMapFunc(r.pipelinesOfGate), builder.WithPredicates(gateTurned())).
		Watches(&pipelinesv1.PromotionApproval{}, handler.EnqueueRequestsFromMapFunc(pipelineOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Concurrent, RateLimiter: options.RateLimiter})
	if r.ReadAlerts {
		b = b.Watches(&notificationv1.Alert{}, handler.EnqueueRequestsFromMapFunc(r.pipelinesOfAlert), builder.WithPredicates(specChanged()))
	}
	for _, source := range options.Sources {
		b = b.WatchesRawSource(source)
	}
	if !options.Confined {
		b = b.WatchesMetadata(gates.NamespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.pipelinesOfNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
}

// gateTurned filters updates of a Gate: that it was opened or closed, and changes of the reason for it or of the
// revisions that may pass. At the zero time, no pass has expired, so all are compared.
func gateTurned() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*gatingv1.Gate), e.ObjectNew.(*gatingv1.Gate)
		return !equality.Semantic.DeepEqual(before.Passing(time.Time{}), after.Passing(time.Time{}))
	}})
}

// specChanged filters updates that change an object's spec. (GenerationChangedPredicate misses one: if an object was
// deleted and created again while its watch was interrupted, that is an update too, and the generation may be the
// same.)
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

// pipelinesOfNamespace returns the Pipelines for which the labels of a namespace matter. The labels decide which gates
// of other namespaces the Pipelines in it may refer to. If cross-namespace references are disabled, they decide which
// Pipelines may have targets in it.
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
