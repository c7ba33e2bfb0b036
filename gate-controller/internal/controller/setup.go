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
	"reflect"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/gates"
)

// Options are the settings of the controllers.
type Options struct {
	// Concurrent is the number of objects of a kind that are reconciled at the same time.
	Concurrent int
	// RateLimiter returns a new rate limiter for the retries of a controller.
	RateLimiter func() workqueue.TypedRateLimiter[reconcile.Request]
}

func (o Options) controller() controller.Options {
	return controller.Options{MaxConcurrentReconciles: o.Concurrent, RateLimiter: o.RateLimiter()}
}

// IndexSources adds the indexes of sources. Call it once, before the controllers are set up.
func IndexSources(ctx context.Context, mgr ctrl.Manager, kinds []source.Kind) error {
	for _, kind := range kinds {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind.New(), gateIndex, indexGates); err != nil {
			return err
		}
	}
	return mgr.GetFieldIndexer().IndexField(ctx, source.HelmCharts.New(), repositoryIndex, func(obj client.Object) []string {
		if name := source.HelmRepositoryOf(obj.(source.Source)); name != "" {
			return []string{name}
		}
		return nil
	})
}

// SetupWithManager adds the controller of the kind to the manager.
func (r *SourceReconciler) SetupWithManager(mgr ctrl.Manager, options Options) error {
	b := ctrl.NewControllerManagedBy(mgr).
		For(r.Kind.New(), builder.WithPredicates(sourceChanged())).
		Watches(&gatingv1.Gate{}, closeFirst(handler.EnqueueRequestsFromMapFunc(r.sourcesOf)), builder.WithPredicates(predicate.Or(gateTurned(), announcementChanged(), passesChanged()))).
		WithOptions(options.controller())
	if r.Kind.Name == source.HelmCharts.Name {
		b = b.Watches(&source.HelmRepository{}, handler.EnqueueRequestsFromMapFunc(r.chartsOf), builder.WithPredicates(repositoryChanged()))
	}
	if !r.NoCrossNamespaceRefs {
		b = b.WatchesMetadata(gates.NamespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.sourcesIn),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if kind := r.Kind.New(); len(r.ArtifactHosts) > 0 && !source.CommitsImages(kind) && !source.IsExternal(kind) {
		if err := mgr.Add(manager.RunnableFunc(r.watchArtifacts)); err != nil {
			return err
		}
	}
	return b.Complete(r)
}

// SetupWithManager adds the controller to the manager. It counts Pipelines if the cluster has their CRD.
func (r *GateReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	_, err := mgr.GetRESTMapper().RESTMapping(pipelinesv1.GroupVersion.WithKind(pipelinesv1.PipelineKind).GroupKind())
	if err != nil && !apimeta.IsNoMatchError(err) {
		return err
	}
	r.countPipelines = err == nil

	if err := mgr.GetFieldIndexer().IndexField(ctx, &gatingv1.GatePass{}, passIndex, indexPass); err != nil {
		return err
	}
	gates := countLater(handler.EnqueueRequestsFromMapFunc(r.gatesOf))
	b := ctrl.NewControllerManagedBy(mgr).
		For(&gatingv1.Gate{}, builder.WithPredicates(predicate.Or(gateTurned(), passesChanged()))).
		Watches(&gatingv1.GatePass{}, handler.EnqueueRequestsFromMapFunc(gateOfPass)).
		WithOptions(options.controller())
	for _, kind := range r.Kinds {
		b = b.Watches(kind.New(), gates, builder.WithPredicates(predicate.Or(claimChanged(), refusalChanged(), lossChanged())))
	}
	if r.countPipelines {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &pipelinesv1.Pipeline{}, gateIndex, indexGates); err != nil {
			return err
		}
		b = b.Watches(&pipelinesv1.Pipeline{}, gates, builder.WithPredicates(predicate.Or(specChanged(), promotionsChanged())))
	}
	return b.Complete(r)
}

// countDelay is how long changes of what a gate holds are collected before its status is written. When a gate with many
// sources opens or closes, they follow one after another, and each write covers all that follow within this time.
const countDelay = time.Second

// countLater delays the handler's requests by countDelay. Changes of the Gate itself are not delayed.
func countLater(inner handler.EventHandler) handler.EventHandler {
	return adding(inner, func(q queue, request reconcile.Request) {
		q.AddAfter(request, countDelay) // a waiting request is not delayed further
	})
}

// Priorities of the requests for a source. A changed gate comes first: GatesOpen becomes False on all its sources
// before any source is suspended. Holds may hang, and failed holds may fail again.
const (
	turnedPriority = 100
	holdPriority   = 0
	retryPriority  = handler.LowPriority
)

// closeFirst adds the handler's requests with turnedPriority.
func closeFirst(inner handler.EventHandler) handler.EventHandler {
	return adding(inner, func(q queue, request reconcile.Request) {
		q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: new(turnedPriority)}, request)
	})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// adding returns the handler with another function to add its requests to the queue.
