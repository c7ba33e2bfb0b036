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

// Package marker sets the YAML fields that have a marker comment for an environment of a pipeline:
//
//	tag: v1.0.0 # {"$promotion": "namespace:pipeline:environment"}
//
// The edit is byte-exact: only the bytes of the marked scalar change.
//
// # Position of a marker
//
// A marker is at the end of the field's line, or in a comment of its own on the line above the field. A field is a
// value of a mapping or an item of a list. The marked line must contain exactly one field, written on one line.
// Anything else is an error with file and line. A field can have several markers: above each other, or one after the
// other as in `# {"$promotion": …} # {"$promotion": …}`. Markers of commented-out fields, in quoted strings and in
// block scalars are ignored.
//
// # Content of a marker
//
// A marker is "namespace:pipeline:environment", optionally followed by ":tag", ":digest" or ":commit", which selects
// the part of the revision that is written. Names of namespaces and pipelines cannot contain a colon, so the
// environment starts after the second colon and can contain any character. This has two consequences. A last segment
// that is a known part is always read as the part: an environment named "prod:tag" can be marked by
// "…:prod:tag:digest", but not by "…:prod:tag". A segment after the environment that is not a known part is an error:
// if a repository has environments "eu" and "eu:west", the marker of the latter blocks promotions into "eu".
package marker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/sluice-toolkit/sluice/api/revision"
)

// ErrUnparsable is matched by the error for a file that contains a marker but is not YAML, such as a Helm template.
var ErrUnparsable = errors.New("not parsable as YAML")

// setter is the key that makes a comment a marker.
const setter = "$promotion"

// maxMarkers limits the work for files that were made to cause work.
const maxMarkers = 1000

// Key identifies the environment that a field is marked for.
type Key struct{ Namespace, Pipeline, Environment string }

// String returns the key as it is written in a marker.
func (k Key) String() string {
	return k.Namespace + ":" + k.Pipeline + ":" + k.Environment
}

// Mentions reports whether content can contain a marker. It is a cheap check before parsing.
func Mentions(content []byte) bool {
	return bytes.Contains(content, []byte(setter))
}

// mayName reports whether content can contain a marker for key. JSON contains a string either as it is or with an
// escape.
func mayName(content []byte, key Key) bool {
	return Mentions(content) && (bytes.Contains(content, []byte(key.String())) || bytes.IndexByte(content, '\\') >= 0)
}

// MayHold reports whether a regular file of this name is searched for markers.
func MayHold(name string) bool {
	extension := path.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}

// Set returns content with the value of every field that is marked for key replaced by rev, or by the part of rev that
// the marker selects. All other bytes are unchanged. n is the number of fields that are marked for key, including those
// whose value does not change. A file without a marker for key is not parsed.
//
// path is only used in errors. All errors in markers for key are returned at once, each with its line, and then nothing
// is changed. An error matches ErrUnparsable if the file as a whole cannot be parsed.
func Set(path string, content []byte, key Key, rev string) (out []byte, n int, err error) {
	if !mayName(content, key) {
		return content, 0, nil
	}
	src := newSource(content)
	markers := src.markers(concerning(key))
	if len(markers) == 0 {
		return content, 0, nil
	}
	first := markers[0].line + 1
	if len(markers) > maxMarkers {
		return nil, 0, fmt.Errorf("%s:%d: more than %d markers for %s are in the file", path, first, maxMarkers, key)
	}
	o, err := src.outline(markers)
	if err != nil {
		return nil, 0, fmt.Errorf("%s:%d: %w", path, first, err)
	}
	if markers, err = o.inComments(markers); err != nil {
		return nil, 0, fmt.Errorf("%s:%d: %w", path, first, err)
	}

	edits := make(edits)
	var errs []error
	for _, m := range markers {
		if _, err := edits.add(o, m, rev); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, m.line+1, err))
		}
	}
	if len(errs) > 0 {
		return nil, 0, errors.Join(errs...)
	}
	out = edits.apply(content)
	if err := edits.verify(o, out); err != nil {
		return nil, 0, fmt.Errorf("%s:%d: %w", path, first, err)
	}
	return out, len(edits), nil
}

// marker is a comment that is a marker or looks like one.
type marker struct {
	line    int  // of the comment, starting at 0
	hash    int  // offset of its '#'
	setter  int  // offset of "$promotion"
	end     int  // offset after it: the end of the line, or the '#' of another marker
	ownLine bool // the line contains nothing else
	key     Key
	part    string
	problem string // why it is not a valid marker
}

