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

package scale

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// grown are the figures of the plot, by how they are called there.
var grown = []struct{ name, title string }{
	{"all promotions at once, s", "all promotions at once, s"},
	{"start until all are known, unchanged, s", "start, s"},
	{"resident memory, idle, MB", "memory, MB"},
	{"CPU time for each promotion, ms", "CPU time per promotion, ms"},
}

// point is a figure's value for a number of Pipelines.
type point struct{ n, value float64 }

// points returns the values of a figure by the number of Pipelines.
func (r *report) points(name string) []point {
	var points []point
	for _, f := range r.Figures {
		var n float64
		count, _ := strings.CutSuffix(f.Size, " pipelines")
		if _, err := fmt.Sscan(strings.ReplaceAll(count, ",", ""), &n); err == nil && thousands(int(n), "pipelines") == f.Size && f.Name == name && f.Value > 0 {
			points = append(points, point{n, f.Value})
		}
	}
	return points
}

// plot returns an SVG image of how figures grow with the number of Pipelines. Both axes are logarithmic, so what grows
// in proportion is parallel to the dashed line.
func (r *report) plot() string {
	const left, right, top, bottom = 60.0, 560.0, 20.0, 380.0
	var all []point
	for _, figure := range grown {
		all = append(all, r.points(figure.name)...)
	}
	if len(all) == 0 {
		return ""
	}
	least, most := all[0], all[0]
	for _, p := range all {
		least, most = point{min(least.n, p.n), min(least.value, p.value)}, point{max(most.n, p.n), max(most.value, p.value)}
	}
	least.value, most.value = math.Pow(10, math.Floor(math.Log10(least.value))), math.Pow(10, math.Ceil(math.Log10(most.value)))
	scale := func(value, least, most, from, to float64) float64 {
		return from + (to-from)*math.Log(value/least)/max(math.Log(most/least), 1)
	}
	x := func(n float64) float64 { return scale(n, least.n, most.n, left, right) }
	y := func(value float64) float64 { return scale(value, least.value, most.value, bottom, top) }

	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 430" font-family="sans-serif" font-size="13">`+"\n"+
		`<title>Growth with the number of Pipelines</title>`+"\n"+`<rect width="800" height="430" fill="white"/>`+"\n")
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&svg, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	text := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&svg, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
	}
	for value := least.value; value <= most.value*1.001; value *= 10 {
		line(left, y(value), right, y(value), `stroke="#ddd"`)
		text(left-8, y(value)+4, "end", number(value))
	}
	for _, n := range slices.Compact(slices.Sorted(func(yield func(float64) bool) {
		for _, p := range all {
			if !yield(p.n) {
				return
			}
		}
	})) {
		line(x(n), top, x(n), bottom, `stroke="#ddd"`)
		text(x(n), bottom+20, "middle", number(n))
	}
	text((left+right)/2, bottom+42, "middle", "Pipelines")
	proportional := min(most.value, least.value*most.n/least.n)
	line(x(least.n), y(least.value), x(least.n*proportional/least.value), y(proportional), `stroke="#888" stroke-dasharray="4 4"`)
	for i, colour := range []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"} {
		points := r.points(grown[i].name)
		var path []string
		for _, p := range points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.n), y(p.value)))
			fmt.Fprintf(&svg, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.n), y(p.value), colour)
		}
		if len(points) > 0 {
			fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
			text(right+10, y(points[len(points)-1].value)+4, "start", grown[i].title)
		}
	}
	return svg.String() + "</svg>\n"
}

func TestThePlotShowsWhatGrows(t *testing.T) {
	g := NewWithT(t)
	r := newReport()
	g.Expect(r.plot()).To(BeEmpty(), "nothing was measured")
	for n, memory := range map[int]float64{100: 50, 1000: 500} {
		r.add(thousands(n, "pipelines"), "resident memory, idle, MB", memory)
	}
	r.add("500 of 1,000 pipelines", "resident memory, idle, MB", 7)
	svg := r.plot()
	g.Expect(strings.Count(svg, "<circle")).To(Equal(2))
	g.Expect(svg).To(And(ContainSubstring(">memory, MB</text>"), ContainSubstring(">1000</text>"), HaveSuffix("</svg>\n")))
}
