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
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// announce emits one event for a change of the gate, regardless of the number of sources. If holds fail later, it emits
// one event until none fails any more.
func (r *GateReconciler) announce(before, gate *gatingv1.Gate, state gatingv1.State, turning turning) {
	status, eventType := &gate.Status, corev1.EventTypeNormal
	if status.Refused+status.Pending > 0 {
		eventType = corev1.EventTypeWarning
	}
	switch {
	case turning == turned:
		r.Event(gate, eventType, conditions.GetReason(gate, gatingv1.OpenCondition), describeTurn(gate, state))
	case turning == still && status.Refused > 0 && conditions.GetReason(before, meta.ReadyCondition) != gatingv1.HoldFailedReason:
		r.Event(gate, eventType, gatingv1.HoldFailedReason, describeRefused(gate))
	}
	if status.Lost > 0 && before.Status.Lost == 0 {
		r.Event(gate, corev1.EventTypeWarning, ArtifactLostReason, describeLost(status)+"; their sources have the condition ArtifactLost")
	}
}

// describeTurn describes how the gate changed, who changed it, until when, why, and with what effect.
func describeTurn(gate *gatingv1.Gate, state gatingv1.State) string {
	text := "opened"
	if state.Closed {
		text = "closed"
	}
	by := state.By.String()
	switch {
	case state.Cause != "" && by != "":
		text += " " + state.Cause + " of " + by
	case state.Cause != "":
		text += " " + state.Cause
	case by != "":
		text += " by " + by
	}
	if !state.Until.IsZero() {
		text += " until " + wallClock(state.Until, gate)
	}
	if state.Invalid != nil {
		text += "; " + state.Invalid.Error()
	}
	if state.Reason != "" {
		text += ": " + state.Reason
	}
	if effect := describeEffect(&gate.Status, state.Closed); effect != "" {
		text += "; " + effect
	}
	return text
}

// describeEffect counts what a gate holds, or has released.
func describeEffect(status *gatingv1.GateStatus, closed bool) string {
	var parts []string
	held := status.HeldSources()
	switch {
	case status.Sources == 0:
	case closed:
		parts = append(parts, fmt.Sprintf("holds %d of %s", held, many(status.Sources, "source", "sources")))
	default:
		parts = append(parts, fmt.Sprintf("released %d of %s", status.Sources-held, many(status.Sources, "source", "sources")))
	}
	if status.HeldPromotions > 0 {
		parts = append(parts, many(status.HeldPromotions, "promotion waits", "promotions wait"))
	}
	if status.Pending > 0 {
		parts = append(parts, fmt.Sprintf("%d pending", status.Pending))
	}
	if status.Refused > 0 {
		parts = append(parts, fmt.Sprintf("holding failed for %d", status.Refused))
	}
	return strings.Join(parts, ", ")
}

// describeRefused counts the sources whose hold failed.
func describeRefused(gate *gatingv1.Gate) string {
	return fmt.Sprintf("holding failed for %d of %s: run 'flux gate get %s -n %s' to list them",
		gate.Status.Refused, many(gate.Status.Sources, "source", "sources"), gate.Name, gate.Namespace)
}

// wallClock returns a time by the clock of the gate's windows, or in UTC if they have several zones or none.
func wallClock(moment time.Time, gate *gatingv1.Gate) string {
	location := time.UTC
	if zones := gate.TimeZones(); len(zones) == 1 {
		location = zones[0]
	}
	layout := "Mon 2006-01-02 15:04"
	if moment.Second() != 0 {
		layout = "Mon 2006-01-02 15:04:05"
	}
	return moment.In(location).Format(layout) + " " + location.String()
}
