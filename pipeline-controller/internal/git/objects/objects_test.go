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

package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/handpack"
)

// few are limits that small packs reach.
var few = Limits{Pack: 1 << 20, Object: 1000, Unpacked: 20_000, Objects: 20, Disk: 1 << 21}

func unbounded(int64) error { return nil }

func newStore(t *testing.T, limits Limits) *Store {
	t.Helper()
	store, err := Open(t.TempDir(), limits, NewMemory(), unbounded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func add(t *testing.T, store *Store, pack []byte) error {
	return store.Add(t.Context(), io.NopCloser(bytes.NewReader(pack)))
}

func blob(content string) handpack.Entry {
	return handpack.Entry{Type: handpack.Blob, Content: []byte(content)}
}

func upon(back int, delta []byte) handpack.Entry {
	return handpack.Entry{Type: handpack.OffsetDelta, Upon: back, Content: delta}
}

func uponHash(content string, delta []byte) handpack.Entry {
	return handpack.Entry{Type: handpack.HashDelta, Base: handpack.HashOf(handpack.Blob, []byte(content)), Content: delta}
}

// grown is the delta that puts a letter after a text.
func grown(text, letter string) []byte {
	return handpack.Delta(uint64(len(text)), uint64(len(text)+1), handpack.Copy(0, len(text)), handpack.Insert(letter))
}

// contents returns which of the blobs are in the store.
func contents(t *testing.T, store *Store, blobs ...string) (found []string) {
	t.Helper()
	g := NewWithT(t)
	for _, content := range blobs {
		object, err := store.Find(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, []byte(content)))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(object.Size()).To(BeEquivalentTo(len(content)))
		g.Expect(object.Read()).To(BeEquivalentTo(content))
		found = append(found, content)
	}
	return found
}

func TestWhatIsKeptOfAPack(t *testing.T) {
	large := strings.Repeat("x", 1001)
	for _, test := range []struct {
		name    string
		earlier []byte
		pack    []byte
		keeps   []string
		not     []string
	}{
		{name: "objects", pack: handpack.Pack(blob("a"), blob(""), blob("b")), keeps: []string{"a", "", "b"}},
		{name: "an object that is there twice, once", pack: handpack.Pack(blob("a"), blob("a")), keeps: []string{"a"}},
		{name: "a chain of deltas, whole", pack: handpack.Pack(blob("a"), upon(1, grown("a", "b")), upon(1, grown("ab", "c"))), keeps: []string{"a", "ab", "abc"}},
		{name: "several deltas upon one object", pack: handpack.Pack(blob("a"), upon(1, grown("a", "b")), upon(2, grown("a", "c"))), keeps: []string{"a", "ab", "ac"}},
		{name: "deltas that name what they build upon by its hash, in any order",
			pack: handpack.Pack(uponHash("ab", grown("ab", "c")), uponHash("a", grown("a", "b")), blob("a")), keeps: []string{"a", "ab", "abc"}},
		{name: "a delta of nothing", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 0))), keeps: []string{"a", ""}},
		{name: "a delta upon what an earlier pack had", earlier: handpack.Pack(blob("a"), upon(1, grown("a", "b"))),
			pack: handpack.Pack(uponHash("ab", grown("ab", "c"))), keeps: []string{"a", "ab", "abc"}},
		{name: "a blob that is too large is left out, with what builds upon it",
			pack: handpack.Pack(blob("a"), blob(large), upon(1, handpack.Delta(1001, 1, handpack.Copy(0, 1))), blob("b")), keeps: []string{"a", "b"}, not: []string{large, "x"}},
		{name: "a delta that says it makes a large blob is left out, and nothing is made",
			pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1<<40, handpack.Copy(0, 1))), blob("b")), keeps: []string{"a", "b"}},
		{name: "a delta that is large itself is left out",
			pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1, bytes.Repeat([]byte{0}, 1000)))), keeps: []string{"a"}},
		{name: "an empty pack", pack: handpack.Pack()},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			store := newStore(t, few)
			if test.earlier != nil {
				g.Expect(add(t, store, test.earlier)).To(Succeed())
			}
			g.Expect(add(t, store, test.pack)).To(Succeed())
			g.Expect(contents(t, store, append(test.keeps, test.not...)...)).To(Equal(test.keeps))
		})
	}
}

