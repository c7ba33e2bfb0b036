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

package cli

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// unknown is shown for what gate-controller has not observed yet.
const unknown = "<unknown>"

func getGate(ctx context.Context, kube client.Client, key client.ObjectKey) (*gatingv1.Gate, error) {
	gate := &gatingv1.Gate{}
	return gate, get(ctx, kube, "gate", key, gate, &gatingv1.GateList{})
}

// stateOf returns the gate's state at a time in one word.
func stateOf(gate *gatingv1.Gate, now time.Time) string {
	if gate.StateAt(now).Closed {
		return closing.state
	}
	return opening.state
}

// observed reports whether gate-controller has observed the current generation of the gate.
func observed(gate *gatingv1.Gate) bool {
	return gate.Status.ObservedGeneration >= gate.Generation && gate.Status.LastTransitionTime != nil
}

// upToDate tells whether it has, and the gate has not turned by itself since.
func upToDate(gate *gatingv1.Gate, now time.Time) bool {
	next := gate.Status.NextTransitionTime
	return observed(gate) && (next == nil || now.Before(next.Time))
}
