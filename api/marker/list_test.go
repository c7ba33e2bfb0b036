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
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestList(t *testing.T) {
	var (
		dev   = Key{"default", "podinfo", "dev"}
		other = Key{"default", "other", "prod"}
	)
	for _, tt := range []struct {
		name string
		file string
		only Key
		rev  string
		want []Marker
		errs []string // of the markers in order; nil if there are none
	}{
		{name: "no markers", file: "tag: v1\n"},
		{name: "a marker behind its field", file: "a: b\ntag: 'v1' # M!\n", want: []Marker{
			{Line: 2, Key: prod, Value: "v1", FieldLine: 2, Old: "'v1'", New: "'v0.0.0@sha1:0000000000000000000000000000000000000000'"},
		}},
		{name: "markers of several keys above one field, with what each would write",
			file: "# M!\n# {\"$promotion\": \"default:other:prod:tag\"}\ntag: v1 # {\"$promotion\": \"default:podinfo:dev:commit\"}\n",
			rev:  gitRev,
			want: []Marker{
				{Line: 1, Key: prod, Value: "v1", FieldLine: 3, Old: "v1", New: gitRev},
				{Line: 2, Key: other, Part: "tag", Value: "v1", FieldLine: 3, Old: "v1", New: "v1.1.0"},
				{Line: 3, Key: dev, Part: "commit", Value: "v1", FieldLine: 3, Old: "v1", New: commit},
			}},
		{name: "a value that gets quotes", file: "a: 1.9 # M!\n", rev: "1.10", want: []Marker{
			{Line: 1, Key: prod, Value: "1.9", FieldLine: 1, Old: "1.9", New: `"1.10"`},
		}},
		{name: "nothing, which is filled in", file: "a: # M!\n", rev: "v1", want: []Marker{
			{Line: 1, Key: prod, FieldLine: 1, New: "v1"},
		}},
		{name: "a value that is already there", file: "a: !!str v1 # M!\n", rev: "v1", want: []Marker{
			{Line: 1, Key: prod, Value: "v1", FieldLine: 1, Old: "v1", New: "v1"},
		}},
		{name: "a literal", file: "a: | # M!\n  v1\n", rev: "v2", want: []Marker{
			{Line: 1, Key: prod, Value: "v1\n", FieldLine: 2, Old: "v1", New: "v2"},
		}},
		{name: "text that looks like a marker is none", file: "doc: |\n  tag: v1 # M!\nb: 'M!'\n"},
		{name: "prose about markers is none", file: "a: b # $promotion: see the docs\n# see M!\n# tag: v1 # M!\n"},

		{name: "only those of an environment", file: "a: v1 # M!\nb: v1 # {\"$promotion\": \"default:podinfo:dev\"}\n", rev: "v1",
			only: Key{Environment: "dev"}, want: []Marker{{Line: 2, Key: dev, Value: "v1", FieldLine: 2, Old: "v1", New: "v1"}}},
		{name: "only those of a pipeline", file: "a: v1 # M!\nb: v1 # {\"$promotion\": \"default:other:prod\"}\n", rev: "v1",
			only: Key{Pipeline: "other"}, want: []Marker{{Line: 2, Key: other, Value: "v1", FieldLine: 2, Old: "v1", New: "v1"}}},
		{name: "only those of a namespace", file: "a: v1 # M!\n", only: Key{Namespace: "team"}},
		{name: "an environment with a colon, where it is asked for", file: "a: v1 # {\"$promotion\": \"default:podinfo:eu:west\"}\n", rev: "v1",
			only: Key{Environment: "eu:west"},
			want: []Marker{{Line: 1, Key: Key{"default", "podinfo", "eu:west"}, Value: "v1", FieldLine: 1, Old: "v1", New: "v1"}}},
		{name: "an environment with a colon, recognized by the part after it", file: "a: v1 # {\"$promotion\": \"default:podinfo:eu:west:tag\"}\n", rev: "v1",
			want: []Marker{{Line: 1, Key: Key{"default", "podinfo", "eu:west"}, Part: "tag", Value: "v1", FieldLine: 1, Old: "v1", New: "v1"}}},
		{name: "a broken marker of another environment than the one asked for", file: "a: v1 # {\"$promotion\": \"default:podinfo:dev\"\n", only: prod},

		{name: "an unknown part", file: "a: v1 # {\"$promotion\": \"default:podinfo:prod:sha\"}\n",
			want: []Marker{{Line: 1, Key: prod, Part: "sha"}}, errs: []string{`the marker's part "sha" is unknown: use tag, digest or commit`}},
		{name: "a marker of no environment", file: "a: v1 # {\"$promotion\": \"default:podinfo\"}\n",
			want: []Marker{{Line: 1, Key: Key{"default", "podinfo", ""}}}, errs: []string{"names no environment"}},
		{name: "a marker that can't be read", file: "a: v1 # {\"$promotion\": \"default:podinfo:prod\"\n",
			want: []Marker{{Line: 1}}, errs: []string{"the marker is not a JSON object"}},
		{name: "a part that the revision does not have", file: "a: v1 # {\"$promotion\": \"default:podinfo:prod:digest\"}\n", rev: "1.2.3",
			want: []Marker{{Line: 1, Key: prod, Part: "digest"}}, errs: []string{`revision "1.2.3" has no digest`}},
		{name: "a good marker beside one that isn't", file: "a: v1 # M!\nb: {} # M!\n", rev: "v1",
			want: []Marker{{Line: 1, Key: prod, Value: "v1", FieldLine: 1, Old: "v1", New: "v1"}, {Line: 2, Key: prod}},
			errs: []string{"", "the marked field is a mapping or a list"}},
		{name: "a field that is marked for two values", file: "# M!\na: v1 # {\"$promotion\": \"default:podinfo:prod:tag\"}\n",
			want: []Marker{
				{Line: 1, Key: prod, Value: "v1", FieldLine: 2, Old: "v1", New: anyRevision},
				{Line: 2, Key: prod, Part: "tag"},
			},
			errs: []string{"", "the field is marked twice"}},
		{name: "a file that is not YAML", file: "{{ if .x }}\na: v1 # M!\nb: v1 # {\"$promotion\": \"default:podinfo:dev\"}\n",
			want: []Marker{{Line: 2, Key: prod}, {Line: 3, Key: dev}}, errs: []string{"not parsable as YAML", "not parsable as YAML"}},
		{name: "a value that can't be written safely", file: "a: |- # M!\n  v1\n", rev: " v2",
			want: []Marker{{Line: 1, Key: prod}}, errs: []string{"can't be edited safely"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			in, _ := expand(tt.file, "")
			markers := List([]byte(in), tt.only, tt.rev)
			for i := range markers {
				if tt.errs == nil || tt.errs[i] == "" {
					g.Expect(markers[i].Err).NotTo(HaveOccurred())
				} else {
					g.Expect(markers[i].Err).To(MatchError(ContainSubstring(tt.errs[i])))
				}
				markers[i].Err = nil
			}
			g.Expect(markers).To(HaveLen(len(tt.want)))
			for i := range tt.want {
				g.Expect(markers[i]).To(Equal(tt.want[i]))
			}
		})
	}
}

func TestListBoundsWhatAFileMayAskFor(t *testing.T) {
	g := NewWithT(t)
	in, _ := expand(strings.Repeat("- v1 # M!\n", maxMarkers+1), "")
	for _, m := range List([]byte(in), Key{}, "") {
		g.Expect(m.Err).To(MatchError(ContainSubstring("more than 1000 fields")))
	}
}

func TestMayHold(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		want bool
	}{
		{"a manifest is read", "app.yaml", true},
		{"the shorter extension counts too", "deep/down/app.yml", true},
		{"JSON has no comments", "app.json", false},
		{"a template with another extension is not read", "app.yaml.tpl", false},
		{"a file without an extension is not read", "yaml", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(MayHold(tt.file)).To(Equal(tt.want))
		})
	}
}
