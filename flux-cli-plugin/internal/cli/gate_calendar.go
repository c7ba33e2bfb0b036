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
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// gateCalendarCommand draws a month of one gate.
type gateCalendarCommand struct {
	cluster *clusterFlags
	month   string
}

func newGateCalendarCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateCalendarCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "calendar NAME",
		Short: "Draw when a gate is open and closed",
		Long: `Draw a month of a gate: a line for each day, a character for each half hour, in the time zone of
the gate's first window.

The calendar shows what the current switch, windows and override mean for the month.`,
		Example: `  # Draw this month of the gate 'change-freeze'
  flux gate calendar change-freeze

  # Draw another month
  flux gate calendar change-freeze --month 2026-12`,
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              command.run,
	}
	cmd.Flags().StringVar(&command.month, "month", "", "the month, such as 2026-12; defaults to the current month")
	_ = cmd.RegisterFlagCompletionFunc("month", command.completeMonths)
	return cmd
}

const yearAndMonth = "2006-01"

// completeMonths offers this month and the next eleven ones.
func (c *gateCalendarCommand) completeMonths(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	now := c.cluster.now()
	var months []cobra.Completion
	for i := range 12 {
		months = append(months, time.Date(now.Year(), now.Month()+time.Month(i), 1, 0, 0, 0, 0, time.UTC).Format(yearAndMonth))
	}
	return months, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (c *gateCalendarCommand) run(cmd *cobra.Command, args []string) error {
	month := c.cluster.now()
	if c.month != "" {
		var err error
		if month, err = time.Parse(yearAndMonth, c.month); err != nil {
			return errors.New("--month must be a year and a month, such as 2026-12")
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	_, gate, err := c.cluster.readGate(ctx, cmd, args[0])
	if err != nil {
		return err
	}
	zone := c.cluster.now().Location()
	if zones := gate.TimeZones(); len(zones) > 0 {
		zone = zones[0]
	}
	return drawMonth(cmd.OutOrStdout(), gate, time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, zone))
}

const (
	cell = 30 * time.Minute
	// mostChanges of a month are drawn. The calendar of a gate that turns more often is cut off.
	mostChanges = 3000

	openCell, closedCell, mixedCell, skippedCell = "·", "█", "▒", " "
)

// zoneName returns the name of a time zone. That of this machine has none.
func zoneName(zone *time.Location) string {
	if zone == time.Local {
		return "local time"
	}
	return zone.String()
}

// drawMonth draws the month that begins at a moment.
func drawMonth(out io.Writer, gate *gatingv1.Gate, month time.Time) error {
	m := monthOf(gate, month)
	lines := []string{
		fmt.Sprintf("Gate/%s/%s in %s (%s)", gate.Namespace, gate.Name, month.Format("January 2006"), zoneName(month.Location())),
		"        0     3     6     9     12    15    18    21",
	}
	for date := month; date.Before(m.end) && !date.After(m.known); date = date.AddDate(0, 0, 1) {
		lines = append(lines, m.drawDay(date))
	}
	lines = append(lines, fmt.Sprintf("%s open   %s closed   %s both", openCell, closedCell, mixedCell))
	if m.known.Before(m.end) {
		lines = append(lines, "the gate changes too often for more to be drawn")
	}
	if err := m.state.Invalid; err != nil {
		lines = append(lines, err.Error())
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// drawnMonth is the state of a gate during a month.
type drawnMonth struct {
	// state is the state at the beginning, and changes are the changes after it.
	state   gatingv1.State
	changes []gatingv1.Change
	end     time.Time
	// known is up to when all changes are known.
	known time.Time
}

func monthOf(gate *gatingv1.Gate, month time.Time) drawnMonth {
	m := drawnMonth{state: gate.StateAt(month), end: month.AddDate(0, 1, 0)}
	m.known = m.end
	m.changes = gate.ChangesAfter(month, mostChanges)
	if len(m.changes) == mostChanges && m.changes[mostChanges-1].At.Before(m.end) {
		m.known = m.changes[mostChanges-1].At
	}
	return m
}

func (m *drawnMonth) drawDay(date time.Time) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s", date.Format("Mon 2"))
	for minutes := 0; minutes < 24*60; minutes += int(cell / time.Minute) {
		start := time.Date(date.Year(), date.Month(), date.Day(), 0, minutes, 0, 0, date.Location())
		line.WriteString(m.drawCell(start, minutes))
	}
	if turns := m.turnsOn(date); turns != "" {
		line.WriteString("  " + turns)
	}
	return line.String()
}

func (m *drawnMonth) drawCell(start time.Time, minutes int) string {
	closed := m.closedAt(start)
	switch {
	case start.Hour()*60+start.Minute() != minutes:
		return skippedCell
	case len(m.within(start, start.Add(cell))) > 0:
		return mixedCell
	case closed:
		return closedCell
	}
	return openCell
}

func (m *drawnMonth) closedAt(t time.Time) bool {
	closed := m.state.Closed
	for _, change := range m.changes {
		if change.At.After(t) {
			break
		}
		closed = change.Closed
	}
	return closed
}

// within are the changes after the first moment and before the second one.
func (m *drawnMonth) within(from, to time.Time) []gatingv1.Change {
	var changes []gatingv1.Change
	for _, change := range m.changes {
		if change.At.After(from) && change.At.Before(to) {
			changes = append(changes, change)
		}
	}
	return changes
}

// turnsOn describes the changes on a day, as many as fit into a line.
func (m *drawnMonth) turnsOn(date time.Time) string {
	var turns []string
	for _, change := range m.within(date.Add(-1), date.AddDate(0, 0, 1)) {
		verb := "opens "
		if change.Closed {
			verb = "closes "
		}
		if len(turns) == 2 {
			return strings.Join(append(turns, "…"), ", ")
		}
		turns = append(turns, verb+clockTime(change.At.In(date.Location())))
	}
	return strings.Join(turns, ", ")
}
