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
	"slices"
	"strings"
	"unicode"
)

// Sizes of a drawing, in pixels. Texts are measured by the widest usual letter, because no font is known.
const (
	margin   = 16
	boxWidth = 190
	boxHigh  = 84
	gap      = 180
	lineHigh = 15
	// perRow is the number of stages in a row.
	perRow = 3
	// inBox, inGap and inTurn are the numbers of letters in a line of a box, beside it, and between rows.
	inBox, inGap, inTurn = 24, 24, 80
	inName               = 18 // its letters are larger
	mostLines            = 7
)

// Layout is where everything of a graph is drawn.
type Layout struct {
	Width, Height int
	Boxes         []Box
	Arrows        []Arrow
}

// Box is a stage at a place.
type Box struct {
	*Stage
	X, Y, Width, Height int
	// Name and Running are cut to the width. State is never that long.
	Name, Running Line
	Sign          Line
	Targets       Line
}

// Arrow leads into a stage.
type Arrow struct {
	// Path is the data of an SVG path.
	Path string
	// Lines are the blockers beside it.
	Lines []Line
	// Title is the blockers in full.
	Title string
}

// Line is a text at a place.
type Line struct {
	Text string
	X, Y int
}

// Layout places the stages in rows, from left to right.
func (g *Graph) Layout() *Layout {
	l := &Layout{Width: 2*margin + boxWidth, Height: margin}
	for first := 0; first < len(g.Stages); first += perRow {
		row := g.Stages[first:min(first+perRow, len(g.Stages))]
		if first > 0 {
			l.turn(&row[0])
		}
		l.addRow(row)
	}
	l.Height += margin
	return l
}

// addRow places a row below what is there.
func (l *Layout) addRow(row []Stage) {
	top, high := l.Height, boxHigh
	for i := range row {
		x := margin + i*(boxWidth+gap)
		l.Boxes = append(l.Boxes, newBox(&row[i], x, top))
		l.Width = max(l.Width, x+boxWidth+margin)
		if i > 0 {
			y := top + boxHigh/2
			made := newArrow(&row[i], line(x-gap, y, x-arrowHead, y), x-gap+8, y+18, inGap)
			l.Arrows = append(l.Arrows, made)
			high = max(high, boxHigh/2+18+len(made.Lines)*lineHigh)
		}
	}
	l.Height += high
}

// turn draws the arrow from the end of a row to the first stage of the next one.
func (l *Layout) turn(to *Stage) {
	last := l.Boxes[len(l.Boxes)-1]
	from, into := last.X+boxWidth/2, margin+boxWidth/2
	middle := l.Height + 14
	made := newArrow(to, "", into+12, middle+18, inTurn)
	l.Height = middle + 24 + len(made.Lines)*lineHigh
	made.Path = line(from, last.Y+boxHigh, from, middle, into, middle, into, l.Height-arrowHead)
	l.Arrows = append(l.Arrows, made)
}

func newBox(stage *Stage, x, y int) Box {
	left := x + 14
	return Box{
		Stage: stage, X: x, Y: y, Width: boxWidth, Height: boxHigh,
		Name:    Line{cut(stage.Name, inName), left, y + 22},
		Sign:    Line{stage.Kind.Sign() + " " + stage.State, left, y + 41},
		Running: Line{cut(stage.Running, inBox), left, y + 58},
		Targets: Line{stage.Targets, left, y + 74},
	}
}

func newArrow(to *Stage, path string, x, y, width int) Arrow {
	made := Arrow{Path: path}
	var titles, texts []string
	for _, blocker := range to.Blockers {
		titles = append(titles, blocker.Text)
		texts = append(texts, wrap(blocker.Text, width)...)
	}
	if len(texts) > mostLines {
		texts = append(texts[:mostLines-1], "…")
	}
	for i, text := range texts {
		made.Lines = append(made.Lines, Line{text, x, y + i*lineHigh})
	}
	made.Title = strings.Join(titles, "; ")
	return made
}

// wrap breaks a text into lines, at spaces if possible.
func wrap(text string, width int) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(text) {
		for cells(word) > width {
			if current != "" {
				lines, current = append(lines, current), ""
			}
			head := slice(word, width)
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case current == "":
			current = word
		case cells(current)+1+cells(word) > width:
			lines, current = append(lines, current), word
		default:
			current += " " + word
		}
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}

// cut shortens a text to a width.
func cut(text string, width int) string {
	if cells(text) <= width {
		return text
	}
	return slice(text, width-1) + "…"
}

// slice returns the beginning of a text, which has at least one letter.
func slice(text string, width int) string {
	used := 0
	for i, r := range text {
		if used += cellsOf(r); used > width && i > 0 {
			return text[:i]
		}
	}
	return text
}

// cells returns the width of a text in letters.
func cells(text string) int {
	used := 0
	for _, r := range text {
		used += cellsOf(r)
	}
	return used
}

// wide are the scripts whose letters are twice as wide as others in a monospaced font.
var wide = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana}

func cellsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1F300 || slices.ContainsFunc(wide, func(script *unicode.RangeTable) bool { return unicode.Is(script, r) }):
		return 2
	}
	return 1
}
