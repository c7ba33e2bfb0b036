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

// Package gatestate checks that the state of a gate is computed in one place, so both controllers and the CLI have the
// same answer for the same instant.
package gatestate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	repository = "../.."
	calendar   = "github.com/sluice-toolkit/sluice/api/calendar"
)

// fields of a Gate's spec that its state depends on.
var fields = []string{"Closed", "ClosedDuring", "OpenDuring", "Override"}

// others are the files that read these fields to change or compare them.
var others = []string{"flux-cli-plugin/internal/cli/turn.go"}

// evaluates returns what a file does by itself that is only for api/gating to do.
func evaluates(file *ast.File) []string {
	var found []string
	for _, imported := range file.Imports {
		if path, err := strconv.Unquote(imported.Path.Value); err == nil && path == calendar {
			found = append(found, "imports "+calendar)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if outer, ok := node.(*ast.SelectorExpr); ok && slices.Contains(fields, outer.Sel.Name) {
			if inner, ok := outer.X.(*ast.SelectorExpr); ok && inner.Sel.Name == "Spec" {
				found = append(found, "reads spec."+outer.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestOnlyTheAPIComputesTheStateOfAGate(t *testing.T) {
	g := NewWithT(t)
	read := 0
	for _, module := range []string{"runtime", "gate-controller", "pipeline-controller", "flux-cli-plugin"} {
		g.Expect(filepath.WalkDir(filepath.Join(repository, module), func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(repository, path)
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(others, filepath.ToSlash(name)) {
				return err
			}
			read++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				g.Expect(evaluates(file)).To(BeEmpty(), "%s: call Gate.StateAt or gating.Evaluate", name)
			}
			return err
		})).To(Succeed())
	}
	g.Expect(read).To(BeNumerically(">", 100), "files of the four modules")
}

func TestEvaluates(t *testing.T) {
	for _, test := range []struct{ name, source, want string }{
		{"a file that reads the switch of a gate", "package a\nvar closed = gate.Spec.Closed", "reads spec.Closed"},
		{"a file that reads windows by itself", "package a\nimport _ \"" + calendar + "\"", "imports " + calendar},
		{"a file that asks the API", "package a\nvar closed = gate.StateAt(now).Closed", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			file, err := parser.ParseFile(token.NewFileSet(), "", test.source, parser.SkipObjectResolution)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Join(evaluates(file), ", ")).To(Equal(test.want))
		})
	}
}
