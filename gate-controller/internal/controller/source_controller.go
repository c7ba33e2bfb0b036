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

// Package controller holds sources back while their gates are closed, and tells on each Gate what it holds.
package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;helmrepositories;helmcharts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories/status;ocirepositories/status;buckets/status;helmrepositories/status;helmcharts/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// SourceReconciler holds the sources of one kind while their gates are closed.
type SourceReconciler struct {
	client.Client
	*Announcer

	// Kind of the sources.
	Kind source.Kind
	// Selector selects those that are held and released; others are another shard's. All shards see all of them, for the gates that charts
	// inherit, and to count what a gate holds.
	Selector labels.Selector
	// Live reads past the cache.
	Live client.Reader
	// NoCrossNamespaceRefs denies gates of other namespaces. Namespaces are read and watched only without it.
	NoCrossNamespaceRefs bool

	own ownWrites
}

// Reconcile evaluates a source's gates, holds or releases it, and says so in its condition GatesOpen.
func (r *SourceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := r.Kind.New()
	if err := r.Get(ctx, req.NamespacedName, obj); err != nil {
		r.own.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.own.isAheadOf(obj) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if !obj.GetDeletionTimestamp().IsZero() || !r.Selector.Matches(labels.Set(obj.GetLabels())) {
		return ctrl.Result{}, nil
	}
	defer func() { r.own.remember(obj) }()
	if source.HasNoArtifact(obj) {
		// The gates of an OCI HelmRepository are the business of its charts. It may have been of another type.
		return settle(r.release(ctx, obj))
	}
	gating, err := r.gatingOf(ctx, obj)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gating == nil {
		return settle(r.letGo(ctx, obj))
	}
	held, err := r.enforce(ctx, obj, gating)
	if held {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return settle(err)
}

// settle is the result of work on an object that others work on too. A conflict means that it has changed meanwhile, and so is
// looked at again soon.
func settle(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// enforce makes the source follow its gates. The condition is written after the hold or the release, for the generation that
// either has led to. A source that it has just held is left to another pass, for which the hold itself is the occasion: when many
// sources are to be held, all of them are before any is told of. After a release the condition comes at once, since the backstop
// lets nothing out before.
func (r *SourceReconciler) enforce(ctx context.Context, obj source.Source, gating *gating) (held bool, _ error) {
	if hold.On(obj) != gating.claim || gating.claim.Suspend && !obj.Gated().Spec.Suspend {
		if err := hold.Apply(ctx, r.Client, obj, gating.claim); err != nil {
			return false, fmt.Errorf("holding or releasing the source: %w", err)
		}
		if gating.claim.Suspend {
			return true, nil
		}
	}
	status := metav1.ConditionFalse
	if gating.Open {
		status = metav1.ConditionTrue
	}
	before := conditions.Get(obj, gatingv1.GatesOpenCondition)
	if err := r.patchConditions(ctx, obj, func() {
		conditions.Set(obj, &metav1.Condition{
			Type: gatingv1.GatesOpenCondition, Status: status, Reason: gating.Reason, Message: gating.Message,
			ObservedGeneration: obj.GetGeneration(),
		})
	}); err != nil {
		return false, err
	}
	switch {
	case before == nil && gating.Open: // it was never held: nobody needs to be told
	case before == nil || before.Status != status || before.Reason != gating.Reason:
		r.announce(ctx, obj, gating.Evaluation)
	}
	return false, nil
}

// release gives up what is claimed of a source.
func (r *SourceReconciler) release(ctx context.Context, obj source.Source) error {
	if hold.On(obj) == (hold.Claim{}) {
		return nil
	}
	if err := hold.Apply(ctx, r.Client, obj, hold.Claim{}); err != nil {
		return fmt.Errorf("releasing the source: %w", err)
	}
	return nil
}

// letGo releases a source that has no gates, and takes the condition away.
func (r *SourceReconciler) letGo(ctx context.Context, obj source.Source) error {
	claim := hold.On(obj)
	if err := r.release(ctx, obj); err != nil {
		return err
	}
	if claim.Suspend {
		r.announce(ctx, obj, gatingv1.Evaluate(nil, nil))
	}
	if !conditions.Has(obj, gatingv1.GatesOpenCondition) {
		return nil
	}
	return r.patchConditions(ctx, obj, func() { conditions.Delete(obj, gatingv1.GatesOpenCondition) })
}

// patchConditions changes GatesOpen. The list of conditions is atomic in the API: server-side apply would take those of
// source-controller too. (fluxcd/pkg/runtime/patch would read the source again, and could tell of a generation that nobody
// evaluated.)
func (r *SourceReconciler) patchConditions(ctx context.Context, obj source.Source, change func()) error {
	before := obj.DeepCopyObject().(source.Source)
	change()
	if equality.Semantic.DeepEqual(conditions.Get(before, gatingv1.GatesOpenCondition), conditions.Get(obj, gatingv1.GatesOpenCondition)) {
		return nil
	}
	patch, err := conditionPatch(before, obj)
	if err != nil {
		return err
	}
	err = r.Status().Patch(ctx, obj, patch)
	if apierrors.IsInvalid(err) && patch.Type() == types.JSONPatchType {
		// A test in the patch failed.
		return apierrors.NewConflict(schema.GroupResource{Group: source.GroupVersion.Group, Resource: r.Kind.Name}, obj.GetName(), err)
	}
	return err
}

// conditionPatch replaces or removes GatesOpen at its place in the list, provided that it is still there, and that the source is
// still of the generation that was evaluated. source-controller, which answers each hold and release with a write of the status,
// is not in the way of that. Where there is no GatesOpen yet, the whole list is written, if nobody else has written the source.
func conditionPatch(before, after source.Source) (client.Patch, error) {
	is := func(condition metav1.Condition) bool { return condition.Type == gatingv1.GatesOpenCondition }
	place := slices.IndexFunc(before.GetConditions(), is)
	if place < 0 {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), nil
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	path := fmt.Sprintf("/status/conditions/%d", place)
	operations := []operation{
		{Op: "test", Path: "/metadata/uid", Value: before.GetUID()},
		{Op: "test", Path: "/metadata/generation", Value: before.GetGeneration()},
		{Op: "test", Path: path + "/type", Value: gatingv1.GatesOpenCondition},
	}
	if now := conditions.Get(after, gatingv1.GatesOpenCondition); now != nil {
		operations = append(operations, operation{Op: "replace", Path: path, Value: now})
	} else {
		operations = append(operations, operation{Op: "remove", Path: path})
	}
	patch, err := json.Marshal(operations)
	return client.RawPatch(types.JSONPatchType, patch), err
}

func (r *SourceReconciler) announce(ctx context.Context, obj source.Source, evaluation gatingv1.Evaluation) {
	state, eventType := "released", corev1.EventTypeNormal
	if !evaluation.Open {
		state = "held"
	}
	switch evaluation.Reason {
	case gatingv1.GateNotFoundReason, gatingv1.AccessDeniedReason, InvalidGatesReason, GatesFieldLostReason:
		eventType = corev1.EventTypeWarning
	}
	decisions.WithLabelValues(r.Kind.Name, state, evaluation.Reason).Inc()
	r.Event(obj, eventType, evaluation.Reason, fmt.Sprintf("%s: %s", state, evaluation.Message))
	ctrl.LoggerFrom(ctx).Info("gates evaluated", "source", state, "reason", evaluation.Reason, "gates", evaluation.Message)
}
