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
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/announce"
	"github.com/sluice-toolkit/sluice/runtime/ownwrites"
)

// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=get;list;watch
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates/status,verbs=patch
// +kubebuilder:rbac:groups=pipelines.weave.works,resources=pipelines,verbs=get;list;watch

// GateReconciler writes the status of Gates: whether they are open, and what they hold.
type GateReconciler struct {
	client.Client
	*announce.Announcer

	// Kinds are the kinds that gates can hold.
	Kinds []source.Kind
	// NoCrossNamespaceRefs denies access to gates in other namespaces.
	NoCrossNamespaceRefs bool
	// Now is the clock.
	Now func() time.Time

	// countPipelines is false if the cluster has no CRD for Pipelines.
	countPipelines bool
	own            ownwrites.Log
}

// Reconcile updates the status of a Gate.
func (r *GateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	gate := &gatingv1.Gate{}
	if err := r.Get(ctx, req.NamespacedName, gate); err != nil {
		r.own.Forget(req.NamespacedName)
		durations.DeleteDuration(referTo(req.NamespacedName))
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.own.IsAheadOf(gate) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	defer durations.RecordDuration(referTo(req.NamespacedName), time.Now())
	defer func() { r.own.Remember(gate) }()
	before, state := gate.DeepCopy(), gate.StateAt(r.Now())
	if err := r.count(ctx, gate); err != nil {
		return ctrl.Result{}, err
	}
	granted, err := r.granted(ctx, gate)
	if err != nil {
		return ctrl.Result{}, err
	}
	gate.Status.Passes = gatingv1.PassesInForce(gate, granted, r.Now())
	turning := describe(before, gate, state)
	if !equality.Semantic.DeepEqual(before.Status, gate.Status) {
		if err := r.Status().Patch(ctx, gate, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return settle(err)
		}
	}
	r.announce(before, gate, state, turning)
	r.announcePasses(before, gate, granted)
	return ctrl.Result{RequeueAfter: r.lookAgain(gate, state, turning)}, nil
}

// clockCheck is how often a gate with times is reconciled. A timer does not notice when the clock is set.
const clockCheck = time.Minute

// lookAgain returns when the gate must be reconciled without an event. It is 0 if it need not be.
func (r *GateReconciler) lookAgain(gate *gatingv1.Gate, state gatingv1.State, turning turning) time.Duration {
	var after time.Duration
	if gate.IsTimed() || len(gate.Status.Passes) > 0 {
		after = clockCheck
	}
	for _, pass := range gate.Status.Passes {
		after = min(after, untilThen(pass.Expires.Time, r.Now()))
	}
	if !state.Until.IsZero() {
		after = min(after, untilThen(state.Until, r.Now()))
	}
	if turning == following {
		follow := max(time.Second, time.Until(gate.Status.LastTransitionTime.Add(followTimeout)))
		if after == 0 || follow < after {
			return follow
		}
	}
	return after
}

// untilThen returns the time until then. It is never 0, which would mean never.
func untilThen(then, now time.Time) time.Duration { return max(then.Sub(now), time.Millisecond) }

// count updates the numbers of sources, promotions and Pipelines in the gate's status.
func (r *GateReconciler) count(ctx context.Context, gate *gatingv1.Gate) error {
	sources, err := referrers(ctx, r.Client, r.Kinds, client.ObjectKeyFromObject(gate))
	if err != nil {
		return fmt.Errorf("listing the sources of the gate: %w", err)
	}
	status := &gate.Status
	status.Sources, status.Held, status.HeldPromotions, status.Refused, status.Pending, status.Lost = int32(len(sources)), 0, 0, 0, 0, 0
	for _, obj := range sources {
		pending, err := r.pending(ctx, obj)
		if err != nil {
			return err
		}
		status.Held += one(hold.On(obj).Suspend)
		status.Refused += one(refused(obj))
		status.Lost += one(conditions.Has(obj, gatingv1.ArtifactLostCondition))
		status.Pending += one(pending)
	}
	if !r.countPipelines {
		return nil
	}
	return r.countPromotions(ctx, gate)
}

// pending reports whether a source has not followed its gates yet. A failed hold is counted as refused instead.
func (r *GateReconciler) pending(ctx context.Context, obj source.Source) (bool, error) {
	gating, err := r.evaluator().gatingBy(ctx, r.Client, obj)
	if err != nil || gating == nil {
		return false, err
	}
	return gating.claim.Suspend != hold.On(obj).Suspend && !refused(obj) && obj.GetDeletionTimestamp().IsZero(), nil
}

func (r *GateReconciler) evaluator() evaluator {
	return evaluator{cache: r.Client, live: r.Client, noCrossNamespaceRefs: r.NoCrossNamespaceRefs, now: r.Now}
}

// countPromotions counts the Pipelines that refer to the gate, and their promotions that wait for it.
func (r *GateReconciler) countPromotions(ctx context.Context, gate *gatingv1.Gate) error {
	key := client.ObjectKeyFromObject(gate)
	var pipelines pipelinesv1.PipelineList
	if err := r.List(ctx, &pipelines, client.MatchingFields{gateIndex: key.String()}); err != nil {
		return fmt.Errorf("listing the Pipelines of the gate: %w", err)
	}
	gate.Status.Pipelines = int32(len(pipelines.Items))
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		for env := range pipeline.PromotedEnvironments() {
			promotion := pipeline.PromotionInto(env)
			if promotion == nil || !promotion.Gates.Name(key, pipeline.Namespace) || pipeline.WaitsForGates(env.Name) == nil {
				continue
			}
			status := pipeline.Status.Environments[env.Name]
			found, err := r.evaluator().find(ctx, pipeline.Namespace, promotion.Gates)
			if err != nil {
				return err
			}
			evaluation := gatingv1.EvaluateRevision(promotion.Gates, found, status.Promotion.Revision, r.Now())
			// pipeline-controller evaluates the gates only when it is the promotion's turn. Otherwise its status may be
			// outdated.
			waits := status.State == pipelinesv1.EnvironmentWaiting
			held := one(waits || !evaluation.Open)
			gate.Status.Held += held
			gate.Status.HeldPromotions += held
			gate.Status.Pending += one(waits && evaluation.Open)
		}
	}
	return nil
}

