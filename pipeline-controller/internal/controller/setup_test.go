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
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/event"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

func TestGateTurned(t *testing.T) {
	gate := func(change func(*gatingv1.Gate)) *gatingv1.Gate {
		gate := &gatingv1.Gate{}
		gate.UID, gate.Generation = "before", 1
		change(gate)
		return gate
	}
	for _, test := range []struct {
		name   string
		change func(*gatingv1.Gate)
		want   bool
	}{
		{"a gate whose status alone has changed was not", func(gate *gatingv1.Gate) { gate.Status.Held = 1 }, false},
		{"a gate with another spec was", func(gate *gatingv1.Gate) { gate.Generation = 2 }, true},
		{"a gate with another reason was", func(gate *gatingv1.Gate) {
			gate.Annotations = map[string]string{gatingv1.ReasonAnnotation: "end of quarter"}
		}, true},
		// A watch that was interrupted delivers a deletion and a creation as one update.
		{"a gate that was deleted and created again was", func(gate *gatingv1.Gate) { gate.UID = "after" }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, after := gate(func(*gatingv1.Gate) {}), gate(test.change)
			NewWithT(t).Expect(gateTurned().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(test.want))
		})
	}
}
