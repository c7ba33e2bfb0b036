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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const gateIndex = "gates"

// Options are settings of the controller.
type Options struct {
	// Concurrent is how many Pipelines are reconciled at once.
	Concurrent int
	// RateLimiter paces retries.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// Targets queues Pipelines when one of their targets has changed.
	Targets source.Source
}

// SetupWithManager starts the controller with the manager.
func (r *PipelineReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &pipelinesv1.Pipeline{}, gateIndex, indexGates); err != nil {
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
		WatchesRawSource(options.Targets).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Concurrent, RateLimiter: options.RateLimiter})
	if !r.NoCrossNamespaceRefs {
		b = b.WatchesMetadata(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.pipelinesIn),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
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

func (r *PipelineReconciler) pipelinesOfGate(ctx context.Context, gate client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{gateIndex: client.ObjectKeyFromObject(gate).String()})
}

// pipelinesIn returns the Pipelines in a namespace, whose labels decide which gates of other namespaces they may refer to.
func (r *PipelineReconciler) pipelinesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
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
