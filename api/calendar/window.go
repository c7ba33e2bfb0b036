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

// Package calendar computes windows of time that begin and end by the wall clock of a time zone, once or repeatedly.
// Its results depend only on the window and the time that is asked about.
//
// If a clock skips the beginning or the end of a window, it happens when the skip ends. If a clock shows it twice, it
// happens the first time.
package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Tie says whether a window begins or ends at a time that is both a beginning and an end.
type Tie bool

const (
	// TieEnds ends the window.
	TieEnds Tie = false
	// TieBegins begins the window.
	TieBegins Tie = true
)

// Window is a time that begins and ends by the wall clock.
type Window struct {
	from, to moments
	zone     *time.Location
	tie      Tie
}

// moments are times that a wall clock can show.
type moments interface {
	// next returns the first of them after a time.
	next(after wall) (wall, bool)
	// last returns the last of them at or before a time.
	last(upTo wall) (wall, bool)
}

// Parse returns a window with a beginning, an end and the name of a time zone. Both ends are cron expressions of five
// fields, or both are dates with a time, such as 2026-12-23T00:00.
func Parse(from, to, timeZone string, tie Tie) (Window, error) {
	zone, err := loadZone(timeZone)
	if err != nil {
		return Window{}, err
	}
	w := Window{zone: zone, tie: tie}
	if isDate(from) != isDate(to) {
		return Window{}, errors.New("from and to must both be cron expressions, or both dates with a time of day")
	}
	if w.from, err = parse(from); err != nil {
		return Window{}, fmt.Errorf("from %w", err)
	}
	if w.to, err = parse(to); err != nil {
		return Window{}, fmt.Errorf("to %w", err)
	}
	if w.from == w.to {
		return Window{}, errors.New("from and to must not be the same")
	}
	if begin, ok := w.from.(once); ok && !instantOf(wall(begin), zone).Before(instantOf(wall(w.to.(once)), zone)) {
		return Window{}, errors.New("to must be after from")
	}
	return w, nil
}

// loadZone accepts only names of the tz database.
func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errors.New("timeZone must be a name of the tz database, such as Europe/Berlin")
	}
	return zone, nil
}

func parse(text string) (moments, error) {
	if isDate(text) {
		return parseDate(text)
	}
	return parseCron(text)
}

// Contains reports whether a time is in the window. The beginning is in the window, and the end is not.
func (w Window) Contains(t time.Time) bool {
	latest := latestShown(t, w.zone)
	begin, begun := w.from.last(latest)
	if !begun {
		return false
	}
	end, ended := w.to.last(latest)
	if !ended {
		return true
	}
	// Different times that the clock skips are the same instant.
	beginning, ending := instantOf(begin, w.zone), instantOf(end, w.zone)
	return beginning.After(ending) || bool(w.tie) && beginning.Equal(ending)
}

// NextFrom returns the first beginning after a time, even if the window is open then. It is zero if there is none.
func (w Window) NextFrom(after time.Time) time.Time { return w.next(w.from, after) }

// NextTo returns the first end after a time. It is zero if there is none.
func (w Window) NextTo(after time.Time) time.Time { return w.next(w.to, after) }

func (w Window) next(of moments, after time.Time) time.Time {
	next, ok := of.next(latestShown(after, w.zone))
	if !ok {
		return time.Time{}
	}
	return instantOf(next, w.zone)
}

// once is a single date with a time.
type once wall

const (
	toMinutes = "2006-01-02T15:04"
	toSeconds = "2006-01-02T15:04:05"
)

// isDate reports whether the text is a date. Cron expressions have spaces.
func isDate(text string) bool { return strings.Contains(text, "T") && !strings.Contains(text, " ") }

func parseDate(text string) (once, error) {
	layout := toMinutes
	if len(text) == len(toSeconds) {
		layout = toSeconds
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return once{}, errors.New("must be a date with a time of day, such as 2026-12-23T00:00")
	}
	return once(t), nil
}

func (o once) next(after wall) (wall, bool) { return wall(o), wall(o).After(after) }

func (o once) last(upTo wall) (wall, bool) { return wall(o), !wall(o).After(upTo) }
