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
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzSet asserts for any file and revision that Set does not panic, changes all fields or none, changes only the bytes
// of marked values, writes the expected values, and changes nothing the second time. Everything else parses as before,
// and List predicts the result. M! in the file becomes a marker, so mutations rarely break one.
func FuzzSet(f *testing.F) {
	for _, file := range []string{
		"a: v1 # M!\nb: 'v1' # M!\nc: \"v1\" # M!\n- x\n",
		"# M!\ntag: &a |-\n  v1\nb: *a\n---\n- # M!\n- !!str v1 # M!\n",
		"{\n  \"a\": [1, 2],\n  \"tag\": \"v1\", # M!\n  b: {c: d} # M!\n}\n",
		"\ufeffdoc: |2\n   # M!\n   a: v1 # M!\n\r\ntag: # M!\r\n  'it''s'\r\n? k\n: v # M!\n",
		"a: v1 # {\"$promotion\": \"default:podinfo:prod:tag\"} # {\"$promotion\": \"default:podinfo:dev\"}\n",
		"a: v1 # {\"$promotion\": \"default:podinfo:pr\\u006fd\"}\n",
		"a: {{ .x }} # M!\nb: >\n\n  v1 # M!\n...\n%YAML 1.1\n--- # M!\n&k k: !<tag:yaml.org,2002:str> v1 # M!\n",
	} {
		f.Add([]byte(file), "v1.1.0")
		f.Add([]byte(file), "1.10@sha1:"+commit)
		f.Add([]byte(file), `it's "\": #`)
	}
	f.Fuzz(func(t *testing.T, content []byte, rev string) {
		content = bytes.ReplaceAll(content, []byte("M!"), []byte(`{"$promotion": "default:podinfo:prod"}`))
		in := bytes.Clone(content)
		out, n, err := Set("app.yaml", content, prod, rev)
		if !bytes.Equal(in, content) {
			t.Fatal("the input was written to")
		}
		compareSearch(t, content, n, err)
		var listed []Marker
		if rev != "" {
			listed = List(content, prod, rev)
			compareErrors(t, listed, err)
		}
		if err != nil {
			if out != nil || n != 0 {
				t.Fatalf("an error, but %d fields and %q", n, out)
			}
			return
		}
		if n == 0 {
			if !bytes.Equal(in, out) {
				t.Fatalf("no field, but %q", out)
			}
			if slices.ContainsFunc(listed, func(m Marker) bool { return m.Key == prod }) {
				t.Fatalf("no field, but List has %v", listed)
			}
			return
		}
		compareBytes(t, in, out, listed)
		changed := compareValues(t, decodeAll(t, in), decodeAll(t, out), rev)
		if len(changed) > n {
			t.Fatalf("%d of %d fields changed", len(changed), n)
		}
		compareLines(t, newSource(in), newSource(out), changed)
		again, m, err := Set("app.yaml", out, prod, rev)
		if err != nil || m != n || !bytes.Equal(again, out) {
			t.Fatalf("the second time: %d fields, %v, %q", m, err, again)
		}
	})
}

// compareSearch fails if Search skips a file for which Set has a result, or if the parser found more than was
// estimated.
func compareSearch(t *testing.T, content []byte, n int, err error) {
	t.Helper()
	line, mentions, searchErr := Search(bytes.NewReader(content), prod)
	if searchErr != nil || mentions != Mentions(content) && line == 0 || line == 0 && (n > 0 || err != nil) {
		t.Fatalf("%d fields, %v, but Search found line %d, %t, %v", n, err, line, mentions, searchErr)
	}
	if n == 0 {
		return
	}
	nodes, foreseen := 0, meter{}
	var count func(n *yaml.Node)
	count = func(n *yaml.Node) {
		nodes++
		for _, child := range n.Content {
			count(child)
		}
	}
	_ = parse(content, count)
	if _, _ = foreseen.Write(content); int64(nodes) > foreseen.nodes+4 {
		t.Fatalf("%d nodes, of which %d were foreseen", nodes, foreseen.nodes)
	}
}

