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
)

const (
	// MaxSize is the maximum size in bytes of a file with markers.
	MaxSize = 8 << 20
	// MaxMemory is the maximum memory in bytes for setting the markers of one file, as estimated by Memory. It is
	// enough for a million keys and values.
	MaxMemory = 320 << 20
)

// CheckSize returns an error if the file is larger than MaxSize.
func CheckSize(size int64) error {
	if size > MaxSize {
		return fmt.Errorf("the file has a marker and %d bytes, more than the limit of %d: split the file", size, MaxSize)
	}
	return nil
}

// CheckMemory returns an error if setting the markers may need more than MaxMemory.
func CheckMemory(memory int64) error {
	if memory > MaxMemory {
		return fmt.Errorf("setting its markers may take %d MiB of memory, more than the limit of %d MiB: split the file", memory>>20, MaxMemory>>20)
	}
	return nil
}

// Memory returns an upper bound of the memory in bytes that Set needs for a file, including its content.
func Memory(content io.Reader) (int64, error) {
	var m meter
	_, err := io.Copy(&m, content)
	return m.memory(), err
}

// check returns an error if parsing would need too much memory.
func check(content []byte) error {
	if err := CheckSize(int64(len(content))); err != nil {
		return err
	}
	var m meter
	_, _ = m.Write(content)
	if err := CheckMemory(m.memory()); err != nil {
		return err
	}
	if bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		return errors.New("the file is in UTF-16: markers are set in UTF-8 only")
	}
	return nil
}

// Memory in bytes of the parser and of the outline of a file. TestMemory shows how the values were measured.
const (
	perByte = 10
	perLine = 24
	perNode = 240
	// depthPerNode is the indentation at which the time for a comment matters as much as its memory: the parser
	// compares each comment with each indentation that ends after it.
	depthPerNode = 128
)

// meter counts the nodes that the parser may find in what is written to it. It never counts too few. It counts
// indicators in quotes and comments too, because it does not recognize those.
type meter struct {
	bytes, lines, nodes int64
	// before holds the last two bytes.
	before [2]byte
	// indent is the number of bytes of the line that can be its indentation so far, including indicators. deepest is
	// the maximum of all lines.
	indent, deepest int64
	text            bool // the line's indentation has ended
	// directive is the length of the line so far if it may be a directive, and longest the maximum of all directives. A
	// directive can make each tag longer.
	directive, longest, tags int64
}

func (m *meter) memory() int64 {
	// A document starts without an indicator, and may end with one.
	return m.bytes*perByte + m.lines*perLine + (m.nodes+4)*perNode + m.longest*m.tags
}

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	m.bytes += int64(len(p))
	for _, c := range p {
		m.count(c)
		m.follow(c)
		m.before = [2]byte{m.before[1], c}
	}
	return len(p), nil
}

// count counts the node that c starts. For some bytes, c decides what the byte before it was.
func (m *meter) count(c byte) {
	switch c {
	case '[':
		m.nodes++
	case '{', ',', ':', '?', '&':
		// A key and a value. An anchor has no node, but an entry in the list of anchors.
		m.nodes += 2
	case '!':
		m.tags++
	case '#':
		if m.before[1] != '#' {
			m.nodes += 3 + m.deepest/depthPerNode
		}
	case '\n', '\r', 0x85, 0xa8, 0xa9:
		// The last three are the final bytes of line breaks that are not ASCII.
		m.lines++
	}
	if c > ' ' && c < 0x80 {
		return
	}
	switch {
	case m.before == [2]byte{'-', '-'} || m.before == [2]byte{'.', '.'}:
		// A document and its content.
		m.nodes += 2
	case m.before[1] == '-':
		m.nodes++
	}
}

// follow tracks the start of lines.
func (m *meter) follow(c byte) {
	switch {
	case c == '\n' || c == '\r' || c >= 0x80:
		// Every non-ASCII byte may end a line break.
		m.indent, m.directive, m.text = 0, 0, false
	case m.directive > 0 || c == '%' && m.indent == 0 && !m.text:
		m.directive++
		m.longest = max(m.longest, m.directive)
	case m.text:
	case c == ' ' || c == '\t' || c == '-' || c == '?' || c == ':':
		m.indent++
		m.deepest = max(m.deepest, m.indent)
	default:
		m.text = true
	}
}
