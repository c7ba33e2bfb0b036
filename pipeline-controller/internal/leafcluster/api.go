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

package leafcluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// dialTimeout bounds the TCP and the TLS handshake, each.
	dialTimeout = 5 * time.Second
	// requestTimeout bounds every request but a watch.
	requestTimeout = 30 * time.Second
	// maxAnswer bounds the body of a list. A page of it may hold some hundred objects of a few 100 KB.
	maxAnswer = 64 << 20
	// maxDocument bounds the body of what tells of the API server itself.
	maxDocument = 1 << 20
	// maxDrained is what is read of an answer that nobody looks at, so that its connection can be used again.
	maxDrained = 4 << 10

	userAgent = "sluice-pipeline-controller"
)

// api asks one API server. It makes GET requests and no others.
type api struct {
	server *url.URL
	client *http.Client
	// transport of the client, and its connections; nil if they aren't ours to close.
	transport   *http.Transport
	connections *connections
	// contact is when the server last gave a sign of life. It has the reading of the monotonic clock: the wall clock may be put back.
	contact atomic.Pointer[time.Time]
}

// newAPI returns the API server that a kubeconfig names. The transport is not client-go's: that one comes from a cache for the whole
// process, where the connections of a kubeconfig that has been replaced would live on.
func newAPI(config *rest.Config) (*api, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	open := &connections{open: map[net.Conn]struct{}{}}
	transport := &http.Transport{
		Proxy:               proxy,
		DialContext:         open.dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   true,
		// There is no IdleConnTimeout. Connections end when they are no longer needed, and net/http would keep each in memory for as long
		// after its end as it may be idle: its timer is started again by the last stream that ends.
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return &api{
		server:      server,
		transport:   transport,
		connections: open,
		// A redirect is an answer like any other that isn't one of an API server. It would take the credentials elsewhere.
		client: &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// managementAPI returns the API server of the cluster that the controller runs in, through the client that the manager uses.
func managementAPI(config *rest.Config, client *http.Client) (*api, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &api{server: server, client: client}, nil
}

// hangUp ends all connections. The next request makes a new one.
func (a *api) hangUp() {
	a.connections.hangUp(false)
	a.transport.CloseIdleConnections()
}

// close ends all connections for good. A request that is made later fails.
func (a *api) close() {
	if a.connections == nil {
		return
	}
	a.connections.hangUp(true)
	a.transport.CloseIdleConnections()
}

func (a *api) lastContact() time.Time {
	if contact := a.contact.Load(); contact != nil {
		return *contact
	}
	return time.Time{}
}

func (a *api) touch() {
	now := time.Now()
	a.contact.Store(&now)
}

// get returns the body of an answer. It is in no case part of an error: who makes a Pipeline could use it to read what answers at any
// address that the controller can reach.
func (a *api) get(ctx context.Context, path []string, query url.Values) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url(path, query), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		a.touch()
		return &answer{ReadCloser: response.Body, api: a}, nil
	}
	defer response.Body.Close()
	// How this ends doesn't matter: the connection is used again, or it isn't.
	_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	return nil, statusError(response.StatusCode)
}

// read returns a whole answer, which may have so many bytes.
func (a *api) read(ctx context.Context, path []string, query url.Values, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := a.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, errTooLarge
	}
	return content, nil
}

func (a *api) url(elements []string, query url.Values) string {
	escaped := make([]string, len(elements))
	for i, element := range elements {
		escaped[i] = url.PathEscape(element)
	}
	return (&url.URL{
		Scheme:   a.server.Scheme,
		Host:     a.server.Host,
		Path:     path.Join("/", a.server.Path, strings.Join(elements, "/")),
		RawPath:  path.Join("/", a.server.EscapedPath(), strings.Join(escaped, "/")),
		RawQuery: query.Encode(),
	}).String()
}

// statusError returns the error of an answer that isn't OK, as client-go's reflector knows it.
func statusError(code int) error {
	if code == http.StatusGone {
		return apierrors.NewResourceExpired("the list has expired")
	}
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "", 0, false)
}

// answer notes each sign of life.
type answer struct {
	io.ReadCloser
	api *api
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.api.touch()
	}
	return n, err
}

// connections knows the open connections of a client, and ends them when the client is no longer used. http.Transport ends idle ones
// only.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

var dialer = &net.Dialer{
	Timeout:         dialTimeout,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, fmt.Errorf("dialing %s: %w", address, net.ErrClosed)
	}
	tracked := &trackedConn{Conn: conn, connections: c}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *connections) hangUp(forGood bool) {
	c.mu.Lock()
	open := c.open
	c.open, c.closed = map[net.Conn]struct{}{}, forGood
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	connections *connections
}

func (t *trackedConn) Close() error {
	t.connections.mu.Lock()
	delete(t.connections.open, t)
	t.connections.mu.Unlock()
	return t.Conn.Close()
}