func TestPacksThatAreRefused(t *testing.T) {
	chain := []handpack.Entry{blob(strings.Repeat("x", 999))}
	for len(chain) < few.Objects {
		chain = append(chain, upon(1, handpack.Delta(999, 999, handpack.Copy(0, 999))))
	}
	chain[len(chain)-1] = upon(1, handpack.Delta(999, 1000, handpack.Copy(0, 999), handpack.Insert("y")))
	for _, test := range []struct {
		name string
		pack []byte
		says string
	}{
		{name: "no pack at all", pack: []byte("<html><body>sorry</body></html>"), says: "does not begin as a pack of version 2"},
		{name: "nothing", says: "it ends too early"},
		{name: "a pack that ends too early", pack: handpack.Pack(blob("hello"))[:14], says: "can't be inflated"},
		{name: "a pack without its end", pack: handpack.Pack(blob("hello"))[:30], says: "does not end after its last object"},
		{name: "a pack that continues after its end", pack: append(handpack.Pack(blob("hello")), "more"...), says: "does not end after its last object"},
		{name: "a pack that says it has more objects than it can", pack: []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x14"), says: "too short for 20 objects"},
		{name: "more objects than are allowed", pack: []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x15"), says: "more than 20 files and directories"},
		{name: "a blob that says it has 2^40 bytes", pack: handpack.Pack(handpack.Entry{Type: handpack.Blob, Size: 1 << 40}), says: "with a file of 1099511627776 bytes, the repository exceeds the limit of 20000 bytes"},
		{name: "a size of too many digits", pack: append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), bytes.Repeat([]byte{0xbf}, 30)...), says: "too many digits"},
		{name: "a blob that has less than it says", pack: handpack.Pack(handpack.Entry{Type: handpack.Blob, Size: 6, Content: []byte("hello")}), says: "does not have the 6 bytes that it declares"},
		{name: "a blob that has more than it says", pack: handpack.Pack(handpack.Entry{Type: handpack.Blob, Size: 4, Content: []byte("hello")}), says: "does not have the 4 bytes that it declares"},
		{name: "a large blob that has more than it says", pack: handpack.Pack(handpack.Entry{Type: handpack.Blob, Size: 1001, Content: make([]byte, 30_000)}), says: "does not have the 1001 bytes that it declares"},
		{name: "a delta that has more than it says", pack: handpack.Pack(blob("a"), handpack.Entry{Type: handpack.OffsetDelta, Upon: 1, Size: 2, Content: grown("a", "b")}), says: "does not have the 2 bytes"},
		{name: "an object of type 0", pack: handpack.Pack(handpack.Entry{Type: 0, Content: []byte("a")}), says: "an object of type 0"},
		{name: "an object of type 5", pack: handpack.Pack(handpack.Entry{Type: 5, Content: []byte("a")}), says: "an object of type 5"},
		{name: "a directory that is too large", pack: handpack.Pack(handpack.Entry{Type: handpack.Tree, Content: make([]byte, 1001)}), says: "has a tree of 1001 bytes, more than the limit of 1000"},
		{name: "a blob that is not deflated", pack: append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x33abc"), make([]byte, 30)...), says: "can't be inflated"},
		{name: "a chain that makes more than is allowed", pack: handpack.Pack(chain...), says: "exceeds the limit of 20000 bytes"},
		{name: "a delta upon what is not there", pack: handpack.Pack(uponHash("a", grown("a", "b"))), says: "the base of a delta is missing"},
		{name: "a delta upon itself", pack: handpack.Pack(blob("a"), upon(0, grown("a", "b"))), says: "a delta has no base"},
		{name: "a delta upon what is no entry", pack: handpack.Pack(blob("a"), upon(1, grown("a", "b")), uponHash("ab", grown("ab", "c")), handpack.Entry{Type: handpack.HashDelta, Content: grown("a", "b")}), says: "the base of a delta is missing"},
		{name: "a delta upon an object of another size", pack: handpack.Pack(blob("a"), upon(1, grown("ab", "c"))), says: "needs a base of 2 bytes, not 1"},
		{name: "a delta that makes less than it says", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 3, handpack.Copy(0, 1)))), says: "does not produce the 3 bytes"},
		{name: "a delta that makes more than it says", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1, handpack.Copy(0, 1), handpack.Copy(0, 1)))), says: "does not produce the 1 bytes"},
		{name: "a delta that copies data from outside its base", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 2, handpack.Copy(0, 2)))), says: "copies data from outside its base"},
		{name: "a delta that ends in a copy", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1, []byte{0xff, 0}))), says: "ends too early"},
		{name: "a delta that ends in an insertion", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1, []byte{5, 'a'}))), says: "ends too early"},
		{name: "a delta with a step that means nothing", pack: handpack.Pack(blob("a"), upon(1, handpack.Delta(1, 1, []byte{0}))), says: "ends too early"},
		{name: "a delta without sizes", pack: handpack.Pack(blob("a"), upon(1, []byte{0x80})), says: "a delta has no size"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			store := newStore(t, few)
			g.Expect(add(t, store, test.pack)).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

func TestLimitsOnDisk(t *testing.T) {
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	t.Run("a pack that is too large is cut off", func(t *testing.T) {
		g := NewWithT(t)
		store := newStore(t, few)
		read := bytes.NewReader(append(random, random...))
		g.Expect(store.Add(t.Context(), io.NopCloser(read))).To(MatchError(ContainSubstring("the repository's pack is larger than 1048576 bytes")))
		g.Expect(read.Len()).To(BeNumerically(">", 1<<19))
	})
	t.Run("a store that is full takes no more", func(t *testing.T) {
		g := NewWithT(t)
		limits := few
		limits.Disk = 100
		store := newStore(t, limits)
		g.Expect(add(t, store, handpack.Pack(blob("a")))).To(Succeed())
		pack := handpack.Pack(uponHash("a", grown("a", "b")), uponHash("a", grown("a", "c")))
		g.Expect(add(t, store, pack)).To(MatchError(ContainSubstring("more than 100 bytes on disk")))
	})
	t.Run("what deltas make counts too", func(t *testing.T) {
		g := NewWithT(t)
		limits := few
		limits.Disk = 100
		store := newStore(t, limits)
		pack := handpack.Pack(blob("a"), upon(1, grown("a", "b")), upon(2, grown("a", "c")))
		g.Expect(len(pack)).To(BeNumerically("<", 100))
		g.Expect(add(t, store, pack)).To(MatchError(ContainSubstring("more than 100 bytes on disk")))
	})
}

func TestAStoreIsKeptOnDisk(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	limits := few
	limits.Objects, limits.Unpacked = 10_000, 1<<20
	var all []string
	for round := range 3 {
		store, err := Open(dir, limits, NewMemory(), unbounded)
		g.Expect(err).NotTo(HaveOccurred())
		var entries []handpack.Entry
		for i := range 2000 {
			all = append(all, fmt.Sprintf("blob %d of round %d", i, round))
			entries = append(entries, blob(all[len(all)-1]))
		}
		g.Expect(add(t, store, handpack.Pack(append(entries, blob("in all rounds"))...))).To(Succeed())
		g.Expect(contents(t, store, append(all, "another")...)).To(Equal(all))

		marked, err := store.Find(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, []byte("in all rounds")))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(marked.Marked()).To(Equal(round > 0), "the mark stays")
		g.Expect(marked.Mark()).To(Succeed())
		other, err := store.Find(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, []byte(all[0])))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(other.Marked()).To(BeFalse())
		g.Expect(store.Close()).To(Succeed())
	}
}

