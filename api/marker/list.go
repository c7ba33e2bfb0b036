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

// Marker is a marker that List found.
type Marker struct {
	// Line of the marker, starting at 1.
	Line int
	// Key that the field is marked for, and Part of the revision that is written. Parts that cannot be read are empty.
	Key  Key
	Part string
	// Err is the reason why the marker blocks promotions into its environment. The fields below are set only if it is
	// nil.
	Err error
	// Value of the field, and FieldLine on which it is written.
	Value     string
	FieldLine int
	// Old is the value as it is written in the file, and New its replacement.
	Old, New string
}

// anyRevision has all parts, so only errors in the file are reported.
var anyRevision = "v0.0.0@sha1:" + strings.Repeat("0", 40)

// keyLike matches three segments. It distinguishes an unreadable marker from other comments.
var keyLike = regexp.MustCompile(`[^\s"':]:[^\s"':]+:[^\s"':]`)

// List returns the markers of a file in the order of their lines. Each has the change that Set would make for rev, or
// the error. If rev is empty, only errors that do not depend on the revision are reported. Non-empty fields of only
// select markers. If only has no environment, everything after a third colon is read as the part, so environments with
// a colon in their name must be selected by name.
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
			// If the value was empty, the edit starts with a blank that is not part of the value.
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

// refused returns the markers, all with the same error, or nothing if there is no error.
func refused(found []marker, err error) []Marker {
	markers := make([]Marker, len(found))
	for i, m := range found {
		markers[i] = Marker{Line: m.line + 1, Key: m.key, Part: m.part, Err: err}
	}
	return markers
}

// checkAll returns the keys for which Set would reject the edits as a whole. Most fields are marked for a single key.
// The edits of those are verified together, so the file is not parsed once for each key.
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

// among returns a filter for the markers that only selects.
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
