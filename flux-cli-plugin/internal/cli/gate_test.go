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
	"time"

	"github.com/fluxcd/pkg/apis/acl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

func newGate(namespace, name string, changes ...func(*gatingv1.Gate)) *gatingv1.Gate {
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
	for _, change := range changes {
		change(gate)
	}
	return gate
}

// frozen closes the gate with a reason. gate-controller observed it three hours ago.
func frozen(gate *gatingv1.Gate) {
	gate.Spec.Closed = true
	gate.Annotations = map[string]string{gatingv1.ReasonAnnotation: "end of\nquarter"}
	gate.Status = gatingv1.GateStatus{ObservedGeneration: 1, LastTransitionTime: at(-3 * time.Hour), Held: 2}
}

// atNight adds a window for each night.
func atNight(gate *gatingv1.Gate) {
	gate.Spec.ClosedDuring = []gatingv1.Window{{Name: "night", From: "0 20 * * *", To: "0 8 * * *", TimeZone: "Europe/Berlin"}}
}

// forAll allows references to the gate from all namespaces.
func forAll(gate *gatingv1.Gate) {
	gate.Spec.AccessFrom = &acl.AccessFrom{NamespaceSelectors: []acl.NamespaceSelector{{}}}
}
