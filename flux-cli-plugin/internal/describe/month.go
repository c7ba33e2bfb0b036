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
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// mostChanges of a month are known. The calendar of a gate that turns more often is cut off.
const mostChanges = 3000

// Month is the state of a gate during a month.
type Month struct {
	// State is the state at the beginning, and Changes are the changes after it.
	State   gatingv1.State
	Changes []gatingv1.Change
	End     time.Time
	// Known is up to when all changes are known.
	Known time.Time
}

// MonthOf returns the month of a gate that begins at a moment.
func MonthOf(gate *gatingv1.Gate, month time.Time) *Month {
	m := &Month{State: gate.StateAt(month), End: month.AddDate(0, 1, 0)}
	m.Known = m.End
	m.Changes = gate.ChangesAfter(month, mostChanges)
	if len(m.Changes) == mostChanges && m.Changes[mostChanges-1].At.Before(m.End) {
		m.Known = m.Changes[mostChanges-1].At
	}
	return m
}

// ClosedAt reports whether the gate is closed at a time of the month.
func (m *Month) ClosedAt(t time.Time) bool {
	closed := m.State.Closed
	for _, change := range m.Changes {
		if change.At.After(t) {
			break
		}
		closed = change.Closed
	}
	return closed
}

// Within are the changes after the first moment and before the second one.
func (m *Month) Within(from, to time.Time) []gatingv1.Change {
	var changes []gatingv1.Change
	for _, change := range m.Changes {
		if change.At.After(from) && change.At.Before(to) {
			changes = append(changes, change)
		}
	}
	return changes
}
