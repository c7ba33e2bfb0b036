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

// Package calendar knows windows of time that begin and end by the wall clock of a time zone, once or again and again. It is pure: what it says
// depends on the window and on the time that is asked about.
//
// A beginning or an end within the hour that a clock skips happens when the skip ends. In an hour that a clock goes through twice, it happens at the
// first pass.
package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Tie says what a window does at a moment that is both a beginning and an end.
type Tie bool

const (
	// TieEnds ends the window.
	TieEnds Tie = false
	// TieBegins begins it.
	TieBegins Tie = true
)

// Window is a time that begins and ends by the wall clock.
type Window struct {
	from, to moments
	zone     *time.Location
	tie      Tie
}

// moments are times that a clock on a wall can show.
type moments interface {
	// next returns the first one after a time.
	next(after wall) (wall, bool)
	// last returns the last one up to a time.
	last(upTo wall) (wall, bool)
}

// Parse makes a window of its beginning, its end and the name of its time zone. Both ends are cron expressions of five fields, or both are
// dates with times of day, such as 2026-12-23T00:00.
func Parse(from, to, timeZone string, tie Tie) (Window, error) {
	zone, err := loadZone(timeZone)
	if err != nil {
		return Window{}, err
	}
	w := Window{zone: zone, tie: tie}
	if isDate(from) != isDate(to) {
		return Window{}, errors.New("from and to must both be cron expressions, or both dates")
	}
	if w.from, err = parse(from); err != nil {
		return Window{}, fmt.Errorf("from: %w", err)
	}
	if w.to, err = parse(to); err != nil {
		return Window{}, fmt.Errorf("to: %w", err)
	}
	if w.from == w.to {
		return Window{}, errors.New("from and to are the same")
	}
	if begin, ok := w.from.(once); ok && !instantOf(wall(begin), zone).Before(instantOf(wall(w.to.(once)), zone)) {
		return Window{}, errors.New("it never happens: to is not after from")
	}
	return w, nil
}

// loadZone takes names of the tz database alone.
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

// Contains reports whether a moment is within the window. Its beginning is, its end is not.
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
	// Different times in a skipped hour are the same moment.
	beginning, ending := instantOf(begin, w.zone), instantOf(end, w.zone)
	return beginning.After(ending) || bool(w.tie) && beginning.Equal(ending)
}

// NextFrom returns the first beginning after a moment, whether the window is open then or not. It is zero if there is none.
func (w Window) NextFrom(after time.Time) time.Time { return w.next(w.from, after) }

// NextTo returns the first end after a moment likewise.
func (w Window) NextTo(after time.Time) time.Time { return w.next(w.to, after) }

func (w Window) next(of moments, after time.Time) time.Time {
	next, ok := of.next(latestShown(after, w.zone))
	if !ok {
		return time.Time{}
	}
	return instantOf(next, w.zone)
}

// once is a date with a time of day.
type once wall

const (
	toMinutes = "2006-01-02T15:04"
	toSeconds = "2006-01-02T15:04:05"
)

// isDate tells a date from a cron expression, which has spaces.
func isDate(text string) bool { return strings.Contains(text, "T") && !strings.Contains(text, " ") }

func parseDate(text string) (once, error) {
	layout := toMinutes
	if len(text) == len(toSeconds) {
		layout = toSeconds
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return once{}, errors.New("it must be a date with a time of day, such as 2026-12-23T00:00")
	}
	return once(t), nil
}

func (o once) next(after wall) (wall, bool) { return wall(o), wall(o).After(after) }

func (o once) last(upTo wall) (wall, bool) { return wall(o), !wall(o).After(upTo) }
