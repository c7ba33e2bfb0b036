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

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// gateIndex finds the sources and Pipelines that refer to a gate by its name.
const gateIndex = "gates"

// Options are settings of the controllers.
type Options struct {
	// Concurrent is how many objects of a kind are reconciled at once.
	Concurrent int
	// RateLimiter makes what paces the retries of a controller.
	RateLimiter func() workqueue.TypedRateLimiter[reconcile.Request]
}

func (o Options) controller() controller.Options {
	return controller.Options{MaxConcurrentReconciles: o.Concurrent, RateLimiter: o.RateLimiter()}
}

// SetupWithManager starts the controller of the kind with the manager.
func (r *SourceReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, r.New(), gateIndex, gatesOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(r.New(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, gatesOpenChanged(), heldChanged()))).
		Watches(&gatingv1.Gate{}, handler.EnqueueRequestsFromMapFunc(r.sourcesOf), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WithOptions(options.controller()).
		Complete(r)
}

// SetupWithManager starts the controller with the manager. It counts Pipelines if the cluster has that kind.
func (r *GateReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	_, err := mgr.GetRESTMapper().RESTMapping(pipelinesv1.GroupVersion.WithKind(pipelinesv1.PipelineKind).GroupKind())
	if err != nil && !meta.IsNoMatchError(err) {
		return err
	}
	r.countPipelines = err == nil

	gates := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return requests(obj.GetNamespace(), gatesOf(obj))
	})
	b := ctrl.NewControllerManagedBy(mgr).
		For(&gatingv1.Gate{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&source.GitRepository{}, gates, builder.WithPredicates(heldChanged())).
		WithOptions(options.controller())
	if r.countPipelines {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &pipelinesv1.Pipeline{}, gateIndex, gatesOf); err != nil {
			return err
		}
		b = b.Watches(&pipelinesv1.Pipeline{}, gates, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return b.Complete(r)
}

// gatesOf returns the names of the gates that a source or a Pipeline refers to.
func gatesOf(obj client.Object) []string {
	var refs []gatingv1.GateReference
	switch obj := obj.(type) {
	case source.Source:
		if gates, err := source.References(obj); err == nil && gates != nil {
			refs = gates.Refs
		}
	case *pipelinesv1.Pipeline:
		refs = obj.GateReferences()
	}
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = string(ref)
	}
	return names
}

func requests(namespace string, names []string) []reconcile.Request {
	all := make([]reconcile.Request, len(names))
	for i, name := range names {
		all[i].NamespacedName = types.NamespacedName{Namespace: namespace, Name: name}
	}
	return all
}

// sourcesOf returns the sources of the kind that refer to a gate.
func (r *SourceReconciler) sourcesOf(ctx context.Context, gate client.Object) []reconcile.Request {
	var repositories source.GitRepositoryList
	if err := r.List(ctx, &repositories, client.InNamespace(gate.GetNamespace()), client.MatchingFields{gateIndex: gate.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the sources of a gate failed", "gate", client.ObjectKeyFromObject(gate))
		return nil
	}
	var names []string
	for i := range repositories.Items {
		names = append(names, repositories.Items[i].Name)
	}
	return requests(gate.GetNamespace(), names)
}

// gatesOpenChanged passes updates that touch the condition GatesOpen, which is put right if somebody else wrote it.
func gatesOpenChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(source.Source)
		after, afterOK := e.ObjectNew.(source.Source)
		return beforeOK && afterOK && !equality.Semantic.DeepEqual(
			conditions.Get(before, gatingv1.GatesOpenCondition), conditions.Get(after, gatingv1.GatesOpenCondition))
	}}
}

// heldChanged passes updates after which a source is held or not, or by other gates.
func heldChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return hold.Held(e.ObjectOld) != hold.Held(e.ObjectNew) ||
			!equality.Semantic.DeepEqual(gatesOf(e.ObjectOld), gatesOf(e.ObjectNew))
	}}
}
