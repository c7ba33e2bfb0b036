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

package marker

import (
	"bytes"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const blanks = " \t"

// source is the content of a file, split into lines as the YAML parser counts them.
type source struct {
	content string
	starts  []int // offsets of the lines

	// last is the last result of offset. Nodes are looked up in the order of the file, and all may be on a single line.
	last place
	// stack is the last result of belowMarkers. Markers are looked up in the order of the file too.
	stack struct{ first, below int }
}

// place is a position in a file. Lines and columns start at 1.
type place struct{ line, column, offset int }

// newSource splits content into lines like the parser. Besides LF and CRLF, YAML 1.1 has the line breaks CR, NEL, LS
// and PS.
func newSource(content []byte) *source {
	s := &source{content: string(content)}
	// The parser does not count a byte order mark at the start of the file as a column.
	start := len(s.content) - len(strings.TrimPrefix(s.content, "\ufeff"))
	s.starts = append(make([]int, 0, bytes.Count(content, []byte("\n"))+1), start)
	for i := start; i < len(s.content); {
		n := breakLen(s.content[i:])
		if n > 0 {
			s.starts = append(s.starts, i+n)
		}
		i += max(n, 1)
	}
	return s
}

// breakLen returns the length of the line break at the start of text, or 0.
func breakLen(text string) int {
	if text[0] > '\r' && text[0] < utf8.RuneSelf {
		return 0
	}
	for _, br := range [...]string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if strings.HasPrefix(text, br) {
			return len(br)
		}
	}
	return 0
}

// line returns the text of a line without its break.
func (s *source) line(line int) string {
	end := len(s.content)
	if line+1 < len(s.starts) {
		end = s.starts[line+1]
	}
	return strings.TrimRight(s.content[s.starts[line]:end], "\r\n\u0085\u2028\u2029")
}

// lineOf returns the line that contains offset.
func (s *source) lineOf(offset int) int {
	return sort.SearchInts(s.starts, offset+1) - 1
}

// offset returns the position of n in bytes. The columns of the parser count characters.
func (s *source) offset(n *yaml.Node) int {
	if n.Line > len(s.starts) {
		return len(s.content)
	}
	if n.Line != s.last.line || n.Column < s.last.column {
		s.last = place{line: n.Line, column: 1, offset: s.starts[n.Line-1]}
	}
	for ; s.last.column < n.Column; s.last.column++ {
		_, size := utf8.DecodeRuneInString(s.content[s.last.offset:])
		s.last.offset += size
	}
	return s.last.offset
}

// begin returns the start of n itself, after its anchor and tag. For an empty scalar, it is the offset at which a value
// would be appended.
func (s *source) begin(n *yaml.Node) int {
	at := s.offset(n)
	for at < len(s.content) && strings.IndexByte("&!", s.content[at]) >= 0 {
		at += wordLen(s.content[at:])
		next := at + spaceLen(s.content[at:], !isEmpty(n))
		if isEmpty(n) && (next == len(s.content) || strings.IndexByte("&!", s.content[next]) < 0) {
			break
		}
		at = next
	}
	return at
}

// wordLen returns the length of text up to the first blank or line break.
func wordLen(text string) int {
	for i := range len(text) {
		if strings.IndexByte(blanks, text[i]) >= 0 || breakLen(text[i:]) > 0 {
			return i
		}
	}
	return len(text)
}

// spaceLen returns the length of the blanks at the start of text. If lines is true, line breaks and comments count too.
func spaceLen(text string, lines bool) int {
	comment := false
	for i := 0; i < len(text); {
		br := breakLen(text[i:])
		switch {
		case br > 0 && lines:
			comment = false
			i += br
		case comment || strings.IndexByte(blanks, text[i]) >= 0:
			i++
		case text[i] == '#' && lines:
			comment = true
		default:
			return i
		}
	}
	return len(text)
}

// isEmpty reports whether n is an empty value, which has no bytes.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0
}
