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
	"hash/maphash"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parse calls visit for each document of content, so only one document at a time is in memory.
func parse(content []byte, visit func(doc *yaml.Node)) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		visit(&doc)
	}
}

// outline is what is kept of a parsed file. The nodes themselves need ten times the memory.
type outline struct {
	src   *source
	nodes []trace
	// fields are the fields that can be marked on a line: the line of the key, or the line on which the value starts.
	// Only lines with markers have an entry. Two fields are kept at most, since two are already an error.
	fields map[int][]field
	// inText reports whether any node contains a marker, so not all markers are comments.
	inText bool
}

// trace identifies a node.
type trace struct {
	kind     yaml.Kind
	children int32
	content  uint64
}

var seed = maphash.MakeSeed()

func traceOf(n *yaml.Node) trace {
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, text := range [...]string{n.Value, n.Tag, n.Anchor} {
		// No text is longer than the file, and UTF-8 has no byte 0xff.
		_, _ = hash.WriteString(text)
		_ = hash.WriteByte(0xff)
	}
	_ = hash.WriteByte(byte(n.Style))
	return trace{kind: n.Kind, children: int32(len(n.Content)), content: hash.Sum64()}
}

// field is a value of a mapping or an item of a list.
type field struct {
	// node is the number of the value in the order of the file. value is the node without its children.
	node   int
	value  *yaml.Node
	isItem bool // has no key
	flow   bool // within [] or {}
}

// outline parses the file and keeps the fields on marked lines. Its error matches ErrUnparsable if the file is not
// YAML.
func (s *source) outline(markers []marker) (*outline, error) {
	if err := check([]byte(s.content)); err != nil {
		return nil, err
	}
	o := &outline{src: s, fields: map[int][]field{}}
	for _, m := range markers {
		o.fields[s.target(m)] = nil
	}
	err := parse([]byte(s.content), func(doc *yaml.Node) { o.add(doc, false, false) })
	if err != nil {
		return nil, fmt.Errorf("the marker is in a file that is %w: %w", ErrUnparsable, err)
	}
	return o, nil
}

// add adds n and its children. Keys contain no fields.
func (o *outline) add(n *yaml.Node, flow, inKey bool) {
	o.nodes = append(o.nodes, traceOf(n))
	o.inText = o.inText || strings.Contains(n.Value, setter) || strings.Contains(n.Tag, setter)
	flow = flow || n.Style&yaml.FlowStyle != 0
	for i, child := range n.Content {
		isKey := n.Kind == yaml.MappingNode && i%2 == 0
		switch {
		case inKey || isKey:
		case n.Kind == yaml.SequenceNode:
			o.addField(nil, child, flow)
		case n.Kind == yaml.MappingNode:
			o.addField(n.Content[i-1], child, flow)
		}
		o.add(child, flow, inKey || isKey)
	}
}

// addField adds the field whose value is the next node.
func (o *outline) addField(key, value *yaml.Node, flow bool) {
	f := field{node: len(o.nodes), value: value, isItem: key == nil, flow: flow}
	keyLine := -1
	if key != nil {
		keyLine = key.Line - 1
		o.mark(keyLine, f)
	}
	// A mapping or list in block style is not marked on its first line, which is the line of its first child.
	block := len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0
	if line := o.src.lineOf(o.src.begin(value)); line != keyLine && !block {
		o.mark(line, f)
	}
}

func (o *outline) mark(line int, f field) {
	fields, marked := o.fields[line]
	if !marked || len(fields) > 1 {
		return
	}
	alone := *f.value
	alone.Content, alone.Alias = nil, nil
	f.value = &alone
	o.fields[line] = append(fields, f)
}

// compare parses another content and calls changed for each node that differs, without its children. It reports whether
// all nodes have the same position.
func (o *outline) compare(content []byte, changed func(i int, n *yaml.Node)) (same bool, err error) {
	next, same := 0, true
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if !same {
			return
		}
		is := traceOf(n)
		if same = next < len(o.nodes) && o.nodes[next].kind == is.kind && o.nodes[next].children == is.children; !same {
			return
		}
		if o.nodes[next].content != is.content {
			changed(next, n)
		}
		next++
		for _, child := range n.Content {
			walk(child)
		}
	}
	err = parse(content, walk)
	return same && next == len(o.nodes), err
}

// inComments returns the markers that are comments. The parser keeps the text of comments but not their position. So
// each marker is overwritten: if a value changes, the marker was not a comment.
func (o *outline) inComments(markers []marker) ([]marker, error) {
	if !o.inText {
		return markers, nil
	}
	overwritten := []byte(o.src.content)
	for i, m := range markers {
		copy(overwritten[m.setter:], fmt.Appendf(nil, "$%0*d", len(setter)-1, i))
	}
	text := make(map[int]bool)
	same, err := o.compare(overwritten, func(_ int, n *yaml.Node) {
		for _, number := range overwrite.FindAllString(n.Value, -1) {
			if i, err := strconv.Atoi(number[1:]); err == nil {
				text[i] = true
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("can't tell its comments from its values: %w", err)
	}
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

// marked returns the field that m marks. It must be the only one on the line, and a scalar.
func (o *outline) marked(m marker) (field, error) {
	fields := o.fields[o.src.target(m)]
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
