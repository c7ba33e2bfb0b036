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
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
)

const passphrase = "open, Sesame"

// sshServer is a Git host by SSH: git's own upload-pack and receive-pack over the bare repositories of a directory.
type sshServer struct {
	*server
	address    string
	knownHosts []byte
	identity   []byte
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	hostKey, _ := newSSHKey(t)
	clientKey, identity := newSSHKey(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{server: &server{dir: t.TempDir()}, address: listener.Addr().String(), identity: identity}
	host, port, _ := net.SplitHostPort(s.address)
	s.knownHosts = []byte("[" + host + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(hostKey.PublicKey())))

	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(clientKey.PublicKey().Marshal()) {
			return nil, ErrUnauthorized
		}
		return nil, nil
	}}
	config.AddHostKey(hostKey)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, config)
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return s
}

func newSSHKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	connection, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer connection.Close()
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		channel, requests, err := opened.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			var command struct{ Line string }
			if request.Type != "exec" || ssh.Unmarshal(request.Payload, &command) != nil {
				_ = request.Reply(false, nil)
				continue
			}
			_ = request.Reply(true, nil)
			s.run(channel, command.Line)
			_ = channel.Close()
		}
	}
}

// run runs one of git's two commands.
func (s *sshServer) run(channel ssh.Channel, line string) {
	name, path, _ := strings.Cut(line, " ")
	subcommand := strings.TrimPrefix(name, "git-")
	if subcommand != "upload-pack" && subcommand != "receive-pack" {
		return
	}
	command := exec.Command("git", subcommand, filepath.Join(s.dir, strings.Trim(path, "'")))
	command.Env = gitEnvironment()
	command.Stdout, command.Stderr = channel, channel.Stderr()
	stdin, err := command.StdinPipe()
	if err != nil || command.Start() != nil {
		return
	}
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := channel.Read(buffer)
			if _, writeErr := stdin.Write(buffer[:n]); err != nil || writeErr != nil {
				_ = stdin.Close()
				return
			}
		}
	}()
	status := struct{ Code uint32 }{}
	if command.Wait() != nil {
		status.Code = 1
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
}

func (s *sshServer) remote(repository string) Remote {
	return Remote{
		URL: "ssh://git@" + s.address + "/" + repository,
		Credentials: Credentials{SSH: SSHKey{
			Identity: s.identity, Passphrase: []byte(passphrase), KnownHosts: s.knownHosts,
		}},
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
				r.Credentials.SSH.KnownHosts = []byte(strings.ReplaceAll(string(other.knownHosts),
					other.address[strings.LastIndex(other.address, ":"):], host.address[strings.LastIndex(host.address, ":"):]))
			}},
		{name: "a host that isn't known is refused", says: "knownhosts",
			change: func(r *Remote) { r.Credentials.SSH.KnownHosts = other.knownHosts }},
		{name: "a key that the host doesn't know", says: "unable to authenticate",
			change: func(r *Remote) { r.Credentials.SSH.Identity = other.identity }},
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
			g.Expect(err.Error()).NotTo(Or(ContainSubstring(passphrase), ContainSubstring("PRIVATE KEY")))
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
