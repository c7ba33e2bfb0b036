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

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// Gate is the page of a Gate.
type Gate struct {
	Namespace, Name string
	Closed          bool
	// State is the sentence of 'flux gate get'.
	State    string
	TurnedBy string
	Actions  []Action
	Changes  []string
	// Referrers are the sources and promotions that refer to it. Those that are held come first.
	Referrers []Referrer
	Passes    []Pass
	Calendar  *Calendar
	Events    []Event
	Commands  []Command
	YAML      string
}

// Referrer is a source or a promotion that refers to a gate.
type Referrer struct {
	Link
	Held   bool
	Detail string
	// Revision waits, or is "".
	Revision string
}

// Pass is a pass of a gate.
type Pass struct {
	Revision, Whole, Expires, By, Reason, State string
}

// changesShown is the number of future changes that are shown.
const changesShown = 5

// Gate returns the page of a Gate.
func (v *View) Gate(gate *gatingv1.Gate) *Gate {
	state := gate.StateAt(v.Now)
	shown := &Gate{
		Namespace: gate.Namespace, Name: gate.Name, Closed: state.Closed,
		State: plaintext.Line(describe.Gate(gate, v.Now)), TurnedBy: state.By.String(),
		Actions:  v.gateActions(gate),
		Calendar: calendarOf(gate, v.Now),
		Events:   v.eventsOf(gatingv1.GateKind, gate),
		YAML:     yamlOf(gate, gatingv1.GroupVersion.String(), gatingv1.GateKind),
	}
	for _, change := range gate.ChangesAfter(v.Now, changesShown) {
		shown.Changes = append(shown.Changes, describe.Change(gate, change, v.Now.Location()))
	}
	v.addReferrers(shown, client.ObjectKeyFromObject(gate))
	v.addPasses(shown, gate)
	name := gate.Name + " -n " + gate.Namespace
	turn := Command{"Close it for two hours", "flux close gate " + name + " --for 2h --reason TEXT"}
	if state.Closed {
		turn = Command{"Open it for two hours", "flux open gate " + name + " --for 2h --reason TEXT"}
	}
	shown.Commands = append(commands(
		"Show it", "flux gate get "+name,
		"Draw its calendar", "flux gate calendar "+name,
		"List its passes", "flux gate passes "+name,
		"Print its YAML", kubectlGet("gates.gating.toolkit.fluxcd.io", gate),
	), turn)
	return shown
}

func (v *View) addReferrers(shown *Gate, key client.ObjectKey) {
	for i := range v.Sources {
		if source := &v.Sources[i]; source.Names(key) {
			condition := source.GatesOpen()
			shown.Referrers = append(shown.Referrers, Referrer{
				Link: Link{Text: source.String()}, Detail: plaintext.Line(source.Describe()), Held: condition != nil && condition.Status != "True",
			})
		}
	}
	for _, pipeline := range v.Pipelines {
		for _, env := range describe.PromotionsNaming(pipeline, key) {
			held := Referrer{
				Link:   Link{plaintext.Line(fmt.Sprintf("Pipeline/%s/%s: %s", pipeline.Namespace, pipeline.Name, env)), PipelinePath(pipeline)},
				Detail: plaintext.Line(describe.HeldByGates(pipeline, env)),
			}
			if pipeline.WaitsForGates(env) != nil {
				held.Held, held.Revision = true, pipeline.Status.Environments[env].Promotion.Revision
			}
			shown.Referrers = append(shown.Referrers, held)
		}
	}
	slices.SortStableFunc(shown.Referrers, func(a, b Referrer) int {
		switch {
		case a.Held == b.Held:
			return 0
		case a.Held:
			return -1
		}
		return 1
	})
}

// Held returns how many are held.
func (g *Gate) Held() int {
	held := 0
	for _, referrer := range g.Referrers {
		if referrer.Held {
			held++
		}
	}
	return held
}

