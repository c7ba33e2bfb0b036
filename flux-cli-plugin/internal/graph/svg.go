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
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// arrowHead is the length of the head of an arrow.
const arrowHead = 7

//go:embed graph.svg.tmpl
var drawing string

// SVG is a template for an svg element without styles of its own. Its data is a Graph. Pages embed it, with the classes
// of its elements in their style sheet.
var SVG = template.Must(template.New("graph").Parse(drawing))

// Style is the style sheet of an svg element.
//
//go:embed graph.css
var Style string

// Standalone is SVG with its style, as a file.
var standalone = template.Must(template.Must(SVG.Clone()).New("style").Parse("<style>" + Style + "</style>"))

// SVG writes the graph as a file, for light and dark backgrounds.
func (g *Graph) SVG(out io.Writer) error {
	if err := standalone.ExecuteTemplate(out, "graph", g); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// line returns the data of a path through points.
func line(points ...int) string {
	var path strings.Builder
	for i := 0; i < len(points); i += 2 {
		command := 'L'
		if i == 0 {
			command = 'M'
		}
		fmt.Fprintf(&path, "%c%d %d", command, points[i], points[i+1])
	}
	return path.String()
}
