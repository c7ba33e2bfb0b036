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

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

func TestTheStoryFitsIntoItsColumns(t *testing.T) {
	g := NewWithT(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "story"))
	g.Expect(err).NotTo(HaveOccurred())
	defer out.Close()
	say, long := newNarrator(out), strings.Repeat("größer ", 40)
	say.note(long)
	say.seen("%s", long)
	say.output(long, "    indented\n"+long)
	say.diff(long, "+"+long)

	story, err := os.ReadFile(out.Name())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(string(story), "größer")).To(Equal(6 * 40))
	g.Expect(string(story)).To(And(ContainSubstring("\n      indented\n"), Not(ContainSubstring("\x1b"))))
	for line := range strings.Lines(string(story)) {
		g.Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", columns), line)
	}
}
