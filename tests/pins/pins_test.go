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

// Package pins checks that the actions that CI runs are named by a commit. A tag can be moved to other content.
package pins

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const repository = "../.."

var (
	uses   = regexp.MustCompile(`(?m)\buses:\s*(.+)$`)
	pinned = regexp.MustCompile(`^[^@\s]+@[0-9a-f]{40} # v\d+(\.\d+){0,2}$`)
)

// looseActions returns the actions of a workflow that are not named by a commit, with the version in a comment, as
// dependabot updates it.
func looseActions(workflow string) []string {
	var loose []string
	for _, match := range uses.FindAllStringSubmatch(workflow, -1) {
		if action := strings.TrimSpace(match[1]); !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
			loose = append(loose, action)
		}
	}
	return loose
}

func TestLooseActions(t *testing.T) {
	const commit = "d23441a48e516b6c34aea4fa41551a30e30af803"
	for _, tt := range []struct {
		name, workflow string
		loose          []string
	}{
		{"a commit with its version is pinned", "    - uses: actions/checkout@" + commit + " # v6.1.0\n", nil},
		{"an action of the repository itself is pinned", "    - uses: ./.github/actions/build\n", nil},
		{"a tag is loose", "    - uses: actions/checkout@v6\n", []string{"actions/checkout@v6"}},
		{"a branch is loose", "      uses: fluxcd/flux2/action@main\n", []string{"fluxcd/flux2/action@main"}},
		{"a commit without its version is loose", "    - uses: actions/checkout@" + commit + "\n", []string{"actions/checkout@" + commit}},
		{"an abbreviated commit is loose", "    - uses: actions/checkout@d23441a # v6.1.0\n", []string{"actions/checkout@d23441a # v6.1.0"}},
		{"a tag in a step that is written on one line is loose", "    - {uses: actions/checkout@v6}\n", []string{"actions/checkout@v6}"}},
		{"an image is loose", "    - uses: docker://alpine:3\n", []string{"docker://alpine:3"}},
	} {
		t.Run(tt.name, func(t *testing.T) { NewWithT(t).Expect(looseActions(tt.workflow)).To(Equal(tt.loose)) })
	}
}

func TestActionsArePinnedByCommit(t *testing.T) {
	g := NewWithT(t)
	checked := 0
	g.Expect(filepath.WalkDir(filepath.Join(repository, ".github"), func(path string, entry fs.DirEntry, err error) error {
		if extension := filepath.Ext(path); err != nil || extension != ".yaml" && extension != ".yml" {
			return err
		}
		content, err := os.ReadFile(path)
		g.Expect(looseActions(string(content))).To(BeEmpty(), path)
		checked += len(uses.FindAll(content, -1))
		return err
	})).To(Succeed())
	g.Expect(checked).To(BeNumerically(">", 0))
}
