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
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
)

// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=get;list;watch
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates/status,verbs=patch
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines,verbs=get;list;watch

// GateReconciler tells in a Gate's status whether it is open and what it holds.
type GateReconciler struct {
	client.Client

	// countPipelines is false where the cluster has no Pipelines.
	countPipelines bool
	own            ownWrites
}

// Reconcile writes the status of a Gate.
func (r *GateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	gate := &gatingv1.Gate{}
	if err := r.Get(ctx, req.NamespacedName, gate); err != nil {
		r.own.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.own.isAheadOf(gate) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	defer func() { r.own.remember(gate) }()
	before := gate.DeepCopy()
	if err := r.count(ctx, gate); err != nil {
		return ctrl.Result{}, err
	}
	describe(gate)
	if equality.Semantic.DeepEqual(before.Status, gate.Status) {
		return ctrl.Result{}, nil
	}
	return settle(r.Status().Patch(ctx, gate, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// count finds who refers to the gate.
func (r *GateReconciler) count(ctx context.Context, gate *gatingv1.Gate) error {
	sources, err := referrers(ctx, r.Client, client.ObjectKeyFromObject(gate))
	if err != nil {
		return fmt.Errorf("listing the sources of the gate: %w", err)
	}
	gate.Status.Sources, gate.Status.Held = int32(len(sources)), 0
	for _, obj := range sources {
		if hold.On(obj).Suspend {
			gate.Status.Held++
		}
	}
	if !r.countPipelines {
		return nil
	}
	var pipelines pipelinesv1.PipelineList
	if err := r.List(ctx, &pipelines, client.MatchingFields{gateIndex: client.ObjectKeyFromObject(gate).String()}); err != nil {
		return fmt.Errorf("listing the Pipelines of the gate: %w", err)
	}
	gate.Status.Pipelines = int32(len(pipelines.Items))
	return nil
}

func describe(gate *gatingv1.Gate) {
	status, reason := metav1.ConditionTrue, gatingv1.OpenReason
	message := "the gate is open"
	if gate.Spec.Closed {
		status, reason, message = metav1.ConditionFalse, gatingv1.ClosedReason, "the gate is closed"
	}
	if why := gate.Reason(); why != "" {
		message += ": " + why
	}
	gate.Status.ObservedGeneration = gate.Generation
	if before := conditions.Get(gate, gatingv1.OpenCondition); before == nil || before.Status != status || gate.Status.LastTransitionTime == nil {
		now := metav1.Now()
		gate.Status.LastTransitionTime = &now
	}
	conditions.Set(gate, &metav1.Condition{
		Type: gatingv1.OpenCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: gate.Generation,
	})
	conditions.Set(gate, &metav1.Condition{
		Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: meta.SucceededReason, ObservedGeneration: gate.Generation,
		Message: fmt.Sprintf("%s; %d of %d sources are held, %d pipelines refer to it",
			message, gate.Status.Held, gate.Status.Sources, gate.Status.Pipelines),
	})
}
