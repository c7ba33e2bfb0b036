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
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/handpack"
)

// hostile returns a repository on a host that sends the given responses.
func hostile(t *testing.T, host *handpack.Server) Remote {
	t.Helper()
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	return Remote{URL: server.URL + "/fleet", Network: onLoopback}
}

// sizes returns the sizes of the files of a branch, and what reading those says that can't be read.
func sizes(t *testing.T, clones *Clones, remote Remote) (sizes map[string]int64, unreadable []string) {
	t.Helper()
	g := NewWithT(t)
	checkout, err := clones.Checkout(t.Context(), remote, "main")
	g.Expect(err).NotTo(HaveOccurred())
	sizes = map[string]int64{}
	g.Expect(checkout.EachFile(t.Context(), "", func(file *File) (bool, error) {
		sizes[file.Path] = file.Size
		if _, err := file.Read(); err != nil {
			unreadable = append(unreadable, err.Error())
		}
		return true, nil
	})).To(Succeed())
	g.Expect(checkout.Close()).To(Succeed())
	return sizes, unreadable
}

func TestAFileThatIsTooLargeIsLeftOut(t *testing.T) {
	zeros, ones := strings.Repeat("\x00", MaxFile), strings.Repeat("\x01", MaxFile)
	for _, test := range []struct {
		name   string
		config map[string]string
		// most is the maximum number of bytes on disk.
		most int64
	}{
		{name: "by a host that sends it", most: 1 << 17},
		{name: "by a host that filters", config: map[string]string{"uploadpack.allowFilter": "true"}, most: 1 << 16},
		{name: "by a host that filters, but not by size", config: map[string]string{
			"uploadpack.allowFilter": "true", "uploadpackfilter.allow": "false", "uploadpackfilter.blob:none.allow": "true",
		}, most: 1 << 17},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			s, clones := newServer(t), newClones(t)
			r := s.newRepository(t, "fleet")
			for key, value := range test.config {
				r.git("config", key, value)
			}
			r.commit("main", map[string]file{"app.yaml": {"100644", "a"}, "large": {"100644", ones}, "larger": {"100644", zeros + "\x00"}})
			found, unreadable := sizes(t, clones, s.remote("fleet"))
			g.Expect(found).To(Equal(map[string]int64{"app.yaml": 1, "large": MaxFile, "larger": MaxFile + 1}))
			g.Expect(unreadable).To(Equal([]string{"larger: the file is larger than 33554432 bytes, or its delta base is"}))

			r.commit("main", map[string]file{"app.yaml": {"100644", "ab"}, "large": {"100644", ones}, "larger": {"100644", zeros + "\x00\x00"}})
			found, _ = sizes(t, clones, s.remote("fleet"))
			g.Expect(found["app.yaml"]).To(BeEquivalentTo(2), "the next one is fetched upon it")

			checkout := checkOut(t, s.remote("fleet"), "main")
			commit, err := checkout.Commit(map[string][]byte{"app.yaml": []byte("abc")}, "m", robot, noon, Signer{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(checkout.Push(t.Context(), commit, "promotion", "")).To(Succeed())
			g.Expect(r.git("rev-parse", "promotion:larger")).To(Equal(r.git("rev-parse", "main:larger")), "it stays as it is")
		})
	}
}

