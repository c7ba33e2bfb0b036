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
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Search looks for markers in a file of any size without reading it into memory. line is the line of the first marker
// that key selects and that List or Set must handle, starting at 1, or 0 if there is none. Non-empty fields of key
// select markers. mentions reports whether there is any text like a marker, for any key. If line is not 0, the rest of
// the file was not read.
func Search(file io.Reader, key Key) (line int, mentions bool, err error) {
	wanted := among(key)
	if key.Namespace != "" && key.Pipeline != "" && key.Environment != "" {
		wanted = concerning(key)
	}
	lines := bufio.NewReader(file)
	for line = 1; err == nil; line++ {
		var text []byte
		text, err = lines.ReadSlice('\n')
		isLong := errors.Is(err, bufio.ErrBufferFull)
		holds := bytes.Contains(text, []byte(setter))
		if isLong {
			holds, err = containsLong(lines, text)
		}
		mentions = mentions || holds
		if holds && line > 1 {
			// A byte order mark counts only at the start of the file. Elsewhere it is text, so the rest of its line is
			// not a comment line.
			text = append([]byte("\n"), text...)
		}
		// A line that is too long to parse may contain any marker.
		if holds && (isLong || len(newSource(text).markers(wanted)) > 0) {
			return line, true, nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return 0, mentions, err
}

// containsLong reports whether a line that starts with text, and continues, may contain a marker.
func containsLong(lines *bufio.Reader, text []byte) (holds bool, err error) {
	var window []byte
	for err = bufio.ErrBufferFull; ; text, err = lines.ReadSlice('\n') {
		// A marker can start in one part and end in the next.
		window = append(window[max(0, len(window)-len(setter)):], text...)
		holds = holds || bytes.Contains(window, []byte(setter))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return holds, err
		}
	}
}
