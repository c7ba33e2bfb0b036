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
	"fmt"
	"time"

	"github.com/sluice-toolkit/sluice/api/calendar"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// State is what a gate is at a moment.
// +kubebuilder:object:generate=false
type State struct {
	// Closed tells whether the gate holds back what names it.
	Closed bool
	// Cause names what has decided, such as 'by window weekend'. It is empty if the switch has.
	Cause string
	// Reason is what people gave as the reason, on one line of at most 200 characters.
	Reason string
	// Until is when the gate opens or closes by itself. It is zero if it does not, or if that lies behind too many windows.
	Until time.Time
	// Invalid is what is wrong with the gate's windows; nil if nothing is. Such a gate is closed, but for its override.
	Invalid error
}

// Change is a moment at which a gate opens or closes by itself.
// +kubebuilder:object:generate=false
type Change struct {
	// At is the moment.
	At time.Time
	// Closed tells whether the gate is closed from then on.
	Closed bool
	// Cause is that of the State from then on.
	Cause string
}

const (
	byOverride  = "by override"
	outsideOpen = "outside of its open windows"
)

// IsTimed reports whether the gate may open or close by itself.
func (g *Gate) IsTimed() bool {
	return g.Spec.Override != nil || len(g.Spec.ClosedDuring) > 0 || len(g.Spec.OpenDuring) > 0
}

// StateAt returns what the gate is at a moment. It depends on the spec, the annotations and the moment alone, so that whoever asks gets the same
// answer.
func (g *Gate) StateAt(t time.Time) State {
	s := newSchedule(&g.Spec)
	now := s.at(t)
	state := State{Closed: now.closed, Cause: now.cause, Reason: g.Reason(), Until: s.until(now), Invalid: s.invalid}
	if now.cause == byOverride {
		state.Reason = plaintext.Cut(plaintext.Line(g.Spec.Override.Reason), 200)
	}
	return state
}

// ChangesAfter returns at most as many of the next changes of the gate as are asked for.
func (g *Gate) ChangesAfter(t time.Time, most int) []Change {
	s := newSchedule(&g.Spec)
	var changes []Change
	for at := s.until(s.at(t)); !at.IsZero() && len(changes) < most; {
		now := s.at(at)
		changes = append(changes, Change{At: at, Closed: now.closed, Cause: now.cause})
		at = s.until(now)
	}
	return changes
}

// schedule is a gate's spec with its windows taken apart.
type schedule struct {
	*GateSpec
	closing, opening []namedWindow
	invalid          error
}

type namedWindow struct {
	calendar.Window
	name string
}

func newSchedule(spec *GateSpec) *schedule {
	s := &schedule{GateSpec: spec}
	// Where one window begins as it ends, closed wins.
	s.closing, s.invalid = parseWindows(spec.ClosedDuring, calendar.TieBegins)
	if s.invalid == nil {
		s.opening, s.invalid = parseWindows(spec.OpenDuring, calendar.TieEnds)
	}
	return s
}

func parseWindows(windows []Window, tie calendar.Tie) ([]namedWindow, error) {
	var parsed []namedWindow
	for _, w := range windows {
		window, err := calendar.Parse(string(w.From), string(w.To), w.TimeZone, tie)
		if err != nil {
			return nil, fmt.Errorf("window %s: %w", w.Name, err)
		}
		parsed = append(parsed, namedWindow{window, w.Name})
	}
	return parsed, nil
}

// moment is what a schedule says of a moment.
type moment struct {
	closed bool
	cause  string
	// lasts is up to when nothing changes for sure; zero if that is for ever.
	lasts time.Time
}

func (s *schedule) at(t time.Time) moment {
	switch {
	case s.Override != nil && t.Before(s.Override.Until.Time):
		return moment{closed: s.Override.Closed, cause: byOverride, lasts: s.Override.Until.UTC()}
	case s.invalid != nil, s.Closed:
		return moment{closed: true}
	}
	closing, closes := during(s.closing, t)
	if closing != nil {
		return moment{closed: true, cause: closing.cause, lasts: closing.lasts}
	}
	if len(s.opening) == 0 {
		return moment{lasts: closes}
	}
	opening, opens := during(s.opening, t)
	if opening == nil {
		return moment{closed: true, cause: outsideOpen, lasts: opens}
	}
	return moment{cause: opening.cause, lasts: earlier(opening.lasts, closes)}
}

// during returns the one of the windows around a moment that lasts longest, or nil, and the next beginning of the others.
func during(windows []namedWindow, t time.Time) (longest *moment, next time.Time) {
	for _, window := range windows {
		if !window.Contains(t) {
			next = earlier(next, window.NextFrom(t))
		} else if end := window.NextTo(t); longest == nil || end.After(longest.lasts) {
			longest = &moment{cause: "by window " + window.name, lasts: end}
		}
	}
	return longest, next
}

// maxSteps bounds the search for a change, in windows that follow each other without one.
const maxSteps = 100

func (s *schedule) until(now moment) time.Time {
	for range maxSteps {
		if now.lasts.IsZero() {
			break
		}
		next := s.at(now.lasts)
		if next.closed != now.closed {
			return now.lasts
		}
		now = next
	}
	return time.Time{}
}

// earlier returns the earlier one of two moments that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// String is the state in words, such as 'closed by window weekend until 2026-11-23T06:00:00Z'.
func (s State) String() string {
	text := "open"
	if s.Closed {
		text = "closed"
	}
	if s.Cause != "" {
		text += " " + s.Cause
	}
	if !s.Until.IsZero() {
		text += " until " + s.Until.Format(time.RFC3339)
	}
	switch {
	case s.Invalid != nil && s.Closed:
		text += ", since its windows are invalid: " + s.Invalid.Error()
	case s.Invalid != nil:
		text += ", though its windows are invalid: " + s.Invalid.Error()
	}
	return text
}