func (v *View) addPasses(shown *Gate, gate *gatingv1.Gate) {
	var passes []gatingv1.GatePass
	for _, pass := range v.Passes {
		if pass.Namespace == gate.Namespace && pass.Spec.GateRef.Name == gate.Name {
			passes = append(passes, *pass)
		}
	}
	for i := range passes {
		pass := &passes[i]
		shown.Passes = append(shown.Passes, Pass{
			Revision: short(pass.Spec.Revision), Whole: plaintext.Line(pass.Spec.Revision), Expires: describe.Time(pass.Spec.Expires.In(v.Now.Location())),
			By: plaintext.Line(pass.Spec.GrantedBy), Reason: plaintext.Line(pass.Spec.Reason), State: describe.PassState(pass, gate, passes, v.Now),
		})
	}
}

// Waiting returns the revisions that wait for the gate, each once.
func (g *Gate) Waiting() []string {
	var waiting []string
	for _, promotion := range g.Referrers {
		if promotion.Revision != "" && !slices.ContainsFunc(waiting, func(known string) bool { return revision.Equal(known, promotion.Revision) }) {
			waiting = append(waiting, promotion.Revision)
		}
	}
	return waiting
}

// Calendar is a month of a gate.
type Calendar struct {
	Month, Zone string
	Days        []Day
	// Note says why the calendar is incomplete, or is "".
	Note string
}

// Day is a day of a calendar.
type Day struct {
	Name  string
	Today bool
	// Hours are the states of its hours.
	Hours []HourState
	// Text says when the gate is closed.
	Text string
}

// HourState is the state of a gate in an hour.
type HourState string

// States of an hour. An hour that the clocks skip has none.
const (
	openHour    HourState = "open"
	closedHour  HourState = "closed"
	mixedHour   HourState = "mixed"
	skippedHour HourState = "skipped"
)

// calendarOf returns the current month of a gate with windows, or nil.
func calendarOf(gate *gatingv1.Gate, now time.Time) *Calendar {
	if !gate.IsTimed() {
		return nil
	}
	zone := now.Location()
	if zones := gate.TimeZones(); len(zones) > 0 {
		zone = zones[0]
	}
	now = now.In(zone)
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, zone)
	month := describe.MonthOf(gate, first)
	shown := &Calendar{Month: first.Format("January 2006"), Zone: describe.Zone(zone)}
	for date := first; date.Before(month.End) && !date.After(month.Known); date = date.AddDate(0, 0, 1) {
		shown.Days = append(shown.Days, dayOf(month, date, now))
	}
	if month.Known.Before(month.End) {
		shown.Note = "the gate changes too often for more to be drawn"
	}
	if month.State.Invalid != nil {
		shown.Note = month.State.Invalid.Error()
	}
	return shown
}

func dayOf(month *describe.Month, date, now time.Time) Day {
	day := Day{Name: date.Format("Mon 2"), Today: date.YearDay() == now.YearDay()}
	var turns []string
	for _, change := range month.Within(date.Add(-1), date.AddDate(0, 0, 1)) {
		verb := "opens"
		if change.Closed {
			verb = "closes"
		}
		turns = append(turns, verb+" "+describe.ClockTime(change.At.In(date.Location())))
	}
	day.Text = "open"
	switch {
	case len(turns) > 0:
		day.Text = strings.Join(turns, ", ")
	case month.ClosedAt(date):
		day.Text = "closed"
	}
	for hour := range 24 {
		day.Hours = append(day.Hours, hourOf(month, time.Date(date.Year(), date.Month(), date.Day(), hour, 0, 0, 0, date.Location()), hour))
	}
	return day
}

func hourOf(month *describe.Month, start time.Time, hour int) HourState {
	switch {
	case start.Hour() != hour:
		return skippedHour
	case len(month.Within(start, start.Add(time.Hour))) > 0:
		return mixedHour
	case month.ClosedAt(start):
		return closedHour
	}
	return openHour
}
