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
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// Marker is a marker as List finds it.
type Marker struct {
	// Line is that of the marker, counted from 1.
	Line int
	// Key is what the field is marked for, and Part what of the revision is written. What can't be read of them is empty.
	Key  Key
	Part string
	// Err says why the marker keeps its environment from being promoted. What follows is set if there is no error.
	Err error
	// Value is what the field holds, and FieldLine where it is.
	Value     string
	FieldLine int
	// Old is the value as it is written in the file, and New what takes its place.
	Old, New string
}

// anyRevision has all parts, so that only what is wrong in the file is wrong.
var anyRevision = "v0.0.0@sha1:" + strings.Repeat("0", 40)

// keyLike is what a marker that can't be read is told by from other comments: three segments.
var keyLike = regexp.MustCompile(`[^\s"':]:[^\s"':]+:[^\s"':]`)

// List returns the markers of a file in the order of their lines, each with what Set would do about it for rev, or with what is
// wrong whichever the revision if rev is empty. Those fields of only that are not empty choose among the markers. Where only has
// no environment, whatever is behind a third colon is taken for a part; an environment that has colons in its name must be asked
// for.
func List(content []byte, only Key, rev string) []Marker {
	if !Mentions(content) {
		return nil
	}
	src := newSource(content)
	found := src.markers(among(only))
	if len(found) == 0 {
		return nil
	}
	comments := found
	o, err := src.outline(found)
	if err == nil {
		comments, err = o.inComments(found)
	}
	if err != nil {
		return refused(found, err)
	}

	if rev == "" {
		rev = anyRevision
	}
	markers := refused(comments, nil)
	byKey := map[Key]edits{}
	for i, m := range comments {
		if byKey[m.key] == nil {
			byKey[m.key] = edits{}
		}
		edit, err := byKey[m.key].add(o, m, rev)
		if err != nil {
			markers[i].Err = err
			continue
		}
		markers[i].Value, markers[i].FieldLine = edit.old.Value, src.lineOf(edit.start)+1
		markers[i].Old, markers[i].New = src.content[edit.start:edit.end], edit.text
		if edit.start == edit.end {
			// A blank keeps what is filled in apart from what is before it.
			markers[i].New = strings.TrimPrefix(edit.text, " ")
		}
	}
	wrong := checkAll(byKey, o, content)
	for i, m := range markers {
		if err := wrong[m.Key]; err != nil && m.Err == nil {
			markers[i] = Marker{Line: m.Line, Key: m.Key, Part: m.Part, Err: err}
		}
	}
	return markers
}

// refused returns markers that all have the same error, or none.
func refused(found []marker, err error) []Marker {
	markers := make([]Marker, len(found))
	for i, m := range found {
		markers[i] = Marker{Line: m.line + 1, Key: m.key, Part: m.part, Err: err}
	}
	return markers
}

// checkAll tells for which keys Set would refuse the edits as a whole. Most fields are marked for one key only: then all edits
// are looked at together, instead of parsing the file for each key.
func checkAll(byKey map[Key]edits, o *outline, content []byte) map[Key]error {
	together, fields := edits{}, 0
	wrong := map[Key]error{}
	for key, edits := range byKey {
		maps.Copy(together, edits)
		fields += len(edits)
		if len(edits) > maxMarkers {
			wrong[key] = fmt.Errorf("more than %d fields of the file are marked for it", maxMarkers)
		}
	}
	if len(together) == fields && together.verify(o, together.apply(content)) == nil {
		return wrong
	}
	for key, edits := range byKey {
		if wrong[key] == nil {
			wrong[key] = edits.verify(o, edits.apply(content))
		}
	}
	return wrong
}

// among wants the markers that only chooses.
func among(only Key) func(*marker, string) bool {
	return func(m *marker, text string) bool {
		if m.problem != "" {
			return keyLike.MatchString(text) &&
				strings.Contains(text, only.Namespace) && strings.Contains(text, only.Pipeline) && strings.Contains(text, only.Environment)
		}
		if only.Namespace != "" && only.Namespace != m.key.Namespace || only.Pipeline != "" && only.Pipeline != m.key.Pipeline {
			return false
		}
		key := m.key
		switch {
		case only.Environment != "":
			key.Environment = only.Environment
		case m.part == "":
			key.Environment, _, _ = strings.Cut(m.key.Environment, ":")
		}
		if !m.isFor(key) {
			return false
		}
		if key.Environment == "" {
			m.problem = "the marker names no environment: it reads namespace:pipeline:environment"
		}
		return true
	}
}
