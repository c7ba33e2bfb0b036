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
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var readyExpr = regexp.MustCompile(`(?s)readyExpr: >-\n(.*?)\n` + "```")

// The expression is evaluated as Flux Operator does for a ResourceSet: not compiled, with all fields of the object as
// variables. An error is reported, and counts as not ready.
func TestTheReadyExprOfTheGuideIsTrueOnlyForAGateThatIsOpen(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/resourcesets.md")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	found := readyExpr.FindSubmatch(guide)
	NewWithT(t).Expect(found).To(HaveLen(2))
	expression, err := cel.NewExpression(string(found[1]))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())

	freeze := func(closed bool) *gatingv1.Gate {
		gate := gate("freeze", closed)
		gate.Generation = 1
		return gate
	}
	window := []gatingv1.Window{{Name: "lunch", From: "0 12 * * *", To: "0 13 * * *"}}
	timed := func(spec gatingv1.GateSpec, at time.Time) *gatingv1.Gate {
		gate := freeze(false)
		gate.Spec = spec
		return saying(gate, at)
	}
	changed := func(gate *gatingv1.Gate) *gatingv1.Gate {
		gate.Generation++
		return gate
	}
	for _, test := range []struct {
		name  string
		gate  *gatingv1.Gate
		ready bool
		err   string
	}{
		{name: "open", gate: saying(freeze(false), noon), ready: true},
		{name: "closed", gate: saying(freeze(true), noon)},
		{name: "closed, and its status still says open", gate: func() *gatingv1.Gate {
			gate := saying(freeze(false), noon)
			gate.Spec.Closed = true
			return changed(gate)
		}()},
		{name: "opened, and its status still says closed", gate: func() *gatingv1.Gate {
			gate := saying(freeze(true), noon)
			gate.Spec.Closed = false
			return changed(gate)
		}()},
		{name: "changed, and its status is of the generation before", gate: changed(saying(freeze(false), noon))},
		{name: "in a closed window", gate: timed(gatingv1.GateSpec{ClosedDuring: window}, noon)},
		{name: "before a closed window", gate: timed(gatingv1.GateSpec{ClosedDuring: window}, noon.Add(-time.Minute)), ready: true},
		{name: "in an open window", gate: timed(gatingv1.GateSpec{OpenDuring: window}, noon), ready: true},
		{name: "outside its open windows", gate: timed(gatingv1.GateSpec{OpenDuring: window}, noon.Add(-time.Minute))},
		{name: "opened by an override", gate: saying(overridden("freeze", false, noon.Add(time.Hour)), noon), ready: true},
		{name: "closed by an override", gate: saying(overridden("freeze", true, noon.Add(time.Hour)), noon)},
		{name: "closed after its override", gate: saying(overridden("freeze", false, noon.Add(-time.Hour)), noon)},
		{name: "with an invalid window", gate: timed(gatingv1.GateSpec{ClosedDuring: []gatingv1.Window{{Name: "never", From: "noon", To: "0 13 * * *"}}}, noon)},
		{name: "open, with sources that could not be held before", gate: func() *gatingv1.Gate {
			gate := freeze(false)
			gate.Status.Refused = 1
			return saying(gate, noon)
		}(), ready: true},
		{name: "with a status that says nothing yet", gate: freeze(false)},
		{name: "with conditions of someone else alone", gate: func() *gatingv1.Gate {
			gate := saying(freeze(false), noon)
			conditions.Delete(gate, gatingv1.OpenCondition)
			conditions.MarkTrue(gate, "Opened", gatingv1.OpenReason, "")
			return gate
		}()},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.gate)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(expression.EvaluateBoolean(t.Context(), object)).To(Equal(test.ready))
		})
	}

	t.Run("without a status", func(t *testing.T) {
		g := NewWithT(t)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(freeze(false))
		g.Expect(err).NotTo(HaveOccurred())
		delete(object, "status")
		_, err = expression.EvaluateBoolean(t.Context(), object)
		g.Expect(err).To(MatchError(ContainSubstring("status")))
	})
}
