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
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// edit replaces bytes of a file.
type edit struct {
	start, end int
	text       string // the replacement; the original bytes if the value does not change
	value      string // the value that the parser must read afterwards
	old        *yaml.Node
}

// edits maps each marked scalar to its edit. The key is the scalar's number in the order of the file.
type edits map[int]edit

// add adds the edit for m and returns it.
func (e edits) add(o *outline, m marker, rev string) (edit, error) {
	if m.problem != "" {
		return edit{}, errors.New(m.problem)
	}
	value, err := m.value(rev)
	if err != nil {
		return edit{}, err
	}
	f, err := o.marked(m)
	if err != nil {
		return edit{}, err
	}
	s := o.src
	made, err := s.edit(f, value)
	if err != nil {
		return edit{}, err
	}
	if !m.ownLine && s.lineOf(made.end) == m.line {
		// After the value, only the comma of a list or another comment may precede the marker.
		between := strings.TrimLeft(s.content[made.end:m.hash], blanks+",")
		if between != "" && between[0] != '#' {
			return edit{}, errors.New("the value is not alone on the marked line")
		}
	}
	if other, ok := e[f.node]; ok && other.value != made.value {
		return edit{}, fmt.Errorf("the field is marked twice, for %q and for %q", other.value, made.value)
	}
	e[f.node] = made
	return made, nil
}

// target returns the line of the field that m marks.
func (s *source) target(m marker) int {
	if m.ownLine {
		return s.belowMarkers(m.line)
	}
	return m.line
}

// belowMarkers returns the first line below line that is not a marker itself.
func (s *source) belowMarkers(line int) int {
	if s.stack.first <= line && line < s.stack.below {
		return s.stack.below
	}
	s.stack.first = line
	for line++; line < len(s.starts); line++ {
		text := strings.TrimLeft(s.line(line), blanks)
		if !strings.HasPrefix(text, "#") || !strings.Contains(text, setter) {
			break
		}
	}
	s.stack.below = line
	return line
}

// edit returns the edit that writes value into f.
func (s *source) edit(f field, value string) (edit, error) {
	unprintable := strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) })
	if unprintable || !utf8.ValidString(value) || strings.Trim(value, blanks) == "" {
		return edit{}, fmt.Errorf("the value %q can't be written safely", value)
	}
	n := f.value
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != strTag {
		return edit{}, fmt.Errorf("the marked value is tagged %s, not as a string", n.Tag)
	}
	e := edit{start: s.begin(n), value: value, old: n}
	var ok bool
	switch n.Style &^ yaml.TaggedStyle {
	case yaml.SingleQuotedStyle:
		e.end, ok = s.quoteEnd(e.start)
		e.text = `'` + strings.ReplaceAll(value, `'`, `''`) + `'`
	case yaml.DoubleQuotedStyle:
		e.end, ok = s.quoteEnd(e.start)
		e.text = doubleQuoted(value)
	case yaml.LiteralStyle, yaml.FoldedStyle:
		var old string
		e.start, old, ok = s.blockLine(n, e.start)
		e.end = e.start + len(old)
		e.text = value
		e.value = strings.Replace(n.Value, old, value, 1)
	default:
		e.end = e.start + len(n.Value)
		ok = strings.HasPrefix(s.content[e.start:], n.Value)
		if e.text = value; !isPlain(value, f.flow) {
			e.text = doubleQuoted(value)
		}
		if isEmpty(n) {
			if !s.canAppend(f, e.start) {
				return edit{}, errors.New("no value can be filled in here")
			}
			e.text = " " + e.text
		}
	}
	if !ok {
		return edit{}, errors.New("the marked value is not written on one line")
	}
	if n.Value == e.value && n.Tag == strTag && !isEmpty(n) {
		e.text = s.content[e.start:e.end]
	}
	return e, nil
}

const strTag = "!!str"

