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
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// +kubebuilder:rbac:groups=gating.toolkit.fluxcd.io,resources=gatepasses,verbs=get;list;watch

// passIndex finds the GatePasses of a gate, by its name.
const passIndex = "gate"

// indexPass returns the key of a GatePass in passIndex.
func indexPass(obj client.Object) []string {
	return []string{obj.(*gatingv1.GatePass).Spec.GateRef.Name}
}

// gateOfPass returns the gate of a GatePass.
func gateOfPass(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.(*gatingv1.GatePass).Spec.GateRef.Name}}}
}

// granted returns the GatePasses of a gate.
func (r *GateReconciler) granted(ctx context.Context, gate *gatingv1.Gate) ([]gatingv1.GatePass, error) {
	var passes gatingv1.GatePassList
	if err := r.List(ctx, &passes, client.InNamespace(gate.Namespace), client.MatchingFields{passIndex: gate.Name}); err != nil {
		return nil, fmt.Errorf("listing the passes of the gate: %w", err)
	}
	return passes.Items, nil
}

// announcePasses emits an event for each revision that begins or ceases to pass the gate.
func (r *GateReconciler) announcePasses(before, gate *gatingv1.Gate, granted []gatingv1.GatePass) {
	for _, pass := range gate.Status.Passes {
		if !lets(before, pass.Revision) {
			r.Event(gate, corev1.EventTypeNormal, gatingv1.RevisionPassesReason, fmt.Sprintf("lets %s pass until %s: granted by %s",
				pass.Revision, wallClock(pass.Expires.Time, gate), describeGrants(granted, pass.Revision, gate, r.Now())))
		}
	}
	for _, pass := range before.Status.Passes {
		if !lets(gate, pass.Revision) {
			r.Event(gate, corev1.EventTypeNormal, gatingv1.RevisionPassesReason,
				fmt.Sprintf("no longer lets %s pass: %s", pass.Revision, describeEnd(pass, gate, granted, r.Now())))
		}
	}
}

// describeEnd says why a revision no longer passes the gate.
func describeEnd(pass gatingv1.PassInForce, gate *gatingv1.Gate, granted []gatingv1.GatePass, now time.Time) string {
	switch people := len(gate.Granters(granted, pass.Revision, now)); {
	case !now.Before(pass.Expires.Time):
		return "expired"
	case people == 0:
		return "revoked"
	case people < gate.PassesRequired():
		return fmt.Sprintf("%d of %d people grant it", people, gate.PassesRequired())
	}
	return fmt.Sprintf("%d others were granted before it", gatingv1.MaxPasses)
}

// lets reports whether the status of a gate lets a revision pass.
func lets(gate *gatingv1.Gate, rev string) bool {
	return slices.ContainsFunc(gate.Status.Passes, func(pass gatingv1.PassInForce) bool { return pass.Revision == rev })
}

// describeGrants names who lets a revision pass, and why.
func describeGrants(granted []gatingv1.GatePass, rev string, gate *gatingv1.Gate, now time.Time) string {
	var grants []string
	for i := range granted {
		pass := &granted[i]
		if pass.Spec.Revision == rev && pass.Concerns(gate) && pass.IsInForce(now) {
			grants = append(grants, plaintext.Cut(plaintext.Line(fmt.Sprintf("%s (%s)", pass.Spec.GrantedBy, pass.Spec.Reason)), 200))
		}
	}
	slices.Sort(grants)
	return plaintext.Cut(strings.Join(slices.Compact(grants), ", "), longestError)
}

// passing returns the candidates that may pass gates which are not open, each until something may change that, at the
// latest at nextChange. evaluate evaluates the gates for a revision. Several gates may let more revisions pass than one
// may, but the message of the condition RevisionPasses has room for those of one.
func passing(evaluate func(rev string) gatingv1.Evaluation, candidates []string, nextChange time.Time) []gatingv1.PassInForce {
	slices.Sort(candidates)
	var passes []gatingv1.PassInForce
	for _, rev := range slices.Compact(candidates) {
		if evaluation := evaluate(rev); evaluation.Open {
			passes = append(passes, gatingv1.PassInForce{Revision: rev, Expires: metav1.NewTime(earlier(evaluation.NextChange, nextChange))})
		}
	}
	return passes[:min(len(passes), gatingv1.MaxPasses)]
}