func TestManyHashesThatBeginAlike(t *testing.T) {
	g := NewWithT(t)
	i, err := openIndex(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	var records []record
	for n := range 1000 {
		records = append(records, newRecord(plumbing.Hash{7, 7, byte(n >> 8), byte(n)}, plumbing.BlobObject, int64(n), int64(n)))
	}
	g.Expect(i.add(append(slices.Clone(records), newRecord(plumbing.Hash{7, 6}, plumbing.BlobObject, 0, 0)))).To(Succeed())
	for n, r := range records {
		found, _, ok, err := i.find(r.hash())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeTrue())
		g.Expect(found.size()).To(BeEquivalentTo(n))
	}
	for _, missing := range []plumbing.Hash{{}, {7, 6, 1}, {7, 7, 0, 0, 1}, {7, 7, 9}, {7, 8}, {255, 255}} {
		_, _, ok, err := i.find(missing)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeFalse())
	}
	g.Expect(i.close()).To(Succeed())
}

func TestAnObjectIsOfTheKindThatIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	store := newStore(t, few)
	g.Expect(add(t, store, handpack.Pack(blob("a")))).To(Succeed())
	_, err := store.Find(plumbing.TreeObject, plumbing.ComputeHash(plumbing.BlobObject, []byte("a")))
	g.Expect(err).To(MatchError(ErrNotFound))
}

