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
	"fmt"
	"testing"
	"time"
)

// FuzzTransitions makes windows from numbers and compares them with the oracle around a transition.
func FuzzTransitions(f *testing.F) {
	type transition struct {
		zone string
		at   time.Time
	}
	var all []transition
	for _, name := range zones(f) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, at := range transitions(f, zone) {
			all = append(all, transition{name, at})
		}
	}
	f.Add(uint64(0), uint64(1), uint16(0), false)
	f.Add(uint64(0x123456789abcdef), uint64(0xfedcba987654321), uint16(4711), true)
	f.Fuzz(func(t *testing.T, from, to uint64, place uint16, tie bool) {
		transition := all[int(place)%len(all)]
		begin, end := expressionOf(from), expressionOf(to)
		if begin == end {
			return
		}
		if err := compare(begin, end, transition.zone, Tie(tie), transition.at); err != nil {
			t.Error(err)
		}
	})
}

// expressionOf makes a cron expression from bits. It matches in every week.
func expressionOf(bits uint64) string {
	take := func(below uint64) uint64 {
		taken := bits % below
		bits /= below
		return taken
	}
	field := func(below uint64) string {
		switch a, b := take(below), take(below); take(4) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", a+1)
		case 2:
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		default:
			return fmt.Sprint(a)
		}
	}
	hour, minute := field(4), field(60)
	day := "*"
	if take(2) == 1 {
		day = field(7)
	}
	return fmt.Sprintf("%s %s * * %s", minute, hour, day)
}

// FuzzParse parses any text. Accepted windows must have increasing times, found without a long search.
func FuzzParse(f *testing.F) {
	f.Add("0 15 * * 5", "0 7 * * 1", "Europe/Berlin")
	f.Add("0 0 29 2 *", "0 0 30 2 *", "UTC")
	f.Add("2026-12-23T00:00", "2027-01-02T00:00:30", "Asia/Kathmandu")
	f.Add("CRON_TZ=0", "@every 1s", "Local")
	f.Add("*/0 1-0 ? JAN-DEC SUN,MON", "TZ= * * * *", "../zone")
	f.Fuzz(func(t *testing.T, from, to, zone string) {
		if len(from)+len(to)+len(zone) > 300 {
			return
		}
		window, err := Parse(from, to, zone, TieBegins)
		if err != nil {
			return
		}
		now := time.Date(2026, 3, 29, 0, 59, 59, 1, time.UTC)
		window.Contains(now)
		for _, next := range []func(time.Time) time.Time{window.NextFrom, window.NextTo} {
			if at := next(now); !at.IsZero() && !at.After(now) {
				t.Errorf("%s is not after %s", at, now)
			}
		}
	})
}