func adding(inner handler.EventHandler, add func(queue, reconcile.Request)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { inner.Create(ctx, e, addingQueue{q, add}) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { inner.Update(ctx, e, addingQueue{q, add}) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { inner.Delete(ctx, e, addingQueue{q, add}) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { inner.Generic(ctx, e, addingQueue{q, add}) },
	}
}

type addingQueue struct {
	queue
	add func(queue, reconcile.Request)
}

// Add adds a request with the function.
func (q addingQueue) Add(request reconcile.Request) { q.add(q.queue, request) }

// gatesOf returns the gates that may count an object. The gates of a HelmRepository count its HelmCharts too.
func (r *GateReconciler) gatesOf(ctx context.Context, obj client.Object) []reconcile.Request {
	names := gatesOf(obj)
	if chart, ok := obj.(*source.HelmChart); ok {
		repository := &source.HelmRepository{}
		key := types.NamespacedName{Namespace: chart.Namespace, Name: source.HelmRepositoryOf(chart)}
		if err := r.Get(ctx, key, repository); err == nil {
			names = append(names, gatesOf(repository)...)
		}
	}
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i].NamespacedName = name
	}
	return requests
}

// sourcesOf returns the sources of the kind that a gate can hold.
func (r *SourceReconciler) sourcesOf(ctx context.Context, gate client.Object) []reconcile.Request {
	sources, err := referrers(ctx, r.Client, r.Kinds, client.ObjectKeyFromObject(gate))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the sources of a gate failed", "gate", client.ObjectKeyFromObject(gate))
		return nil
	}
	return r.requests(sources)
}

// sourcesIn returns the sources in a namespace. Its labels decide which gates in other namespaces they may refer to.
func (r *SourceReconciler) sourcesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	sources, err := list(ctx, r.Client, r.Kind, client.InNamespace(namespace.GetName()))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the sources of a namespace failed", "namespace", namespace.GetName())
		return nil
	}
	return r.requests(sources)
}

// chartsOf returns the HelmCharts of a HelmRepository.
func (r *SourceReconciler) chartsOf(ctx context.Context, repository client.Object) []reconcile.Request {
	charts, err := chartsOf(ctx, r.Client, repository)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the charts of a HelmRepository failed", "repository", client.ObjectKeyFromObject(repository))
		return nil
	}
	return r.requests(charts)
}

// requests returns requests for those sources that have the reconciler's kind.
func (r *SourceReconciler) requests(sources []source.Source) []reconcile.Request {
	var requests []reconcile.Request
	mine := reflect.TypeOf(r.Kind.New())
	for _, obj := range sources {
		if reflect.TypeOf(obj) == mine {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	}
	return requests
}

// gateTurned passes changes of a gate's spec and reason.
func gateTurned() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{})
}

// sourceChanged passes updates that may change the evaluation of a source's gates, or what must be written to the
// source.
func sourceChanged() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, conditionsChanged(), claimChanged(), blockedChanged(), publishedPass())
}

// repositoryChanged passes updates that may change the gates that charts of a HelmRepository inherit, or their shard.
func repositoryChanged() predicate.Predicate {
	return predicate.Or(specChanged(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, claimChanged())
}

// specChanged passes updates of an object's spec. GenerationChangedPredicate misses one case: an object that was
// deleted and created again while its watch was interrupted comes as an update, and may have the same generation.
func specChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
}

// conditionsChanged passes updates of the conditions of gate-controller, which are restored if someone else writes
// them. The messages of failures are ignored: each attempt may word them differently, and would trigger the next
// attempt at once.
func conditionsChanged() predicate.Predicate {
	told := func(obj client.Object) []metav1.Condition {
		told := make([]metav1.Condition, len(gatingv1.SourceConditions))
		found, ok := obj.(source.Source)
		for i, name := range gatingv1.SourceConditions {
			if !ok || !conditions.Has(found, name) {
				continue
			}
			told[i] = *conditions.Get(found, name)
			switch told[i].Reason {
			case gatingv1.HoldFailedReason, gatingv1.ReleaseFailedReason, GatesFieldLostReason:
				told[i].Message = ""
			}
		}
		return told
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(told(e.ObjectOld), told(e.ObjectNew))
	}}
}

// claimChanged passes updates of the claim on a source, or of its gates. Gates may change without a new generation,
// when the CRD loses or regains the field.
func claimChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return hold.On(e.ObjectOld) != hold.On(e.ObjectNew) ||
			!equality.Semantic.DeepEqual(gatesOf(e.ObjectOld), gatesOf(e.ObjectNew))
	}}
}

// refusalChanged passes updates after which the hold of a source fails, or no longer fails.
func refusalChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(source.Source)
		after, afterOK := e.ObjectNew.(source.Source)
		return beforeOK && afterOK && refused(before) != refused(after)
	}}
}

// promotionsChanged passes updates of which promotions of a Pipeline wait for gates, and of their states.
func promotionsChanged() predicate.Predicate {
	waiting := func(obj client.Object) []string {
		var waiting []string
		if pipeline, ok := obj.(*pipelinesv1.Pipeline); ok {
			for env := range pipeline.PromotedEnvironments() {
				if pipeline.WaitsForGates(env.Name) != nil {
					waiting = append(waiting, env.Name, string(pipeline.Status.Environments[env.Name].State))
				}
			}
		}
		return waiting
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(waiting(e.ObjectOld), waiting(e.ObjectNew))
	}}
}

// refused reports whether the hold of a source failed.
func refused(obj source.Source) bool {
	return conditions.GetReason(obj, gatingv1.GatesOpenCondition) == gatingv1.HoldFailedReason
}
