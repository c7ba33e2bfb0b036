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
	"errors"
	"fmt"
	"strings"
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// changesShown is the number of future changes that are shown.
const changesShown = 5

// changesOf lists when a gate opens and closes by itself, in the reader's time zone and in those of its windows.
func changesOf(gate *gatingv1.Gate, changes []gatingv1.Change, reader *time.Location) tree {
	shown := leaf("next changes")
	for _, change := range changes {
		at := change.At.In(reader)
		line := shortTime(at)
		for _, zone := range gate.TimeZones() {
			if there := change.At.In(zone); there.Format(dayAndTime) != at.Format(dayAndTime) {
				line += ", " + timeThere(there, at) + " in " + zone.String()
			}
		}
		verb := "opens"
		if change.Closed {
			verb = "closes"
		}
		shown.add(leaf("%s", strings.TrimSpace(fmt.Sprintf("%s: %s %s", line, verb, change.Cause))))
	}
	return shown
}

const (
	day        = "Mon 2006-01-02"
	dayAndTime = "Mon 2006-01-02 15:04:05"
)

// shortTime has seconds only if they are not zero.
func shortTime(t time.Time) string { return t.Format(day+" ") + clockTime(t) + t.Format(" MST") }

func clockTime(t time.Time) string {
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05")
}

// timeThere names the day only if it is another one.
func timeThere(there, here time.Time) string {
	if there.Format(day) == here.Format(day) {
		return clockTime(there)
	}
	return there.Format("Mon ") + clockTime(there)
}

// parseTime reads a time that a person has typed, in the zone where it has none.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Truncate(time.Second), nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("must be a time such as 2026-12-24T06:00, or 2026-12-24T06:00:00Z")
}
