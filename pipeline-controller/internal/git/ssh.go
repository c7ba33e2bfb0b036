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
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/fluxcd/pkg/ssh/knownhosts"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/net/proxy"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

// sshUser is the user name on Git hosts by SSH.
const sshUser = "git"

// SSHKey authenticates to a Git host by SSH.
type SSHKey struct {
	// Identity is a private key (PEM), and Passphrase its passphrase, if it is encrypted.
	Identity, Passphrase []byte
	// KnownHosts are the host keys in the format of OpenSSH's known_hosts. A host without a key is rejected.
	KnownHosts []byte
}

// connectSSH prepares a connection by SSH. It ignores the configuration in the home directory.
func connectSSH(parsed *url.URL, remote Remote) (*connection, error) {
	key := remote.Credentials.SSH
	user := parsed.User.Username()
	if user == "" {
		user = sshUser
	}
	parsed.User = nil
	if len(key.Identity) == 0 || len(key.KnownHosts) == 0 {
		return nil, fmt.Errorf("%s is reached by SSH: the Secret must have 'identity', a private key, and 'known_hosts'", parsed)
	}
	signer, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	checkHost, algorithms, err := knownhosts.New(key.KnownHosts)
	if err != nil {
		return nil, fmt.Errorf("'known_hosts' can't be read: %w", err)
	}
	endpoint, err := transport.NewEndpoint(parsed.String())
	if err != nil {
		return nil, fmt.Errorf("repository URL %s: %w", parsed, err)
	}
	return &connection{
		url:      parsed.String(),
		endpoint: *endpoint,
		auth: sshAuth{ssh.ClientConfig{
			User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: checkHost, HostKeyAlgorithms: algorithms,
		}},
		secrets: []string{string(key.Identity), string(key.Passphrase)},
		dial:    remote.Network.DialByProxy,
		client:  gitssh.NewClient(nil),
	}, nil
}

// sshAuth implements go-git's AuthMethod. go-git's own ones do not set the key algorithms of the known hosts.
type sshAuth struct{ config ssh.ClientConfig }

func (a sshAuth) Name() string                             { return "ssh-key" }
func (a sshAuth) String() string                           { return a.Name() }
func (a sshAuth) ClientConfig() (*ssh.ClientConfig, error) { return &a.config, nil }

func parseKey(key SSHKey) (ssh.Signer, error) {
	var signer ssh.Signer
	var err error
	if len(key.Passphrase) > 0 {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key.Identity, key.Passphrase)
	} else {
		signer, err = ssh.ParsePrivateKey(key.Identity)
	}
	var encrypted *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &encrypted):
		return nil, errors.New("'identity' is encrypted: the Secret must have its passphrase as 'password'")
	case err != nil:
		// The library's message is omitted because it may quote the key.
		return nil, errors.New("'identity' is not a private key, or 'password' is not its passphrase")
	}
	return signer, nil
}

// opening limits the number of sessions that are being opened, including abandoned ones.
var opening = make(chan struct{}, 64)

// opened is the result of opening a session.
type opened[S transport.Session] struct {
	session S
	err     error
}

// openSession opens a session at the endpoint until the context is cancelled. By SSH, go-git waits forever for a host
// that accepts a connection and sends nothing. A session that opens later is closed.
func openSession[S transport.Session](ctx context.Context, c *connection, open func(*transport.Endpoint) (S, error)) (S, error) {
	var none S
	endpoint := c.endpoint
	select {
	case opening <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan opened[S], 1)
	go func() {
		defer func() { <-opening }()
		var result opened[S]
		defer func() { done <- result }()
		defer recovered(ctx, &result.err)
		if endpoint.Protocol == "ssh" {
			defer dialers.lend(&endpoint, func(network, address string) (net.Conn, error) { return c.connect(ctx, network, address) })()
		}
		result.session, result.err = open(&endpoint)
	}()
	select {
	case result := <-done:
		if result.err != nil && ctx.Err() != nil {
			// The end of the connection is only a consequence.
			return none, ctx.Err()
		}
		return result.session, result.err
	case <-ctx.Done():
		go func() {
			if result := <-done; result.err == nil {
				_ = result.session.Close()
			}
		}()
		return none, ctx.Err()
	}
}

// dialScheme is the scheme of fake proxy addresses. go-git accepts neither a context for SSH sessions nor a dialer,
// except for a proxy. With such an address, it connects through a dialer that has the context.
const dialScheme = "sluice-dialer"

var dialers dialerRegistry

func init() { proxy.RegisterDialerType(dialScheme, dialers.find) }

// dialerRegistry contains the dialers of sessions that are being opened.
type dialerRegistry struct {
	dialers sync.Map
	last    atomic.Int64
}

// lend makes the endpoint connect with a dialer. It returns a function that must be called once the session is open.
func (r *dialerRegistry) lend(endpoint *transport.Endpoint, by dialer) (giveBack func()) {
	name := strconv.FormatInt(r.last.Add(1), 10)
	r.dialers.Store(name, by)
	endpoint.Proxy.URL = dialScheme + "://" + name
	return func() { r.dialers.Delete(name) }
}

// connect connects by SSH until the context is cancelled. It uses the proxy of the environment.
func (c *connection) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return allowedConn{hostnet.Paced(conn), &c.allowance}, nil
}

func (r *dialerRegistry) find(address *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
	if found, ok := r.dialers.Load(address.Host); ok {
		return found.(dialer), nil
	}
	return nil, fmt.Errorf("there is no dialer at %s", address)
}

// dialer replaces a proxy for go-git. The context in its argument is never cancelled.
type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

func (d dialer) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	return d(network, address)
}
