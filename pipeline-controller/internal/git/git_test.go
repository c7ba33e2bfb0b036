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
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

const (
	username = "robot"
	password = "s3cr3t/with+odd chars"
	token    = "bearer-0123456789"
)

// onLoopback is where the tests' hosts are.
var onLoopback = hostnet.Network{AllowLoopback: true}

var (
	robot = Author{Name: "Sluice", Email: "sluice@example.com"}
	noon  = time.Date(2026, 5, 4, 12, 0, 0, 0, time.FixedZone("CEST", 2*60*60))
)

// server is a Git host: `git http-backend` over bare repositories, behind
// basic or bearer authentication.
type server struct {
	*httptest.Server
	dir string
	// pushes counts the packs received.
	pushes atomic.Int32
	// received counts the requests for packs.
	received atomic.Int32
	// cutOff ends the answers to these in the middle.
	cutOff atomic.Bool
	// wantsMultiAck refuses requests for packs that do not name the capability, as Azure DevOps does.
	wantsMultiAck bool
	// beforePush, when set, runs as a push arrives, after its lease was checked against the advertisement.
	beforePush func()
	// readOnly refuses pushes with 403.
	readOnly bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{dir: t.TempDir()}
	s.Server = httptest.NewUnstartedServer(s.handler(t))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) handler(t *testing.T) http.Handler {
	gitBinary, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: gitBinary,
		Args: []string{"http-backend"},
		// What it says there is for the host's administrator.
		Stderr: io.Discard,
		Env:    append(gitEnvironment(), "GIT_PROJECT_ROOT="+s.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=robot"),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		if (user != username || pass != password) && r.Header.Get("Authorization") != "Bearer "+token {
			// A host that repeats what it was sent must not get it into an error.
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "refused "+r.Header.Get("Authorization")+" "+pass, http.StatusUnauthorized)
			return
		}
		if s.readOnly && strings.Contains(r.URL.String(), "git-receive-pack") {
			http.Error(w, "read only for "+pass, http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			s.pushes.Add(1)
			if s.beforePush != nil {
				s.beforePush()
			}
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
			s.received.Add(1)
			if s.wantsMultiAck {
				body, err := io.ReadAll(r.Body)
				if err != nil || !bytes.Contains(body, []byte("multi_ack")) {
					http.Error(w, "multi_ack is required", http.StatusBadRequest)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			if s.cutOff.Load() {
				answer := httptest.NewRecorder()
				backend.ServeHTTP(answer, r)
				_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
				panic(http.ErrAbortHandler)
			}
		}
		backend.ServeHTTP(w, r)
	})
}

func (s *server) caBundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (s *server) remote(repository string) Remote {
	return Remote{
		URL:         s.URL + "/" + repository,
		Credentials: Credentials{Username: username, Password: password},
		CABundle:    s.caBundle(),
		Network:     onLoopback,
	}
}

// repository is a bare repository of the server.
type repository struct {
	t   *testing.T
	dir string
}

