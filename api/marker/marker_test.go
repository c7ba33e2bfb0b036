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
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var (
	prod = Key{Namespace: "default", Pipeline: "podinfo", Environment: "prod"}

	oldOrInsert = regexp.MustCompile(`«[^»]*»`)
)

const (
	commit = "6fd5a1c1b2c3d4e5f60718293a4b5c6d7e8f9012"
	gitRev = "v1.1.0@sha1:" + commit
)

// expand returns the input and the expected output of a case. M! becomes a marker of prod. The text between « and » is
// what changes to text.
func expand(file, text string) (in, out string) {
	file = strings.ReplaceAll(file, "M!", `{"$promotion": "default:podinfo:prod"}`)
	in = strings.NewReplacer("«", "", "»", "").Replace(file)
	return in, oldOrInsert.ReplaceAllLiteralString(file, text)
}

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string // see expand
		rev  string // "v1.1.0" if empty
		text string // rev if empty
		key  Key    // prod if empty
	}{
		// Plain block style.
		{name: "a plain value", file: "tag: «v1.0.0» # M!\n"},
		{name: "a value in a Kustomization among much else", file: `# A file's own comment
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization

metadata: {name: podinfo,   namespace: prod}
spec:
    postBuild:
        substitute:
            podinfoVersion: «6.2.0»   # M!


            other:    "kept  as it is"
    list:
    - 1.10
    -   2
`},
		{name: "a value at the end of a file without a newline", file: "a: b\ntag: «v1.0.0» # M!"},
		{name: "a value behind several blanks and tabs", file: "tag: \t  «v1.0.0»\t \t# M!\t \n"},
		{name: "a marker without a blank behind the hash", file: "tag: «v1.0.0» #M!\n"},
		{name: "a marker with blanks inside", file: `tag: «v1.0.0» #   {  "$promotion" :"default:podinfo:prod"  }  ` + "\n"},
		{name: "a marker with other keys beside", file: `tag: «v1.0.0» # {"$imagepolicy": "a:b", "$promotion": "default:podinfo:prod"}` + "\n"},
		{name: "a marker behind another tool's", file: `tag: «v1.0.0» # {"$imagepolicy": "flux-system:podinfo"} # M!` + "\n"},
		{name: "a marker before another tool's", file: `tag: «v1.0.0» # M! # {"$imagepolicy": "flux-system:podinfo"}` + "\n"},
		{name: "a marker behind prose", file: "tag: «v1.0.0» # keep in step with the docs # M!\n"},
		{name: "a value with spaces", file: "tag: «one two  three» # M!\n"},
		{name: "a value with a hash in it", file: "tag: «v1#2» # M!\n"},
		{name: "a value with a colon in it", file: "image: «ghcr.io/podinfo:v1» # M!\n", rev: "ghcr.io/podinfo:v2"},
		{name: "a value behind characters of many bytes", file: "größe: «日本語» # M!\n"},
		{name: "a quoted key", file: "\"a # b: c\": «v1» # M!\n'it''s': x\n"},
		{name: "a key with blanks before its colon", file: "tag   : «v1» # M!\n"},
		{name: "an explicit key", file: "? tag\n: «v1» # M!\n"},
		{name: "an explicit key that has the marker", file: "? tag # M!\n: «v1»\n"},
		{name: "a value that is deeply nested", file: "a:\n  b:\n  - c:\n    - d: «v1» # M!\n      e: f\n"},
		{name: "several fields", file: "a: «v1» # M!\nb: v1\nc:\n- «v0» # M!\n- d: 'kept'\n"},
		{name: "a field that already has the value beside one that does not", file: "a: v1.1.0 # M!\nb: «v1» # M!\n"},
		{name: "a duplicated key, which is the reader's to judge", file: "a: «v1» # M!\na: v0\n"},

		// Position of the marker.
		{name: "a marker above", file: "a: b\n# M!\ntag: «v1»\nc: d\n"},
		{name: "a marker above, indented otherwise than its field", file: "a:\n# M!\n    tag: «v1» # why\n"},
		{name: "a marker above a nested field that begins its mapping", file: "a:\n  # M!\n  tag: «v1»\n  b: c\n"},
		{name: "a marker above a list's item", file: "a:\n# M!\n- «v1»\n- v2\n"},
		{name: "a marker above a mapping in a list", file: "images:\n# M!\n- newTag: «v1»\n  name: podinfo\n"},
		{name: "markers above each other", file: "# {\"$promotion\": \"default:podinfo:dev\"}\n# M!\n# {\"$promotion\": \"default:other:prod\"}\ntag: «v1»\n"},
		{name: "a marker above and one behind", file: "# M!\ntag: «v1» # {\"$promotion\": \"default:podinfo:dev\"}\n"},
		{name: "both markers for one field", file: "# M!\ntag: «v1» # M!\n"},
		{name: "two markers behind one field", file: "tag: «v1» # {\"$promotion\": \"default:podinfo:dev\"} # M!\n"},
		{name: "a marker on the key's line of a value below", file: "tag: # M!\n  «v1»\nb: c\n"},
		{name: "a marker behind a value below its key", file: "tag:\n  «v1» # M!\n"},
		{name: "a marker between a key and its value", file: "tag:\n  # M!\n  «v1»\n"},
		{name: "the last field of a file, above which the marker is", file: "a: b\n# M!\ntag: «v1»"},

		// Lists.
		{name: "a list's item", file: "- «v1.0.0» # M!\n- v1.0.0\n"},
		{name: "a list's item that is not indented", file: "args:\n- --flag\n- «v1» # M!\n"},
		{name: "a list in a list", file: "- - «v1» # M!\n  - v2\n"},
		{name: "a mapping in a list", file: "images:\n- name: podinfo\n  newTag: «v1» # M!\n- newTag: v1\n"},
		{name: "a mapping in a list whose first field is marked", file: "images:\n  - newTag: «v1» # M!\n    name: podinfo\n"},
		{name: "a JSON6902 patch", file: "- op: replace\n  path: /spec/ref/tag\n  value: «v1.0.0» # M!\n- op: remove\n  path: /a\n"},

		// Types.
		{name: "a value that would read as a float is quoted", file: "version: «6.2.0» # M!\n", rev: "1.10", text: `"1.10"`},
		{name: "a float is replaced by a string", file: "version: «1.9» # M!\n", rev: "1.10", text: `"1.10"`},
		{name: "a number is no value of the same digits", file: "version: «1.10» # M!\n", rev: "1.10", text: `"1.10"`},
		{name: "a number is replaced by a plain string", file: "version: «1.9» # M!\n", rev: "1.9.1"},
		{name: "an exponent is quoted", file: "tag: «v1» # M!\n", rev: "1e3", text: `"1e3"`},
		{name: "a commit of digits and one e is quoted", file: "tag: «v1» # M!\n", rev: "12345e7", text: `"12345e7"`},
		{name: "a hexadecimal number is quoted", file: "tag: «v1» # M!\n", rev: "0x1F", text: `"0x1F"`},
		{name: "an octal number is quoted", file: "tag: «v1» # M!\n", rev: "0o17", text: `"0o17"`},
		{name: "a number with leading zeros is quoted", file: "tag: «v1» # M!\n", rev: "0123", text: `"0123"`},
		{name: "a number with underscores is quoted", file: "tag: «v1» # M!\n", rev: "1_000", text: `"1_000"`},
		{name: "a sexagesimal number of YAML 1.1 is quoted", file: "tag: «v1» # M!\n", rev: "1:20", text: `"1:20"`},
		{name: "an exponent beyond all floats is quoted", file: "tag: «v1» # M!\n", rev: "12e3456", text: `"12e3456"`},
		{name: "a commit of digits and an e before its last four is quoted", file: "tag: «v1» # M!\n", rev: "123456789012345678901234567890123456e789",
			text: `"123456789012345678901234567890123456e789"`},
		{name: "a hexadecimal number beyond 64 bits is quoted", file: "tag: «v1» # M!\n", rev: "0x1234567890abcdef12345", text: `"0x1234567890abcdef12345"`},
		{name: "a binary number beyond 64 bits is quoted", file: "tag: «v1» # M!\n", rev: "0b" + strings.Repeat("10", 40), text: `"0b` + strings.Repeat("10", 40) + `"`},
		{name: "a float with underscores is quoted", file: "tag: «v1» # M!\n", rev: "1_000.5", text: `"1_000.5"`},
		{name: "a version of three numbers stays plain", file: "tag: «v1» # M!\n", rev: "1.20.300"},
		{name: "a commit with other letters stays plain", file: "tag: «v1» # M!\n", rev: "12e3456a"},
		{name: "a boolean is quoted", file: "tag: «v1» # M!\n", rev: "true", text: `"true"`},
		{name: "a boolean of YAML 1.1 is quoted", file: "tag: «v1» # M!\n", rev: "on", text: `"on"`},
		{name: "null is quoted", file: "tag: «v1» # M!\n", rev: "null", text: `"null"`},
		{name: "a tilde is quoted", file: "tag: «v1» # M!\n", rev: "~", text: `"~"`},
		{name: "infinity is quoted", file: "tag: «v1» # M!\n", rev: ".inf", text: `".inf"`},
		{name: "a date is quoted", file: "tag: «v1» # M!\n", rev: "2026-01-31", text: `"2026-01-31"`},
		{name: "a merge key is quoted", file: "tag: «v1» # M!\n", rev: "<<", text: `"<<"`},
		{name: "a value that begins with an indicator is quoted", file: "tag: «v1» # M!\n", rev: "*a", text: `"*a"`},
		{name: "a value with a comment in it is quoted", file: "tag: «v1» # M!\n", rev: "a # b", text: `"a # b"`},
		{name: "a value with a mapping in it is quoted", file: "tag: «v1» # M!\n", rev: "a: b", text: `"a: b"`},
		{name: "a value that ends in a colon is quoted", file: "tag: «v1» # M!\n", rev: "a:", text: `"a:"`},
		{name: "a chart version with a build stays plain", file: "tag: «v1» # M!\n", rev: "6.5.4+0cdf2ab6ec12"},

		// Quotes.
		{name: "double quotes stay", file: "tag: «\"v1.0.0\"» # M!\n", text: `"v1.1.0"`},
		{name: "single quotes stay", file: "tag: «'v1.0.0'» # M!\n", text: `'v1.1.0'`},
		{name: "quotes stay around a number", file: "a: «'1.9'» # M!\n", rev: "1.10", text: `'1.10'`},
		{name: "quotes and a backslash are escaped in double quotes", file: "a: «\"x\"» # M!\n", rev: `it's "\"`, text: `"it's \"\\\""`},
		{name: "quotes are escaped in single quotes", file: "a: «'x'» # M!\n", rev: `it's "\"`, text: `'it''s "\"'`},
		{name: "a double-quoted value that holds a quote and a hash", file: `a: «"x\" # \\"» # M!` + "\n", text: `"v1.1.0"`},
		{name: "a single-quoted value that holds a quote and a hash", file: `a: «'x'' # \'» # M!` + "\n", text: `'v1.1.0'`},
		{name: "an empty quoted value", file: "a: «\"\"» # M!\n", text: `"v1.1.0"`},
		{name: "an empty single-quoted value", file: "a: «''» # M!\n", text: `'v1.1.0'`},
		{name: "a quoted item", file: "- «'v1'» # M!\n", text: `'v1.1.0'`},

		// Empty values.
		{name: "nothing is filled in", file: "tag:«» # M!\na: b\n", text: " v1.1.0"},
		{name: "nothing behind several blanks is filled in", file: "tag:«»   # M!\n", text: " v1.1.0"},
		{name: "nothing below a marker is filled in", file: "a:\n  # M!\n  tag:«»\nb: c\n", text: " v1.1.0"},
		{name: "nothing at the end of the file is filled in", file: "# M!\ntag:«»", text: " v1.1.0"},
		{name: "nothing is filled in with quotes", file: "tag:«» # M!\n", rev: "1.10", text: ` "1.10"`},
		{name: "an item of nothing is filled in", file: "-«» # M!\n- x\n", text: " v1.1.0"},
		{name: "nothing behind an anchor is filled in", file: "tag: &a«» # M!\nb: *a\n", text: " v1.1.0"},
		{name: "nothing behind a tag is filled in", file: "tag: !!str«» # M!\nb: c\n", text: " v1.1.0"},
		{name: "a tilde is replaced", file: "tag: «~» # M!\n"},
		{name: "null is replaced", file: "tag: «null» # M!\n"},

		// Anchors and tags.
		{name: "an anchor stays", file: "tag: &tag «v1» # M!\nother: *tag\n"},
		{name: "an anchor stays before quotes", file: "tag: &tag  «'v1'» # M!\nother: *tag\n", text: "'v1.1.0'"},
		{name: "a tag stays", file: "tag: !!str «v1» # M!\n"},
		{name: "a verbatim tag stays", file: "tag: !<tag:yaml.org,2002:str> «v1» # M!\n"},
		{name: "a tag and an anchor stay", file: "tag: !!str &a «v1» # M!\nb: *a\n"},
		{name: "an anchor on a line before its value stays", file: "tag: &a # why\n  «v1» # M!\nb: *a\n"},
		{name: "an anchor on the key's line of a list below stays", file: "tags: &a\n- «v1» # M!\nb: *a\n"},
		{name: "an anchor on the key stays", file: "&k tag: «v1» # M!\nb: *k\n"},
		{name: "a merged mapping", file: "a: &a\n  x: y\nb:\n  <<: *a\n  tag: «v1» # M!\n"},

		// Block scalars.
		{name: "a literal of one line", file: "tag: | # M!\n  «v1.0.0»\nb: c\n"},
		{name: "a literal that keeps no newline", file: "tag: |- # M!\n    «v1.0.0»\n"},
		{name: "a literal that keeps all newlines", file: "tag: |+ # M!\n  «v1.0.0»\n\n\nb: c\n"},
		{name: "a folded scalar of one line", file: "tag: >- # M!\n\n  «v1.0.0»\n"},
		{name: "a literal below its marker", file: "# M!\ntag: |\n  «v1.0.0»\n"},
		{name: "a number in a literal stays unquoted", file: "tag: |- # M!\n  «v1»\n", rev: "1.10"},
		{name: "a literal with its indentation given", file: "tag: |2- # M!\n  «v1.0.0»\n"},
		{name: "an item that is a literal", file: "- &a |- # M!\n  «v1.0.0»\n- b\n"},
		{name: "a field behind a literal that holds a marker", file: "doc: |\n  tag: v1 # M!\n\n  # M!\n  tag: v1\ntag: «v1» # M!\n"},
		{name: "a field beside a quoted string that holds a marker", file: "doc: 'tag: v1 # M!'\ntag: «v1» # M!\n"},
		{name: "a field beside quoted lines that hold markers", file: "doc: 'a\n\n  # M!\n\n  tag: v1 # M!\n  '\ntag: «v1» # M!\n"},

		// Flow collections.
		{name: "JSON over several lines", file: "{\n  \"a\": [1, 2],\n  \"tag\": «\"v1\"», # M!\n  \"b\": null\n}\n", text: `"v1.1.0"`},
		{name: "the last field of JSON", file: "{\n  \"tag\": «\"v1\"» # M!\n}\n", text: `"v1.1.0"`},
		{name: "a list in brackets over several lines", file: "a: [\n  v0,\n  «v1», # M!\n  v2 ]\n"},
		{name: "a value that can't be plain in brackets", file: "a: [\n  «v1», # M!\n]\n", rev: "a,b", text: `"a,b"`},
		{name: "a value that parsers of YAML 1.1 can't read plain in brackets", file: "a: [\n  «v1», # M!\n]\n", rev: ":a", text: `":a"`},
		{name: "a list of lists in brackets, each on its line", file: "a: [\n  [x], [\n    «v1» # M!\n  ], {b: c}\n]\n"},
		{name: "a quoted key of JSON without a blank behind its colon", file: "{\n  \"tag\":«\"v1\"» # M!\n}\n", text: `"v1.1.0"`},
		{name: "a marker above a line in brackets", file: "a: {\n  # M!\n  tag: «v1»,\n}\n"},
		{name: "a file with brackets elsewhere", file: "a: {b: [c, {d: e}]}\ntag: «v1» # M!\n"},

		// Files.
		{name: "CRLF stays", file: "a: b\r\ntag: «v1» # M!\r\nc: d\r\n"},
		{name: "CRLF stays below a marker", file: "# M!\r\ntag: «'v1'»\r\n\r\n", text: "'v1.1.0'"},
		{name: "CRLF stays where nothing is filled in", file: "# M!\r\ntag:«»\r\nb: c\r\n", text: " v1.1.0"},
		{name: "CRLF stays in a literal", file: "tag: | # M!\r\n  «v1»\r\nb: c\r\n"},
		{name: "mixed line ends stay", file: "a: b\r\nc: d\ntag: «v1» # M!\r\ne: f\rg: «v1» # M!\n"},
		{name: "a line end of YAML 1.1 counts", file: "a: 'x\u2028 y\u0085 z'\ntag: «v1» # M!\n"},
		{name: "a byte order mark stays", file: "\ufefftag: «v1» # M!\na: b\n"},
		{name: "a byte order mark and a comment stay", file: "\ufeff# M!\ntag: «v1»\n"},
		{name: "a byte order mark of a later document stays", file: "a: b\n---\n\ufefftag: «v1» # M!\n"},
		{name: "several documents", file: "---\na: «v1» # M!\n---\nb: v1\n...\n---\n# M!\nc: «v1»\n"},
		{name: "documents of comments only", file: "# nothing\n---\n# here\n---\ntag: «v1» # M!\n---\n# end\n"},
		{name: "empty documents", file: "---\n---\n\n---\ntag: «v1» # M!\n---\n"},
		{name: "directives", file: "%YAML 1.1 # why\n%TAG ! tag:example.com,2000:\n---\na: !b c\ntag: «v1» # M!\n"},
		{name: "a List", file: "kind: List\nitems:\n- kind: A\n  spec:\n    tag: «v1» # M!\n- kind: B\n  spec: {tag: v1}\n"},
		{name: "trailing blanks and blank lines stay", file: "a: b   \n\n\n \t\ntag: «v1» # M!   \n\n  \n"},
		{name: "a Helm template that parses, beside", file: "a: {{ .Values.x }}\ntag: «v1» # M!\n"},

		// Keys.
		{name: "only the marker of this environment", file: "a: v1 # {\"$promotion\": \"default:podinfo:dev\"}\nb: «v1» # M!\n"},
		{name: "only the marker of this very name", file: "a: v1 # {\"$promotion\": \"default:podinfo:production\"}\nb: v1 # {\"$promotion\": \"default:podinfo:PROD\"}\nc: «v1» # M!\n"},
		{name: "only the marker of this pipeline and namespace", file: "a: v1 # {\"$promotion\": \"default:other:prod\"}\nb: v1 # {\"$promotion\": \"other:podinfo:prod\"}\nc: «v1» # M!\n"},
		{name: "broken markers of others", file: "a: v1 # {\"$promotion\": \"default:podinfo:dev}\nb: v1 # {$promotion: x}\nc: «v1» # M!\n"},
		{name: "an environment with a colon", file: "a: «v1» # {\"$promotion\": \"default:podinfo:eu:west\"}\n", key: Key{"default", "podinfo", "eu:west"}},
		{name: "an environment with a colon and a part", file: "a: «v1» # {\"$promotion\": \"default:podinfo:eu:west:tag\"}\nb: v1 # {\"$promotion\": \"default:podinfo:eu:tag\"}\n", key: Key{"default", "podinfo", "eu:west"}, rev: gitRev, text: "v1.1.0"},
		{name: "an environment that is called like a part", file: "a: «v1» # {\"$promotion\": \"default:podinfo:tag\"}\n", key: Key{"default", "podinfo", "tag"}},
		{name: "an environment that ends like a part", file: "a: v1 # {\"$promotion\": \"default:podinfo:prod:tag\"}\nb: «v1» # {\"$promotion\": \"default:podinfo:prod:tag:tag\"}\n", key: Key{"default", "podinfo", "prod:tag"}, rev: gitRev, text: "v1.1.0"},
		{name: "an environment with a space and a hash", file: "a: «v1» # {\"$promotion\": \"default:podinfo:a # b\"}\n", key: Key{"default", "podinfo", "a # b"}},
		{name: "an environment with quotes, escaped as in JSON", file: `a: «v1» # {"$promotion": "default:podinfo:\"a\\b\""}` + "\n", key: Key{"default", "podinfo", `"a\b"`}},
		{name: "an environment whose letters JSON escapes", file: `a: «v1» # {"$promotion": "default:podinfo:pr\u006fd"}` + "\n"},
		{name: "an environment with letters of other scripts", file: "a: «v1» # {\"$promotion\": \"default:podinfo:Größe-本\"}\n", key: Key{"default", "podinfo", "Größe-本"}},

		// Parts.
		{name: "the whole revision", file: "a: «v1» # M!\n", rev: gitRev},
		{name: "the tag", file: "a: «v1» # {\"$promotion\": \"default:podinfo:prod:tag\"}\n", rev: gitRev, text: "v1.1.0"},
		{name: "the digest", file: "a: «x» # {\"$promotion\": \"default:podinfo:prod:digest\"}\n", rev: gitRev, text: "sha1:" + commit},
		{name: "the commit", file: "a: «x» # {\"$promotion\": \"default:podinfo:prod:commit\"}\n", rev: gitRev, text: commit},
		{name: "the tag of a chart", file: "a: «x» # {\"$promotion\": \"default:podinfo:prod:tag\"}\n", rev: "1.2.3"},
		{name: "a tag that would read as a float", file: "a: «x» # {\"$promotion\": \"default:podinfo:prod:tag\"}\n", rev: "1.10@sha1:" + commit, text: `"1.10"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			rev, text, key := tt.rev, tt.text, tt.key
			if rev == "" {
				rev = "v1.1.0"
			}
			if text == "" {
				text = rev
			}
			if key == (Key{}) {
				key = prod
			}
			in, want := expand(tt.file, text)

			out, n, err := Set("app.yaml", []byte(in), key, rev)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(out)).To(Equal(want))
			g.Expect(n).To(BeNumerically(">=", len(oldOrInsert.FindAllString(tt.file, -1))))

			again, m, err := Set("app.yaml", out, key, rev)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(again)).To(Equal(want), "a second time changes nothing")
			g.Expect(m).To(Equal(n))

			listed := List([]byte(in), key, rev)
			g.Expect(listed).NotTo(BeEmpty())
			for _, marker := range listed {
				g.Expect(marker.Key).To(Equal(key))
				g.Expect(marker.Err).NotTo(HaveOccurred())
			}
		})
	}
}

func TestSetLeavesAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		file   string
		fields int
	}{
		{"an empty file", "", 0},
		{"a file without markers", "tag: v1\n", 0},
		{"a file that is not YAML and has no marker", "{{ if }}: [\n", 0},
		{"a file that is not YAML and has another's marker", "{{ if }}: [ # {\"$promotion\": \"default:podinfo:dev\"}\n", 0},
		{"a value that is already there", "tag: v1.1.0 # M!\n", 1},
		{"a quoted value that is already there, written differently", `tag: "v1.\x31.0" # M!` + "\n", 1},
		{"a literal that is already there", "tag: | # M!\n  v1.1.0\n", 1},
		{"a commented-out field with its marker", "# tag: v1 # M!\nother: x\n", 0},
		{"an indented commented-out field", "a:\n  b: c\n  #- v1 # M!\n", 0},
		{"prose about markers", "# Write # M! behind the field.\na: v1\n", 0},
		{"a marker in a literal", "doc: |\n  # M!\n  tag: v1 # M!\n", 0},
		{"a marker in a folded scalar", "doc: >\n  tag: v1 # M!\n", 0},
		{"a marker in a literal that is not indented more than its item", "- |\n tag: v1 # M!\n- x\n", 0},
		{"a marker in a double-quoted string", `doc: "tag: v1 # {'$promotion': default:podinfo:prod}"` + "\n", 0},
		{"a marker in a single-quoted string", "doc: 'tag: v1 # M!'\n", 0},
		{"a marker in a quoted key", "'tag: v1 # M!': x\n", 0},
		{"a marker without its hash", "tag: 'v1 M!'\n", 0},
		{"a word that looks like a marker", "tag: v1 # see $promotion\n", 0},
		{"a marker in capitals", "tag: v1 # {\"$Promotion\": \"default:podinfo:prod\"}\n", 0},
		{"an environment whose name begins alike", "tag: v1 # {\"$promotion\": \"default:podinfo:prod-eu\"}\n", 0},
		{"a broken marker for an environment whose name begins alike", "tag: v1 # {\"$promotion\": \"default:podinfo:prod-eu\"\n", 0},
		{"a marker with too few segments", "tag: v1 # {\"$promotion\": \"default:podinfo\"}\n", 0},
		{"a file in UTF-16", "\xff\xfet\x00a\x00g\x00", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			in, _ := expand(tt.file, "")
			out, n, err := Set("app.yaml", []byte(in), prod, "v1.1.0")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(n).To(Equal(tt.fields))
			g.Expect(string(out)).To(Equal(in))
		})
	}
}

