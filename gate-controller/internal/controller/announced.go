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
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// announcedOpen reports whether the status of a timed gate says that it is open. The backstop relies on that status.
func announcedOpen(gate *gatingv1.Gate, now time.Time) bool {
	status := &gate.Status
	return status.ObservedGeneration == gate.Generation && conditions.IsTrue(gate, gatingv1.OpenCondition) &&
		(status.NextTransitionTime == nil || now.Before(status.NextTransitionTime.Time))
}

// awaitsAnnouncement reports whether a source must be released, but the status of one of its open gates does not say
// yet that it is open. If it were released now, the backstop would refuse its artifact, and the next attempt would come
// late. The gates that let a revision pass need no check: a pass is in force only once their status says so.
func (r *SourceReconciler) awaitsAnnouncement(ctx context.Context, obj source.Source, gating *gating) (bool, error) {
	condition := gatingv1.GatesOpenCondition
	if !gating.Open {
		condition = gatingv1.RevisionPassesCondition
	}
	if gating.claim.Suspend || isOpenFor(conditions.Get(obj, condition), obj.GetGeneration()) {
		return false, nil
	}
	names := gatesOf(obj)
	repository, err := r.evaluator().repositoryOf(ctx, r.Client, obj)
	if err != nil {
		return false, err
	}
	if repository != nil {
		names = append(names, gatesOf(repository)...)
	}
	return r.isUnannounced(ctx, names)
}

// isUnannounced reports whether one of the gates is open and its status does not say so yet.
func (r *SourceReconciler) isUnannounced(ctx context.Context, names []types.NamespacedName) (bool, error) {
	now := r.Now()
	for _, name := range names {
		gate := &gatingv1.Gate{}
		if err := r.Get(ctx, name, gate); client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if gate.IsTimed() && !gate.StateAt(now).Closed && !announcedOpen(gate, now) {
			return true, nil
		}
	}
	return false, nil
}

// lookAgain returns when the gates must be evaluated again without an event. It is 0 if they need not be.
func (g *gating) lookAgain(now time.Time) time.Duration {
	switch {
	case g.NextChange.IsZero() && g.recheck:
		return recheckInterval
	case g.NextChange.IsZero():
		return 0
	case g.recheck:
		return min(recheckInterval, untilThen(g.NextChange, now))
	}
	return untilThen(g.NextChange, now)
}

// announcementChanged passes updates in which the status of a timed gate reports another state or another time of its
// next change.
func announcementChanged() predicate.Predicate {
	type announcement struct {
		generation int64
		open       bool
		next       int64
	}
	of := func(obj client.Object) announcement {
		gate, ok := obj.(*gatingv1.Gate)
		if !ok || !gate.IsTimed() {
			return announcement{}
		}
		said := announcement{generation: gate.Status.ObservedGeneration, open: conditions.IsTrue(gate, gatingv1.OpenCondition)}
		if next := gate.Status.NextTransitionTime; next != nil {
			said.next = next.Unix()
		}
		return said
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return of(e.ObjectOld) != of(e.ObjectNew)
	}}
}