// compareErrors fails unless List and Set find errors in the same files. Only List reports unreadable markers, which
// may belong to any key.
func compareErrors(t *testing.T, listed []Marker, err error) {
	t.Helper()
	for _, m := range listed {
		if m.Err != nil && m.Key == prod && err == nil {
			t.Fatalf("nothing wrong, but List says %v", m.Err)
		}
	}
	if err != nil && !slices.ContainsFunc(listed, func(m Marker) bool { return m.Err != nil }) {
		t.Fatalf("List says nothing of %v", err)
	}
}

// compareBytes fails unless out equals in with only the bytes of the listed values replaced. Each value must be a whole
// value, since it is parsed by itself.
func compareBytes(t *testing.T, in, out []byte, listed []Marker) {
	t.Helper()
	before, after := newSource(in), newSource(out)
	seen := map[int]bool{}
	for _, m := range listed {
		line := m.FieldLine - 1
		if m.Err != nil || seen[line] {
			continue // of any key, or two markers of one field
		}
		seen[line] = true
		if m.Old == "" {
			m.New = " " + m.New
		}
		a, b := before.line(line), after.line(line)
		replaced := false
		for i := 0; !replaced && i+len(m.Old) <= len(a); i++ {
			replaced = a[i:i+len(m.Old)] == m.Old && a[:i]+m.New+a[i+len(m.Old):] == b
		}
		if m.Old == m.New {
			replaced = a == b
		}
		if !replaced {
			t.Fatalf("not just %q became %q: line %d, %q, became %q", m.Old, m.New, m.FieldLine, a, b)
		}
		var value string
		if err := yaml.Unmarshal([]byte(m.Old), &value); m.Old != strings.Trim(m.Value, "\n") && (err != nil || value != m.Value) {
			t.Fatalf("%q is not all of the value %q", m.Old, m.Value)
		}
	}
	for i := range before.starts {
		if !seen[i] && before.line(i) != after.line(i) {
			t.Fatalf("line %d is of no marked value: %q became %q", i+1, before.line(i), after.line(i))
		}
	}
}

func decodeAll(t *testing.T, content []byte) (docs []*yaml.Node) {
	t.Helper()
	if err := parse(content, func(doc *yaml.Node) { docs = append(docs, doc) }); err != nil {
		t.Fatalf("%v: %q", err, content)
	}
	return docs
}

// compareValues returns the scalars that differ, and fails if anything other than their values differs.
func compareValues(t *testing.T, before, after []*yaml.Node, rev string) (changed []*yaml.Node) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("%d nodes became %d", len(before), len(after))
	}
	for i, a := range before {
		b := after[i]
		if a.Kind != b.Kind || a.Anchor != b.Anchor || a.Line != b.Line {
			t.Fatalf("%q at %d:%d became another node", a.Value, a.Line, a.Column)
		}
		if a.Value != b.Value || a.Tag != b.Tag {
			written := strings.Trim(b.Value, "\n")
			if b.Kind != yaml.ScalarNode || b.Tag != "!!str" || written == "" || !strings.Contains(rev, written) {
				t.Fatalf("%q became %s %q", a.Value, b.Tag, b.Value)
			}
			changed = append(changed, a)
		}
		changed = append(changed, compareValues(t, a.Content, b.Content, rev)...)
	}
	return changed
}

// compareLines fails unless exactly one line differs for each changed scalar, and only from the start of the scalar.
func compareLines(t *testing.T, before, after *source, changed []*yaml.Node) {
	t.Helper()
	if len(before.starts) != len(after.starts) {
		t.Fatalf("%d lines became %d", len(before.starts), len(after.starts))
	}
	for i := range before.starts {
		a, b := before.line(i), after.line(i)
		if a == b {
			continue
		}
		if len(changed) == 0 {
			t.Fatalf("line %d differs without a value: %q became %q", i+1, a, b)
		}
		n := changed[0]
		changed = changed[1:]
		if i+1 < n.Line || i+1 == n.Line && !strings.HasPrefix(b, string([]rune(a)[:n.Column-1])) {
			t.Fatalf("line %d differs before the value %q: %q became %q", i+1, n.Value, a, b)
		}
	}
	if len(changed) > 0 {
		t.Fatalf("no line differs for the value %q", changed[0].Value)
	}
}
