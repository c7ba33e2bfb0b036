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
	"fmt"
	"slices"
	"strings"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// none is shown in empty cells.
const none = "-"

// row is a line of a table.
type row struct {
	cells []string
	// object is the object of the line. It is nil if the line is about several, or about one that cannot be read.
	object client.Object
	// conditions are the object's conditions.
	conditions []metav1.Condition
}

// key identifies the line in later tables.
func (r row) key() string {
	if r.object == nil {
		return r.cells[0]
	}
	return string(r.object.GetUID()) + "/" + client.ObjectKeyFromObject(r.object).String()
}

// version differs after a change of the line. The age of an object is not a change.
func (r row) version() string {
	if r.object == nil {
		return strings.Join(r.cells, "\t")
	}
	return r.object.GetResourceVersion()
}

// table is the output of a list command.
type table struct {
	headings []string
	rows     []row
	// states are the headings of the columns with states.
	states []string
	// warnings are about what is not in the table.
	warnings []string
}

func (t *table) add(object client.Object, conditions []metav1.Condition, cells ...string) {
	t.rows = append(t.rows, row{cells: cells, object: object, conditions: conditions})
}

// matching returns the table with some of its lines.
func (t *table) matching(matches func(row) bool) *table {
	some := *t
	some.rows = nil
	for _, line := range t.rows {
		if matches(line) {
			some.rows = append(some.rows, line)
		}
	}
	return &some
}

// tablePrinter prints tables one below the other: the columns keep their widths, and the headings are not repeated.
type tablePrinter struct {
	printer
	noHeader bool
	lines    *tabwriter.Writer
	headings []string
}

func (p printer) tables(noHeader bool) *tablePrinter {
	return &tablePrinter{printer: p, noHeader: noHeader, lines: printers.GetNewTabWriter(p.out)}
}

// print prints a table. Each cell is a single line.
func (p *tablePrinter) print(t *table) error {
	if !p.noHeader && !slices.Equal(p.headings, t.headings) {
		p.line(t, t.headings)
		p.headings = t.headings
	}
	for _, line := range t.rows {
		p.line(t, line.cells)
	}
	return p.lines.Flush()
}

func (p *tablePrinter) line(t *table, cells []string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		if shown[i] = plaintext.Line(cell); shown[i] == "" {
			shown[i] = none
		}
		if slices.Contains(t.states, t.headings[i]) {
			shown[i] = p.paintState(shown[i])
		}
	}
	fmt.Fprintln(p.lines, strings.Join(shown, "\t"))
}

// prefixed adds the namespace as the first column if all namespaces are listed.
func prefixed(all bool, namespace string, columns ...string) []string {
	if all {
		return append([]string{namespace}, columns...)
	}
	return columns
}

// tree is a line with child lines.
type tree struct {
	line string
	// state is in the line, and is coloured there.
	state    string
	branches []tree
}

func leaf(format string, args ...any) tree { return tree{line: fmt.Sprintf(format, args...)} }

func (t *tree) add(branch tree) { t.branches = append(t.branches, branch) }

// tree prints a tree.
func (p printer) tree(t *tree) error {
	if _, err := fmt.Fprintln(p.out, p.treeLine(t)); err != nil {
		return err
	}
	return p.branches(t, "")
}

func (p printer) treeLine(t *tree) string {
	line := plaintext.Line(t.line)
	if t.state == "" {
		return line
	}
	// Objects have no colons in their names, so the state is the first word like it after one.
	return strings.Replace(line, ": "+t.state, ": "+p.paintState(t.state), 1)
}

func (p printer) branches(t *tree, indent string) error {
	for i := range t.branches {
		branch := &t.branches[i]
		joint, below := "├── ", "│   "
		if i == len(t.branches)-1 {
			joint, below = "└── ", "    "
		}
		if _, err := fmt.Fprintln(p.out, indent+joint+p.treeLine(branch)); err != nil {
			return err
		}
		if err := p.branches(branch, indent+below); err != nil {
			return err
		}
	}
	return nil
}
