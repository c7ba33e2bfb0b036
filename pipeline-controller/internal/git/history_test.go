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

package git

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"
)

func TestHistory(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.git("config", "uploadpack.allowFilter", "true")
	var commits []string
	for _, content := range []string{"a", "b", "c"} {
		commits = append(commits, r.commit("main", map[string]file{"app.yaml": {"100644", content}}))
	}
	side := r.commit("side", map[string]file{"side.yaml": {"100644", "s"}})
	merge := r.git("commit-tree", commits[2]+"^{tree}", "-p", commits[2], "-p", side, "-m", "Merge\n\nOf two.")
	r.git("update-ref", "refs/heads/main", merge)

	clones := newClones(t)
	history, err := clones.History(t.Context(), s.remote("fleet"), "main", 3)
	g.Expect(err).NotTo(HaveOccurred())
	for hash, want := range map[string]Commit{
		merge:      {Parents: []string{commits[2], side}, Message: "Merge\n\nOf two.\n"},
		commits[2]: {Parents: []string{commits[1]}, Message: "commit\n"},
		side:       {Message: "commit\n"},
		commits[1]: {Parents: []string{commits[0]}, Message: "commit\n"},
	} {
		got, found, err := history.Commit(hash)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(BeTrue())
		g.Expect(got).To(Equal(want))
	}
	for _, hash := range []string{commits[0], strings.Repeat("a", 40), "main", ""} {
		_, found, err := history.Commit(hash)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(BeFalse(), hash)
	}
	_, err = history.store.Find(plumbing.TreeObject, plumbing.NewHash(r.git("rev-parse", "main^{tree}")))
	g.Expect(err).To(HaveOccurred(), "no files come with it")
	g.Expect(history.Close()).To(Succeed())
	g.Expect(history.dir).NotTo(BeADirectory())

	checkout, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.Tip()).To(Equal(Commit{Parents: []string{commits[2], side}, Message: "Merge\n\nOf two.\n"}))
	g.Expect(checkout.Close()).To(Succeed())
}

func TestHistoryIsBounded(t *testing.T) {
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.git("config", "uploadpack.allowFilter", "true")
	root := r.commit("main", map[string]file{"app.yaml": {"100644", "a"}})
	for _, test := range []struct{ name, branch, err string }{
		{"a branch that there is not", "gone", "branch not found"},
		{"a message that is too long", "long", "the repository has a commit of 1310902 bytes, more than the limit of 1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			if test.branch == "long" {
				long := run(t, r.dir, []byte(strings.Repeat("long\n", 1<<18)), "commit-tree", root+"^{tree}", "-p", root)
				r.git("update-ref", "refs/heads/long", long)
			}
			clones := newClones(t)
			_, err := clones.History(t.Context(), s.remote("fleet"), test.branch, 50)
			g.Expect(err).To(MatchError(ContainSubstring(test.err)))
			g.Expect(clones.dir).To(BeADirectory())
		})
	}
	t.Run("a host that sends files with the commits", func(t *testing.T) {
		g := NewWithT(t)
		r.git("config", "uploadpack.allowFilter", "false")
		_, err := newClones(t).History(t.Context(), s.remote("fleet"), "main", 50)
		g.Expect(err).To(MatchError(errNoFilter))
	})
}

func TestParseCommit(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          Commit
	}{
		{"a merge", "tree t\nparent a\nparent b\nauthor x\n\nMerge\n\nparent c\n", Commit{Parents: []string{"a", "b"}, Message: "Merge\n\nparent c\n"}},
		{"a root", "tree t\nauthor x\n\nBegin\n", Commit{Message: "Begin\n"}},
		{"one that is signed, of a signed tag", "tree t\nparent a\nmergetag object o\n parent b\n \n parent c\ngpgsig -----BEGIN\n \n parent d\n\nSigned\n", Commit{Parents: []string{"a"}, Message: "Signed\n"}},
		{"nothing", "", Commit{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(parseCommit(test.content)).To(Equal(test.want))
		})
	}
}
