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
	"slices"
	"time"

	"github.com/sluice-toolkit/sluice/api/calendar"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// State is the state of a gate at a time.
// +kubebuilder:object:generate=false
type State struct {
	// Closed reports whether the gate is closed.
	Closed bool
	// Cause is why, such as 'by window weekend'. It is empty if the switch decides.
	Cause string
	// By is who changed the switch or set the override that decides. It is empty if a window decides.
	By Turner
	// Reason is the reason that a person gave, on one line of at most 200 characters.
	Reason string
	// Until is when the gate opens or closes by itself. It is zero if it doesn't, or if that comes after too many
	// windows.
	Until time.Time
	// Invalid is the error of an invalid window. It is nil if all are valid. A gate with an invalid window is closed,
	// unless its override opens it.
	Invalid error
}

// Change is a time at which a gate opens or closes by itself.
// +kubebuilder:object:generate=false
type Change struct {
	// At is the time of the change.
	At time.Time
	// Closed reports whether the gate is closed after the change.
	Closed bool
	// Cause is State.Cause after the change.
	Cause string
}

const (
	byOverride  = "by override"
	outsideOpen = "outside its open windows"
)

// IsTimed reports whether the gate may open or close by itself.
func (g *Gate) IsTimed() bool {
	return g.Spec.Override != nil || len(g.Spec.ClosedDuring) > 0 || len(g.Spec.OpenDuring) > 0
}

// TimeZones returns the time zones of the gate's windows, each once, in their order. It omits those that are unknown.
func (g *Gate) TimeZones() []*time.Location {
	var zones []*time.Location
	for _, window := range slices.Concat(g.Spec.ClosedDuring, g.Spec.OpenDuring) {
		zone, err := time.LoadLocation(window.TimeZone) // UTC if it is empty
		if err == nil && !slices.ContainsFunc(zones, func(known *time.Location) bool { return known.String() == zone.String() }) {
			zones = append(zones, zone)
		}
	}
	return zones
}

// StateAt returns the state of the gate at a time. It depends only on the spec, the annotations and the time, so the
// controllers and the CLI agree.
func (g *Gate) StateAt(t time.Time) State {
	s := newSchedule(&g.Spec)
	now := s.at(t)
	state := State{Closed: now.closed, Cause: now.cause, By: g.turnedBy(s, now, t), Reason: g.Reason(), Until: s.until(now), Invalid: s.invalid}
	if now.cause == byOverride {
		state.Reason = plaintext.Cut(plaintext.Line(g.Spec.Override.Reason), 200)
	}
	return state
}

// turnedBy returns who changed the gate to its state at a time.
func (g *Gate) turnedBy(s *schedule, now moment, t time.Time) Turner {
	switch {
	case now.cause == byOverride:
		by, _ := g.turnerOf(overridePath)
		return by
	case now.cause != "" || now.closed != g.Spec.Closed:
		return Turner{} // windows decide, or are invalid
	}
	by, at := g.turnerOf(closedPath)
	if g.IsTimed() && !now.closed && s.turnsWithin(at, t) {
		return Turner{} // it opened by itself
	}
	return by
}

// turnsWithin reports whether the gate, open at the end of a period, opened by itself in it. It is true if the start of
// the period is unknown.
func (s *schedule) turnsWithin(from, to time.Time) bool {
	if from.IsZero() {
		return true
	}
	first := s.at(from)
	turns := s.until(first)
	return first.closed || !turns.IsZero() && !turns.After(to)
}

// ChangesAfter returns the next changes of the gate after a time, at most as many as given.
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

// schedule is a gate's spec with its windows parsed.
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
	// Where one window begins and another ends, closed wins.
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
			return nil, fmt.Errorf("window %s is invalid: %w", w.Name, err)
		}
		parsed = append(parsed, namedWindow{window, w.Name})
	}
	return parsed, nil
}

// moment is the state of a schedule at a time.
type moment struct {
	closed bool
	cause  string
	// lasts is a time until which the state stays the same. It is zero if the state never changes.
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

// during returns the window around a time that lasts longest, or nil, and the next beginning of the others.
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

// maxSteps limits the search for a change in windows that follow each other without one.
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

// earlier returns the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// String returns the state in words, such as 'closed by window weekend until 2026-11-23T06:00:00Z'.
func (s State) String() string {
	text := "open"
	if s.Closed {
		text = "closed"
	}
	if s.Cause != "" {
		text += " " + s.Cause
	}
	switch {
	case !s.Closed || s.By.User == "":
	case s.Cause == byOverride:
		text += " of " + s.By.User
	default:
		text += " by " + s.By.User
	}
	if !s.Until.IsZero() {
		text += " until " + s.Until.Format(time.RFC3339)
	}
	switch {
	case s.Invalid != nil && s.Cause == "":
		text += " because " + s.Invalid.Error()
	case s.Invalid != nil:
		text += "; " + s.Invalid.Error()
	}
	return text
}
