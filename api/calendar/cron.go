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
	"errors"
	"math/bits"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// horizon is how many years are searched for a match. A 29 February is at most eight years after the previous one.
const horizon = 9

// everyValue marks a field in cron.SpecSchedule that was given as '*'.
const everyValue = 1 << 63

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// recurring are the times of a cron expression. robfig/cron parses the fields. Its scheduler is not used, because it
// skips or repeats times when the clocks change (robfig/cron#541).
type recurring struct{ fields cron.SpecSchedule }

func parseCron(text string) (recurring, error) {
	// The parser accepts these prefixes, and panics on some.
	if strings.ContainsAny(text, "=@") {
		return recurring{}, errors.New("must be a cron expression of five fields, without a time zone: use timeZone")
	}
	schedule, err := cronParser.Parse(text)
	if err != nil {
		return recurring{}, errors.New("must be a cron expression of five fields, with numbers within their limits")
	}
	r := recurring{fields: *schedule.(*cron.SpecSchedule)}
	r.fields.Location = nil
	if _, ok := r.next(time.Date(2024, 1, 1, 0, 0, 0, -1, time.UTC)); !ok {
		return recurring{}, errors.New("never happens: none of its months has such a day")
	}
	return r, nil
}

func (r recurring) next(after wall) (wall, bool) {
	day, hour, minute := midnight(after), after.Hour(), after.Minute()+1
	for end := day.AddDate(horizon, 0, 0); day.Before(end); hour, minute = 0, 0 {
		switch {
		case !has(r.fields.Month, int(day.Month())):
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case r.matches(day):
			for ; hour < 24; hour, minute = hour+1, 0 {
				if rest := r.fields.Minute &^ everyValue >> minute; has(r.fields.Hour, hour) && rest != 0 {
					return at(day, hour, minute+bits.TrailingZeros64(rest)), true
				}
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return wall{}, false
}

func (r recurring) last(upTo wall) (wall, bool) {
	day, hour, minute := midnight(upTo), upTo.Hour(), upTo.Minute()
	for end := day.AddDate(-horizon, 0, 0); day.After(end); hour, minute = 23, 59 {
		switch {
		case !has(r.fields.Month, int(day.Month())):
			day = time.Date(day.Year(), day.Month(), 0, 0, 0, 0, 0, time.UTC)
			continue
		case r.matches(day):
			for ; hour >= 0; hour, minute = hour-1, 59 {
				if rest := r.fields.Minute & (1<<(minute+1) - 1); has(r.fields.Hour, hour) && rest != 0 {
					return at(day, hour, bits.Len64(rest)-1), true
				}
			}
		}
		day = day.AddDate(0, 0, -1)
	}
	return wall{}, false
}

// matches follows cron's rule: if both the day of the month and the day of the week are restricted, either may match.
func (r recurring) matches(day wall) bool {
	ofMonth, ofWeek := has(r.fields.Dom, day.Day()), has(r.fields.Dow, int(day.Weekday()))
	if r.fields.Dom&everyValue != 0 || r.fields.Dow&everyValue != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func has(set uint64, value int) bool { return set&(1<<value) != 0 }

func midnight(t wall) wall { return at(t, 0, 0) }

func at(day wall, hour, minute int) wall {
	return time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, time.UTC)
}
