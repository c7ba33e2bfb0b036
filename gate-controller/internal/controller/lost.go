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
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// source-controller without a volume loses its artifacts when it restarts, and does not fetch those of held sources
// again. watchArtifacts notices that and sets the condition ArtifactLost, which records revision and digest. The
// source is then released while its gates stay closed. The backstop lets source-controller publish nothing but the
// recorded artifact. The source is held again when it is restored, when the source offers another artifact, or after
// restoreTimeout.

const (
	// ArtifactLostReason means that source-controller has lost artifacts of sources that a gate holds.
	ArtifactLostReason = "ArtifactLost"
	// RestoringReason means that a source is released for source-controller to fetch its lost artifact again.
	RestoringReason = "Restoring"
	// NotRestoredReason means that an attempt to restore an artifact failed.
	NotRestoredReason = "NotRestored"
	// RestoredReason means that source-controller has the artifact again.
	RestoredReason = "Restored"
)

const (
	// artifactCheck is how often the artifacts of held sources are checked.
	artifactCheck = 15 * time.Second
	// artifactTimeout limits one check.
	artifactTimeout = 5 * time.Second
	// longestArtifact limits an artifact's address, revision and digest, in bytes. A server may reset the connection
	// of a longer request, and a longer message may not fit into a condition.
	longestArtifact = 2048
	// restoreTimeout limits one attempt to restore an artifact.
	restoreTimeout = 5 * time.Minute
	// restoreAgain is the shortest time until the next attempt. Each time, the time since the loss doubles.
	restoreAgain = 10 * time.Minute
)

// newLoss returns the condition ArtifactLost. The backstop reads the message up to the first space, and lossEnd reads
// it from the last one.
func newLoss(artifact, reason, text string, end time.Time) *metav1.Condition {
	return &metav1.Condition{
		Type: gatingv1.ArtifactLostCondition, Status: metav1.ConditionTrue, Reason: reason,
		Message: artifact + " was lost by source-controller; " + text + " " + end.UTC().Format(time.RFC3339),
	}
}

func restoring(artifact string, now time.Time) *metav1.Condition {
	return newLoss(artifact, RestoringReason, "it is being restored until", now.Add(restoreTimeout))
}

// lossEnd returns when an attempt ends, or when the next one begins.
func lossEnd(loss *metav1.Condition) time.Time {
	end, _ := time.Parse(time.RFC3339, loss.Message[strings.LastIndex(loss.Message, " ")+1:])
	return end
}

// restores reports whether a source is released to restore its artifact.
func restores(loss *metav1.Condition) bool { return loss != nil && loss.Reason == RestoringReason }

// lossAt returns the condition ArtifactLost that a source whose gates are not open must have now.
func lossAt(obj source.Source, now time.Time) *metav1.Condition {
	loss := conditions.Get(obj, gatingv1.ArtifactLostCondition)
	if loss == nil || loss.Status != metav1.ConditionTrue {
		return nil
	}
	if obj.Gated().Status.Artifact != nil && describeArtifact(obj) != lostArtifact(loss) {
		return nil // another one was published since, which must not be undone
	}
	why, ended := "source-controller has not fetched it; check the condition Ready of the source, or open the gate", !now.Before(lossEnd(loss))
	if offered := blockedArtifact(obj); restores(loss) && finished(obj) && offered != "" {
		why, ended = "the source offers another artifact: "+offered+": let its revision pass with 'flux pass gate', or open the gate", true
	}
	switch {
	case !ended:
		return loss
	case restores(loss):
		return notRestored(obj, why, now)
	}
	return restoring(lostArtifact(loss), now)
}

// lostArtifact returns '<revision>@<digest>' of the artifact that a condition ArtifactLost records.
func lostArtifact(loss *metav1.Condition) string {
	artifact, _, _ := strings.Cut(loss.Message, " ")
	return artifact
}

// notRestored returns the condition ArtifactLost after an attempt that failed.
func notRestored(obj source.Source, why string, now time.Time) *metav1.Condition {
	loss := conditions.Get(obj, gatingv1.ArtifactLostCondition)
	again := now.Add(max(restoreAgain, now.Sub(loss.LastTransitionTime.Time)))
	return newLoss(lostArtifact(loss), NotRestoredReason, why+"; next attempt at", again)
}

// guard keeps a source held, unless the backstop refuses other artifacts of it. Without the backstop, which can be
// disabled in an emergency, nothing but the hold keeps a source from publishing.
func (r *SourceReconciler) guard(ctx context.Context, obj source.Source, gating *gating) {
	probe := fmt.Appendf(nil, `{"status":{"artifact":{"revision":"none","digest":"sha256:0","path":"none","url":"http://none","lastUpdateTime":%q}}}`,
		r.Now().UTC().Format(time.RFC3339))
	err := r.Status().Patch(ctx, obj.DeepCopyObject().(source.Source), client.RawPatch(types.MergePatchType, probe), client.DryRunAll)
	why := "the backstop does not refuse other artifacts"
	switch {
	case err != nil && strings.Contains(err.Error(), "new artifact blocked"):
		return
	case err != nil:
		why += ": " + plaintext.Cut(plaintext.Line(err.Error()), longestError)
	}
	gating.loss = notRestored(obj, why+"; enable it, or open the gate", r.Now())
	gating.claim.Suspend = true
}

