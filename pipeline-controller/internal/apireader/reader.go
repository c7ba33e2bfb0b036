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

// Package apireader reads objects from an API server that is not trusted.
//
// A Reader only makes GET requests. Every response is limited in size, and every request in time. Errors never contain
// parts of a response: otherwise a user who can name a server could read responses from any address that the controller
// can reach. Callers decide what is kept of an object: they decode each one as it is received.
package apireader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// dialTimeout is the timeout of the TCP handshake, and that of the TLS handshake.
	dialTimeout = 5 * time.Second
	// RequestTimeout is the timeout of all requests except watches.
	RequestTimeout = 30 * time.Second
	// maxAnswer limits the body of a list. A page may contain some hundred objects of a few 100 KB.
	maxAnswer = 64 << 20
	// maxObject limits an object. An API server accepts none larger than about 3 MB.
	maxObject = 16 << 20
	// maxDocument limits the body of responses about the API server itself.
	maxDocument = 1 << 20
	// maxDrained is how much of an ignored response is read, so its connection can be reused.
	maxDrained = 4 << 10
)

var (
	// ErrTooLarge means that a response, or an object in it, is larger than any API server's.
	ErrTooLarge = errors.New("the response is too large")
	// ErrTooMany means that a list has more objects than requested.
	ErrTooMany = errors.New("there are too many objects")
	// ErrMalformed means that a response is not from a Kubernetes API server.
	ErrMalformed = errors.New("the response is malformed")
	// ErrNoKind means that the API server does not serve a kind.
	ErrNoKind = errors.New("no such kind")
)

// Reader reads from one API server. It is safe for concurrent use.
type Reader struct {
	server    *url.URL
	client    *http.Client
	resources resources
	// transport of the client and its connections; nil if they are shared.
	transport *http.Transport
	dialer    *dialer
	// contact is the time of the last response. It includes the monotonic clock, because the wall clock may be set
	// back.
	contact atomic.Pointer[time.Time]
}

// New returns a Reader of the API server of a configuration, with its own connections. It does not use client-go's
// transports. Those are cached for the whole process, so the connections of a replaced kubeconfig would stay open.
func New(config *rest.Config) (*Reader, error) {
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
	dialer := newDialer()
	transport := &http.Transport{
		Proxy:               proxy,
		DialContext:         dialer.dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   true,
		// There is no IdleConnTimeout. Connections are closed when they are no longer needed. With the timeout,
		// net/http would keep each closed connection in memory for that time: the last stream that ends restarts its
		// timer.
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return &Reader{
		server:    server,
		transport: transport,
		dialer:    dialer,
		// A redirect is not a response of an API server, and following it would send the credentials elsewhere.
		client: &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// NewShared returns a Reader of the API server of a configuration that uses a shared client.
func NewShared(config *rest.Config, client *http.Client) (*Reader, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &Reader{server: server, client: client}, nil
}

// Disconnect closes all connections, unless they are shared. The next request opens a new one.
func (r *Reader) Disconnect() {
	if r.dialer == nil {
		return
	}
	r.dialer.CloseAll()
	r.transport.CloseIdleConnections()
}

// Close closes all connections for good, unless they are shared. Later requests fail.
func (r *Reader) Close() {
	if r.dialer == nil {
		return
	}
	r.dialer.closed.Store(true)
	r.Disconnect()
}

// LastContact returns the time of the last response, or zero.
func (r *Reader) LastContact() time.Time {
	if contact := r.contact.Load(); contact != nil {
		return *contact
	}
	return time.Time{}
}

func (r *Reader) touch() {
	now := time.Now()
	r.contact.Store(&now)
}

// Ping requests the version. By default, everyone is allowed to, and the server needs no other component to respond.
func (r *Reader) Ping(ctx context.Context) error {
	_, err := r.read(ctx, []string{"version"}, nil, maxDocument)
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) {
		// The response is from the server itself.
		r.touch()
		return nil
	}
	return err
}

// Get returns the JSON of an object.
func (r *Reader) Get(ctx context.Context, of Resource, namespace, name string) ([]byte, error) {
	return r.read(ctx, append(of.path(namespace), name), nil, maxObject)
}

// get returns the body of a response.
func (r *Reader) get(ctx context.Context, path []string, query url.Values) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url(path, query), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		r.touch()
		return &answer{ReadCloser: response.Body, reader: r}, nil
	}
	defer response.Body.Close()
	// Errors do not matter: the connection is either reused or not.
	_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	return nil, statusError(response.StatusCode)
}

// read returns a whole response of limited size.
func (r *Reader) read(ctx context.Context, path []string, query url.Values, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	body, err := r.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, ErrTooLarge
	}
	return content, nil
}

func (r *Reader) url(elements []string, query url.Values) string {
	escaped := make([]string, len(elements))
	for i, element := range elements {
		escaped[i] = url.PathEscape(element)
	}
	return (&url.URL{
		Scheme:   r.server.Scheme,
		Host:     r.server.Host,
		Path:     path.Join("/", r.server.Path, strings.Join(elements, "/")),
		RawPath:  path.Join("/", r.server.EscapedPath(), strings.Join(escaped, "/")),
		RawQuery: query.Encode(),
	}).String()
}

// statusError returns the error of a response that is not OK, in the form that client-go's reflector expects.
func statusError(code int) error {
	if code == http.StatusGone {
		return apierrors.NewResourceExpired("the list has expired")
	}
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "", 0, false)
}

// answer records the time of each read.
type answer struct {
	io.ReadCloser
	reader *Reader
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.reader.touch()
	}
	return n, err
}
