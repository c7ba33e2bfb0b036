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

// Package controller holds sources while their gates are closed, and writes the status of Gates.
package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/sluice-toolkit/sluice/runtime/ownwrites"
)

// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;helmrepositories;helmcharts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories/status;ocirepositories/status;buckets/status;helmrepositories/status;helmcharts/status,verbs=patch
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=externalartifacts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=source.extensions.fluxcd.io,resources=artifactgenerators,verbs=get;patch
// +kubebuilder:rbac:groups=image.toolkit.fluxcd.io,resources=imageupdateautomations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=image.toolkit.fluxcd.io,resources=imageupdateautomations/status,verbs=patch
// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gates,verbs=release
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// SourceReconciler holds the sources of one kind while their gates are closed.
type SourceReconciler struct {
	client.Client
	*announce.Announcer

	// Kind of the sources.
	Kind source.Kind
	// Kinds are all kinds that gates can hold.
	Kinds []source.Kind
	// Selector selects the sources of this shard, which are held and released. A HelmChart belongs to the shard of its
	// HelmRepository. Every shard watches all sources, for the gates that charts inherit, and to count what a gate
	// holds.
	Selector labels.Selector
	// ArtifactHosts are the hosts of source-controller's storage. If there are none, lost artifacts are not noticed.
	ArtifactHosts []string
	// Live reads from the API server instead of the cache.
	Live client.Reader
	// NoCrossNamespaceRefs denies access to gates in other namespaces. Namespaces are read and watched only without it.
	NoCrossNamespaceRefs bool
	// Now is the clock.
	Now func() time.Time

	own ownwrites.Log
}