func one(counts bool) int32 {
	if counts {
		return 1
	}
	return 0
}

// turning says how far sources and promotions have followed the last change of a gate.
type turning int

const (
	// still means that the gate has not changed, or that its change was announced.
	still turning = iota
	// following means that some sources or promotions have not followed the change yet.
	following
	// turned means that all have followed, or that followTimeout has passed.
	turned
)

// followTimeout is the maximum time for sources and promotions to follow a gate. After that, the event counts those
// that have not.
const followTimeout = time.Minute

// describe writes the gate's state and the counts into its status.
func describe(before, gate *gatingv1.Gate, state gatingv1.State) turning {
	gate.Status.Reason, gate.Status.TurnedBy, gate.Status.NextTransitionTime = state.Reason, state.By.String(), nil
	if !state.Until.IsZero() {
		gate.Status.NextTransitionTime = new(metav1.NewTime(state.Until))
	}
	status, reason, message := metav1.ConditionTrue, gatingv1.OpenReason, "the gate is "+state.String()
	if state.Closed {
		status, reason = metav1.ConditionFalse, gatingv1.ClosedReason
	}
	if gate.Status.Reason != "" {
		message += ": " + gate.Status.Reason
	}
	gate.Status.ObservedGeneration = gate.Generation
	if open := conditions.Get(before, gatingv1.OpenCondition); open == nil || open.Status != status || gate.Status.LastTransitionTime == nil {
		gate.Status.LastTransitionTime = new(metav1.Now())
	}
	conditions.Set(gate, &metav1.Condition{Type: gatingv1.OpenCondition, Status: status, Reason: reason, Message: message})
	turning := turnOf(before, gate)
	if passes := describePasses(gate.Status.Passes); state.Closed && passes != "" {
		message += "; passes in force: " + passes
	}
	describeReady(gate, state, turning, fmt.Sprintf("%s; %s, %s", message, describeHeld(gate), many(gate.Status.Pipelines, "pipeline refers", "pipelines refer")+" to it"))
	return turning
}

// turnOf compares the previous status of a gate with its state. A new gate that is open has not changed.
func turnOf(before, gate *gatingv1.Gate) turning {
	open, was := conditions.Get(gate, gatingv1.OpenCondition), conditions.Get(before, gatingv1.OpenCondition)
	began := was == nil && open.Status == metav1.ConditionFalse || was != nil && was.Status != open.Status
	switch {
	case !began && conditions.GetReason(before, meta.ReadyCondition) != meta.ProgressingReason:
		return still
	case gate.Status.Pending > 0 && time.Since(gate.Status.LastTransitionTime.Time) < followTimeout:
		return following
	}
	return turned
}

func describeReady(gate *gatingv1.Gate, state gatingv1.State, turning turning, message string) {
	conditions.Delete(gate, meta.StalledCondition)
	ready := &metav1.Condition{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: meta.SucceededReason, Message: message}
	switch {
	case state.Invalid != nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, gatingv1.InvalidWindowsReason
		conditions.Set(gate, &metav1.Condition{
			Type: meta.StalledCondition, Status: metav1.ConditionTrue, Reason: gatingv1.InvalidWindowsReason, Message: state.Invalid.Error(),
		})
	case turning == following:
		ready.Status, ready.Reason = metav1.ConditionUnknown, meta.ProgressingReason
	case gate.Status.Refused > 0:
		ready.Status, ready.Reason = metav1.ConditionFalse, gatingv1.HoldFailedReason
		ready.Message += "; " + describeRefused(gate)
	}
	conditions.Set(gate, ready)
}

// describeHeld describes what a gate holds.
func describeHeld(gate *gatingv1.Gate) string {
	status := &gate.Status
	text := fmt.Sprintf("%d of %s held, %s", status.HeldSources(), many(status.Sources, "source is", "sources are"),
		many(status.HeldPromotions, "promotion waits", "promotions wait"))
	if status.Pending > 0 {
		text += fmt.Sprintf(", %d pending", status.Pending)
	}
	if status.Lost > 0 {
		text += ", " + describeLost(status)
	}
	return text
}

func many(n int32, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, plural)
}