// candidates returns the revisions that may pass fixed gates, at most mostCandidates, those of the first closed gate
// first. Unless one gate is enough, they all pass that gate: another gate may name a revision of which the first one
// names only the digest. Revisions that a source has published already are left out, so that it is held again.
func candidates(refs *gatingv1.GateReferences, found gatingv1.Found, obj source.Source, now time.Time) []string {
	var revs []string
	var first []gatingv1.PassInForce
	closed := 0
	for _, ref := range references(refs) {
		gate := found[ref].Gate
		if gate == nil || !gate.StateAt(now).Closed {
			continue
		}
		passes := gate.Passing(now)
		if closed++; closed == 1 || refs.Require == gatingv1.RequireOneOf {
			first = passes
		}
		for _, pass := range passes {
			if slices.Contains(revs, pass.Revision) || isPublished(obj, pass.Revision) ||
				!slices.ContainsFunc(first, func(of gatingv1.PassInForce) bool { return revision.Names(of.Revision, pass.Revision) }) {
				continue
			}
			if revs = append(revs, pass.Revision); len(revs) == mostCandidates {
				return revs
			}
		}
	}
	return revs
}

// fixed returns gates that stay in the state they have at a time. Computing the states of gates with many windows is
// slow, so it is not repeated for each candidate.
func fixed(found gatingv1.Found, now time.Time) gatingv1.Found {
	gates := gatingv1.Found{}
	for ref, finding := range found {
		if gate := finding.Gate; gate != nil {
			finding.Gate = &gatingv1.Gate{
				ObjectMeta: metav1.ObjectMeta{Generation: gate.Generation},
				Spec:       gatingv1.GateSpec{Closed: gate.StateAt(now).Closed},
				Status:     gate.Status,
			}
		}
		gates[ref] = finding
	}
	return gates
}

// mostCandidates limits what is evaluated: the passes of one gate, and as many that name their revisions in full.
const mostCandidates = 2 * gatingv1.MaxPasses

func isPublished(obj source.Source, asked string) bool {
	artifact := obj.Gated().Status.Artifact
	return artifact != nil && revision.Names(asked, artifact.Revision)
}

// describePasses returns the message of the condition RevisionPasses. The backstop reads it: see
// config/gate-controller/backstop.yaml.
func describePasses(passes []gatingv1.PassInForce) string {
	var texts []string
	for _, pass := range passes {
		texts = append(texts, pass.Revision+" until "+pass.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(texts, "; ")
}

// setPasses sets the condition RevisionPasses, or removes it if nothing may pass.
func setPasses(obj source.Source, passes []gatingv1.PassInForce) {
	if len(passes) == 0 {
		conditions.Delete(obj, gatingv1.RevisionPassesCondition)
		return
	}
	conditions.Set(obj, &metav1.Condition{
		Type: gatingv1.RevisionPassesCondition, Status: metav1.ConditionTrue, Reason: gatingv1.RevisionPassesReason,
		Message: describePasses(passes), ObservedGeneration: obj.GetGeneration(),
	})
}

// storedPass reports whether source-controller has fetched a revision that may pass.
func storedPass(obj source.Source, passes []gatingv1.PassInForce) bool {
	stored := conditions.Get(obj, sourcev1.ArtifactInStorageCondition)
	return stored != nil && slices.ContainsFunc(passes, func(pass gatingv1.PassInForce) bool { return names(stored.Message, pass.Revision) })
}

// announcePasses emits an event if other revisions may pass than before.
func (r *SourceReconciler) announcePasses(ctx context.Context, obj source.Source, before *metav1.Condition, passes []gatingv1.PassInForce, evaluation gatingv1.Evaluation) {
	message := describePasses(passes)
	if message == "" || before != nil && before.Message == message {
		return
	}
	decisions.WithLabelValues(r.Kind.Name, "released", gatingv1.RevisionPassesReason).Inc()
	r.Event(obj, corev1.EventTypeNormal, gatingv1.RevisionPassesReason, fmt.Sprintf("released for %s: %s", message, evaluation.Message))
	ctrl.LoggerFrom(ctx).Info("gates evaluated", "source", "released", "reason", gatingv1.RevisionPassesReason, "passes", message, "gates", evaluation.Message)
}

// passesChanged passes updates of the passes of a gate. At the zero time, none has expired, so all are compared.
func passesChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*gatingv1.Gate), e.ObjectNew.(*gatingv1.Gate)
		return !equality.Semantic.DeepEqual(before.Passing(time.Time{}), after.Passing(time.Time{}))
	}}
}

// publishedPass passes updates in which a source publishes another revision while some may pass its gates.
func publishedPass() predicate.Predicate {
	revisionOf := func(obj client.Object) string {
		found, ok := obj.(source.Source)
		if !ok || found.Gated().Status.Artifact == nil {
			return ""
		}
		return found.Gated().Status.Artifact.Revision
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		after, ok := e.ObjectNew.(source.Source)
		return ok && conditions.Has(after, gatingv1.RevisionPassesCondition) && revisionOf(e.ObjectOld) != revisionOf(after)
	}}
}
