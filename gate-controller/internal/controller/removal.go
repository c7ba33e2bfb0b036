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
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// GatesRemovedReason means that a source was held by gates and no longer has any.
const GatesRemovedReason = "GatesRemoved"

// removal returns the evaluation of a source whose gates were removed while they held it. It names who removed them, if
// that is known.
func (r *SourceReconciler) removal(ctx context.Context, obj source.Source) gatingv1.Evaluation {
	kind, name, what := r.Kind.Name, obj.GetName(), "gates removed"
	if repository := source.HelmRepositoryOf(obj); repository != "" && hold.On(obj).Inherited != "" {
		kind, name, what = gatingv1.HelmRepositoryKind, repository, "gates removed from its HelmRepository"
	}
	evaluation := gatingv1.Evaluation{Open: true, Reason: GatesRemovedReason, Message: what}
	lost := &metav1.PartialObjectMetadata{}
	lost.SetGroupVersionKind(r.Kind.WithKind(kind))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}, lost)
	switch {
	case apierrors.IsNotFound(err):
		evaluation.Message += fmt.Sprintf("; %s %s not found", kind, name)
	case err != nil:
		evaluation.Message += "; looking up who removed them failed: " + plaintext.Cut(err.Error(), longestError)
	default:
		evaluation.Message += "; " + lastWriter(lost.ManagedFields, heldSince(obj))
	}
	return evaluation
}

// wasHeld reports whether the removed gates of a source were closed. 'flux create source' removes the hold together
// with the gates.
func wasHeld(obj source.Source) bool {
	return hold.On(obj).Suspend || conditions.IsFalse(obj, gatingv1.GatesOpenCondition)
}

// heldSince returns when GatesOpen became False. It is zero if it is not False.
func heldSince(obj source.Source) metav1.Time {
	if closed := conditions.Get(obj, gatingv1.GatesOpenCondition); closed != nil && closed.Status == metav1.ConditionFalse {
		return closed.LastTransitionTime
	}
	return metav1.Time{}
}

// lastWriter names the field managers that last wrote an object since it was held. Removing a field leaves no trace
// except the time of that write, and not even that if the manager owns nothing else of the object.
func lastWriter(entries []metav1.ManagedFieldsEntry, since metav1.Time) string {
	var at metav1.Time
	var managers []string
	for _, entry := range entries {
		switch {
		case entry.Time == nil || entry.Time.Before(&since) || entry.Time.Before(&at):
		case entry.Subresource != "" || entry.Manager == hold.Manager || entry.Manager == waker:
		case entry.Time.Equal(&at):
			managers = append(managers, entry.Manager)
		default:
			at, managers = *entry.Time, []string{entry.Manager}
		}
	}
	if len(managers) == 0 {
		return "last written by an unknown field manager"
	}
	return plaintext.Line(fmt.Sprintf("last written by field manager %s at %s", strings.Join(managers, " or "), at.UTC().Format(time.RFC3339)))
}
