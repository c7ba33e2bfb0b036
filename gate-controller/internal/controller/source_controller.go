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
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;helmrepositories;helmcharts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories/status;ocirepositories/status;buckets/status;helmrepositories/status;helmcharts/status,verbs=patch
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=release
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// SourceReconciler holds the sources of one kind while their gates are closed.
type SourceReconciler struct {
	client.Client
	*announce.Announcer

	// Kind of the sources.
	Kind source.Kind
	// Selector selects those that are held and released; others are another shard's. A HelmChart goes with its HelmRepository. All shards
	// see all of them, for the gates that charts inherit, and to count what a gate holds.
	Selector labels.Selector
	// Live reads past the cache.
	Live client.Reader
	// NoCrossNamespaceRefs denies gates of other namespaces. Namespaces are read and watched only without it.
	NoCrossNamespaceRefs bool
	// Now is the clock.
	Now func() time.Time

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
	if mine, err := r.selects(ctx, obj); !mine || err != nil || !obj.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, err
	}
	defer func() { r.own.remember(obj) }()
	if source.HasNoArtifact(obj) {
		// The gates of an OCI HelmRepository are the business of its charts. It may have been of another type.
		return settle(r.release(ctx, obj, hold.Claim{}))
	}
	gating, err := r.gatingOf(ctx, obj)
	if err != nil {
		return settle(err)
	}
	if gating == nil {
		return settle(r.letGo(ctx, obj))
	}
	switch wait, err := r.awaitsAnnouncement(ctx, obj, gating); {
	case err != nil:
		return settle(err)
	case wait:
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	again, err := r.enforce(ctx, obj, gating)
	switch {
	case again:
		return ctrl.Result{RequeueAfter: time.Second, Priority: new(holdPriority)}, nil
	case err != nil:
		return settle(err)
	}
	return ctrl.Result{RequeueAfter: gating.lookAgain(r.Now()), Priority: new(turnedPriority)}, nil
}

// selects reports whether a source belongs to this shard. Whoever writes a HelmRelease chooses the labels of its HelmChart, and must not be
// able to choose such that no shard holds it: the labels of the HelmRepository decide, whose gates the chart inherits.
func (r *SourceReconciler) selects(ctx context.Context, obj source.Source) (bool, error) {
	repository, err := r.evaluator().repositoryOf(ctx, r.Client, obj)
	if repository != nil {
		return r.Selector.Matches(labels.Set(repository.Labels)), nil
	}
	return r.Selector.Matches(labels.Set(obj.GetLabels())), err
}

// settle is the result of work on an object that others work on too. A conflict means that it has changed meanwhile, and so is
// looked at again soon. After any other error, what has not been tried yet comes first.
func settle(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{Priority: new(retryPriority)}, client.IgnoreNotFound(err)
}

// enforce makes the source follow its gates.
func (r *SourceReconciler) enforce(ctx context.Context, obj source.Source, gating *gating) (again bool, _ error) {
	switch {
	case hold.On(obj) == gating.claim && (obj.Gated().Spec.Suspend || !gating.claim.Suspend):
		return false, r.tell(ctx, obj, gating.Evaluation)
	case gating.claim.Suspend:
		return r.hold(ctx, obj, gating)
	default:
		return false, r.letOut(ctx, obj, gating)
	}
}

// hold closes GatesOpen, from when on the backstop refuses new artifacts, and then suspends the source, which may take long, or fail.
// It does one of them in a pass, and leaves what is told after it to another one, for which the write itself is the occasion: when
// many sources are to be held, all of them are closed before any is suspended, and suspended before any is told of. source-controller does not
// observe the generation of a suspended source that has no condition at all, as a new one: whoever waits for it would wait for ever.
func (r *SourceReconciler) hold(ctx context.Context, obj source.Source, gating *gating) (again bool, _ error) {
	if !conditions.IsFalse(obj, gatingv1.GatesOpenCondition) {
		err := r.tell(ctx, obj, but(gating.Evaluation, HoldingReason, "spec.suspend is not set yet"))
		if err == nil || apierrors.IsConflict(err) {
			return err == nil, err
		}
		ctrl.LoggerFrom(ctx).Error(err, "setting GatesOpen to False failed; the source is held all the same")
	}
	if err := hold.Apply(ctx, r.Client, obj, gating.claim); err != nil {
		return false, r.failed(ctx, obj, gating.Evaluation, gatingv1.HoldFailedReason, fmt.Errorf("setting spec.suspend failed: %w", err))
	}
	return true, nil
}

// letOut releases a source whose gates are open. That is told at once, since the backstop lets nothing out before; but only if the
// source is still the one that was evaluated.
func (r *SourceReconciler) letOut(ctx context.Context, obj source.Source, gating *gating) error {
	evaluated, held := obj.GetGeneration(), hold.On(obj).Suspend
	if err := r.release(ctx, obj, gating.claim); err != nil {
		return r.failed(ctx, obj, gating.Evaluation, gatingv1.ReleaseFailedReason, err)
	}
	// The release of a hold makes a new generation, and fails if the source is another than the one that was evaluated.
	if !held && obj.GetGeneration() != evaluated {
		return r.conflict(obj, errors.New("its spec was changed meanwhile"))
	}
	return r.tell(ctx, obj, gating.Evaluation)
}

