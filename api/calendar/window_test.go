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

	. "github.com/onsi/gomega"
)

func TestContains(t *testing.T) {
	const berlin = "Europe/Berlin"
	for _, test := range []struct {
		name           string
		from, to, zone string
		tie            Tie
		begin, end     string
	}{
		{"a weekend in winter has 64 hours", "0 15 * * 5", "0 7 * * 1", berlin, TieEnds, "2026-11-20T14:00:00Z", "2026-11-23T06:00:00Z"},
		{"a weekend on which summer time begins has 63 hours", "0 15 * * 5", "0 7 * * 1", berlin, TieEnds, "2026-03-27T14:00:00Z", "2026-03-30T05:00:00Z"},
		{"a weekend on which summer time ends has 65 hours", "0 15 * * 5", "0 7 * * 1", berlin, TieEnds, "2026-10-23T13:00:00Z", "2026-10-26T06:00:00Z"},
		{"a beginning in the skipped hour is at its end", "30 2 * * *", "0 4 * * *", berlin, TieEnds, "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"an end in the skipped hour is at its end", "0 1 * * *", "30 2 * * *", berlin, TieEnds, "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"a beginning in the doubled hour is at its first pass", "30 2 * * *", "0 4 * * *", berlin, TieEnds, "2026-10-25T00:30:00Z", "2026-10-25T03:00:00Z"},
		{"an end in the doubled hour is at its first pass", "0 1 * * *", "30 2 * * *", berlin, TieEnds, "2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z"},
		{"dates are of the zone", "2026-12-23T00:00", "2027-01-02T00:00", berlin, TieEnds, "2026-12-22T23:00:00Z", "2027-01-01T23:00:00Z"},
		{"dates may have seconds", "2026-12-23T00:00:20", "2026-12-23T00:00:25", "UTC", TieEnds, "2026-12-23T00:00:20Z", "2026-12-23T00:00:25Z"},
		{"a date in the skipped hour is at its end", "2026-03-29T02:30", "2026-03-29T04:00", berlin, TieEnds, "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"no zone is UTC", "0 0 24 12 *", "0 0 27 12 *", "", TieEnds, "2026-12-24T00:00:00Z", "2026-12-27T00:00:00Z"},
		{"a 29 February comes after years", "0 0 29 2 *", "0 12 29 2 *", "UTC", TieEnds, "2028-02-29T00:00:00Z", "2028-02-29T12:00:00Z"},
		{"names of days and months are understood", "0 0 * JUL SAT", "0 0 * JUL SUN", "UTC", TieEnds, "2026-07-04T00:00:00Z", "2026-07-05T00:00:00Z"},
		{"a day of the month or of the week is enough, as in cron", "0 0 13 * 5", "0 1 * * *", "UTC", TieEnds, "2026-11-13T00:00:00Z", "2026-11-13T01:00:00Z"},
		{"it lasts through further beginnings", "0 15 * * *", "0 7 * * 1", "UTC", TieEnds, "2026-11-16T15:00:00Z", "2026-11-23T07:00:00Z"},
		{"an end that is a beginning ends it", "0 * * * *", "0 12 * * *", "UTC", TieEnds, "2026-11-20T13:00:00Z", "2026-11-21T12:00:00Z"},
		{"half-hour zones change by half an hour", "0 2 * * *", "0 3 * * *", "Australia/Lord_Howe", TieEnds, "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
		{"the day that was skipped altogether begins and ends with the next", "2011-12-29T12:00", "2011-12-30T12:00", "Pacific/Apia", TieEnds, "2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			window, err := Parse(test.from, test.to, test.zone, test.tie)
			g.Expect(err).NotTo(HaveOccurred())
			begin, end := instant(t, test.begin), instant(t, test.end)
			g.Expect(window.Contains(begin.Add(-1))).To(BeFalse())
			g.Expect(window.Contains(begin)).To(BeTrue())
			g.Expect(window.Contains(end.Add(-1))).To(BeTrue())
			g.Expect(window.Contains(end)).To(BeFalse())
			g.Expect(window.NextFrom(begin.Add(-1))).To(Equal(begin))
			g.Expect(window.NextTo(end.Add(-1))).To(Equal(end))
		})
	}
}

func TestATieIsDecidedAsAsked(t *testing.T) {
	g := NewWithT(t)
	noon := instant(t, "2026-11-21T12:00:00Z")
	for _, tie := range []Tie{TieBegins, TieEnds} {
		window, err := Parse("0 * * * *", "0 12 * * *", "UTC", tie)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(window.Contains(noon)).To(Equal(bool(tie)))
	}
}

func TestAWindowOfDatesHasAnEnd(t *testing.T) {
	g := NewWithT(t)
	window, err := Parse("2026-12-23T00:00", "2027-01-02T00:00", "UTC", TieEnds)
	g.Expect(err).NotTo(HaveOccurred())
	after := instant(t, "2027-01-02T00:00:00Z")
	g.Expect(window.NextFrom(after)).To(BeZero())
	g.Expect(window.NextTo(after)).To(BeZero())
}

func TestParseRefuses(t *testing.T) {
	const notCron = "must be a cron expression of five fields, without a time zone: use timeZone"
	const outOfLimits = "must be a cron expression of five fields, with numbers within their limits"
	for _, test := range []struct{ name, from, to, zone, want string }{
		{"a zone that doesn't exist", "0 0 * * 1", "0 0 * * 2", "Mars/Phobos", "timeZone must be a name of the tz database, such as Europe/Berlin"},
		{"the zone of the machine", "0 0 * * 1", "0 0 * * 2", "Local", "timeZone must be a name of the tz database, such as Europe/Berlin"},
		{"a file beside the zones", "0 0 * * 1", "0 0 * * 2", "../passwd", "timeZone must be a name of the tz database, such as Europe/Berlin"},
		{"a cron expression with a zone", "CRON_TZ=UTC 0 0 * * 1", "0 0 * * 2", "", "from " + notCron},
		{"a zone that makes the parser panic", "TZ=0", "0 0 * * 2", "", "from and to must both be cron expressions, or both dates with a time of day"},
		{"an interval", "0 0 * * 1", "@every 1h", "", "to " + notCron},
		{"a descriptor", "@daily", "0 0 * * 2", "", "from " + notCron},
		{"six fields", "0 0 0 * * 1", "0 0 * * 2", "", "from " + outOfLimits},
		{"an hour that no clock has", "0 24 * * 1", "0 0 * * 2", "", "from " + outOfLimits},
		{"no text", "", "0 0 * * 2", "", "from " + outOfLimits},
		{"a cron expression and a date", "0 0 * * 1", "2026-12-23T00:00", "", "from and to must both be cron expressions, or both dates with a time of day"},
		{"a date that no calendar has", "2026-02-30T00:00", "2026-03-01T00:00", "", "from must be a date with a time of day, such as 2026-12-23T00:00"},
		{"a date with a zone", "2026-02-20T00:00Z", "2026-03-01T00:00", "", "from must be a date with a time of day, such as 2026-12-23T00:00"},
		{"a day that no month has", "0 0 31 2,4 *", "0 0 * * 2", "", "from never happens: none of its months has such a day"},
		{"an end that no month has", "0 0 * * 1", "0 0 30 2 *", "", "to never happens: none of its months has such a day"},
		{"an end that is the beginning", "0 0 * * 1", "0 0 * * 1", "", "from and to must not be the same"},
		{"an end that is the beginning, written otherwise", "0 0 * * 1", "00  0 * * MON", "", "from and to must not be the same"},
		{"a date before the beginning", "2026-12-23T00:00", "2026-12-22T00:00", "", "to must be after from"},
		{"dates within a skipped hour", "2026-03-29T02:10", "2026-03-29T02:40", "Europe/Berlin", "to must be after from"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.from, test.to, test.zone, TieEnds)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func instant(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

func BenchmarkContains(b *testing.B) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ name, from, to string }{
		{"weekend", "0 15 * * 5", "0 7 * * 1"},
		{"29 February", "0 0 29 2 *", "1 0 29 2 *"},
	} {
		b.Run(test.name, func(b *testing.B) {
			window, err := Parse(test.from, test.to, "Europe/Berlin", TieEnds)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				window.Contains(now)
				window.NextFrom(now)
			}
		})
	}
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse("0 15 * * 5", "0 7 * * 1", "Europe/Berlin", TieEnds); err != nil {
				b.Fatal(err)
			}
		}
	})
}