func TestADirectoryThatIsTooLarge(t *testing.T) {
	directory := func(t *testing.T, size int) (*server, Remote) {
		s := newServer(t)
		r := s.newRepository(t, "bomb")
		blob := plumbing.NewHash(run(t, r.dir, []byte("x"), "hash-object", "-w", "--stdin"))
		var body bytes.Buffer
		for i := 0; body.Len() <= size; i++ {
			fmt.Fprintf(&body, "100644 %0200d\x00%s", i, blob[:])
		}
		tree := run(t, r.dir, body.Bytes(), "hash-object", "-t", "tree", "-w", "--stdin")
		r.git("update-ref", "refs/heads/main", r.git("commit-tree", tree, "-m", "m"))
		return s, s.remote("bomb")
	}
	t.Run("is not taken", func(t *testing.T) {
		g := NewWithT(t)
		_, remote := directory(t, MaxFile)
		_, err := newClones(t).Checkout(t.Context(), remote, "main")
		g.Expect(err).To(MatchError(MatchRegexp("has a tree of [0-9]+ bytes, more than the limit of 33554432")))
	})
	t.Run("is read, but not changed", func(t *testing.T) {
		g := NewWithT(t)
		_, remote := directory(t, maxChanged)
		checkout := checkOut(t, remote, "main")
		name := ""
		g.Expect(checkout.EachFile(t.Context(), "", func(file *File) (bool, error) { name = file.Path; return false, nil })).To(Succeed())
		_, err := checkout.Commit(map[string][]byte{name: []byte("y")}, "m", robot, noon, Signer{})
		g.Expect(err).To(MatchError(ContainSubstring("the directories that the commit changes have more than 4194304 bytes")))
	})
}

func TestPacksThatNoGitMakes(t *testing.T) {
	blob := []byte("tag: v1\n")
	tree := handpack.TreeOf(map[string]handpack.Hash{"app.yaml": handpack.HashOf(handpack.Blob, blob)})
	commit := handpack.CommitOf(handpack.HashOf(handpack.Tree, tree))
	whole := []handpack.Entry{{Type: handpack.Commit, Content: commit}, {Type: handpack.Tree, Content: tree}, {Type: handpack.Blob, Content: blob}}
	for _, test := range []struct {
		name string
		pack []handpack.Entry
		says string
	}{
		{name: "an object of type 0", pack: []handpack.Entry{{Type: 0, Content: blob}}, says: "an object of type 0"},
		{name: "a blob that says it has 2^40 bytes", pack: []handpack.Entry{{Type: handpack.Blob, Size: 1 << 40}}, says: "with a file of 1099511627776 bytes, the repository exceeds the limit of 8589934592 bytes"},
		{name: "no commit", pack: whole[1:], says: "object not found"},
		{name: "no directory", pack: whole[:1], says: "reading directory /: tree"},
		{name: "a tree in place of the commit's", pack: []handpack.Entry{whole[0], {Type: handpack.Blob, Content: tree}}, says: "reading directory /: tree"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			host := &handpack.Server{Commit: handpack.HashOf(handpack.Commit, commit), Pack: handpack.Pack(test.pack...)}
			remote, clones := hostile(t, host), newClones(t)
			look := func() error {
				checkout, err := clones.Checkout(t.Context(), remote, "main")
				if err != nil {
					return err
				}
				return errors.Join(checkout.EachFile(t.Context(), "", func(*File) (bool, error) { return true, nil }), checkout.Close())
			}
			g.Expect(look()).To(MatchError(ContainSubstring(test.says)))
			if test.name != "no directory" && test.name != "a tree in place of the commit's" {
				host.Pack = handpack.Pack(whole...)
				g.Expect(look()).To(Succeed(), "it is fetched again")
			}
		})
	}
}

func TestATreeThatIsNone(t *testing.T) {
	for _, test := range []struct{ name, tree, says string }{
		{name: "an entry without a name", tree: "100644", says: "unexpected EOF"},
		{name: "an entry without a hash", tree: "100644 a\x00abc", says: "unexpected EOF"},
		{name: "a mode that is none", tree: "x a\x00" + strings.Repeat("h", 20), says: "invalid syntax"},
		{name: "a name that does not end", tree: "100644 " + strings.Repeat("a", 5000) + "\x00" + strings.Repeat("h", 20), says: "buffer full"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			commit := handpack.CommitOf(handpack.HashOf(handpack.Tree, []byte(test.tree)))
			remote := hostile(t, &handpack.Server{Commit: handpack.HashOf(handpack.Commit, commit), Pack: handpack.Pack(
				handpack.Entry{Type: handpack.Commit, Content: commit}, handpack.Entry{Type: handpack.Tree, Content: []byte(test.tree)})})
			err := checkOut(t, remote, "main").EachFile(t.Context(), "", func(*File) (bool, error) { return true, nil })
			g.Expect(err).To(MatchError(And(ContainSubstring("reading directory /"), ContainSubstring(test.says))))
		})
	}
}