// release gives up what is claimed of a source, but for a claim that suspends nothing.
func (r *SourceReconciler) release(ctx context.Context, obj source.Source, claim hold.Claim) error {
	if hold.On(obj) == claim {
		return nil
	}
	if err := hold.Apply(ctx, r.Client, obj, claim); err != nil {
		return fmt.Errorf("releasing the source failed: %w", err)
	}
	return nil
}

// letGo releases a source that has no gates, and takes the condition away.
func (r *SourceReconciler) letGo(ctx context.Context, obj source.Source) error {
	evaluation, held := gatingv1.Evaluate(nil, nil, r.Now()), wasHeld(obj)
	if held {
		evaluation = r.removal(ctx, obj)
	}
	if err := r.release(ctx, obj, hold.Claim{}); err != nil {
		return r.failed(ctx, obj, evaluation, gatingv1.ReleaseFailedReason, err)
	}
	if err := r.patchConditions(ctx, obj, func() { conditions.Delete(obj, gatingv1.GatesOpenCondition) }); err != nil {
		return err
	}
	if held {
		r.announce(ctx, obj, evaluation)
	}
	return nil
}

// failed tells that a source could not be held or released, which is to be tried again. Until then its gates are not open.
func (r *SourceReconciler) failed(ctx context.Context, obj source.Source, evaluation gatingv1.Evaluation, reason string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return err
	}
	evaluation = but(evaluation, reason, plaintext.Cut(err.Error(), longestError))
	notTold := r.tell(ctx, obj, evaluation)
	if notTold != nil {
		r.announce(ctx, obj, evaluation)
	}
	return errors.Join(err, notTold)
}

// but is an evaluation of which nothing has come yet. It keeps the one reason that has to be remembered.
func but(evaluation gatingv1.Evaluation, reason, message string) gatingv1.Evaluation {
	if evaluation.Reason == GatesFieldLostReason {
		reason = GatesFieldLostReason
	}
	return gatingv1.Evaluation{Reason: reason, Message: message + "; " + evaluation.Message}
}

// longestError, in characters, bounds what is quoted of an error, which may be in the words of any admission webhook.
const longestError = 1000

// tell writes what the gates of a source amount to into its condition GatesOpen, and announces what is new. source-controller is woken
// if they are open and it was refused before.
func (r *SourceReconciler) tell(ctx context.Context, obj source.Source, evaluation gatingv1.Evaluation) error {
	status, message, artifact := metav1.ConditionFalse, evaluation.Message+blockedBy(obj), blockedArtifact(obj)
	if evaluation.Open {
		status, message, artifact = metav1.ConditionTrue, evaluation.Message, ""
	}
	before := conditions.Get(obj, gatingv1.GatesOpenCondition)
	if err := r.patchConditions(ctx, obj, func() {
		conditions.Set(obj, &metav1.Condition{
			Type: gatingv1.GatesOpenCondition, Status: status, Reason: evaluation.Reason, Message: message,
			ObservedGeneration: obj.GetGeneration(),
		})
	}); err != nil {
		return err
	}
	switch {
	case evaluation.Reason == HoldingReason:
	case before == nil && evaluation.Open: // it was never held: nobody needs to be told
	case before == nil || before.Status != status || before.Reason != evaluation.Reason:
		r.announce(ctx, obj, evaluation)
	}
	if artifact != "" && !strings.Contains(before.Message, artifact) {
		r.announceBlocked(obj, artifact, evaluation)
	}
	if !evaluation.Open {
		return nil
	}
	return r.wake(ctx, obj, before)
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
		return r.conflict(obj, err)
	}
	return err
}

// conflict is the error of a write for which the source has changed too much.
func (r *SourceReconciler) conflict(obj source.Source, why error) error {
	return apierrors.NewConflict(schema.GroupResource{Group: gatingv1.SourceGroupVersion.Group, Resource: r.Kind.Name}, obj.GetName(), why)
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
	case gatingv1.GateNotFoundReason, gatingv1.AccessDeniedReason, InvalidGatesReason, GatesFieldLostReason, GatesRemovedReason:
		eventType = corev1.EventTypeWarning
	case gatingv1.HoldFailedReason, gatingv1.ReleaseFailedReason:
		state, eventType = "refused", corev1.EventTypeWarning
	}
	decisions.WithLabelValues(r.Kind.Name, state, evaluation.Reason).Inc()
	r.Event(obj, eventType, evaluation.Reason, fmt.Sprintf("%s: %s", state, evaluation.Message))
	ctrl.LoggerFrom(ctx).Info("gates evaluated", "source", state, "reason", evaluation.Reason, "gates", evaluation.Message)
}