func (s *server) newRepository(t *testing.T, name string) repository {
	t.Helper()
	r := repository{t: t, dir: filepath.Join(s.dir, name)}
	run(t, s.dir, nil, "init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	r.git("config", "http.receivepack", "true")
	return r
}

func (r repository) git(args ...string) string { return run(r.t, r.dir, nil, args...) }

// file is an entry of a commit: its mode, and its content (a submodule's commit, a symlink's target).
type file struct{ mode, content string }

// commit creates a commit with exactly these files on a branch. It uses plumbing commands, so neither a work tree nor
// attributes affect their bytes.
func (r repository) commit(branch string, files map[string]file) string {
	r.t.Helper()
	index := filepath.Join(r.t.TempDir(), "index")
	for path, f := range files {
		hash := f.content
		if f.mode != "160000" {
			hash = run(r.t, r.dir, []byte(f.content), "hash-object", "-w", "--stdin")
		}
		runWith(r.t, r.dir, nil, []string{"GIT_INDEX_FILE=" + index}, "update-index", "--add", "--cacheinfo", f.mode+","+hash+","+path)
	}
	tree := runWith(r.t, r.dir, nil, []string{"GIT_INDEX_FILE=" + index}, "write-tree")
	args := []string{"commit-tree", tree, "-m", "commit"}
	if parent, err := exec.Command("git", "-C", r.dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output(); err == nil {
		args = append(args, "-p", strings.TrimSpace(string(parent)))
	}
	commit := r.git(args...)
	r.git("update-ref", "refs/heads/"+branch, commit)
	return commit
}

// content returns a file's bytes on a branch.
func (r repository) content(branch, path string) string {
	r.t.Helper()
	command := exec.Command("git", "-C", r.dir, "cat-file", "blob", branch+":"+path)
	output, err := command.Output()
	if err != nil {
		r.t.Fatalf("reading %s of %s: %v", path, branch, err)
	}
	return string(output)
}

func gitEnvironment() []string {
	return []string{
		"HOME=/nonexistent", "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
}

func run(t *testing.T, dir string, stdin []byte, args ...string) string {
	t.Helper()
	return runWith(t, dir, stdin, nil, args...)
}

func runWith(t *testing.T, dir string, stdin []byte, env []string, args ...string) string {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir = dir
	command.Env = append(gitEnvironment(), env...)
	command.Stdin = bytes.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

func newClones(t *testing.T) *Clones {
	t.Helper()
	clones, err := NewClones(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return clones
}

func checkOut(t *testing.T, remote Remote, branch string) *Checkout {
	t.Helper()
	checkout, err := newClones(t).Checkout(t.Context(), remote, branch)
	if err != nil {
		t.Fatalf("cloning: %v", err)
	}
	t.Cleanup(func() {
		if err := checkout.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return checkout
}

func readStreamed(file *File) (string, error) {
	stream, err := file.Open()
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(stream)
	return string(content), errors.Join(err, stream.Close())
}

// files reads a checkout as EachFile gives it, in its order.
func files(t *testing.T, checkout *Checkout) (paths []string, contents map[string]string) {
	t.Helper()
	contents = map[string]string{}
	err := checkout.EachFile(t.Context(), "", func(file *File) (bool, error) {
		content, err := file.Read()
		if err != nil {
			return false, err
		}
		streamed, err := readStreamed(file)
		if err != nil || streamed != string(content) {
			return false, fmt.Errorf("%s reads %q, and streamed %q: %w", file.Path, content, streamed, err)
		}
		if int64(len(content)) != file.Size {
			return false, fmt.Errorf("%s has %d bytes, not %d", file.Path, len(content), file.Size)
		}
		paths = append(paths, file.Path)
		contents[file.Path] = string(content)
		return true, nil
	})
	if err != nil {
		t.Fatalf("reading files: %v", err)
	}
	return paths, contents
}

func TestOnlyWhatIsAtAPathIsRead(t *testing.T) {
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.commit("main", map[string]file{
		"apps/a.yaml":      {"100644", "a"},
		"apps/deep/b.yaml": {"100644", "b"},
		"apps/link":        {"120000", "deep"},
		"apps.yaml":        {"100644", "c"},
		"vendored":         {"160000", strings.Repeat("1", 40)},
	})
	for _, test := range []struct {
		name, path string
		want       []string
		err        error
	}{
		{"no path is that of all files", "", []string{"apps.yaml", "apps/a.yaml", "apps/deep/b.yaml"}, nil},
		{"a directory has what is below it, too", "apps", []string{"apps/a.yaml", "apps/deep/b.yaml"}, nil},
		{"a directory in a directory", "apps/deep", []string{"apps/deep/b.yaml"}, nil},
		{"a file selects itself", "apps/a.yaml", []string{"apps/a.yaml"}, nil},
		{"a part of a name is another name", "app", nil, ErrPathNotFound},
		{"nothing is below a file", "apps/a.yaml/b", nil, ErrPathNotFound},
		{"a link is not followed", "apps/link", nil, ErrPathNotFound},
		{"not on the way either", "apps/link/b.yaml", nil, ErrPathNotFound},
		{"a submodule has no files", "vendored", nil, ErrPathNotFound},
		{"there is nothing above the root", "..", nil, ErrPathNotFound},
		{"nor anywhere else", "/apps", nil, ErrPathNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			checkout := checkOut(t, s.remote("fleet"), "main")
			var found []string
			err := checkout.EachFile(t.Context(), test.path, func(file *File) (bool, error) {
				found = append(found, file.Path)
				return true, nil
			})
			if test.err != nil {
				g.Expect(err).To(MatchError(test.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found).To(Equal(test.want))
		})
	}
}

func TestWhatWasOfNoInterestIsPassedOverAtAPathToo(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.commit("main", map[string]file{"apps/a.yaml": {"100644", "a"}, "apps/deep/b.yaml": {"100644", "b"}, "other/c.yaml": {"100644", "c"}})
	clones := newClones(t)
	read := func(below string) (paths []string) {
		checkout, err := clones.Checkout(t.Context(), s.remote("fleet"), "main")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(checkout.EachFile(t.Context(), below, func(file *File) (bool, error) {
			paths = append(paths, file.Path)
			_, err := file.Read()
			return false, err
		})).To(Succeed())
		g.Expect(checkout.Close()).To(Succeed())
		return paths
	}
	g.Expect(read("apps")).To(Equal([]string{"apps/a.yaml", "apps/deep/b.yaml"}))
	g.Expect(read("apps/deep")).To(BeEmpty())
	g.Expect(read("")).To(Equal([]string{"other/c.yaml"}), "other files were not read")
	g.Expect(read("apps/a.yaml")).To(BeEmpty())
}

func TestACommitChangesExactlyTheFilesGiven(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	large := strings.Repeat("0123456789abcdef", 1<<17)
	before := map[string]file{
		".gitattributes":    {"100644", "* text=auto eol=crlf\n*.sh text eol=lf\n"},
		"apps/a.yaml":       {"100644", "tag: v1.0.0\n"},
		"apps/crlf.yaml":    {"100644", "tag: v1.0.0\r\nname: x\r\n"},
		"apps/deep/b.yaml":  {"100644", "tag: v1.0.0\nlast: line without newline"},
		"apps/deep/c.yaml":  {"100644", "\xef\xbb\xbftag: \xff\xfe\n"},
		"apps.yaml":         {"100644", "between apps and apps/\n"},
		"bin/run.sh":        {"100755", "#!/bin/sh\r\necho v1.0.0\r\n"},
		"large.bin":         {"100644", large},
		"link.yaml":         {"120000", "../../../etc/passwd"},
		"vendored":          {"160000", strings.Repeat("1", 40)},
		"übung/mit leer.md": {"100644", ""},
	}
	base := r.commit("main", before)
	r.commit("other", map[string]file{"unrelated": {"100644", "x"}})

	checkout := checkOut(t, s.remote("fleet"), "main")
	g.Expect(checkout.Base()).To(Equal(base))
	paths, contents := files(t, checkout)
	g.Expect(paths).To(Equal([]string{
		".gitattributes", "apps.yaml", "apps/a.yaml", "apps/crlf.yaml", "apps/deep/b.yaml", "apps/deep/c.yaml",
		"bin/run.sh", "large.bin", "übung/mit leer.md",
	}), "regular files only, in the order of their paths")
	for path, content := range contents {
		g.Expect(content).To(Equal(before[path].content), path)
	}

	changes := map[string][]byte{
		"apps/crlf.yaml":   []byte("tag: v1.1.0\r\nname: x\r\n"),
		"apps/deep/b.yaml": []byte("tag: v1.1.0\nlast: line without newline"),
		"bin/run.sh":       []byte("#!/bin/sh\r\necho v1.1.0\r\n"),
		"apps/a.yaml":      []byte("tag: v1.0.0\n"), // as it is already
	}
	commit, err := checkout.Commit(changes, "Promote\n\nTo v1.1.0.\n", robot, noon, Signer{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.Push(t.Context(), commit, "promote/one", "")).To(Succeed())

	g.Expect(r.git("rev-parse", "promote/one")).To(Equal(commit))
	g.Expect(r.git("rev-parse", "promote/one^")).To(Equal(base))
	g.Expect(strings.Fields(r.git("diff", "--name-only", "main", "promote/one"))).
		To(Equal([]string{"apps/crlf.yaml", "apps/deep/b.yaml", "bin/run.sh"}))
	for path, content := range changes {
		g.Expect(r.content("promote/one", path)).To(Equal(string(content)), path)
	}
	g.Expect(modes(r, "promote/one")).To(Equal(modes(r, "main")), "modes, symlinks and submodules are the base's")
	g.Expect(r.git("log", "-1", "--format=%an <%ae> %cn <%ce> %aI %B", "promote/one")).
		To(Equal("Sluice <sluice@example.com> Sluice <sluice@example.com> 2026-05-04T10:00:00+00:00 Promote\n\nTo v1.1.0."))
	r.git("fsck", "--strict", "--no-dangling")
	g.Expect(r.git("rev-parse", "main")).To(Equal(base))
}

func modes(r repository, branch string) []string {
	var modes []string
	for line := range strings.Lines(r.git("ls-tree", "-r", branch)) {
		fields := strings.Fields(line)
		modes = append(modes, fields[0]+" "+strings.Join(fields[3:], " "))
	}
	return modes
}

func TestCommit(t *testing.T) {
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.commit("main", map[string]file{
		"a/b.yaml": {"100644", "tag: v1\n"},
		"link":     {"120000", "a/b.yaml"},
		"module":   {"160000", strings.Repeat("1", 40)},
	})
	checkout := checkOut(t, s.remote("fleet"), "main")

	t.Run("the same arguments make the same hash, in any checkout", func(t *testing.T) {
		g := NewWithT(t)
		changes := map[string][]byte{"a/b.yaml": []byte("tag: v2\n")}
		first, err := checkout.Commit(changes, "m", robot, noon, Signer{})
		g.Expect(err).NotTo(HaveOccurred())
		second, err := checkOut(t, s.remote("fleet"), "main").Commit(changes, "m", robot, noon.UTC(), Signer{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(second).To(Equal(first))
	})
	t.Run("contents that are the base's are nothing to commit", func(t *testing.T) {
		g := NewWithT(t)
		_, err := checkout.Commit(map[string][]byte{"a/b.yaml": []byte("tag: v1\n")}, "m", robot, noon, Signer{})
		g.Expect(err).To(MatchError(ErrNoChange))
		_, err = checkout.Commit(nil, "m", robot, noon, Signer{})
		g.Expect(err).To(MatchError(ErrNoChange))
	})
	for _, path := range []string{"link", "module", "a", "a/c.yaml", "link/b.yaml", "a/b.yaml/c", "../x", "/a/b.yaml", ""} {
		t.Run(fmt.Sprintf("%q is no regular file of the base and is refused", path), func(t *testing.T) {
			g := NewWithT(t)
			_, err := checkout.Commit(map[string][]byte{path: []byte("x")}, "m", robot, noon, Signer{})
			g.Expect(err).To(MatchError(MatchRegexp("not a (regular file|directory) of commit " + checkout.Base())))
		})
	}
	t.Run("an author or message that would forge the commit's header is refused", func(t *testing.T) {
		g := NewWithT(t)
		changes := map[string][]byte{"a/b.yaml": []byte("tag: v2\n")}
		_, err := checkout.Commit(changes, "m", Author{Name: "x\nparent 1", Email: "e"}, noon, Signer{})
		g.Expect(err).To(HaveOccurred())
		_, err = checkout.Commit(changes, "m\x00", robot, noon, Signer{})
		g.Expect(err).To(HaveOccurred())
	})
}

func TestATreeWithUnsafeNamesIsRefused(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	blob := run(t, r.dir, []byte("x"), "hash-object", "-w", "--stdin")
	raw := run(t, r.dir, []byte("100644 blob "+blob+"\tok\n"), "mktree")
	body, err := exec.Command("git", "-C", r.dir, "cat-file", "tree", raw).Output()
	g.Expect(err).NotTo(HaveOccurred())
	body = bytes.Replace(body, []byte(" ok\x00"), []byte(" ..\x00"), 1)
	tree := run(t, r.dir, body, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", tree, "-m", "m"))

	err = checkOut(t, s.remote("fleet"), "main").EachFile(t.Context(), "", func(*File) (bool, error) { return true, nil })
	g.Expect(err).To(MatchError(ContainSubstring(`has an entry named ".."`)))
}

func TestATreeThatHoldsItselfManyTimesIsNotWalkedForEver(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "bomb")
	entry := "100644 blob " + run(t, r.dir, []byte("x"), "hash-object", "-w", "--stdin")
	for range 10 {
		var list strings.Builder
		for i := range 10 {
			fmt.Fprintf(&list, "%s\te%d\n", entry, i)
		}
		entry = "040000 tree " + run(t, r.dir, []byte(list.String()), "mktree")
	}
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", strings.Fields(entry)[2], "-m", "m"))

	err := checkOut(t, s.remote("bomb"), "main").EachFile(t.Context(), "", func(*File) (bool, error) { return true, nil })
	g.Expect(err).To(MatchError(ContainSubstring("more than 1048576 files")))
}

func TestPush(t *testing.T) {
	type fixture struct {
		*server
		repository repository
		checkout   *Checkout
		commit     string
	}
	// setup returns a checkout with a commit to push.
	setup := func(t *testing.T) fixture {
		s := newServer(t)
		r := s.newRepository(t, "fleet")
		r.commit("main", map[string]file{"a.yaml": {"100644", "v0"}})
		r.commit("main", map[string]file{"a.yaml": {"100644", "v1"}})
		checkout := checkOut(t, s.remote("fleet"), "main")
		commit, err := checkout.Commit(map[string][]byte{"a.yaml": []byte("v2")}, "m", robot, noon, Signer{})
		if err != nil {
			t.Fatal(err)
		}
		return fixture{s, r, checkout, commit}
	}

	t.Run("a branch that is at the commit already needs no push", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", "")).To(Succeed())
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", "")).To(Succeed())
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", f.commit)).To(Succeed())
		g.Expect(f.pushes.Load()).To(BeEquivalentTo(1))
	})
	t.Run("a branch at the expected commit is replaced, whatever its history", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		stale := f.repository.commit("p", map[string]file{"other": {"100644", "x"}})
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", stale)).To(Succeed())
		g.Expect(f.repository.git("rev-parse", "p")).To(Equal(f.commit))
	})
	t.Run("a branch that exists is not overwritten when it was expected absent", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		theirs := f.repository.commit("p", map[string]file{"other": {"100644", "x"}})
		err := f.checkout.Push(t.Context(), f.commit, "p", "")
		g.Expect(err).To(MatchError(ErrLease))
		g.Expect(err).To(MatchError(ContainSubstring("is at " + theirs + ", expected it absent")))
		g.Expect(f.repository.git("rev-parse", "p")).To(Equal(theirs))
		g.Expect(f.pushes.Load()).To(BeZero())
	})
	t.Run("a branch that is gone is not made again when it was expected at a commit", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", f.checkout.Base())).To(MatchError(ErrLease))
		g.Expect(f.repository.git("branch", "--list", "p")).To(BeEmpty())
	})
	t.Run("a branch that moves while the pack is on its way is not overwritten", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		first := f.repository.commit("p", map[string]file{"other": {"100644", "x"}})
		var theirs string
		f.beforePush = func() { theirs = f.repository.commit("p", map[string]file{"other": {"100644", "y"}}) }
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", first)).To(MatchError(ErrLease))
		g.Expect(f.repository.git("rev-parse", "p")).To(Equal(theirs))
	})
	t.Run("a push that a hook refuses says so, and is no lost lease", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		hook := filepath.Join(f.repository.dir, "hooks", "update")
		g.Expect(os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o700)).To(Succeed())
		err := f.checkout.Push(t.Context(), f.commit, "p", "")
		g.Expect(err).To(MatchError(ContainSubstring("hook declined")))
		g.Expect(err).NotTo(MatchError(ErrLease))
	})
	t.Run("a read-only credential is unauthorized", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		f.readOnly = true
		err := f.checkout.Push(t.Context(), f.commit, "p", "")
		g.Expect(err).To(MatchError(ErrUnauthorized))
		g.Expect(err.Error()).NotTo(ContainSubstring(password))
	})
	t.Run("hashes and branches that are none are refused", func(t *testing.T) {
		g := NewWithT(t)
		f := setup(t)
		g.Expect(f.checkout.Push(t.Context(), f.checkout.Base(), "p", "")).To(MatchError(ContainSubstring("not made from this checkout")))
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p", "nonsense")).To(MatchError(ContainSubstring("not the hash of a commit")))
		g.Expect(f.checkout.Push(t.Context(), f.commit, "p q", "")).To(HaveOccurred())
		g.Expect(f.checkout.Push(t.Context(), f.commit, "", "")).To(HaveOccurred())
	})
}

func TestRemoteAndDeletedBranches(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	remote := s.remote("fleet")

	_, exists, err := RemoteBranch(t.Context(), remote, "main")
	g.Expect(err).NotTo(HaveOccurred(), "an empty repository has no branches and that is no error")
	g.Expect(exists).To(BeFalse())

	main := r.commit("main", map[string]file{"a": {"100644", "x"}})
	promotion := r.commit("p/a", map[string]file{"a": {"100644", "y"}})
	hash, exists, err := RemoteBranch(t.Context(), remote, "p/a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exists).To(BeTrue())
	g.Expect(hash).To(Equal(promotion))

	g.Expect(DeleteBranch(t.Context(), remote, "p/a", main)).To(MatchError(ErrLease))
	g.Expect(DeleteBranch(t.Context(), remote, "p/a", "")).To(HaveOccurred())
	g.Expect(r.git("branch", "--list", "p/a")).NotTo(BeEmpty())

	g.Expect(DeleteBranch(t.Context(), remote, "p/a", promotion)).To(Succeed())
	g.Expect(r.git("branch", "--list", "p/a")).To(BeEmpty())
	g.Expect(DeleteBranch(t.Context(), remote, "p/a", promotion)).To(Succeed(), "deleting what is gone is fine")

	_, exists, err = RemoteBranch(t.Context(), remote, "p/a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exists).To(BeFalse())
}

func TestCloneTakesOnlyTheBranchsNewestCommit(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	old := r.commit("main", map[string]file{"a": {"100644", "old"}})
	r.git("tag", "v1", old)
	r.commit("main", map[string]file{"a": {"100644", "new"}})
	r.commit("other", map[string]file{"a": {"100644", "other"}})

	checkout := checkOut(t, s.remote("fleet"), "main")
	for name, kept := range map[string]bool{"main:a": true, "main^:a": false, "other:a": false} {
		_, err := checkout.objects.Find(plumbing.BlobObject, plumbing.NewHash(r.git("rev-parse", name)))
		g.Expect(errors.Is(err, objects.ErrNotFound)).NotTo(Equal(kept), name)
	}
}

func TestAHostThatServesNobodyWithoutMultiAck(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	s.wantsMultiAck = true
	r := s.newRepository(t, "fleet")
	clones := newClones(t)
	for i := range 3 {
		tree := map[string]file{"marked": {"100644", fmt.Sprintf("x%d", i)}}
		for unchanged := range 20 {
			tree[fmt.Sprintf("bare/%d", unchanged)] = file{"100644", "-"}
		}
		commit := r.commit("main", tree)
		_, base := read(t, clones, s.remote("fleet"), "main")
		g.Expect(base).To(Equal(commit))
	}
}

func TestErrors(t *testing.T) {
	s := newServer(t)
	r := s.newRepository(t, "fleet")
	r.commit("main", map[string]file{"a": {"100644", "x"}})
	s.newRepository(t, "empty")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	host := strings.TrimPrefix(s.URL, "https://")
	with := func(change func(*Remote)) Remote {
		remote := s.remote("fleet")
		change(&remote)
		return remote
	}
	for _, c := range []struct {
		name    string
		ctx     context.Context
		remote  Remote
		branch  string
		is      error
		message string
	}{
		{name: "a branch that is missing is named", remote: s.remote("fleet"), branch: "nope", is: ErrBranchNotFound, message: `branch "nope" of ` + s.URL + "/fleet"},
		{name: "an empty repository has no branch", remote: s.remote("empty"), is: ErrBranchNotFound, message: `branch "main"`},
		{name: "a repository that is missing", remote: s.remote("nope"), is: ErrRepositoryNotFound, message: s.URL + "/nope"},
		{name: "a wrong password", remote: with(func(r *Remote) { r.Credentials.Password = "wr0ng pass/word+" }), is: ErrUnauthorized, message: "unauthorized"},
		{name: "a wrong bearer token", remote: with(func(r *Remote) { r.Credentials = Credentials{BearerToken: "wr0ng-token"} }), is: ErrUnauthorized},
		{name: "no credentials", remote: with(func(r *Remote) { r.Credentials = Credentials{} }), is: ErrUnauthorized},
		{name: "a wrong password in the URL", remote: with(func(r *Remote) {
			r.Credentials = Credentials{}
			r.URL = "https://robot:wr0ng-in-url@" + host + "/fleet"
		}), is: ErrUnauthorized},
		{name: "an authority that is not trusted", remote: with(func(r *Remote) { r.CABundle = nil; r.URL = "https://robot:wr0ng-in-url@" + host + "/fleet" }), message: "certificate"},
		{name: "a CA bundle without a certificate", remote: with(func(r *Remote) { r.CABundle = []byte("junk") }), message: "no certificate"},
		{name: "a URL that cannot be parsed, with a password", remote: with(func(r *Remote) { r.URL = "https://robot:wr0ng-in-url@" + host + "/%zz" }), message: "cannot be parsed"},
		{name: "a file URL", remote: with(func(r *Remote) { r.URL = "file:///srv/fleet" }), message: `scheme "file" are not supported`},
		{name: "an ssh address", remote: with(func(r *Remote) { r.URL = "git@example.com:owner/fleet.git" }), message: "URL"},
		{name: "a local path", remote: with(func(r *Remote) { r.URL = "/etc" }), message: `scheme "" are not supported`},
		{name: "a cancelled context", ctx: cancelled, remote: s.remote("fleet"), is: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			branch := c.branch
			if branch == "" {
				branch = "main"
			}
			_, err := newClones(t).Checkout(ctx, c.remote, branch)
			g.Expect(err).To(HaveOccurred())
			if c.is != nil {
				g.Expect(err).To(MatchError(c.is))
			}
			g.Expect(err.Error()).To(ContainSubstring(c.message))
			for e := err; e != nil; e = errors.Unwrap(e) {
				g.Expect(fmt.Sprintf("%+v %#v", e, e)).NotTo(Or(ContainSubstring("wr0ng"), ContainSubstring(password)))
			}
		})
	}
}

func TestABearerTokenAndAUserInTheURLAuthenticate(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	s.newRepository(t, "fleet").commit("main", map[string]file{"a": {"100644", "x"}})

	remote := s.remote("fleet")
	remote.Credentials = Credentials{BearerToken: token}
	checkOut(t, remote, "main")

	remote.Credentials = Credentials{}
	remote.URL = strings.Replace(remote.URL, "https://", "https://robot:s3cr3t%2Fwith+odd%20chars@", 1)
	_, exists, err := RemoteBranch(t.Context(), remote, "main")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exists).To(BeTrue())
}

func TestARedirectToAnotherOriginDoesNotCarryTheCredentials(t *testing.T) {
	g := NewWithT(t)
	var seen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(thief.Close)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.String(), http.StatusFound)
	}))
	t.Cleanup(host.Close)

	remote := Remote{URL: host.URL + "/fleet", Credentials: Credentials{Username: username, Password: password}, Network: onLoopback}
	_, _, err := RemoteBranch(t.Context(), remote, "main")
	g.Expect(err).To(HaveOccurred())
	g.Expect(seen).To(HaveEach(BeEmpty()))
}

func TestCredentialsDoNotPrint(t *testing.T) {
	g := NewWithT(t)
	for _, credentials := range []Credentials{
		{Username: "us3r", Password: "p4ss"},
		{BearerToken: "t0ken"},
	} {
		remote := Remote{URL: "https://example.com/a/b", Credentials: credentials}
		encoded, err := json.Marshal(remote)
		g.Expect(err).NotTo(HaveOccurred())
		for _, printed := range []string{
			credentials.String(), fmt.Sprintf("%v %+v %#v %s %q", credentials, credentials, credentials, credentials, credentials),
			fmt.Sprintf("%v %+v %#v", remote, remote, remote), fmt.Sprintf("%+v", &remote), string(encoded),
		} {
			g.Expect(printed).NotTo(Or(ContainSubstring("us3r"), ContainSubstring("p4ss"), ContainSubstring("t0ken")))
		}
	}
}
