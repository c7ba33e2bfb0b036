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

package ui

import (
	"embed"
	"html/template"
	"strings"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/graph"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/view"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

var templates = template.Must(template.Must(template.Must(graph.SVG.Clone()).Funcs(template.FuncMap{
	"add":         func(a, b int) int { return a + b },
	"stamp":       view.Age.Stamp,
	"web":         view.WebURL,
	"blockerSign": func(kind why.BlockerKind) string { return blockerSigns[kind] },
}).ParseFS(templateFiles, "templates/*.html")).Clone())

// blockerSigns tell blockers apart without colours.
var blockerSigns = map[why.BlockerKind]string{
	why.GatesBlocker: "⊘", why.ApprovalBlocker: "☐", why.PullRequestBlocker: "⇄", why.OtherBlocker: "!",
}

// render executes a template.
func render(name string, data any) template.HTML {
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		panic(err) // the data does not fit the template, which is a mistake of this package
	}
	return template.HTML(out.String()) //nolint:gosec // templates escape their data
}
