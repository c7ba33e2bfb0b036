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
	"unicode"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// Mermaid writes the graph as a flowchart in the language of mermaid.js.org.
func (g *Graph) Mermaid(out io.Writer) error {
	lines := []string{"flowchart LR"}
	for i := range g.Stages {
		stage := &g.Stages[i]
		lines = append(lines, fmt.Sprintf(`  e%d["%s"]:::%s`, i, label(stage.Name, stage.Kind.Sign()+" "+stage.State, stage.Running), stage.Kind))
	}
	for i := 1; i < len(g.Stages); i++ {
		lines = append(lines, fmt.Sprintf("  e%d %s e%d", i-1, link(&g.Stages[i]), i))
	}
	for _, kind := range describe.Kinds {
		lines = append(lines, fmt.Sprintf("  classDef %s fill:%s,stroke:%s,color:#1b1f24", kind, palette[kind].fill, palette[kind].stroke))
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// link returns the arrow into a stage. It is dotted if something blocks the promotion.
func link(stage *Stage) string {
	if len(stage.Blockers) == 0 {
		return "-->"
	}
	var texts []string
	for _, blocker := range stage.Blockers {
		texts = append(texts, blocker.Text)
	}
	return fmt.Sprintf(`-.->|"%s"|`, label(texts...))
}

func label(lines ...string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = escape(line)
	}
	return strings.Join(escaped, "<br/>")
}

// escape replaces everything that Mermaid or Markdown could read as markup by its code.
func escape(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" .,:@/+-✓↓◷✗↺?", r) {
			escaped.WriteRune(r)
		} else {
			fmt.Fprintf(&escaped, "#%d;", r)
		}
	}
	return escaped.String()
}

// colours are readable with black text on a light background.
type colours struct{ fill, stroke string }

var palette = map[describe.Kind]colours{
	describe.Current:     {"#e6f4ea", "#1a7f37"},
	describe.Behind:      {"#eef0f3", "#57606a"},
	describe.Waiting:     {"#fff5d6", "#8a6100"},
	describe.Failed:      {"#ffe9e7", "#c0271d"},
	describe.RolledBack:  {"#f6e9fb", "#8a3ab0"},
	describe.UnknownKind: {"#f6f8fa", "#57606a"},
}
