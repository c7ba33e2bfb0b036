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

package graph

import (
	"fmt"
	"io"
	"strings"
)

// Text writes the graph for a terminal, from top to bottom. paint colours a text by the kind of its stage.
func (g *Graph) Text(out io.Writer, paint func(text string, stage *Stage) string) error {
	names, states := 0, 0
	for i := range g.Stages {
		names, states = max(names, cells(g.Stages[i].Name)), max(states, cells(g.Stages[i].State))
	}
	lines := []string{strings.TrimSuffix(g.Title+": "+g.Revision, ": ")}
	for i := range g.Stages {
		stage := &g.Stages[i]
		if i > 0 {
			lines = append(lines, arrow(stage)...)
		}
		state := paint(stage.Kind.Sign()+" "+stage.State, stage) + pad(stage.State, states)
		lines = append(lines, fmt.Sprintf("%s   %s   %s", stage.Name+pad(stage.Name, names), state, stage.Running))
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// arrow returns the lines of the arrow into a stage.
func arrow(stage *Stage) []string {
	lines := []string{"│"}
	for _, blocker := range stage.Blockers {
		lines = append(lines, "┆ "+blocker.Text)
	}
	return append(lines, "▼")
}

func pad(text string, width int) string { return strings.Repeat(" ", max(0, width-cells(text))) }
