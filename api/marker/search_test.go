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
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
)

func TestSearch(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, tt := range []struct {
		name     string
		file     string
		key      Key // prod if empty
		line     int
		mentions bool
	}{
		{name: "no marker", file: "a: b\n"},
		{name: "a marker", file: "a: b\nc: d # M!\n", line: 2, mentions: true},
		{name: "a marker at the very end", file: "a: b\nc: d # M!", line: 2, mentions: true},
		{name: "a marker behind a lot of text", file: strings.Repeat("a: b\n", 10_000) + "c: d # M!\n", line: 10_001, mentions: true},
		{name: "a marker behind a long line", file: "a: " + long + "\nc: d # M!\n", line: 2, mentions: true},
		{name: "a marker with an escape in it", file: "a: b # {\"$promotion\": \"default:podinfo:pr\\u006fd\"}\n", line: 1, mentions: true},
		{name: "a marker with a part", file: "a: b # {\"$promotion\": \"default:podinfo:prod:tag\"}\n", line: 1, mentions: true},
		{name: "a marker that can't be read", file: "a: b # {\"$promotion\": \"default:podinfo:prod\"\n", line: 1, mentions: true},
		{name: "a marker of another environment", file: "a: b # {\"$promotion\": \"default:podinfo:prod-eu\"}\n", mentions: true},
		{name: "a marker of another environment, with an escape elsewhere", file: "a: b # {\"$promotion\": \"default:podinfo:dev\"}\nc: \"\\n\"\n", mentions: true},
		{name: "text about markers", file: "doc: see $promotion\n", mentions: true},
		{name: "a marker behind a byte order mark that doesn't begin the file", file: "a: b\n\ufeff# c: d # M!\n", line: 2, mentions: true},
		{name: "a line too long to look at", file: "a: " + long + " # {\"$promotion\": \"default:podinfo:dev\"}\n", line: 1, mentions: true},
		{name: "a marker in two parts of a long line", file: strings.Repeat("x", 4091) + "M!" + long, line: 1, mentions: true},
		{name: "a long line at the end", file: "a: " + long},
		{name: "a marker of any environment, where none is asked for", file: "a: b # {\"$promotion\": \"default:podinfo:dev\"}\n",
			key: Key{Pipeline: "podinfo"}, line: 1, mentions: true},
		{name: "a marker of any pipeline but the one that is asked for", file: "a: b # M!\n", key: Key{Pipeline: "other"}, mentions: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			if tt.key == (Key{}) {
				tt.key = prod
			}
			in, _ := expand(tt.file, "")
			for _, reader := range []func() (int, bool, error){
				func() (int, bool, error) { return Search(strings.NewReader(in), tt.key) },
				func() (int, bool, error) { return Search(iotest.OneByteReader(strings.NewReader(in)), tt.key) },
			} {
				line, mentions, err := reader()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(line).To(Equal(tt.line))
				g.Expect(mentions).To(Equal(tt.mentions))
			}
		})
	}
}

func TestSearchReportsWhatItCantRead(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("broken")
	_, _, err := Search(iotest.ErrReader(broken), prod)
	g.Expect(err).To(MatchError(broken))
	_, err = Memory(iotest.ErrReader(broken))
	g.Expect(err).To(MatchError(broken))
}
