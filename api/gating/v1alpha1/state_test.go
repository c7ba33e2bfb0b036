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

package v1alpha1

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noon of a Wednesday.
var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

var (
	weekend  = Window{Name: "weekend", From: "0 15 * * 5", To: "0 7 * * 1", TimeZone: "Europe/Berlin"}
	yearEnd  = Window{Name: "year-end", From: "2026-12-23T00:00", To: "2027-01-02T00:00", TimeZone: "Europe/Berlin"}
	nightly  = Window{Name: "nightly", From: "0 18 * * *", To: "0 8 * * *"}
	workdays = Window{Name: "workdays", From: "0 9 * * 1-5", To: "0 17 * * 1-5"}
	monday   = Window{Name: "monday", From: "0 0 * * 1", To: "0 0 * * 2"}
)

func TestStateAt(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	override := func(closed bool, until, reason string) *Override {
		return &Override{Closed: closed, Until: metav1.NewTime(at(until)), Reason: reason}
	}
	for _, test := range []struct {
		name string
		spec GateSpec
		at   string
		want string
	}{
		{"a gate without windows is what its switch says", GateSpec{}, "2026-11-25T12:00:00Z", "open"},
		{"a closed switch has no end", GateSpec{Closed: true, ClosedDuring: []Window{weekend}}, "2026-11-25T12:00:00Z", "closed"},
		{"a gate is open until its window begins", GateSpec{ClosedDuring: []Window{weekend}}, "2026-11-25T12:00:00Z", "open until 2026-11-27T14:00:00Z"},
		{"a gate is closed from the beginning of its window on", GateSpec{ClosedDuring: []Window{weekend}}, "2026-11-27T14:00:00Z",
			"closed by window weekend until 2026-11-30T06:00:00Z"},
		{"a gate is open from the end of its window on", GateSpec{ClosedDuring: []Window{weekend}}, "2026-11-30T06:00:00Z", "open until 2026-12-04T14:00:00Z"},
		{"a date is not repeated", GateSpec{ClosedDuring: []Window{yearEnd}}, "2027-01-02T00:00:00Z", "open"},
		{"windows that overlap are one, and the longest one is named", GateSpec{ClosedDuring: []Window{weekend, nightly}}, "2026-11-27T19:00:00Z",
			"closed by window weekend until 2026-11-30T08:00:00Z"},
		{"many windows within a longer one don't matter", GateSpec{ClosedDuring: []Window{{Name: "hourly", From: "0 * * * *", To: "30 * * * *"}, yearEnd}},
			"2026-12-23T00:00:00Z", "closed by window year-end until 2027-01-01T23:30:00Z"},
		{"a gate is open within its open windows", GateSpec{OpenDuring: []Window{workdays}}, "2026-11-25T12:00:00Z", "open by window workdays until 2026-11-25T17:00:00Z"},
		{"a gate is closed outside its open windows", GateSpec{OpenDuring: []Window{workdays}}, "2026-11-27T17:00:00Z",
			"closed outside its open windows until 2026-11-30T09:00:00Z"},
		{"closed windows come before open ones", GateSpec{OpenDuring: []Window{workdays}, ClosedDuring: []Window{monday}}, "2026-11-30T12:00:00Z",
			"closed by window monday until 2026-12-01T09:00:00Z"},
		{"an open window ends where a closed one begins", GateSpec{OpenDuring: []Window{workdays}, ClosedDuring: []Window{{Name: "lunch", From: "0 13 * * *", To: "0 14 * * *"}}},
			"2026-11-25T12:00:00Z", "open by window workdays until 2026-11-25T13:00:00Z"},
		{"an override wins over a closed switch", GateSpec{Closed: true, Override: override(false, "2026-11-25T13:00:00Z", "")}, "2026-11-25T12:00:00Z",
			"open by override until 2026-11-25T13:00:00Z"},
		{"an override wins over a closed window", GateSpec{ClosedDuring: []Window{weekend}, Override: override(false, "2026-11-28T18:00:30Z", "")}, "2026-11-28T12:00:00Z",
			"open by override until 2026-11-28T18:00:30Z"},
		{"an override that closes wins over an open gate", GateSpec{Override: override(true, "2026-11-25T13:00:00Z", "")}, "2026-11-25T12:00:00Z",
			"closed by override until 2026-11-25T13:00:00Z"},
		{"an override that changes nothing lasts as long as what it repeats", GateSpec{ClosedDuring: []Window{weekend}, Override: override(true, "2026-11-28T18:00:00Z", "")},
			"2026-11-28T12:00:00Z", "closed by override until 2026-11-30T06:00:00Z"},
		{"an override that has ended is as if it were not there", GateSpec{Override: override(true, "2026-11-25T12:00:00Z", "")}, "2026-11-25T12:00:00Z", "open"},
		{"where windows meet, the gate stays closed", GateSpec{ClosedDuring: []Window{
			{Name: "a", From: "0 0 * * *", To: "0 12 * * *"}, {Name: "b", From: "0 12 * * *", To: "0 0 * * *"}}}, "2026-11-25T12:00:00Z", "closed by window b"},
		{"a window that begins as it ends continues", GateSpec{ClosedDuring: []Window{{Name: "a", From: "0 * * * *", To: "0 12 * * *"}}}, "2026-11-25T12:00:00Z",
			"closed by window a"},
		{"an open window that ends as it begins ends", GateSpec{OpenDuring: []Window{{Name: "a", From: "0 * * * *", To: "0 12 * * *"}}}, "2026-11-25T12:00:00Z",
			"closed outside its open windows until 2026-11-25T13:00:00Z"},
		{"open windows that are over leave the gate closed forever", GateSpec{OpenDuring: []Window{{Name: "once", From: "2026-11-01T00:00", To: "2026-11-02T00:00"}}},
			"2026-11-25T12:00:00Z", "closed outside its open windows"},
		{"a window that never happens closes the gate", GateSpec{ClosedDuring: []Window{{Name: "never", From: "0 0 30 2 *", To: "0 0 1 3 *"}}}, "2026-11-25T12:00:00Z",
			"closed because window never is invalid: from never happens: none of its months has such a day"},
		{"an invalid open window closes the gate too", GateSpec{OpenDuring: []Window{workdays, {Name: "mars", From: "0 0 * * *", To: "0 1 * * *", TimeZone: "Mars/Phobos"}}},
			"2026-11-25T12:00:00Z", "closed because window mars is invalid: timeZone must be a name of the tz database, such as Europe/Berlin"},
		{"an override wins over invalid windows", GateSpec{
			Override:     override(false, "2026-11-25T13:00:00Z", ""),
			ClosedDuring: []Window{{Name: "never", From: "0 0 30 2 *", To: "0 0 1 3 *"}},
		}, "2026-11-25T12:00:00Z", "open by override until 2026-11-25T13:00:00Z; window never is invalid: from never happens: none of its months has such a day"},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := &Gate{Spec: test.spec}
			NewWithT(t).Expect(gate.StateAt(at(test.at)).String()).To(Equal(test.want))
		})
	}
}

