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
	// MaxSize is the size in bytes of the largest file whose markers are set.
	MaxSize = 8 << 20
	// MaxMemory is how many bytes of memory setting the markers of one file may take, as Memory estimates it. That is enough for a
	// million keys and values.
	MaxMemory = 320 << 20
)

// CheckSize returns an error for a file whose markers are not set since it is larger than MaxSize.
func CheckSize(size int64) error {
	if size > MaxSize {
		return fmt.Errorf("the file has a marker and %d bytes, more than the limit of %d: split the file", size, MaxSize)
	}
	return nil
}

// CheckMemory returns an error for a file whose markers are not set since that may take more than MaxMemory.
func CheckMemory(memory int64) error {
	if memory > MaxMemory {
		return fmt.Errorf("setting its markers may take %d MiB of memory, more than the limit of %d MiB: split the file", memory>>20, MaxMemory>>20)
	}
	return nil
}

// Memory estimates how many bytes of memory Set takes for a file, its content included. It is never less than what is taken.
func Memory(content io.Reader) (int64, error) {
	var m meter
	_, err := io.Copy(&m, content)
	return m.memory(), err
}

// check refuses what takes too much to parse.
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

// What the parser, and what is kept of the file, take in bytes of memory. See TestMemory for how that was found.
const (
	perByte = 10
	perLine = 24
	perNode = 240
	// depthPerNode is how deep a comment has to be to take as much time as memory: the parser compares each comment with each
	// indentation that ends behind it.
	depthPerNode = 128
)

// meter counts the nodes that the parser can find in what is written to it, and more rather than fewer. It knows nothing of
// quotes and comments, which hold indicators that aren't any.
type meter struct {
	bytes, lines, nodes int64
	// before are the last two bytes.
	before [2]byte
	// indent is how many bytes of the line can be its indentation so far, indicators included; deepest is the most of any line.
	indent, deepest int64
	text            bool // the line's indentation has ended
	// directive is the length of the line so far if it may be a directive; longest is that of the longest one. A directive may
	// make each tag longer by what it says.
	directive, longest, tags int64
}

func (m *meter) memory() int64 {
	// A document begins without an indicator, and may end with one.
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

// count counts what c is, and what is before c if only c tells.
func (m *meter) count(c byte) {
	switch c {
	case '[':
		m.nodes++
	case '{', ',', ':', '?', '&':
		// A key and a value. An anchor has no node of its own, but a place among the anchors.
		m.nodes += 2
	case '!':
		m.tags++
	case '#':
		if m.before[1] != '#' {
			m.nodes += 3 + m.deepest/depthPerNode
		}
	case '\n', '\r', 0x85, 0xa8, 0xa9:
		// The last three are how the ends of lines end that aren't ASCII.
		m.lines++
	}
	if c > ' ' && c < 0x80 {
		return
	}
	switch {
	case m.before == [2]byte{'-', '-'} || m.before == [2]byte{'.', '.'}:
		// A document, and what is in it.
		m.nodes += 2
	case m.before[1] == '-':
		m.nodes++
	}
}

// follow keeps track of lines.
func (m *meter) follow(c byte) {
	switch {
	case c == '\n' || c == '\r' || c >= 0x80:
		// All that isn't ASCII may end in the end of a line.
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
