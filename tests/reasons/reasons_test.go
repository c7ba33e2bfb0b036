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

// Package reasons checks that the page of reasons lists those that the controllers set and emit, and no others, with
// messages that they have.
package reasons

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	repository = "../.."
	page       = "docs/spec/v1alpha1/reasons.md"
	suffix     = "Reason"
)

// modules hold the code that sets conditions and emits events.
var modules = []string{"api", "runtime", "gate-controller", "pipeline-controller"}

func TestReasons(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(repository, page))
	g.Expect(err).NotTo(HaveOccurred())
	listed, incomplete := listedIn(string(text))
	g.Expect(incomplete).To(BeEmpty(), "every row of %s has a message, a meaning and a remedy", page)

	inCode := map[string]bool{}
	var literals strings.Builder
	for _, module := range modules {
		for _, file := range sources(g, filepath.Join(repository, module)) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			g.Expect(err).NotTo(HaveOccurred())
			collect(parsed, inCode)
			collectLiterals(parsed, &literals)
		}
	}
	for reason := range inCode {
		g.Expect(listed).To(HaveKey(reason), "%s lists every reason of the code", page)
	}
	for reason, messages := range listed {
		g.Expect(inCode).To(HaveKey(reason), "%s lists no reason that the code doesn't have", page)
		for _, text := range fixedTexts(messages) {
			g.Expect(literals.String()).To(ContainSubstring(text), "a message of reason %s", reason)
		}
	}
}

func TestListedIn(t *testing.T) {
	g := NewWithT(t)
	listed, incomplete := listedIn("| `Ready` | reason | message |\n|---|---|---|\n| `True` | `UpToDate` | all is well |\n" +
		"| `False` | `Failed` | |\n\n| field | message |\n|---|---|\n| `Other` | none |\n")
	g.Expect(listed).To(Equal(map[string]string{"UpToDate": " all is well", "Failed": " "}), "tables without a column for reasons are not read")
	g.Expect(incomplete).To(Equal([]string{"Failed"}))
}

func TestFixedTexts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fixedTexts("`…: … is not ready: …`, or `not found`, `…: …`")).To(Equal([]string{"is not ready", "not found"}))
}

func TestCollect(t *testing.T) {
	g := NewWithT(t)
	parsed, err := parser.ParseFile(token.NewFileSet(), "", `package p
const OneReason, two = "One", "Two"
const DeniedReason = acl.AccessDeniedReason
func f() {
	r.Event(obj, eventType, "Three", message)
	set(meta.SucceededReason, conditions.GetReason(obj))
}`, parser.SkipObjectResolution)
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]bool{}
	collect(parsed, found)
	g.Expect(found).To(Equal(map[string]bool{"One": true, "AccessDenied": true, "Three": true, "Succeeded": true}))
}

// sources returns the Go files of a module, but for tests.
func sources(g *WithT, module string) []string {
	var files []string
	g.Expect(filepath.WalkDir(module, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})).To(Succeed())
	return files
}

// collect finds the reasons of a file: its constants, those of Flux that it uses, and what it emits without a constant.
func collect(file *ast.File, reasons map[string]bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if strings.HasSuffix(name.Name, suffix) && i < len(node.Values) {
					addLiteral(node.Values[i], reasons)
				}
			}
		case *ast.SelectorExpr:
			if pkg, ok := node.X.(*ast.Ident); ok && (pkg.Name == "meta" || pkg.Name == "acl") && strings.HasSuffix(node.Sel.Name, suffix) {
				// Flux's constants are named for their values.
				reasons[strings.TrimSuffix(node.Sel.Name, suffix)] = true
			}
		case *ast.CallExpr:
			if called, ok := node.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Event" {
				// Of the literals, the messages are made from more than one word.
				for _, argument := range node.Args {
					addLiteral(argument, reasons)
				}
			}
		}
		return true
	})
}

func addLiteral(expression ast.Expr, reasons map[string]bool) {
	if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if value, err := strconv.Unquote(literal.Value); err == nil && !strings.Contains(value, " ") {
			reasons[value] = true
		}
	}
}

// collectLiterals writes the strings of a file.
func collectLiterals(file *ast.File, literals *strings.Builder) {
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				literals.WriteString(value + "\n")
			}
		}
		return true
	})
}

// quoted are the messages in a cell.
var quoted = regexp.MustCompile("`[^`]*`")

// fixedTexts returns what stands between the placeholders of messages, if it has more than one word.
func fixedTexts(messages string) []string {
	var texts []string
	for _, message := range quoted.FindAllString(messages, -1) {
		for text := range strings.SplitSeq(strings.Trim(message, "`"), "…") {
			if text = strings.Trim(text, " :;,()"); strings.Contains(text, " ") {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// listedIn returns the reasons of the tables that have a column for them, with their messages, and those whose row has
// an empty cell.
func listedIn(page string) (listed map[string]string, incomplete []string) {
	listed = map[string]string{}
	column, messages := -1, -1
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case slices.Contains(cells, "reason"):
			column, messages = slices.Index(cells, "reason"), slices.Index(cells, "message")
		case column < 0 || column >= len(cells) || strings.HasPrefix(line, "|---"):
		default:
			reason := strings.Trim(cells[column], "`")
			listed[reason] += " " + cells[messages]
			if slices.Contains(cells, "") {
				incomplete = append(incomplete, reason)
			}
		}
	}
	return listed, incomplete
}