func TestTheReasonOfAnOverrideCountsMeanwhile(t *testing.T) {
	g := NewWithT(t)
	overridden := gate(true, "end of quarter")
	overridden.Spec.Override = &Override{Until: metav1.NewTime(noon), Reason: "INC-4711\n"}
	g.Expect(overridden.StateAt(noon.Add(-time.Second)).Reason).To(Equal("INC-4711"))
	g.Expect(overridden.StateAt(noon).Reason).To(Equal("end of quarter"))
}

func TestChangesAfter(t *testing.T) {
	g := NewWithT(t)
	timed := &Gate{Spec: GateSpec{ClosedDuring: []Window{weekend}, Override: &Override{Closed: true, Until: metav1.NewTime(noon.Add(time.Hour))}}}
	g.Expect(timed.ChangesAfter(noon, 3)).To(Equal([]Change{
		{At: noon.Add(time.Hour)},
		{At: time.Date(2026, 11, 27, 14, 0, 0, 0, time.UTC), Closed: true, Cause: "by window weekend"},
		{At: time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)},
	}))
	g.Expect((&Gate{Spec: GateSpec{ClosedDuring: []Window{yearEnd}}}).ChangesAfter(noon, 5)).To(HaveLen(2))
	g.Expect((&Gate{}).ChangesAfter(noon, 5)).To(BeEmpty())
}

func TestEvaluateTellsOfTheNextChange(t *testing.T) {
	opensAt, closesAt := noon.Add(time.Hour), noon.Add(2*time.Hour)
	opening := &Gate{Spec: GateSpec{Override: &Override{Closed: true, Until: metav1.NewTime(opensAt)}}}
	closing := &Gate{Spec: GateSpec{Closed: true, Override: &Override{Until: metav1.NewTime(closesAt)}}}
	found := Found{"opening": {Gate: opening}, "closing": {Gate: closing}, "closed": {Gate: gate(true, "")}}
	for _, test := range []struct {
		name                 string
		refs                 *GateReferences
		wantOpen             bool
		change, wantReversal time.Time
	}{
		{"gates that don't change by themselves have no next change", references(RequireAll, "closed"), false, time.Time{}, time.Time{}},
		{"a gate that opens opens all", references(RequireAll, "opening"), false, opensAt, opensAt},
		{"a gate that closes closes all", references(RequireAll, "closing"), true, closesAt, closesAt},
		{"the first change counts", references(RequireAll, "closing", "opening"), false, opensAt, opensAt},
		{"a gate that opens beside a closed one changes the message alone", references(RequireAll, "closed", "opening"), false, opensAt, time.Time{}},
		{"a gate that opens is enough for one of them", references(RequireOneOf, "closed", "opening"), false, opensAt, opensAt},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			evaluation := Evaluate(test.refs, found, noon)
			g.Expect(evaluation.Open).To(Equal(test.wantOpen))
			g.Expect(evaluation.NextChange).To(Equal(test.change))
			g.Expect(evaluation.NextTransition).To(Equal(test.wantReversal))
		})
	}
}

func TestAGateNamesWhatHasClosedIt(t *testing.T) {
	timed := gate(false, "see the calendar")
	timed.Spec.ClosedDuring = []Window{weekend}
	NewWithT(t).Expect(Evaluate(references(RequireAll, "freeze"), Found{"freeze": {Gate: timed}}, noon.AddDate(0, 0, 3)).Message).
		To(Equal("gate freeze is closed by window weekend until 2026-11-30T06:00:00Z (see the calendar)"))
}

// A hostile gate has the maximum number of windows, which follow each other without a change of the gate.
func BenchmarkStateOfAHostileGate(b *testing.B) {
	hostile := &Gate{}
	for i := range 16 {
		name := string(rune('a' + i))
		hostile.Spec.ClosedDuring = append(hostile.Spec.ClosedDuring, Window{Name: name, From: "* * * * *", To: "*/2 * 29 2 *", TimeZone: "Europe/Berlin"})
		hostile.Spec.OpenDuring = append(hostile.Spec.OpenDuring, Window{Name: name, From: "0 0 29 2 *", To: "* * * * *", TimeZone: "Europe/Berlin"})
	}
	for b.Loop() {
		hostile.StateAt(noon)
	}
}
