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
	"slices"
	"strings"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Overview is the first screen.
type Overview struct {
	Filter Filter
	// Namespaces are those of all pipelines.
	Namespaces []string
	States     []StateCount
	// Shown of Selected of Total applications are on the page. AllPath shows all that are selected.
	Shown, Selected, Total int
	AllPath                string
	Needs                  []Need
	// MoreNeeds is the number of those that are not shown.
	MoreNeeds int
	Gates     []ClosedGate
	Groups    []Group
}

// StateCount is the number of applications of a kind, and the address that shows them.
type StateCount struct {
	Kind     describe.Kind
	Count    int
	Path     string
	Selected bool
}

// Group is the applications with the same environments.
type Group struct {
	Environments []string
	Rows         []Row
}

// Row is an application.
type Row struct {
	ID, Namespace, Name, Path string
	Kind                      describe.Kind
	Suspended                 bool
	Cells                     []Cell
}

// Cell is an environment of an application.
type Cell struct {
	Environment string
	Kind        describe.Kind
	State       string
	// Running is the revisions in short, and Whole is them in full.
	Running, Whole string
	Since          *Age
	// Blockers are what the promotion into it waits for.
	Blockers []why.Blocker
	// First is true for the environment that revisions come from.
	First bool
}

// mostRows are shown unless all are asked for, so that the first screen is quick.
const mostRows = 200

// Overview returns the first screen.
func (v *View) Overview(filter Filter) *Overview {
	shown := &Overview{Filter: filter, Total: len(v.Pipelines)}
	counts := map[describe.Kind]int{}
	for _, pipeline := range v.Pipelines {
		if !slices.Contains(shown.Namespaces, pipeline.Namespace) {
			shown.Namespaces = append(shown.Namespaces, pipeline.Namespace)
		}
		if !filter.selects(pipeline) {
			continue
		}
		kind := kindOf(pipeline)
		counts[kind]++
		if filter.State == "" || filter.State == kind {
			shown.Selected++
			if filter.All || shown.Shown < mostRows {
				shown.Shown++
				shown.add(pipeline)
			}
		}
	}
	for _, kind := range describe.Kinds {
		if selected := filter.State == kind; counts[kind] > 0 || selected {
			target := filter.withState(kind)
			if selected {
				target = filter.withState("")
			}
			shown.States = append(shown.States, StateCount{Kind: kind, Count: counts[kind], Path: "/" + target.Query(), Selected: selected})
		}
	}
	filter.All = true
	shown.AllPath = "/" + filter.Query()
	shown.Needs, shown.MoreNeeds = v.needs()
	shown.Gates = v.closedGates()
	return shown
}

// add adds an application to the group with its environments.
func (o *Overview) add(pipeline *pipelinesv1.Pipeline) {
	var environments []string
	for _, env := range pipeline.Spec.Environments {
		environments = append(environments, plaintext.Line(env.Name))
	}
	at := slices.IndexFunc(o.Groups, func(group Group) bool { return slices.Equal(group.Environments, environments) })
	if at < 0 {
		at = len(o.Groups)
		o.Groups = append(o.Groups, Group{Environments: environments})
	}
	o.Groups[at].Rows = append(o.Groups[at].Rows, rowOf(pipeline))
}

func rowOf(pipeline *pipelinesv1.Pipeline) Row {
	row := Row{
		ID:        "app/" + pipeline.Namespace + "/" + pipeline.Name,
		Namespace: pipeline.Namespace, Name: pipeline.Name, Path: PipelinePath(pipeline),
		Kind: kindOf(pipeline), Suspended: pipeline.Spec.Suspend,
	}
	for i := range pipeline.Spec.Environments {
		cell := cellOf(pipeline, pipeline.Spec.Environments[i].Name)
		cell.First = i == 0
		row.Cells = append(row.Cells, cell)
	}
	return row
}

func cellOf(pipeline *pipelinesv1.Pipeline, env string) Cell {
	cell := Cell{
		Environment: plaintext.Line(env), Kind: describe.UnknownKind, State: describe.State(""),
		Running: plaintext.Line(describe.Running(pipeline, env)), Blockers: why.Blockers(pipeline, env),
	}
	status := pipeline.Status.Environments[env]
	if status == nil {
		return cell
	}
	cell.Kind, cell.State = describe.KindOf(status.State), plaintext.Line(describe.State(status.State))
	cell.Whole = plaintext.Line(strings.Join(wholeRevisions(status), ", "))
	if status.Since != nil {
		cell.Since = &Age{status.Since.Time}
	}
	return cell
}

func wholeRevisions(status *pipelinesv1.EnvironmentStatus) []string {
	var revisions []string
	for _, target := range status.Targets {
		if !slices.Contains(revisions, target.Revision) {
			revisions = append(revisions, target.Revision)
		}
	}
	return revisions
}

// ClosedGate is a gate that is closed now.
type ClosedGate struct {
	Link
	// State is the state in words, with who turned it and until when.
	State  string
	Reason string
	Since  *Age
	// Held is the number of sources and promotions that it holds. It is describe.Unknown until it was counted.
	Held string
}

func (v *View) closedGates() []ClosedGate {
	var closed []ClosedGate
	for _, gate := range v.Gates {
		if gate.StateAt(v.Now).Closed {
			closed = append(closed, v.closedGate(gate))
		}
	}
	return closed
}

func (v *View) closedGate(gate *gatingv1.Gate) ClosedGate {
	state := gate.StateAt(v.Now)
	shown := ClosedGate{Link: Link{gate.Namespace + "/" + gate.Name, GatePath(gate)}, State: plaintext.Line(state.String()), Reason: state.Reason, Held: describe.Unknown}
	if describe.UpToDate(gate, v.Now) {
		shown.Since = &Age{gate.Status.LastTransitionTime.Time}
		shown.Held = describe.Many(gate.Status.HeldSources(), "source") + ", " + describe.Many(gate.Status.HeldPromotions, "promotion")
	}
	return shown
}

// short returns a revision as it is shown.
func short(rev string) string { return plaintext.Line(revision.Short(rev)) }
