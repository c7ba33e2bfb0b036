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
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

// connection speaks the Git protocol with one remote. It uses go-git's sessions instead of its Remote. Sessions accept
// our transport with limits, while Remote uses that of the process. With sessions, the lease and the list of objects to
// push are exact, while Remote infers them from references.
type connection struct {
	// url of the remote without user and password.
	url      string
	endpoint transport.Endpoint
	auth     transport.AuthMethod
	secrets  []string
	// dial is nil for HTTP, and transport is nil for SSH.
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	transport *hosthttp.Transport
	client    transport.Transport
	// allowance is how much the host may still send.
	allowance allowance
	// sessions are closed with the connection.
	sessions []io.Closer
}

// By default, go-git hides capabilities that it does not fully support. Those used here work: thin packs, see store,
// and the acknowledgements of multi_ack, of which there is one for each commit that the clone has. Azure DevOps
// requires them.
func init() {
	transport.UnsupportedCapabilities = nil
}

func connect(remote Remote) (*connection, error) {
	parsed, err := url.Parse(remote.URL)
	if err != nil {
		// The error of url.Parse contains the URL with the password.
		return nil, errors.New("the repository URL cannot be parsed: give one like https://host/owner/repository")
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" && parsed.Scheme != "ssh" {
		return nil, fmt.Errorf("repository URLs of scheme %q are not supported: use https or ssh", parsed.Scheme)
	}
	if parsed.Hostname() == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, errors.New("the repository URL must have a host and no query: give one like https://host/owner/repository")
	}
	if parsed.Scheme == "ssh" {
		return connectSSH(parsed, remote)
	}
	credentials := remote.Credentials
	if parsed.User != nil && credentials.anonymous() {
		credentials.Username = parsed.User.Username()
		credentials.Password, _ = parsed.User.Password()
	}
	urlPassword, _ := parsed.User.Password()
	parsed.User = nil

	endpoint, err := transport.NewEndpoint(parsed.String())
	if err != nil {
		return nil, fmt.Errorf("repository URL %s: %w", parsed, err)
	}
	httpTransport, err := hosthttp.NewTransport(remote.Network, remote.CABundle, maxResponse)
	if err != nil {
		return nil, err
	}
	c := &connection{
		url:      parsed.String(),
		endpoint: *endpoint,
		auth:     authMethod(credentials),
		secrets: []string{
			credentials.BearerToken,
			basicToken(credentials),
			credentials.Password,
			urlPassword,
		},
		transport: httpTransport,
	}
	c.client = githttp.NewClient(&http.Client{Transport: c.allowance.transport(httpTransport)})
	return c, nil
}

// basicToken is the text after "Authorization: Basic", which a host may repeat.
func basicToken(c Credentials) string {
	if c.Password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
}

func authMethod(c Credentials) transport.AuthMethod {
	switch {
	case c.BearerToken != "":
		return &githttp.TokenAuth{Token: c.BearerToken}
	case c.Username != "" || c.Password != "":
		return &githttp.BasicAuth{Username: c.Username, Password: c.Password}
	default:
		return nil
	}
}

// maxResponse limits each response by the largest possible allowance.
func maxResponse(*http.Request) int64 { return maxPackResponse }

// uploadPack opens a session for reading. It returns the session and the remote's references.
func (c *connection) uploadPack(ctx context.Context) (transport.UploadPackSession, *packp.AdvRefs, error) {
	c.allowance.hold(maxAdvertisement)
	// After a redirect, a session modifies its endpoint. So each session gets a copy.
	session, err := openSession(ctx, c, func(endpoint *transport.Endpoint) (transport.UploadPackSession, error) {
		return c.client.NewUploadPackSession(endpoint, c.auth)
	})
	if err != nil {
		return nil, nil, c.failed("connecting to", err)
	}
	c.sessions = append(c.sessions, session)
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return session, packp.NewAdvRefs(), nil
	}
	if err != nil {
		return nil, nil, c.failed("reading the branches of", err)
	}
	return session, advertised, nil
}

// receivePack opens a session for writing. It returns the session and the remote's references.
func (c *connection) receivePack(ctx context.Context) (transport.ReceivePackSession, *packp.AdvRefs, error) {
	c.allowance.hold(maxAdvertisement)
	session, err := openSession(ctx, c, func(endpoint *transport.Endpoint) (transport.ReceivePackSession, error) {
		return c.client.NewReceivePackSession(endpoint, c.auth)
	})
	if err != nil {
		return nil, nil, c.failed("connecting to", err)
	}
	c.sessions = append(c.sessions, session)
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, nil, c.failed("preparing a push to", err)
	}
	return session, advertised, nil
}

func (c *connection) close() {
	for _, session := range c.sessions {
		// The error does not matter: the operation has already succeeded or failed.
		_ = session.Close()
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	c.allowance.release()
}

// failed returns the error of an operation on the remote. It removes the host's HTML page, which go-git may include.
func (c *connection) failed(doing string, err error) error {
	if reason := c.allowance.reason(); reason != nil {
		err = reason
	}
	for _, known := range []struct{ kind, is error }{
		{ErrUnauthorized, transport.ErrAuthenticationRequired},
		{ErrUnauthorized, transport.ErrAuthorizationFailed},
		{ErrRepositoryNotFound, transport.ErrRepositoryNotFound},
		{context.Canceled, context.Canceled},
		{context.DeadlineExceeded, context.DeadlineExceeded},
		{hosthttp.ErrTooLarge, hosthttp.ErrTooLarge},
		{hostnet.ErrTooSlow, hostnet.ErrTooSlow},
		{errHeld, errHeld},
	} {
		if errors.Is(err, known.is) {
			return hosthttp.NewError(known.kind, fmt.Sprintf("%s %s: %s", doing, c.url, known.kind), c.secrets...)
		}
	}
	return hosthttp.NewError(nil, fmt.Sprintf("%s %s: %s", doing, c.url, err), c.secrets...)
}

func branchReference(branch string) (plumbing.ReferenceName, error) {
	name := plumbing.NewBranchReferenceName(branch)
	if err := name.Validate(); err != nil {
		return "", fmt.Errorf("branch %q: %w", branch, err)
	}
	return name, nil
}

// RemoteBranch returns the commit of a branch of the remote, and whether the branch exists.
func RemoteBranch(ctx context.Context, remote Remote, branch string) (hash string, exists bool, err error) {
	defer recovered(ctx, &err)
	name, err := branchReference(branch)
	if err != nil {
		return "", false, err
	}
	conn, err := connect(remote)
	if err != nil {
		return "", false, err
	}
	defer conn.close()
	return conn.branch(ctx, name)
}

func (c *connection) branch(ctx context.Context, name plumbing.ReferenceName) (hash string, exists bool, err error) {
	_, advertised, err := c.uploadPack(ctx)
	if err != nil {
		return "", false, err
	}
	at, exists := advertised.References[name.String()]
	if !exists {
		return "", false, nil
	}
	return at.String(), true, nil
}
