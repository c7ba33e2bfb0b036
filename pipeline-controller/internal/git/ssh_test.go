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
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
	"github.com/sluice-toolkit/sluice/tests/sshhost"
)

// sshServer is a Git host by SSH.
type sshServer struct {
	*server
	*sshhost.Server
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	repositories := &server{dir: t.TempDir()}
	host, err := sshhost.New(repositories.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return &sshServer{repositories, host}
}

func (s *sshServer) remote(repository string) Remote {
	return Remote{
		URL: s.URL(repository),
		Credentials: Credentials{SSH: SSHKey{
			Identity: s.Identity, Passphrase: []byte(sshhost.Passphrase), KnownHosts: s.KnownHosts,
		}},
		Network: onLoopback,
	}
}

func TestSSH(t *testing.T) {
	g := NewWithT(t)
	host := newSSHServer(t)
	repository := host.newRepository(t, "fleet.git")
	repository.commit("main", map[string]file{"app.yaml": {"100644", "tag: v1\n"}})
	remote, clones := host.remote("fleet.git"), newClones(t)

	checkout, err := clones.Checkout(t.Context(), remote, "main")
	g.Expect(err).NotTo(HaveOccurred())
	commit, err := checkout.Commit(map[string][]byte{"app.yaml": []byte("tag: v2\n")}, "v2", robot, noon, Signer{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(checkout.Push(t.Context(), commit, "promotion", "")).To(Succeed())
	g.Expect(checkout.Close()).To(Succeed())
	g.Expect(repository.content("promotion", "app.yaml")).To(Equal("tag: v2\n"))

	repository.commit("main", map[string]file{"app.yaml": {"100644", "tag: v3\n"}})
	names, _ := read(t, clones, remote, "main")
	g.Expect(names).To(Equal([]string{"app.yaml"}))

	at, _, err := RemoteBranch(t.Context(), remote, "promotion")
	g.Expect(at, err).To(Equal(commit))
	g.Expect(DeleteBranch(t.Context(), remote, "promotion", commit)).To(Succeed())
	_, exists, err := RemoteBranch(t.Context(), remote, "promotion")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exists).To(BeFalse())
}

func TestSSHErrors(t *testing.T) {
	host := newSSHServer(t)
	host.newRepository(t, "fleet.git").commit("main", map[string]file{"app.yaml": {"100644", "a"}})
	other := newSSHServer(t)
	for _, test := range []struct {
		name   string
		change func(*Remote)
		says   string
	}{
		{name: "another key of the host is refused", says: "knownhosts",
			change: func(r *Remote) {
				r.Credentials.SSH.KnownHosts = []byte(strings.ReplaceAll(string(other.KnownHosts),
					other.Address[strings.LastIndex(other.Address, ":"):], host.Address[strings.LastIndex(host.Address, ":"):]))
			}},
		{name: "a host that isn't known is refused", says: "knownhosts",
			change: func(r *Remote) { r.Credentials.SSH.KnownHosts = other.KnownHosts }},
		{name: "a key that the host doesn't know", says: "unable to authenticate",
			change: func(r *Remote) { r.Credentials.SSH.Identity = other.Identity }},
		{name: "no key at all", says: "must have 'identity'",
			change: func(r *Remote) { r.Credentials.SSH.Identity = nil }},
		{name: "no known hosts", says: "and 'known_hosts'",
			change: func(r *Remote) { r.Credentials.SSH.KnownHosts = nil }},
		{name: "a key whose passphrase is missing", says: "as 'password'",
			change: func(r *Remote) { r.Credentials.SSH.Passphrase = nil }},
		{name: "a wrong passphrase", says: "is not its passphrase",
			change: func(r *Remote) { r.Credentials.SSH.Passphrase = []byte("guessed") }},
		{name: "no such repository", says: "repository not found",
			change: func(r *Remote) { r.URL = strings.Replace(r.URL, "fleet", "nothing", 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			remote := host.remote("fleet.git")
			test.change(&remote)
			_, _, err := RemoteBranch(t.Context(), remote, "main")
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring(sshhost.Passphrase), ContainSubstring("PRIVATE KEY")))
		})
	}
}

func TestAnSSHHostThatSaysNothingHoldsNobodyUp(t *testing.T) {
	g := NewWithT(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = silent.Close() })
	remote := newSSHServer(t).remote("fleet.git")
	remote.URL = "ssh://git@" + silent.Addr().String() + "/fleet.git"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if _, err := silent.Accept(); err == nil {
			cancel()
		}
	}()
	_, _, err = RemoteBranch(ctx, remote, "main")
	g.Expect(err).To(MatchError(context.Canceled))
}

func TestSSHHostsThatSayNothingHoldUpNoOtherHost(t *testing.T) {
	g := NewWithT(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = silent.Close() })
	host := newSSHServer(t)
	tip := host.newRepository(t, "fleet.git").commit("main", map[string]file{"app.yaml": {"100644", "a"}})
	remote := host.remote("fleet.git")
	remote.URL = "ssh://git@" + silent.Addr().String() + "/fleet.git"
	for range cap(opening) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			conn, err := silent.Accept()
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			cancel()
		}()
		_, _, err = RemoteBranch(ctx, remote, "main")
		g.Expect(err).To(MatchError(context.Canceled))
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at, _, err := RemoteBranch(ctx, host.remote("fleet.git"), "main")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(at).To(Equal(tip))
}

func TestAnSSHHostThatIsTooSlowIsCutOff(t *testing.T) {
	remote := newSSHServer(t).remote("fleet.git")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		conn, err := connect(remote)
		g.Expect(err).NotTo(HaveOccurred())
		host, ours := net.Pipe()
		conn.dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		go func() { _, _ = io.Copy(io.Discard, host) }()
		go func() { _, _ = host.Write([]byte("SSH-2.0-slow\r\n")) }()
		began := time.Now()
		_, _, err = conn.branch(t.Context(), "refs/heads/main")
		g.Expect(err).To(MatchError(hostnet.ErrTooSlow))
		g.Expect(time.Since(began)).To(Equal(hostnet.Window))
		conn.close()
	})
}
