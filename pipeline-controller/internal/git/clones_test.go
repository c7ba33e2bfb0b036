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
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// read checks a branch out, and returns the names of the files that were read, of which those with an "x" are of interest.
func read(t *testing.T, clones *Clones, remote Remote, branch string) (names []string, base string) {
	t.Helper()
	g := NewWithT(t)
	checkout, err := clones.Checkout(t.Context(), remote, branch)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.EachFile(t.Context(), func(name string, _ int64, read func() ([]byte, error)) (bool, error) {
		content, err := read()
		names = append(names, name)
		return strings.Contains(string(content), "x"), err
	})).To(Succeed())
	g.Expect(checkout.Close()).To(Succeed())
	return names, checkout.Base()
}

func TestTheNextCheckoutFetchesAndReadsOnlyWhatHasChanged(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	tree := map[string]file{"marked/a": {"100644", "x"}, "marked/b": {"100644", "-"}, "dull/c": {"100644", "--"}, "dull/d": {"100644", "---"}}
	first := r.commit("main", tree)
	clones := newClones(t)

	names, base := read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"dull/c", "dull/d", "marked/a", "marked/b"}))
	g.Expect(base).To(Equal(first))
	received := s.received.Load()

	names, _ = read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"marked/a"}), "nothing else was of interest")
	g.Expect(s.received.Load()).To(Equal(received), "the branch has not moved: nothing is asked for")

	tree["dull/c"] = file{"100644", "now x"}
	second := r.commit("main", tree)
	names, base = read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"dull/c", "marked/a"}))
	g.Expect(base).To(Equal(second))
	g.Expect(s.received.Load()).To(Equal(received+1), "it is asked for once")

	checkout, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).NotTo(HaveOccurred())
	defer checkout.Close()
	loose, err := filepath.Glob(checkout.clone.dir + "/objects/??/*")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(loose).To(HaveLen(4), "the commit, two trees and the file that changed")
	hash, err := checkout.Commit(map[string][]byte{"marked/b": []byte("changed")}, "change", robot, noon, Signer{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.Push(t.Context(), hash, "promotion", "")).To(Succeed())
	g.Expect(r.git("show", "promotion:marked/b")).To(Equal("changed"))
	g.Expect(r.git("show", "promotion:dull/d")).To(Equal("---"))
}

func TestHistoryThatIsRewrittenIsFollowed(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	clones := newClones(t)
	for i := range 3 {
		r.git("update-ref", "-d", "refs/heads/main")
		commit := r.commit("main", map[string]file{"a": {"100644", fmt.Sprintf("x%d", i)}})
		_, base := read(t, clones, s.remote("fleet"), "main")
		g.Expect(base).To(Equal(commit))
	}
}

func TestAClonesNextUserWaitsForTheOneBefore(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	s.newRepository(t, "fleet").commit("main", map[string]file{"a": {"100644", "x"}})
	clones := newClones(t)
	holder, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).NotTo(HaveOccurred())

	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = clones.Checkout(stopped, s.remote("fleet"), "main")
	g.Expect(err).To(MatchError(context.Canceled))
	impatient := &Clones{dir: clones.dir, clones: clones.clones, patience: time.Millisecond}
	_, err = impatient.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).To(MatchError(ErrBusy))

	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { read(t, clones, s.remote("fleet"), "main") })
	}
	g.Expect(holder.Close()).To(Succeed())
	g.Expect(holder.Close()).To(Succeed(), "closing twice does nothing")
	all.Wait()
}

func TestWhatOneMaySeeIsNotShownToAnother(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	s.newRepository(t, "fleet").commit("main", map[string]file{"a": {"100644", "x"}})
	clones := newClones(t)
	read(t, clones, s.remote("fleet"), "main")

	stranger := s.remote("fleet")
	stranger.Credentials = Credentials{Username: "stranger", Password: "guess"}
	_, err := clones.Checkout(t.Context(), stranger, "main")
	g.Expect(err).To(MatchError(ErrUnauthorized))
	g.Expect(clones.clones).To(HaveLen(2))
}

func TestAFetchThatIsCutOffLeavesNothingBroken(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.commit("main", map[string]file{"a": {"100644", "x"}})
	clones := newClones(t)
	read(t, clones, s.remote("fleet"), "main")
	last := r.commit("main", map[string]file{"a": {"100644", strings.Repeat("x and more", 1000)}})

	s.cutOff.Store(true)
	_, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).To(HaveOccurred())
	s.cutOff.Store(false)
	_, base := read(t, clones, s.remote("fleet"), "main")
	g.Expect(base).To(Equal(last))
}

func TestClonesThatNobodyUsesAreRemoved(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	clones := newClones(t)
	for i := range mostClones + 2 {
		name := fmt.Sprintf("fleet-%d", i)
		s.newRepository(t, name).commit("main", map[string]file{"a": {"100644", "x"}})
		read(t, clones, s.remote(name), "main")
	}
	g.Expect(clones.clones).To(HaveLen(mostClones))
	g.Expect(os.ReadDir(clones.dir)).To(HaveLen(mostClones))

	for _, idle := range clones.clones {
		idle.lastUsed = time.Now().Add(-longestIdle)
	}
	read(t, clones, s.remote("fleet-0"), "main")
	g.Expect(os.ReadDir(clones.dir)).To(HaveLen(1))
}

func TestACloneThatWasAddedToOftenIsMadeAnew(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	clones := newClones(t)
	r.commit("main", map[string]file{"a": {"100644", "x"}})
	read(t, clones, s.remote("fleet"), "main")
	only := clones.clones[keyOf(s.remote("fleet"))]
	only.fetches = mostFetches
	r.commit("main", map[string]file{"a": {"100644", "xx"}})
	read(t, clones, s.remote("fleet"), "main")
	g.Expect(only.fetches).To(Equal(1))
	g.Expect(only.tips).To(HaveLen(1))
}

func TestWhatAnEarlierProcessLeftIsRemoved(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(dir+"/left", nil, 0o600)).To(Succeed())
	clones, err := NewClones(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadDir(dir)).To(BeEmpty())
	g.Expect(clones.Close()).To(Succeed())
	g.Expect(dir).NotTo(BeADirectory())
}