// git runs Git in a directory.
func git(t *testing.T, dir string, in []byte, args ...string) []byte {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir, command.Stdin, command.Stderr = dir, bytes.NewReader(in), os.Stderr
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func TestPacksThatGitMakes(t *testing.T) {
	dir, blobs := t.TempDir(), map[string]string{}
	git(t, dir, nil, "init", "--quiet", "--bare")
	var list strings.Builder
	for file := range 20 {
		var content strings.Builder
		for line := range 400 {
			fmt.Fprintf(&content, "line %d of file %d\n", line, (file+line)%97)
		}
		hash := strings.TrimSpace(string(git(t, dir, []byte(content.String()), "hash-object", "-w", "--stdin")))
		blobs[hash] = content.String()
		fmt.Fprintln(&list, hash)
	}
	for _, test := range []struct {
		name  string
		flags []string
	}{
		{"deltas that say at which offset what they build upon is", []string{"--delta-base-offset"}},
		{"deltas that say by its hash what they build upon", nil},
		{"no deltas", []string{"--window=0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			pack := git(t, dir, []byte(list.String()), append([]string{"pack-objects", "--stdout", "-q"}, test.flags...)...)
			store := newStore(t, Limits{Pack: 1 << 20, Object: 1 << 20, Unpacked: 1 << 24, Objects: 1000, Disk: 1 << 24})
			g.Expect(add(t, store, pack)).To(Succeed())
			for hash, content := range blobs {
				object, err := store.Find(plumbing.BlobObject, plumbing.NewHash(hash))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(object.Read()).To(BeEquivalentTo(content))
			}
		})
	}
}

func TestAPackIsGivenUpWhenTheContextEnds(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(newStore(t, few).Add(ctx, io.NopCloser(bytes.NewReader(handpack.Pack(blob("a")))))).To(MatchError(context.Canceled))
}

func FuzzAdd(f *testing.F) {
	f.Add(handpack.Pack(blob("a"), upon(1, grown("a", "b")), uponHash("ab", grown("ab", "c"))))
	f.Add(handpack.Pack(handpack.Entry{Type: 0}))
	f.Fuzz(func(t *testing.T, pack []byte) {
		store, err := Open(t.TempDir(), few, NewMemory(), unbounded)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := add(t, store, pack); err != nil {
			return
		}
		// Each object that was kept has the content that its hash says.
		err = store.index.each(func(r record) {
			stream, err := store.open(r.at())
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(stream)
			if err != nil || plumbing.ComputeHash(r.kind(), content) != r.hash() {
				t.Fatalf("%s has %q: %v", r.hash(), content, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
