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
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
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

	openCell, closedCell, mixedCell, skippedCell = "·", "█", "▒", " "
)

// drawMonth draws the month that begins at a moment.
func drawMonth(out io.Writer, gate *gatingv1.Gate, month time.Time) error {
	m := describe.MonthOf(gate, month)
	lines := []string{
		fmt.Sprintf("Gate/%s/%s in %s (%s)", gate.Namespace, gate.Name, month.Format("January 2006"), describe.Zone(month.Location())),
		"        0     3     6     9     12    15    18    21",
	}
	for date := month; date.Before(m.End) && !date.After(m.Known); date = date.AddDate(0, 0, 1) {
		lines = append(lines, drawDay(m, date))
	}
	lines = append(lines, fmt.Sprintf("%s open   %s closed   %s both", openCell, closedCell, mixedCell))
	if m.Known.Before(m.End) {
		lines = append(lines, "the gate changes too often for more to be drawn")
	}
	if err := m.State.Invalid; err != nil {
		lines = append(lines, err.Error())
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

func drawDay(m *describe.Month, date time.Time) string {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s", date.Format("Mon 2"))
	for minutes := 0; minutes < 24*60; minutes += int(cell / time.Minute) {
		start := time.Date(date.Year(), date.Month(), date.Day(), 0, minutes, 0, 0, date.Location())
		line.WriteString(drawCell(m, start, minutes))
	}
	if turns := turnsOn(m, date); turns != "" {
		line.WriteString("  " + turns)
	}
	return line.String()
}

func drawCell(m *describe.Month, start time.Time, minutes int) string {
	closed := m.ClosedAt(start)
	switch {
	case start.Hour()*60+start.Minute() != minutes:
		return skippedCell
	case len(m.Within(start, start.Add(cell))) > 0:
		return mixedCell
	case closed:
		return closedCell
	}
	return openCell
}

// turnsOn describes the changes on a day, as many as fit into a line.
func turnsOn(m *describe.Month, date time.Time) string {
	var turns []string
	for _, change := range m.Within(date.Add(-1), date.AddDate(0, 0, 1)) {
		verb := "opens "
		if change.Closed {
			verb = "closes "
		}
		if len(turns) == 2 {
			return strings.Join(append(turns, "…"), ", ")
		}
		turns = append(turns, verb+describe.ClockTime(change.At.In(date.Location())))
	}
	return strings.Join(turns, ", ")
}
