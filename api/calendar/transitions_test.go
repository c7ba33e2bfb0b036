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

import (
	"testing"
	"time"
)

// windows begin and end in the hours in which clocks change, some at the same time.
var windows = []struct{ from, to string }{
	{"0 15 * * 5", "0 7 * * 1"},
	{"30 2 * * *", "30 1 * * *"},
	{"*/20 0-3 * * *", "10 * * * *"},
	{"0 0 * * *", "0 1,2,3 * * 0"},
	{"59 23 * * *", "15,45 2 * * *"},
}

// TestTransitions tests zones with unusual transitions. TestEveryTransition tests all zones.
func TestTransitions(t *testing.T) {
	for _, zone := range []string{
		"Europe/Berlin",        // an hour, at 2 and at 3
		"America/New_York",     // at 2
		"America/Havana",       // at midnight
		"Asia/Beirut",          // at midnight
		"Atlantic/Azores",      // from 0 to 1, and from 1 to 0
		"America/Scoresbysund", // changed its rules in 2024
		"Australia/Lord_Howe",  // half an hour
		"Africa/Casablanca",    // around Ramadan
		"Antarctica/Troll",     // two hours
		"Asia/Almaty",          // changed its offset in 2024
		"America/Nuuk",         // the evening before the other zones
		"Pacific/Chatham",      // at 2:45
	} {
		t.Run(zone, func(t *testing.T) { compareAll(t, zone, 2) })
	}
}

// compareAll compares around the transitions of a zone, at most as many as given.
func compareAll(t *testing.T, zone string, most int) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	for i, moment := range transitions(t, location) {
		if i == most {
			break
		}
		for _, window := range windows {
			for _, tie := range []Tie{TieBegins, TieEnds} {
				if err := compare(window.from, window.to, zone, tie, moment); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