// markers returns all comments in src that look like a marker and are wanted. Whether they are really comments is
// checked later. wanted also receives the text of the marker, which is the only content of an unreadable one, and can
// set a problem.
func (s *source) markers(wanted func(m *marker, text string) bool) []marker {
	var found []marker
	for line := range s.starts {
		for _, m := range s.markersOn(line) {
			m.read(s.content[m.hash+1 : m.end])
			if wanted(&m, s.content[m.setter:m.end]) {
				found = append(found, m)
			}
		}
	}
	return found
}

// concerning returns a filter for the markers of key. An unreadable marker is included if it contains the whole name,
// not only a name with the same prefix.
func concerning(key Key) func(*marker, string) bool {
	named := regexp.MustCompile(regexp.QuoteMeta(key.String()) + `($|[^A-Za-z0-9._-])`)
	return func(m *marker, text string) bool {
		if m.problem != "" {
			return named.MatchString(text)
		}
		return m.isFor(key)
	}
}

// markersOn returns the possible markers on a line.
func (s *source) markersOn(line int) []marker {
	text := s.line(line)
	comment, ownLine := strings.CutPrefix(strings.TrimLeft(text, blanks), "#")
	if ownLine && !strings.HasPrefix(strings.TrimLeft(comment, blanks), "{") {
		return nil // prose, or a commented-out field with its marker
	}
	var found []marker
	for from := 0; ; {
		i := strings.Index(text[from:], setter)
		if i < 0 {
			return found
		}
		at := from + i
		if hash := strings.LastIndexByte(text[from:at], '#'); hash >= 0 {
			// A marker ends before the next one, so the time is linear in the length of the line.
			if len(found) > 0 {
				found[len(found)-1].end = s.starts[line] + from + hash
			}
			found = append(found, marker{
				line: line, ownLine: ownLine,
				hash: s.starts[line] + from + hash, setter: s.starts[line] + at, end: s.starts[line] + len(text),
			})
		}
		from = at + len(setter)
	}
}

// read parses the marker's text.
func (m *marker) read(text string) {
	value, problem := promotion(text)
	if problem != "" {
		m.problem = problem
		return
	}
	var rest string
	m.key.Namespace, rest, _ = strings.Cut(value, ":")
	m.key.Pipeline, m.key.Environment, _ = strings.Cut(rest, ":")
	if i := strings.LastIndexByte(m.key.Environment, ':'); i >= 0 {
		if _, known := parts[m.key.Environment[i+1:]]; known {
			m.key.Environment, m.part = m.key.Environment[:i], m.key.Environment[i+1:]
		}
	}
}

// isFor reports whether a readable marker belongs to key.
func (m *marker) isFor(key Key) bool {
	if m.key == key {
		return true
	}
	unknown, ok := strings.CutPrefix(m.key.String(), key.String()+":")
	if ok && m.part == "" {
		m.key, m.part = key, unknown
		m.problem = fmt.Sprintf("the marker's part %q is unknown: use tag, digest or commit", unknown)
		return true
	}
	return false
}

// promotion returns the marker's value in a comment, or the problem with it.
func promotion(text string) (value, problem string) {
	decoder := json.NewDecoder(strings.NewReader(text))
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return "", "the marker is not a JSON object: " + err.Error()
	}
	rest := strings.TrimLeft(text[decoder.InputOffset():], blanks)
	if rest != "" && rest[0] != '#' {
		return "", "the marker's comment has text after its JSON object"
	}
	value, ok := object[setter].(string)
	if !ok {
		return "", fmt.Sprintf("the marker's %q is not a string", setter)
	}
	return value, ""
}

// parts are the valid fourth segments of a marker, and the functions that return that part of a revision.
var parts = map[string]func(rev string) (string, bool){
	"tag":    revision.Tag,
	"commit": revision.Commit,
	"digest": func(rev string) (string, bool) {
		d := revision.Digest(rev)
		return d, d != ""
	},
}

// value returns the part of rev that the marker selects.
func (m *marker) value(rev string) (string, error) {
	if rev == "" {
		return "", errors.New("there is no revision to write")
	}
	part, ok := parts[m.part]
	if !ok {
		return rev, nil
	}
	value, ok := part(rev)
	if !ok {
		return "", fmt.Errorf("revision %q has no %s", rev, m.part)
	}
	return value, nil
}
