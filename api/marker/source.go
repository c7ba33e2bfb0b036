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
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const blanks = " \t"

// source is a file's bytes with the lines that the YAML parser counts in them.
type source struct {
	content string
	starts  []int // offsets of the lines

	// last is what offset found last. Nodes are asked for in the order of the file, and all may be on a single line.
	last place
}

// place is a place in a file, its line and column counted from 1.
type place struct{ line, column, offset int }

// newSource splits content where the parser does. Besides LF and CRLF it takes a lone CR, NEL, LS and PS for the end of
// a line, as YAML 1.1 says.
func newSource(content []byte) *source {
	s := &source{content: string(content)}
	// The parser counts no column for a byte order mark at the very beginning.
	start := len(s.content) - len(strings.TrimPrefix(s.content, "\ufeff"))
	s.starts = append(s.starts, start)
	for i := start; i < len(s.content); {
		n := breakLen(s.content[i:])
		if n > 0 {
			s.starts = append(s.starts, i+n)
		}
		i += max(n, 1)
	}
	return s
}

// breakLen is the length of the line break that text begins with, or 0.
func breakLen(text string) int {
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

// lineOf returns the line that offset is in.
func (s *source) lineOf(offset int) int {
	return sort.SearchInts(s.starts, offset+1) - 1
}

// offset returns where the parser saw n begin. Its columns count characters, not bytes.
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

// begin returns where n itself begins, behind its anchor and tag. An empty scalar begins where its value would be
// appended.
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

// wordLen is how much of text comes before the first blank or line break.
func wordLen(text string) int {
	for i := range len(text) {
		if strings.IndexByte(blanks, text[i]) >= 0 || breakLen(text[i:]) > 0 {
			return i
		}
	}
	return len(text)
}

// spaceLen is the length of the blanks that text begins with, and of line breaks and comments too where lines is true.
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

// isEmpty tells whether n is a value of nothing, which takes no bytes.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0
}

// parse returns the documents of content.
func parse(content []byte) (docs []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, &doc)
	}
}

// parse returns the documents of the file. Its error matches ErrUnparsable.
func (s *source) parse() ([]*yaml.Node, error) {
	docs, err := parse([]byte(s.content))
	if err != nil {
		return nil, fmt.Errorf("the marker is in a file that is %w: %w", ErrUnparsable, err)
	}
	return docs, nil
}

// inComments returns those of markers that stand in comments. The parser keeps the text of comments but not where they
// were, so it is asked otherwise: each marker is overwritten, and what then shows up in a value was no comment.
func (s *source) inComments(docs []*yaml.Node, markers []marker) ([]marker, error) {
	overwritten := []byte(s.content)
	for i, m := range markers {
		copy(overwritten[m.setter:], fmt.Appendf(nil, "$%0*d", len(setter)-1, i))
	}
	others, err := parse(overwritten)
	if err != nil {
		return nil, fmt.Errorf("can't tell its comments from its values: %w", err)
	}
	text := make(map[int]bool)
	same := diff(docs, others, func(_, other *yaml.Node) {
		for _, number := range overwrite.FindAllString(other.Value, -1) {
			if i, err := strconv.Atoi(number[1:]); err == nil {
				text[i] = true
			}
		}
	})
	if !same {
		return nil, errors.New("can't tell its comments from its values")
	}
	var comments []marker
	for i, m := range markers {
		if !text[i] {
			comments = append(comments, m)
		}
	}
	return comments, nil
}

var overwrite = regexp.MustCompile(fmt.Sprintf(`\$[0-9]{%d}`, len(setter)-1))

// diff calls changed for each pair of nodes that differ in themselves, and tells whether the trees have the same shape.
func diff(a, b []*yaml.Node, changed func(a, b *yaml.Node)) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Kind != b[i].Kind || !diff(a[i].Content, b[i].Content, changed) {
			return false
		}
		if a[i].Value != b[i].Value || a[i].Tag != b[i].Tag || a[i].Style != b[i].Style || a[i].Anchor != b[i].Anchor {
			changed(a[i], b[i])
		}
	}
	return true
}

// field is a value of a mapping, or an item of a list.
type field struct {
	key   *yaml.Node // nil for an item
	value *yaml.Node
	flow  bool // within [] or {}
}

// walk calls visit for each field below nodes, in the order of the file.
func walk(nodes []*yaml.Node, flow bool, visit func(field)) {
	for _, n := range nodes {
		flow := flow || n.Style&yaml.FlowStyle != 0
		switch n.Kind {
		case yaml.DocumentNode:
			walk(n.Content, flow, visit)
		case yaml.SequenceNode:
			for i, item := range n.Content {
				visit(field{value: item, flow: flow})
				walk(n.Content[i:i+1], flow, visit)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				visit(field{key: n.Content[i], value: n.Content[i+1], flow: flow})
				walk(n.Content[i+1:i+2], flow, visit)
			}
		}
	}
}

// fields returns the fields by the lines that they can be marked on: that of the key, and that where the value begins.
func (s *source) fields(docs []*yaml.Node) map[int][]field {
	fields := make(map[int][]field)
	walk(docs, false, func(f field) {
		keyLine := -1
		if f.key != nil {
			keyLine = f.key.Line - 1
			fields[keyLine] = append(fields[keyLine], f)
		}
		// A mapping or list in block style is not marked where it begins: its first own field is there.
		block := len(f.value.Content) > 0 && f.value.Style&yaml.FlowStyle == 0
		if line := s.lineOf(s.begin(f.value)); line != keyLine && !block {
			fields[line] = append(fields[line], f)
		}
	})
	return fields
}

// only returns the one of fields, if it is a scalar.
func only(fields []field) (field, error) {
	switch {
	case len(fields) == 0:
		return field{}, errors.New("no field is on the marked line")
	case len(fields) > 1:
		return field{}, errors.New("more than one field is on the marked line")
	case fields[0].value.Kind == yaml.AliasNode:
		return field{}, fmt.Errorf("the marked value is the alias *%s: mark the field with the anchor &%[1]s", fields[0].value.Value)
	case fields[0].value.Kind != yaml.ScalarNode:
		return field{}, errors.New("the marked field is a mapping or a list, not a value")
	}
	return fields[0], nil
}