// setLoss sets the condition ArtifactLost, or removes it. Its time stays that of the loss.
func setLoss(obj source.Source, loss *metav1.Condition) {
	if loss == nil {
		conditions.Delete(obj, gatingv1.ArtifactLostCondition)
		return
	}
	apimeta.SetStatusCondition(&obj.Gated().Status.Conditions, *loss)
}

// announceLoss emits an event if the condition ArtifactLost has another reason than before.
func (r *SourceReconciler) announceLoss(before, obj source.Source) {
	reason := conditions.GetReason(obj, gatingv1.ArtifactLostCondition)
	if reason != "" && reason != conditions.GetReason(before, gatingv1.ArtifactLostCondition) {
		r.Event(obj, corev1.EventTypeWarning, reason, conditions.GetMessage(obj, gatingv1.ArtifactLostCondition))
	}
}

// describeLost counts the sources whose artifact is lost.
func describeLost(status *gatingv1.GateStatus) string {
	return many(status.Lost, "artifact was lost by source-controller", "artifacts were lost by source-controller")
}

// lossChanged passes updates after which the artifact of a source is lost, or no longer lost.
func lossChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(source.Source)
		after, afterOK := e.ObjectNew.(source.Source)
		return beforeOK && afterOK && conditions.Has(before, gatingv1.ArtifactLostCondition) != conditions.Has(after, gatingv1.ArtifactLostCondition)
	}}
}

// watchArtifacts checks the artifacts of held sources until the context is done.
func (r *SourceReconciler) watchArtifacts(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.checkArtifacts(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "checking the artifacts of held sources failed", "kind", r.Kind.Name)
		}
	}, artifactCheck)
	return nil
}

// checkArtifacts sets ArtifactLost on held sources whose artifact is gone, and removes it from those whose artifact is
// back. A host that does not answer is asked once.
func (r *SourceReconciler) checkArtifacts(ctx context.Context) error {
	sources, err := list(ctx, r.Client, r.Kind)
	if err != nil {
		return err
	}
	var errs []error
	down := map[string]bool{}
	for _, obj := range sources {
		lost := conditions.Has(obj, gatingv1.ArtifactLostCondition)
		address := r.artifactAddress(obj)
		if address == nil || down[address.Host] || !lost && !hold.On(obj).Suspend || !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if mine, err := r.selects(ctx, obj); !mine || err != nil {
			errs = append(errs, err)
			continue
		}
		status, err := ask(ctx, address)
		switch {
		case err != nil:
			down[address.Host] = true
		case status == http.StatusOK && lost:
			if err = r.patchConditions(ctx, obj, func() { setLoss(obj, nil) }); err == nil {
				r.Event(obj, corev1.EventTypeNormal, RestoredReason, describeArtifact(obj)+" was restored")
			}
		case status == http.StatusNotFound && !lost:
			err = r.patchConditions(ctx, obj, func() { setLoss(obj, restoring(describeArtifact(obj), r.Now())) })
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// describeArtifact returns '<revision>@<digest>' of the artifact in the status.
func describeArtifact(obj source.Source) string {
	artifact := obj.Gated().Status.Artifact
	return artifact.Revision + "@" + artifact.Digest
}

// artifactAddress returns where source-controller serves the artifact of a source. Tenants may be able to write the
// status, so the result is nil unless the host is one of ArtifactHosts, the path is the source's own, and the artifact
// is one word in the message of ArtifactLost, from which the backstop reads it.
func (r *SourceReconciler) artifactAddress(obj source.Source) *url.URL {
	artifact := obj.Gated().Status.Artifact
	if artifact == nil || artifact.Digest == "" || !plaintext.IsWord(artifact.Revision+artifact.Digest) || len(artifact.URL)+len(artifact.Revision)+len(artifact.Digest) > longestArtifact {
		return nil
	}
	address, err := url.Parse(artifact.URL)
	if err != nil || address.Scheme != "http" || !slices.Contains(r.ArtifactHosts, address.Host) || path.Clean(address.Path) != address.Path ||
		!strings.HasPrefix(address.Path, path.Join("/", strings.ToLower(r.Kind.Name), obj.GetNamespace(), obj.GetName())+"/") {
		return nil
	}
	return &url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}
}

// storage connects to source-controller directly, and follows no redirects.
var storage = &http.Client{
	Timeout:       artifactTimeout,
	Transport:     &http.Transport{IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask returns the status of source-controller's answer to a request for an artifact.
func ask(ctx context.Context, address *url.URL) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address.String(), nil)
	if err != nil {
		return 0, err
	}
	response, err := storage.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