func TestSetRefuses(t *testing.T) {
	part := func(p string) string { return `{"$promotion": "default:podinfo:prod:` + p + `"}` }
	for _, tt := range []struct {
		name string
		file string
		rev  string // "v1.1.0" if empty
		err  string
	}{
		{"a mapping", "image: # M!\n  tag: v1\n", "", "app.yaml:1: the marked field is a mapping or a list"},
		{"a list", "a: b\ntags: # M!\n- v1\n", "", "app.yaml:2: the marked field is a mapping or a list"},
		{"a mapping with an anchor", "image: &a # M!\n  tag: v1\n", "", "app.yaml:1: the marked field is a mapping or a list"},
		{"an empty mapping", "image: {} # M!\n", "", "app.yaml:1: the marked field is a mapping or a list"},
		{"an alias", "a: &a v1\ntag: *a # M!\n", "", "app.yaml:2: the marked value is the alias *a: mark the field with the anchor &a"},
		{"a mapping on one line", "image: {tag: v1} # M!\n", "", "app.yaml:1: more than one field"},
		{"a list on one line", "tags: [v1] # M!\n", "", "app.yaml:1: more than one field"},
		{"a mapping on one line that is an item", "- {tag: v1} # M!\n", "", "app.yaml:1: more than one field"},
		{"a mapping on a line of its own", "image:\n  {tag: v1} # M!\n", "", "app.yaml:2: more than one field"},
		{"a mapping on the line below its anchor", "image: &a\n  {tag: v1} # M!\n", "", "app.yaml:2: more than one field"},
		{"a mapping on one line below the marker", "# M!\nimage: {tag: v1}\n", "", "app.yaml:1: more than one field"},
		{"two fields on one line", "{\n  a: b, tag: v1 # M!\n}\n", "", "app.yaml:2: more than one field"},
		{"the end of a list in brackets", "a: [\n  v1 ] # M!\n", "", "app.yaml:2: the value is not alone on the marked line"},
		{"nothing in brackets", "{\n  tag: , # M!\n}\n", "", "app.yaml:2: no value can be filled in here"},
		{"a key of a set", "a: b\n# M!\n? tag\n", "", "app.yaml:2: no value can be filled in here"},
		{"a Helm value", "tag: {{ .Values.tag }} # M!\n", "", "app.yaml:1: more than one field"},
		{"a plain value of several lines", "tag: # M!\n  v1\n  v2\n", "", "app.yaml:1: the marked value is not written on one line"},
		{"a quoted value of several lines", "# M!\ntag: 'v1\n  v2'\n", "", "app.yaml:1: the marked value is not written on one line"},
		{"a double-quoted value that is continued", "# M!\ntag: \"v1\\\n  v2\"\n", "", "app.yaml:1: the marked value is not written on one line"},
		{"a literal of several lines", "tag: | # M!\n  v1\n  v2\n", "", "app.yaml:1: the marked value is not written on one line"},
		{"an empty literal", "tag: | # M!\nb: c\n", "", "app.yaml:1: the marked value is not written on one line"},
		{"a value with a tag of another type", "tag: !!float 1.9 # M!\n", "", "app.yaml:1: the marked value is tagged !!float"},
		{"a value with a tag of its own", "tag: !Ref v1 # M!\n", "", "app.yaml:1: the marked value is tagged !Ref"},
		{"a marker above a blank line", "# M!\n\ntag: v1\n", "", "app.yaml:1: no field is on the marked line"},
		{"a marker above another comment", "# M!\n# tag: v0\ntag: v1\n", "", "app.yaml:1: no field is on the marked line"},
		{"a marker at the end of the file", "tag: v1\n# M!\n", "", "app.yaml:2: no field is on the marked line"},
		{"a marker above the end of a document", "tag: v1\n# M!\n---\na: b\n", "", "app.yaml:2: no field is on the marked line"},
		{"a marker in a document of comments", "tag: v1\n---\n# M!\n", "", "app.yaml:3: no field is on the marked line"},
		{"a marker behind the beginning of a document", "--- # M!\ntag: v1\n", "", "app.yaml:1: no field is on the marked line"},
		{"a document that is a value", "v1 # M!\n", "", "app.yaml:1: no field is on the marked line"},
		{"a marker behind the end of a quoted value of several lines", "tag: 'v1\n  v2' # M!\n", "", "app.yaml:2: no field is on the marked line"},

		{"a marker that is not closed", "a: b\ntag: v1 # {\"$promotion\": \"default:podinfo:prod\"\n", "", "app.yaml:2: the marker is not a JSON object: unexpected EOF"},
		{"a marker in single quotes", "tag: v1 # {'$promotion': 'default:podinfo:prod'}\n", "", "app.yaml:1: the marker is not a JSON object"},
		{"a marker without braces", "tag: v1 # $promotion: default:podinfo:prod\n", "", "app.yaml:1: the marker is not a JSON object"},
		{"a broken marker above", "# {\"$promotion\": default:podinfo:prod}\ntag: v1\n", "", "app.yaml:1: the marker is not a JSON object"},
		{"a marker whose value is a list", "tag: v1 # {\"$promotion\": [\"default:podinfo:prod\"]}\n", "", `app.yaml:1: the marker's "$promotion" is not a string`},
		{"a marker with text after it", "tag: v1 # M! please\n", "", "app.yaml:1: the marker's comment has text after its JSON object"},
		{"an unknown part", "tag: v1 # " + part("sha") + "\n", gitRev, `app.yaml:1: the marker's part "sha" is unknown: use tag, digest or commit`},
		{"an empty part", "tag: v1 # " + part("") + "\n", gitRev, `app.yaml:1: the marker's part "" is unknown`},
		{"a part in capitals", "tag: v1 # " + part("Tag") + "\n", gitRev, `app.yaml:1: the marker's part "Tag" is unknown`},
		{"two parts for one field", "# " + part("tag") + "\ntag: v1 # " + part("commit") + "\n", gitRev, "app.yaml:2: the field is marked twice"},
		{"the digest of a chart", "tag: v1 # " + part("digest") + "\n", "1.2.3", `app.yaml:1: revision "1.2.3" has no digest`},
		{"the commit of an OCI artifact", "tag: v1 # " + part("commit") + "\n", "v1@sha256:" + commit, "has no commit"},
		{"the tag of a commit", "tag: v1 # " + part("tag") + "\n", "sha1:" + commit, "has no tag"},
		{"a revision of nothing but blanks", "tag: |-1  # M!\n v1\n", "  ", "can't be written safely"},
		{"a revision with a newline", "tag: v1 # M!\n", "v1\nb: c", `app.yaml:1: the value "v1\nb: c" can't be written safely`},
		{"a revision with a control character", "tag: 'v1' # M!\n", "v1\x00", "can't be written safely"},
		{"a revision that is not UTF-8", "tag: \"v1\" # M!\n", "v1\xff", "can't be written safely"},
		{"a revision that a literal would lose a blank of", "tag: |- # M!\n  v1\n", " v1.1.0", "can't be edited safely"},

		{"all that is wrong at once", "a: {} # M!\nb: v1 # M!\nc: [] # M!\n", "", "app.yaml:3: the marked field is a mapping or a list"},
		{"more markers than anyone writes", strings.Repeat("- v1 # M!\n", maxMarkers+1), "", "app.yaml:1: more than 1000 markers for default:podinfo:prod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			rev := tt.rev
			if rev == "" {
				rev = "v1.1.0"
			}
			in, _ := expand(tt.file, "")
			out, n, err := Set("app.yaml", []byte(in), prod, rev)
			g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
			g.Expect(errors.Is(err, ErrUnparsable)).To(BeFalse())
			g.Expect(out).To(BeNil())
			g.Expect(n).To(BeZero())

			listed := List([]byte(in), prod, rev)
			g.Expect(listed).To(ContainElement(HaveField("Err", HaveOccurred())), "List reports what Set refuses")
		})
	}
}

