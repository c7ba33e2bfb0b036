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

// Package sshhost is a Git host by SSH: git's own upload-pack and receive-pack over the bare repositories of a
// directory.
package sshhost

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Passphrase is the passphrase of the accepted keys.
const Passphrase = "open, Sesame"

// Server serves until it is closed.
type Server struct {
	// Address is its host and port.
	Address string
	// KnownHosts is its key as a file known_hosts has it.
	KnownHosts []byte
	// Identity is the private key that it accepts, in PEM, under the Passphrase.
	Identity []byte

	dir      string
	listener net.Listener
	config   *ssh.ServerConfig
}

// New serves the repositories of a directory, by their paths below it.
func New(dir string) (*Server, error) {
	hostKey, _, err := newKey()
	if err != nil {
		return nil, err
	}
	clientKey, identity, err := newKey()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(clientKey.PublicKey().Marshal()) {
			return nil, errors.New("an unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(hostKey)
	s := &Server{Address: listener.Addr().String(), Identity: identity, dir: dir, listener: listener, config: config}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.KnownHosts = fmt.Appendf(nil, "[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(hostKey.PublicKey()))
	go s.accept()
	return s, nil
}

// Close takes no more connections.
func (s *Server) Close() error { return s.listener.Close() }

// URL is the address of a repository.
func (s *Server) URL(repository string) string { return "ssh://git@" + s.Address + "/" + repository }

func newKey() (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(Passphrase))
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	return signer, pem.EncodeToMemory(block), err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(conn)
	}
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	connection, channels, requests, err := ssh.NewServerConn(conn, s.config)
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
func (s *Server) run(channel ssh.Channel, line string) {
	name, path, _ := strings.Cut(line, " ")
	subcommand := strings.TrimPrefix(name, "git-")
	if subcommand != "upload-pack" && subcommand != "receive-pack" {
		return
	}
	command := exec.Command("git", subcommand, filepath.Join(s.dir, filepath.Join("/", strings.Trim(path, "'"))))
	command.Env = []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	command.Stdout, command.Stderr = channel, channel.Stderr()
	stdin, err := command.StdinPipe()
	if err != nil || command.Start() != nil {
		return
	}
	// Not command.Stdin: Wait would wait for the end of the channel, which the client ends after the exit status.
	go func() {
		_, _ = io.Copy(stdin, channel)
		_ = stdin.Close()
	}()
	var status struct{ Code uint32 }
	if command.Wait() != nil {
		status.Code = 1
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
}
