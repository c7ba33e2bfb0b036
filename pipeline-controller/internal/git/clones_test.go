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
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// read checks a branch out, and returns the names of the files that were read, of which those with an "x" are of
// interest.
func read(t *testing.T, clones *Clones, remote Remote, branch string) (names []string, base string) {
	t.Helper()
	g := NewWithT(t)
	checkout, err := clones.Checkout(t.Context(), remote, branch)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.EachFile(t.Context(), "", func(file *File) (bool, error) {
		content, err := file.Read()
		names = append(names, file.Path)
		return strings.Contains(string(content), "x"), err
	})).To(Succeed())
	g.Expect(checkout.Close()).To(Succeed())
	return names, checkout.Base()
}

func TestTheNextCheckoutFetchesAndReadsOnlyWhatHasChanged(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	tree := map[string]file{"marked/a": {"100644", "x"}, "marked/b": {"100644", "-"}, "bare/c": {"100644", "--"}, "bare/d": {"100644", "---"}}
	first := r.commit("main", tree)
	clones := newClones(t)

	names, base := read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"bare/c", "bare/d", "marked/a", "marked/b"}))
	g.Expect(base).To(Equal(first))
	received := s.received.Load()

	names, _ = read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"marked/a"}), "nothing else was of interest")
	g.Expect(s.received.Load()).To(Equal(received), "the branch has not moved: nothing is asked for")

	tree["bare/c"] = file{"100644", "now x"}
	second := r.commit("main", tree)
	names, base = read(t, clones, s.remote("fleet"), "main")
	g.Expect(names).To(Equal([]string{"bare/c", "marked/a"}))
	g.Expect(base).To(Equal(second))
	g.Expect(s.received.Load()).To(Equal(received+1), "it is asked for once")

	checkout, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
	g.Expect(err).NotTo(HaveOccurred())
	defer checkout.Close()
	hash, err := checkout.Commit(map[string][]byte{"marked/b": []byte("changed")}, "change", robot, noon, Signer{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.Push(t.Context(), hash, "promotion", "")).To(Succeed())
	g.Expect(r.git("show", "promotion:marked/b")).To(Equal("changed"))
	g.Expect(r.git("show", "promotion:bare/d")).To(Equal("---"))
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

func TestURLsOfOneRepositoryHaveOneClone(t *testing.T) {
	named := func(url, repository string) Remote {
		return Remote{URL: url, Repository: repository, Credentials: Credentials{Password: "t0ken"}}
	}
	for _, test := range []struct {
		name string
		a, b Remote
		same bool
	}{
		{"two URLs of a repository of that name", named("ssh://git@one.example/fleet", "fleet"), named("ssh://git@two.example:443/fleet", "fleet"), true},
		{"two URLs without a name", named("ssh://git@one.example/fleet", ""), named("ssh://git@two.example:443/fleet", ""), false},
		{"two repositories", named("https://one.example/fleet", "fleet"), named("https://one.example/other", "other"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(keyOf(test.a) == keyOf(test.b)).To(Equal(test.same))
		})
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
	impatient := &Clones{dir: clones.dir, clones: clones.clones, patience: time.Millisecond, connect: connect}
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

func TestACloneThatWasAddedToOftenIsRecreated(t *testing.T) {
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

// noise is a text that can't be packed any smaller.
func noise(t *testing.T, bytes int) string {
	t.Helper()
	seed := [32]byte{}
	copy(seed[:], t.Name())
	content := make([]byte, bytes)
	_, _ = rand.NewChaCha8(seed).Read(content) // which always succeeds
	return string(content)
}

// onDisk returns the disk use of a directory.
func onDisk(t *testing.T, dir string) (size int64) {
	t.Helper()
	NewWithT(t).Expect(filepath.Walk(dir, func(_ string, info fs.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})).To(Succeed())
	return size
}

func TestAllClonesTogetherAreBoundedOnDisk(t *testing.T) {
	const mebibyte = 1 << 20
	type world struct {
		*WithT
		*server
		clones *Clones
	}
	sizes := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "whole": 7, "huge": 9}
	begin := func(t *testing.T, names ...string) world {
		w := world{NewWithT(t), newServer(t), newClones(t)}
		w.clones.mostOnDisk = 8 * mebibyte
		for _, name := range names {
			w.newRepository(t, name).commit("main", map[string]file{"x": {"100644", noise(t, sizes[name]*mebibyte)}})
		}
		return w
	}
	full := MatchError(ContainSubstring("the repositories in use exceed 8 MiB on disk, and this one is the largest: " +
		"split it, or lower --concurrent-promotions"))
	checkOut := func(t *testing.T, w world, name string) (*Checkout, error) {
		checkout, err := w.clones.Checkout(t.Context(), w.remote(name), "main")
		w.Expect(onDisk(t, w.clones.dir)).To(BeNumerically("<=", w.clones.mostOnDisk))
		if err == nil {
			t.Cleanup(func() { _ = checkout.Close() })
		}
		return checkout, err
	}
	readAll := func(t *testing.T, checkout *Checkout) error {
		return checkout.EachFile(t.Context(), "", func(file *File) (bool, error) { _, err := file.Read(); return true, err })
	}

	t.Run("the longest idle ones go first", func(t *testing.T) {
		w := begin(t, "a", "b", "c", "d", "whole")
		for _, name := range []string{"a", "b", "c", "a", "d"} {
			checkout, err := checkOut(t, w, name)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(checkout.Close()).To(Succeed())
		}
		fetched := w.received.Load()
		for _, name := range []string{"a", "d"} {
			checkout, err := checkOut(t, w, name)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(checkout.Close()).To(Succeed())
		}
		w.Expect(w.received.Load()).To(Equal(fetched), "these are there yet")
		checkout, err := checkOut(t, w, "whole")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(readAll(t, checkout)).To(Succeed())
		w.Expect(w.clones.clones).To(HaveLen(1))
	})
	t.Run("one that has no room by itself fails", func(t *testing.T) {
		w := begin(t, "whole", "huge")
		_, err := checkOut(t, w, "huge")
		w.Expect(err).To(full)
		_, err = checkOut(t, w, "whole")
		w.Expect(err).NotTo(HaveOccurred(), "what it took is free again")
	})
	t.Run("the largest of those in use fails while it is fetched", func(t *testing.T) {
		w := begin(t, "b", "whole")
		small, err := checkOut(t, w, "b")
		w.Expect(err).NotTo(HaveOccurred())
		_, err = checkOut(t, w, "whole")
		w.Expect(err).To(full)
		w.Expect(readAll(t, small)).To(Succeed())
		w.Expect(small.Close()).To(Succeed())
		_, err = checkOut(t, w, "whole")
		w.Expect(err).NotTo(HaveOccurred())
	})
	t.Run("the largest of those in use fails while it is read", func(t *testing.T) {
		w := begin(t, "b", "whole")
		large, err := checkOut(t, w, "whole")
		w.Expect(err).NotTo(HaveOccurred())
		small, err := checkOut(t, w, "b")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(readAll(t, small)).To(Succeed())
		w.Expect(readAll(t, large)).To(full)
		w.Expect(small.Close()).To(Succeed())
		w.Expect(large.Close()).To(Succeed())
		large, err = checkOut(t, w, "whole")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(readAll(t, large)).To(Succeed())
	})
}