func TestWhatAHostSaysBeforeAPackIsBounded(t *testing.T) {
	g := NewWithT(t)
	written := 0
	host := &handpack.Server{Commit: handpack.Hash{1}, Before: func(w io.Writer) error {
		lines := strings.Repeat(handpack.Line("shallow "+strings.Repeat("1", 40)), 1000)
		for ; written < 1<<30; written += len(lines) {
			if _, err := io.WriteString(w, lines); err != nil {
				return err
			}
		}
		return nil
	}}
	_, err := newClones(t).Checkout(t.Context(), hostile(t, host), "main")
	g.Expect(err).To(MatchError(ContainSubstring("larger than allowed")))
}

func TestLargeAnswersShareMemory(t *testing.T) {
	g := NewWithT(t)
	var first, second, small allowance
	first.hold(maxAdvertisement)
	g.Expect(first.spend(maxAdvertisement)).To(Succeed())
	second.hold(maxAdvertisement)
	g.Expect(second.spend(3 * littleHeld)).To(MatchError(errHeld))
	small.hold(maxAdvertisement)
	g.Expect(small.spend(littleHeld)).To(Succeed(), "a small one does not depend on others")
	first.pass(maxPack)
	g.Expect(first.spend(maxPack)).To(Succeed(), "what is passed on is not held")
	first.release()
	first.release()
	g.Expect(second.spend(littleHeld)).To(Succeed())
	second.release()
	small.release()
	g.Expect(held.TryAcquire(maxHeld)).To(BeTrue(), "all is given back")
	held.Release(maxHeld)
}

func TestAReferenceListIsBounded(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, handpack.Line("# service=git-upload-pack\n")+"0000"+handpack.Line(strings.Repeat("1", 40)+" HEAD\x00shallow\n"))
		for i := 0; err == nil && i < 1<<24; i++ {
			_, err = io.WriteString(w, handpack.Line(fmt.Sprintf("%040x refs/heads/%d\n", i+1, i)))
		}
	}))
	t.Cleanup(server.Close)
	_, _, err := RemoteBranch(t.Context(), Remote{URL: server.URL + "/fleet", Network: onLoopback}, "main")
	g.Expect(err).To(MatchError(ContainSubstring("larger than allowed")))
}

// panicking is a client that panics, as go-git has done on what some hosts sent.
type panicking struct{ transport.Transport }

func (panicking) NewUploadPackSession(*transport.Endpoint, transport.AuthMethod) (transport.UploadPackSession, error) {
	panic("slice bounds out of range")
}

func TestAPanicIsAnErrorOfItsPromotionAlone(t *testing.T) {
	s := newServer(t)
	s.newRepository(t, "fleet").commit("main", map[string]file{"a": {"100644", "x"}})
	t.Run("in a session", func(t *testing.T) {
		g := NewWithT(t)
		clones := newClones(t)
		clones.patience = time.Minute
		clones.connect = func(remote Remote) (*connection, error) {
			conn, err := connect(remote)
			if err == nil {
				conn.client = panicking{conn.client}
			}
			return conn, err
		}
		_, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
		g.Expect(err).To(MatchError(ContainSubstring("slice bounds out of range")))
		clones.connect = connect
		names, _ := read(t, clones, s.remote("fleet"), "main")
		g.Expect(names).To(Equal([]string{"a"}), "the clone is not held any more")
	})
	t.Run("in what holds a clone", func(t *testing.T) {
		g := NewWithT(t)
		clones := newClones(t)
		clones.connect = func(remote Remote) (*connection, error) { return &connection{client: nil, url: remote.URL}, nil }
		_, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
		g.Expect(err).To(MatchError(ContainSubstring("nil pointer")))
		clones.connect = connect
		read(t, clones, s.remote("fleet"), "main")
	})
	t.Run("in what is made of a file", func(t *testing.T) {
		g := NewWithT(t)
		err := checkOut(t, s.remote("fleet"), "main").EachFile(t.Context(), "", func(*File) (bool, error) { panic("oh") })
		g.Expect(err).To(MatchError(ContainSubstring("oh")))
	})
}