// canAppend reports whether a value can be appended at offset, after a colon, a dash, or the anchor or tag of an empty
// scalar. The key of a set, `? key`, has no colon. In [] and {}, a blank must not separate the value from what follows.
func (s *source) canAppend(f field, offset int) bool {
	if f.flow || offset == 0 {
		return false
	}
	before := s.content[offset-1]
	return before == ':' || f.isItem && before == '-' || f.value.Anchor != "" || f.value.Style&yaml.TaggedStyle != 0
}

// quoteEnd returns the offset after the quoted scalar that starts at start, if it ends on the same line.
func (s *source) quoteEnd(start int) (int, bool) {
	line := s.lineOf(start)
	text := s.line(line)[start-s.starts[line]:]
	if text == "" {
		return 0, false
	}
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\', quote == '\'' && strings.HasPrefix(text[i:], "''"):
			i++
		case text[i] == quote:
			return start + i + 1, true
		}
	}
	return 0, false
}

// blockLine returns the offset and the text of the block scalar whose header starts at start, if it has a single line.
func (s *source) blockLine(n *yaml.Node, start int) (int, string, bool) {
	text := strings.Trim(n.Value, "\n")
	if text == "" || strings.Contains(text, "\n") {
		return 0, "", false
	}
	for line := s.lineOf(start) + 1; line < len(s.starts); line++ {
		content := s.line(line)
		if strings.Trim(content, blanks) != "" {
			return s.starts[line] + len(content) - len(text), text, strings.HasSuffix(content, text)
		}
	}
	return 0, "", false
}

// number matches everything that is a number in YAML 1.1 or 1.2, of any size. The encoder of the YAML library treats
// numbers that do not fit any Go type as strings.
var number = regexp.MustCompile(`^[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?)$`)

// isPlain reports whether every parser reads the unquoted value back as the same string. The encoder of the YAML
// library knows dates, booleans of YAML 1.1, indicators, and numbers that fit a Go type. Flow collections, [] and {},
// have more indicators. Within them, parsers of YAML 1.1 accept a colon that others reject.
func isPlain(value string, flow bool) bool {
	encoded, err := yaml.Marshal(value)
	return err == nil && string(encoded) == value+"\n" && !number.MatchString(value) &&
		!(flow && (strings.ContainsAny(value, ",[]{}?") || value[0] == ':'))
}

func doubleQuoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// apply returns content with the edits applied, or content itself if they change nothing.
func (e edits) apply(content []byte) []byte {
	inOrder := make([]edit, 0, len(e))
	for _, edit := range e {
		if string(content[edit.start:edit.end]) != edit.text {
			inOrder = append(inOrder, edit)
		}
	}
	if len(inOrder) == 0 {
		return content
	}
	slices.SortFunc(inOrder, func(a, b edit) int { return a.start - b.start })
	var out []byte
	done := 0
	for _, edit := range inOrder {
		out = append(out, content[done:edit.start]...)
		out = append(out, edit.text...)
		done = edit.end
	}
	return append(out, content[done:]...)
}

// verify parses the edited file and checks that the edited scalars have their new values and nothing else has changed.
// It is the second line of defence: an error here is a bug in this package.
func (e edits) verify(o *outline, out []byte) error {
	outstanding := 0
	for _, edit := range e {
		if edit.old.Value != edit.value {
			outstanding++
		}
	}
	same, unexpected := true, false
	if string(out) != o.src.content {
		var err error
		same, err = o.compare(out, func(i int, n *yaml.Node) {
			edit, ok := e[i]
			if !ok || n.Value != edit.value || n.Tag != strTag || n.Anchor != edit.old.Anchor {
				unexpected = true
			} else if n.Value != edit.old.Value {
				outstanding--
			}
		})
		if err != nil {
			return fmt.Errorf("can't be edited safely: %w", err)
		}
	}
	if !same || unexpected || outstanding != 0 {
		return errors.New("can't be edited safely: another value would change")
	}
	return nil
}