func TestSetReportsUnparsableFiles(t *testing.T) {
	for _, tt := range []struct{ name, file string }{
		{"a Helm template", "{{- if .Values.x }}\ntag: v1 # M!\n{{- end }}\n"},
		{"a broken document behind a good one", "tag: v1 # M!\n---\na: [\n"},
		{"a broken document before a good one", "a: 'b\n---\ntag: v1 # M!\n"},
		{"a tab for indentation", "a:\n\tb: v1 # M!\n"},
		{"a hash without a blank before it", "tag: v1# M!\n"},
		{"an unknown alias", "a: *b\ntag: v1 # M!\n"},
		{"bytes that are not UTF-8", "a: \xff\ntag: v1 # M!\n"},
		{"a NUL byte", "a: \x00\ntag: v1 # M!\n"},
		{"nesting beyond the parser's limit", strings.Repeat("[", 20000) + "\n# M!\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			in, _ := expand(tt.file, "")
			out, n, err := Set("app.yaml", []byte(in), prod, "v1.1.0")
			g.Expect(errors.Is(err, ErrUnparsable)).To(BeTrue(), fmt.Sprint(err))
			g.Expect(err.Error()).To(HavePrefix("app.yaml:"))
			g.Expect(out).To(BeNil())
			g.Expect(n).To(BeZero())
			for _, marker := range List([]byte(in), prod, "") {
				g.Expect(errors.Is(marker.Err, ErrUnparsable)).To(BeTrue())
			}
		})
	}
}

func TestSetRefusesToWriteNothing(t *testing.T) {
	g := NewWithT(t)
	in, _ := expand("tag: v1 # M!\n", "")
	out, n, err := Set("app.yaml", []byte(in), prod, "")
	g.Expect(err).To(MatchError("app.yaml:1: there is no revision to write"))
	g.Expect(out).To(BeNil())
	g.Expect(n).To(BeZero())
}

func TestMentions(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Mentions([]byte("tag: v1 # {\"$promotion\": \"a:b:c\"}"))).To(BeTrue())
	g.Expect(Mentions([]byte("tag: v1 # {\"$imagepolicy\": \"a:b\"}"))).To(BeFalse())
}
