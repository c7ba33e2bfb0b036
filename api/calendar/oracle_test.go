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
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oracle watches a clock minute by minute, as a person in front of it would.
type oracle struct {
	from, to [5]func(int) bool
	// shown is the latest time that the clock has shown.
	shown    wall
	contains bool
	tie      Tie
	begins   []time.Time
	ends     []time.Time
}

func newOracle(from, to string, tie Tie, start wall) *oracle {
	return &oracle{from: fieldsOf(from), to: fieldsOf(to), tie: tie, shown: start.Add(-time.Minute)}
}

// see records what the clock shows at an instant. Times that it skipped happen at that instant, and times that it shows
// again do not happen again.
func (o *oracle) see(t time.Time, shows wall) {
	begins, ends := false, false
	for o.shown.Before(shows) {
		o.shown = o.shown.Add(time.Minute)
		begins = begins || happens(o.from, o.shown)
		ends = ends || happens(o.to, o.shown)
	}
	if begins {
		o.begins = append(o.begins, t)
	}
	if ends {
		o.ends = append(o.ends, t)
	}
	switch {
	case begins && ends:
		o.contains = bool(o.tie)
	case begins:
		o.contains = true
	case ends:
		o.contains = false
	}
}

func happens(fields [5]func(int) bool, t wall) bool {
	day := fields[2](t.Day()) && fields[4](int(t.Weekday()))
	return fields[0](t.Minute()) && fields[1](t.Hour()) && day && fields[3](int(t.Month()))
}

// fieldsOf parses the expressions of these tests: each field is *, */n, n, n-m or a list of numbers, and one of the two
// fields for days is *.
func fieldsOf(expression string) (fields [5]func(int) bool) {
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		return n
	}
	for i, field := range strings.Fields(expression) {
		step, stepped := strings.CutPrefix(field, "*/")
		first, last, ranged := strings.Cut(field, "-")
		switch {
		case field == "*":
			fields[i] = func(int) bool { return true }
		case stepped:
			fields[i] = func(value int) bool { return value%number(step) == 0 }
		case ranged:
			fields[i] = func(value int) bool { return value >= number(first) && value <= number(last) }
		default:
			fields[i] = func(value int) bool { return slices.Contains(strings.Split(field, ","), strconv.Itoa(value)) }
		}
	}
	return fields
}

// tzdata is the database of the Go toolchain, regardless of this machine's.
var tzdata string

func TestMain(m *testing.M) {
	// With -trimpath, a test does not know where the toolchain is.
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		panic(err)
	}
	tzdata = filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
	if err := os.Setenv("ZONEINFO", tzdata); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// zones are the names of all zones, with one name for zones that have the same data.
func zones(t testing.TB) []string {
	archive, err := zip.OpenReader(tzdata)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var names []string
	seen := map[uint32]bool{}
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") && !seen[file.CRC32] {
			names = append(names, file.Name)
		}
		seen[file.CRC32] = true
	}
	return names
}

// transitions are the instants between 2024 and 2030 at which the clocks of a zone change.
func transitions(t testing.TB, zone *time.Location) []time.Time {
	var found []time.Time
	offset := func(t time.Time) int { _, seconds := t.Zone(); return seconds }
	end := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).In(zone); ; {
		next := at.Add(time.Hour)
		if next.After(end) {
			return found
		}
		if offset(at) != offset(next) {
			for offset(at) != offset(next) {
				next = next.Add(-time.Minute)
			}
			next = next.Add(time.Minute)
			found = append(found, next.UTC())
		}
		at = next
	}
}

// compare lets the oracle watch from ten days before an instant to four days after it, and compares the two days on
// both sides.
func compare(from, to, zoneName string, tie Tie, moment time.Time) error {
	window, err := Parse(from, to, zoneName, tie)
	if err != nil {
		return err
	}
	zone := window.zone
	start, end := moment.AddDate(0, 0, -10), moment.AddDate(0, 0, 4)
	oracle := newOracle(from, to, tie, wallAt(start, zone))
	var contained []bool
	for t := start; t.Before(end); t = t.Add(time.Minute) {
		oracle.see(t, wallAt(t, zone))
		contained = append(contained, oracle.contains)
	}
	for t := moment.AddDate(0, 0, -2); t.Before(moment.AddDate(0, 0, 2)); t = t.Add(time.Minute) {
		if got, want := window.Contains(t), contained[int(t.Sub(start)/time.Minute)]; got != want {
			return fmt.Errorf("%s to %s in %s: at %s Contains is %t, and should be %t", from, to, zone, t.In(zone), got, want)
		}
		if err := compareNext("from", window.NextFrom(t), oracle.begins, t); err != nil {
			return fmt.Errorf("%s to %s in %s: %w", from, to, zone, err)
		}
		if err := compareNext("to", window.NextTo(t), oracle.ends, t); err != nil {
			return fmt.Errorf("%s to %s in %s: %w", from, to, zone, err)
		}
	}
	return nil
}

// compareNext compares a time with the next one that the oracle has seen. The oracle has seen nothing after its end.
func compareNext(what string, got time.Time, seen []time.Time, after time.Time) error {
	next := slices.IndexFunc(seen, func(t time.Time) bool { return t.After(after) })
	if next >= 0 && !got.Equal(seen[next]) {
		return fmt.Errorf("the next %s after %s is %s, and should be %s", what, after, got, seen[next])
	}
	return nil
}
