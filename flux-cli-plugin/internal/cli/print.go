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
	"io"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// none is shown in empty cells.
const none = "-"

// printTable prints a table with headings. Each cell is a single line.
func printTable(out io.Writer, headings []string, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{headings}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = plaintext.Line(cell); cells[i] == "" {
				cells[i] = none
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// prefixed adds the namespace as the first column if all namespaces are listed.
func prefixed(all bool, namespace string, columns ...string) []string {
	if all {
		return append([]string{namespace}, columns...)
	}
	return columns
}

func timeOf(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// tree is a line with child lines.
type tree struct {
	line     string
	branches []tree
}

func leaf(format string, args ...any) tree { return tree{line: fmt.Sprintf(format, args...)} }

func (t *tree) add(branch tree) { t.branches = append(t.branches, branch) }

func (t *tree) print(out io.Writer) error {
	if _, err := fmt.Fprintln(out, plaintext.Line(t.line)); err != nil {
		return err
	}
	return t.printBranches(out, "")
}

func (t *tree) printBranches(out io.Writer, indent string) error {
	for i := range t.branches {
		branch := &t.branches[i]
		joint, below := "├── ", "│   "
		if i == len(t.branches)-1 {
			joint, below = "└── ", "    "
		}
		if _, err := fmt.Fprintln(out, indent+joint+plaintext.Line(branch.line)); err != nil {
			return err
		}
		if err := branch.printBranches(out, indent+below); err != nil {
			return err
		}
	}
	return nil
}
