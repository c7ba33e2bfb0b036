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

package describe

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// Gate describes the state of a gate in one sentence.
func Gate(gate *gatingv1.Gate, now time.Time) string {
	state := gate.StateAt(now)
	text := state.String()
	if UpToDate(gate, now) {
		since := gate.Status.LastTransitionTime
		text += fmt.Sprintf(" since %s (%s)", since.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(since.Time)))
	}
	if state.Reason != "" {
		text += ": " + state.Reason
	}
	return text
}

// GateState returns the gate's state at a time in one word.
func GateState(gate *gatingv1.Gate, now time.Time) string {
	if gate.StateAt(now).Closed {
		return "closed"
	}
	return "open"
}

// Observed reports whether gate-controller has observed the current generation of the gate.
func Observed(gate *gatingv1.Gate) bool {
	return gate.Status.ObservedGeneration >= gate.Generation && gate.Status.LastTransitionTime != nil
}

// UpToDate reports whether gate-controller has observed the gate since its last change, also by a window or an
// override.
func UpToDate(gate *gatingv1.Gate, now time.Time) bool {
	next := gate.Status.NextTransitionTime
	return Observed(gate) && (next == nil || now.Before(next.Time))
}

// HeldByGates reports in words whether the promotion waits for gates.
func HeldByGates(pipeline *pipelinesv1.Pipeline, env string) string {
	if status := pipeline.Status.Environments[env]; status != nil && status.State == pipelinesv1.EnvironmentPromoted {
		return status.Message // a gate may hold the environment's source
	}
	if unmet := pipeline.WaitsForGates(env); unmet != nil {
		return fmt.Sprintf("%s waits: %s", revision.Short(pipeline.Status.Environments[env].Promotion.Revision), unmet.Message)
	}
	return "does not wait"
}

// PromotionsNaming returns the environments of a Pipeline whose promotions refer to a gate.
func PromotionsNaming(pipeline *pipelinesv1.Pipeline, gate client.ObjectKey) []string {
	var environments []string
	for env := range pipeline.PromotedEnvironments() {
		if promotion := pipeline.PromotionInto(env); promotion != nil && promotion.Gates.Name(gate, pipeline.Namespace) {
			environments = append(environments, env.Name)
		}
	}
	return environments
}

// States of passes.
const (
	Pending = "pending"
	Expired = "expired"
)

// PassState returns the state of a pass in a few words. The gate is nil if it can't be read.
func PassState(pass *gatingv1.GatePass, gate *gatingv1.Gate, passes []gatingv1.GatePass, now time.Time) string {
	switch {
	case !pass.IsInForce(now):
		return Expired
	case gate == nil:
		return Unknown
	case !pass.Concerns(gate):
		return "older than its gate"
	}
	if by, required := len(gate.Granters(passes, pass.Spec.Revision, now)), gate.PassesRequired(); by < required {
		return fmt.Sprintf("%d of %d", by, required)
	}
	if slices.ContainsFunc(gate.Passing(now), func(other gatingv1.PassInForce) bool { return other.Revision == pass.Spec.Revision }) {
		return "in force"
	}
	return Pending
}

// Many returns a number with its noun.
func Many(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
