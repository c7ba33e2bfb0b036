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
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

func TestATurnIsToldInOneLine(t *testing.T) {
	jane := gatingv1.Turner{User: "jane"}
	weekend := gatingv1.Window{Name: "weekend", From: "0 15 * * 5", To: "0 7 * * 1", TimeZone: "Europe/Berlin"}
	monday := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name   string
		spec   gatingv1.GateSpec
		state  gatingv1.State
		status gatingv1.GateStatus
		want   string
	}{
		{"a person closes it", gatingv1.GateSpec{}, gatingv1.State{Closed: true, By: jane, Reason: "INC-4711"},
			gatingv1.GateStatus{Sources: 1000, Held: 1001, HeldPromotions: 1}, "closed by jane: INC-4711; holds 1000 of 1000 sources, 1 promotion waits"},
		{"a person opens it, and another gate still holds something", gatingv1.GateSpec{}, gatingv1.State{By: jane},
			gatingv1.GateStatus{Sources: 12, Held: 4, HeldPromotions: 2}, "opened by jane; released 10 of 12 sources, 2 promotions wait"},
		{"a field manager turns it", gatingv1.GateSpec{}, gatingv1.State{Closed: true, By: gatingv1.Turner{FieldManager: "kustomize-controller"}},
			gatingv1.GateStatus{}, "closed by field manager kustomize-controller"},
		{"a window closes it, until a time of its zone", gatingv1.GateSpec{ClosedDuring: []gatingv1.Window{weekend}},
			gatingv1.State{Closed: true, Cause: "by window weekend", Until: monday}, gatingv1.GateStatus{Sources: 1, Held: 1},
			"closed by window weekend until Mon 2026-11-30 07:00 Europe/Berlin; holds 1 of 1 source"},
		{"windows of several zones have their ends told in UTC", gatingv1.GateSpec{ClosedDuring: []gatingv1.Window{weekend, {TimeZone: "UTC"}}},
			gatingv1.State{Until: monday}, gatingv1.GateStatus{}, "opened until Mon 2026-11-30 06:00 UTC"},
		{"so have windows of which one has no zone", gatingv1.GateSpec{ClosedDuring: []gatingv1.Window{{}, weekend}},
			gatingv1.State{Until: monday}, gatingv1.GateStatus{}, "opened until Mon 2026-11-30 06:00 UTC"},
		{"an override opens it, to the second", gatingv1.GateSpec{}, gatingv1.State{Cause: "by override", By: jane, Until: monday.Add(time.Second), Reason: "INC-4711"},
			gatingv1.GateStatus{}, "opened by override of jane until Mon 2026-11-30 06:00:01 UTC: INC-4711"},
		{"some have not followed", gatingv1.GateSpec{}, gatingv1.State{Closed: true}, gatingv1.GateStatus{Sources: 3, Held: 1, Pending: 1, Refused: 1},
			"closed; holds 1 of 3 sources, 1 pending, holding failed for 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(describeTurn(&gatingv1.Gate{Spec: test.spec, Status: test.status}, test.state)).To(Equal(test.want))
		})
	}
}

func TestHoldsThatFailLaterAreToldOfOnce(t *testing.T) {
	g := NewWithT(t)
	recorder := record.NewFakeRecorder(10)
	scheme := runtime.NewScheme()
	g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
	r := &GateReconciler{Announcer: announce.To(scheme, recorder, &record.FakeRecorder{})}
	freeze := &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: true}}
	freeze.Namespace, freeze.Name = "ops", "freeze"
	reconcile := func(refused int32) {
		before := freeze.DeepCopy()
		freeze.Status.Sources, freeze.Status.Held, freeze.Status.Refused = 3, 3-refused, refused
		state := freeze.StateAt(noon)
		r.announce(before, freeze, state, describe(before, freeze, state))
	}
	freeze.Status.LastTransitionTime = new(metav1.Now())
	reconcile(0)
	g.Expect(recorder.Events).To(Receive(Equal("Normal Closed closed; holds 3 of 3 sources")))
	for _, refused := range []int32{0, 1, 2, 1} {
		reconcile(refused)
	}
	g.Expect(recorder.Events).To(Receive(Equal("Warning HoldFailed holding failed for 1 of 3 sources: run 'flux gate get freeze -n ops' to list them")))
	g.Expect(recorder.Events).To(BeEmpty())
	reconcile(0)
	g.Expect(recorder.Events).To(BeEmpty())
	reconcile(1)
	g.Expect(recorder.Events).To(Receive(HavePrefix("Warning HoldFailed ")), "another time")
}
