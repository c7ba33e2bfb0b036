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

package describe

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

const (
	day        = "Mon 2006-01-02"
	dayAndTime = "Mon 2006-01-02 15:04:05"
)

// Timestamp returns a time of an object, or "".
func Timestamp(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Change describes a change of a gate, in the reader's time zone and in those of the gate's windows.
func Change(gate *gatingv1.Gate, change gatingv1.Change, reader *time.Location) string {
	at := change.At.In(reader)
	line := Time(at)
	for _, zone := range gate.TimeZones() {
		if there := change.At.In(zone); there.Format(dayAndTime) != at.Format(dayAndTime) {
			line += ", " + timeThere(there, at) + " in " + zone.String()
		}
	}
	verb := "opens"
	if change.Closed {
		verb = "closes"
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", line, verb, change.Cause))
}

// Time returns a time for readers. It has seconds only if they are not zero.
func Time(t time.Time) string { return t.Format(day+" ") + ClockTime(t) + t.Format(" MST") }

// ClockTime returns the time of day.
func ClockTime(t time.Time) string {
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05")
}

// timeThere names the day only if it is another one.
func timeThere(there, here time.Time) string {
	if there.Format(day) == here.Format(day) {
		return ClockTime(there)
	}
	return there.Format("Mon ") + ClockTime(there)
}

// LastSeen returns the time of an event, of either API for events.
func LastSeen(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}

// EventAge returns how long ago an event was seen, and how often.
func EventAge(event *corev1.Event, now time.Time) string {
	since := func(t time.Time) string { return duration.HumanDuration(now.Sub(t)) }
	count := event.Count
	if event.Series != nil {
		count = event.Series.Count
	}
	if count < 2 {
		return since(LastSeen(event))
	}
	first := event.EventTime.Time
	if first.IsZero() {
		first = event.FirstTimestamp.Time
	}
	return fmt.Sprintf("%s (x%d over %s)", since(LastSeen(event)), count, since(first))
}

// Zone returns the name of a time zone. That of this machine has none.
func Zone(zone *time.Location) string {
	if zone == time.Local {
		return "local time"
	}
	return zone.String()
}