// Reconcile evaluates a source's gates, holds or releases it, and sets its conditions.
func (r *SourceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := r.Kind.New()
	if err := r.Get(ctx, req.NamespacedName, obj); err != nil {
		r.own.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.own.IsAheadOf(obj) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if mine, err := r.selects(ctx, obj); !mine || err != nil || !obj.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, err
	}
	defer func() { r.own.Remember(obj) }()
	if source.HasNoArtifact(obj) {
		// The gates of an OCI HelmRepository hold its charts. It may have had another type before.
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
	if restores(gating.loss) && len(gating.passes) == 0 && hold.On(obj).Suspend {
		r.guard(ctx, obj, gating)
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

// selects reports whether a source belongs to this shard. The author of a HelmRelease chooses the labels of its
// HelmChart, and must not be able to choose labels that no shard selects. So the labels of the HelmRepository decide,
// whose gates the chart inherits.
func (r *SourceReconciler) selects(ctx context.Context, obj source.Source) (bool, error) {
	repository, err := r.evaluator().repositoryOf(ctx, r.Client, obj)
	if repository != nil {
		return r.Selector.Matches(labels.Set(repository.Labels)), nil
	}
	return r.Selector.Matches(labels.Set(obj.GetLabels())), err
}

// settle returns the result of a failed write. After a conflict, the source is reconciled again soon. After any other
// error, sources that have not been tried yet come first.
func settle(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{Priority: new(retryPriority)}, client.IgnoreNotFound(err)
}

// enforce holds or releases a source as its gates require.
func (r *SourceReconciler) enforce(ctx context.Context, obj source.Source, gating *gating) (again bool, _ error) {
	switch {
	case source.IsExternal(obj):
		return false, r.annotate(ctx, obj.(*source.ExternalArtifact), gating)
	case hold.On(obj) == gating.claim && (obj.Gated().Spec.Suspend || !gating.claim.Suspend):
		return false, r.tell(ctx, obj, gating)
	case gating.claim.Suspend:
		return r.hold(ctx, obj, gating)
	default:
		return false, r.letOut(ctx, obj, gating)
	}
}

// hold sets GatesOpen to False, which makes the backstop refuse new artifacts, and then suspends the source, which may
// be slow or fail. Each reconciliation does one of the two, so if there are many sources, all are False before any is
// suspended. The condition has its final text from the start, so a hold takes two writes, and only a failed one changes
// the text. source-controller does not observe the generation of a new source that is suspended and has no condition,
// so a client that waits for it would wait forever.
func (r *SourceReconciler) hold(ctx context.Context, obj source.Source, gating *gating) (again bool, _ error) {
	announced := !awaitsHold(obj, gating.Reason)
	if !conditions.IsFalse(obj, gatingv1.GatesOpenCondition) || conditions.Has(obj, gatingv1.RevisionPassesCondition) ||
		!equality.Semantic.DeepEqual(conditions.Get(obj, gatingv1.ArtifactLostCondition), gating.loss) {
		err := r.patchConditions(ctx, obj, func() { setClosing(obj, gating) })
		if err == nil || apierrors.IsConflict(err) {
			return err == nil, err
		}
		ctrl.LoggerFrom(ctx).Error(err, "setting GatesOpen to False failed; holding the source anyway")
	}
	if err := hold.Apply(ctx, r.Client, obj, gating.claim); err != nil {
		return false, r.failed(ctx, obj, gating.Evaluation, gatingv1.HoldFailedReason, fmt.Errorf("setting spec.suspend failed: %w", err))
	}
	if !announced {
		r.announce(ctx, obj, gating.Evaluation)
	}
	return true, nil
}

// setClosing sets GatesOpen to False and ends passes, for the generation that the hold will make.
func setClosing(obj source.Source, gating *gating) {
	generation := obj.GetGeneration()
	if !obj.Gated().Spec.Suspend {
		generation++
	}
	apimeta.SetStatusCondition(&obj.Gated().Status.Conditions, metav1.Condition{
		Type: gatingv1.GatesOpenCondition, Status: metav1.ConditionFalse, Reason: gating.Reason, Message: gating.Message + effect(obj, gating.Reason),
		ObservedGeneration: generation,
	})
	setPasses(obj, nil)
	setLoss(obj, gating.loss)
}

// awaitsHold reports whether setClosing has set GatesOpen to False for a reason, and the hold has not followed yet. If
// someone ended the hold, the source has a later generation than the condition.
func awaitsHold(obj source.Source, reason string) bool {
	told := conditions.Get(obj, gatingv1.GatesOpenCondition)
	return told != nil && told.Status == metav1.ConditionFalse && told.Reason == reason &&
		told.ObservedGeneration >= obj.GetGeneration() && !hold.On(obj).Suspend
}

// letOut releases a source whose gates are open or let a revision pass. It sets the condition in the same
// reconciliation, because the backstop blocks artifacts until then, but only if the source is still the one that was
// evaluated.
func (r *SourceReconciler) letOut(ctx context.Context, obj source.Source, gating *gating) error {
	evaluated, held := obj.GetGeneration(), hold.On(obj).Suspend
	if err := r.release(ctx, obj, gating.claim); err != nil {
		return r.failed(ctx, obj, gating.Evaluation, gatingv1.ReleaseFailedReason, err)
	}
	// The release of a hold makes a new generation, and fails if the source has changed since the evaluation.
	if !held && obj.GetGeneration() != evaluated {
		return r.conflict(obj, errors.New("its spec has changed"))
	}
	return r.tell(ctx, obj, gating)
}

// release changes the claim on a source to one that does not suspend it.
func (r *SourceReconciler) release(ctx context.Context, obj source.Source, claim hold.Claim) error {
	if hold.On(obj) == claim {
		return nil
	}
	if err := hold.Apply(ctx, r.Client, obj, claim); err != nil {
		return fmt.Errorf("releasing the source failed: %w", err)
	}
	return nil
}

// letGo releases a source that has no gates, and removes the condition.
func (r *SourceReconciler) letGo(ctx context.Context, obj source.Source) error {
	evaluation, held := gatingv1.Evaluate(nil, nil, r.Now()), wasHeld(obj)
	if held {
		evaluation = r.removal(ctx, obj)
	}
	if err := r.release(ctx, obj, hold.Claim{}); err != nil {
		return r.failed(ctx, obj, evaluation, gatingv1.ReleaseFailedReason, err)
	}
	if source.IsExternal(obj) { // its condition is an annotation
		if err := r.removeAnnotations(ctx, obj); err != nil {
			return err
		}
	} else if err := r.patchConditions(ctx, obj, func() {
		conditions.Delete(obj, gatingv1.GatesOpenCondition)
		setPasses(obj, nil)
		setLoss(obj, nil)
	}); err != nil {
		return err
	}
	if held {
		r.announce(ctx, obj, evaluation)
	}
	return nil
}

// failed reports that a source could not be held or released. Its gates are not open until a retry succeeds.
func (r *SourceReconciler) failed(ctx context.Context, obj source.Source, evaluation gatingv1.Evaluation, reason string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return err
	}
	evaluation = but(evaluation, reason, plaintext.Cut(err.Error(), longestError))
	notTold := r.tell(ctx, obj, &gating{Evaluation: evaluation, loss: conditions.Get(obj, gatingv1.ArtifactLostCondition)})
	if notTold != nil {
		r.announce(ctx, obj, evaluation)
	}
	return errors.Join(err, notTold)
}

// but returns an evaluation that has not taken effect yet. It keeps GatesFieldLostReason, which must not be lost.
func but(evaluation gatingv1.Evaluation, reason, message string) gatingv1.Evaluation {
	if evaluation.Reason == GatesFieldLostReason {
		reason = GatesFieldLostReason
	}
	return gatingv1.Evaluation{Reason: reason, Message: message + "; " + evaluation.Message}
}

// longestError limits, in characters, how much of an error is quoted. Admission webhooks may return any text.
const longestError = 1000

// tell sets the conditions of gate-controller and emits events if they changed. It triggers source-controller if the
// gates are open, or let a revision pass, and that artifact was refused before.
func (r *SourceReconciler) tell(ctx context.Context, obj source.Source, gating *gating) error {
	evaluation, arrived := gating.Evaluation, storedPass(obj, gating.passes)
	artifact := ""
	if !evaluation.Open && !arrived {
		artifact = blockedArtifact(obj)
	}
	status, message := metav1.ConditionFalse, evaluation.Message+blockedBy(artifact, obj, gating)
	if evaluation.Open {
		status, message = metav1.ConditionTrue, evaluation.Message
	}
	before, passedBefore := conditions.Get(obj, gatingv1.GatesOpenCondition), conditions.Get(obj, gatingv1.RevisionPassesCondition)
	if err := r.patchConditions(ctx, obj, func() {
		conditions.Set(obj, &metav1.Condition{
			Type: gatingv1.GatesOpenCondition, Status: status, Reason: evaluation.Reason, Message: message,
			ObservedGeneration: obj.GetGeneration(),
		})
		setPasses(obj, gating.passes)
		setLoss(obj, gating.loss)
	}); err != nil {
		return err
	}
	switch {
	case before == nil && evaluation.Open: // it was never held, so no event
	case before == nil || before.Status != status || before.Reason != evaluation.Reason:
		r.announce(ctx, obj, evaluation)
	}
	if artifact != "" && !strings.Contains(before.Message, artifact) {
		r.announceBlocked(obj, artifact, gating)
	}
	r.announcePasses(ctx, obj, passedBefore, gating.passes, evaluation)
	switch {
	case evaluation.Open:
		return r.wake(ctx, obj, before)
	case arrived:
		return r.wake(ctx, obj, passedBefore)
	}
	return nil
}

// patchConditions changes the conditions of gate-controller. The list of conditions is atomic in the API, so
// server-side apply would take over those of source-controller. fluxcd/pkg/runtime/patch would read the source again,
// and could report on a generation that was not evaluated.
func (r *SourceReconciler) patchConditions(ctx context.Context, obj source.Source, change func()) error {
	before := obj.DeepCopyObject().(source.Source)
	change()
	if !slices.ContainsFunc(gatingv1.SourceConditions, func(name string) bool {
		return !equality.Semantic.DeepEqual(conditions.Get(before, name), conditions.Get(obj, name))
	}) {
		return nil
	}
	patch, err := conditionPatch(before, obj)
	if err != nil {
		return err
	}
	err = r.Status().Patch(ctx, obj, patch)
	if apierrors.IsInvalid(err) && patch.Type() == types.JSONPatchType {
		// A test operation of the patch failed.
		return r.conflict(obj, err)
	}
	if err == nil {
		r.announceLoss(before, obj)
	}
	return err
}

// conflict returns the error for a source that has changed since it was read.
func (r *SourceReconciler) conflict(obj source.Source, why error) error {
	return apierrors.NewConflict(schema.GroupResource{Group: r.Kind.Group, Resource: r.Kind.Name}, obj.GetName(), why)
}

// conditionPatch replaces or removes the conditions by their index in the list, if they are still there and the source
// still has the generation that was evaluated. So it does not conflict with source-controller, which writes the status
// after each hold and release. If there is no GatesOpen yet, the whole list is written, if no one else has written the
// source.
func conditionPatch(before, after source.Source) (client.Patch, error) {
	if !conditions.Has(before, gatingv1.GatesOpenCondition) {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), nil
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	const list = "/status/conditions/"
	operations := []operation{
		{Op: "test", Path: "/metadata/uid", Value: before.GetUID()},
		{Op: "test", Path: "/metadata/generation", Value: before.GetGeneration()},
	}
	var removed, added []operation
	// The last ones first: a removal moves those after it.
	for place, condition := range slices.Backward(before.GetConditions()) {
		if !slices.Contains(gatingv1.SourceConditions, condition.Type) {
			continue
		}
		path := list + strconv.Itoa(place)
		operations = append(operations, operation{Op: "test", Path: path + "/type", Value: condition.Type})
		switch now := conditions.Get(after, condition.Type); {
		case now == nil:
			removed = append(removed, operation{Op: "remove", Path: path})
		case *now != condition:
			operations = append(operations, operation{Op: "replace", Path: path, Value: now})
		}
	}
	for _, name := range gatingv1.SourceConditions {
		if now := conditions.Get(after, name); now != nil && !conditions.Has(before, name) {
			added = append(added, operation{Op: "add", Path: list + "-", Value: now})
		}
	}
	patch, err := json.Marshal(slices.Concat(operations, removed, added))
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
