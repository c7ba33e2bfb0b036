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

package calendar

import "time"

// wall is what a wall clock shows: a date and a time without a zone. It is stored as if it were UTC.
type wall = time.Time

// farthest is more than the offset of any zone from UTC.
const farthest = 26 * time.Hour

func wallAt(t time.Time, zone *time.Location) wall {
	offset, _ := offsetAt(t, zone)
	return t.UTC().Add(offset)
}

// offsetAt returns the clock's offset from UTC, and a later time until which it stays the same. That is zero if the
// offset never changes.
func offsetAt(t time.Time, zone *time.Location) (offset time.Duration, until time.Time) {
	local := t.In(zone)
	_, seconds := local.Zone()
	_, until = local.ZoneBounds()
	if !until.IsZero() && !until.After(t) {
		// ZoneBounds of Go 1.26 assumes that every year has 365 days, so the last day of a leap year comes after its
		// end.
		until = t.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	}
	return time.Duration(seconds) * time.Second, until
}

// instantOf returns the first instant at which the clock shows the time or a later one: the first pass if the clock is
// set back, and the end of the gap if the clock skips it.
func instantOf(shown wall, zone *time.Location) time.Time {
	for t := shown.Add(-farthest); ; {
		offset, until := offsetAt(t, zone)
		at := shown.Add(-offset)
		if at.Before(t) {
			at = t
		}
		if until.IsZero() || at.Before(until) {
			return at.UTC()
		}
		t = until
	}
}

// latestShown returns the latest time that the clock has shown until an instant. It is ahead of the clock after the
// clock was set back.
func latestShown(t time.Time, zone *time.Location) wall {
	latest := wallAt(t, zone)
	for at := t; ; {
		start, _ := at.In(zone).ZoneBounds()
		if start.IsZero() || start.Before(t.Add(-farthest)) {
			return latest
		}
		at = start.Add(-1)
		if shown := wallAt(at, zone); shown.After(latest) {
			latest = shown
		}
	}
}
