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

// Package apireader reads objects from one API server that is not trusted.
//
// A Reader makes GET requests and no others. Every answer is bounded in size and every request in time. Nothing of an answer is ever part
// of an error: whoever may name a server could use it to read what answers at any address that the controller can reach. What is kept of an
// object is up to the caller, who decodes each as it comes.
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
	// dialTimeout bounds the TCP and the TLS handshake, each.
	dialTimeout = 5 * time.Second
	// RequestTimeout bounds every request but a watch.
	RequestTimeout = 30 * time.Second
	// maxAnswer bounds the body of a list. A page of it may hold some hundred objects of a few 100 KB.
	maxAnswer = 64 << 20
	// maxObject bounds an object: an API server takes none larger than some 3 MB.
	maxObject = 16 << 20
	// maxDocument bounds the body of what tells of the API server itself.
	maxDocument = 1 << 20
	// maxDrained is what is read of an answer that nobody looks at, so that its connection can be used again.
	maxDrained = 4 << 10
)

var (
	// ErrTooLarge says that an answer, or an object in it, is larger than any API server's.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrTooMany says that a list has more objects than were asked for.
	ErrTooMany = errors.New("there are too many objects")
	// ErrMalformed stands for an answer that isn't one of a Kubernetes API server.
	ErrMalformed = errors.New("the answer is malformed")
	// ErrNoKind says that the API server doesn't serve a kind.
	ErrNoKind = errors.New("no such kind")
)

// Reader reads from one API server. Its methods may be called from several goroutines at once.
type Reader struct {
	server    *url.URL
	client    *http.Client
	resources resources
	// transport of the client, and its connections; nil if they are shared with others.
	transport *http.Transport
	dialer    *dialer
	// contact is when the server last gave a sign of life. It has the reading of the monotonic clock: the wall clock may be put back.
	contact atomic.Pointer[time.Time]
}

// New returns a Reader of the API server that a configuration names, with connections of its own. The transport is not client-go's: that one
// comes from a cache for the whole process, where the connections of a kubeconfig that has been replaced would live on.
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
		// There is no IdleConnTimeout. Connections end when they are no longer needed, and net/http would keep each in memory for as long
		// after its end as it may be idle: its timer is started again by the last stream that ends.
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return &Reader{
		server:    server,
		transport: transport,
		dialer:    dialer,
		// A redirect is an answer like any other that isn't one of an API server. It would take the credentials elsewhere.
		client: &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// NewShared returns a Reader of the API server that a configuration names, through a client that others use too.
func NewShared(config *rest.Config, client *http.Client) (*Reader, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &Reader{server: server, client: client}, nil
}

// Disconnect ends all connections, unless they are shared. The next request makes a new one.
func (r *Reader) Disconnect() {
	if r.dialer == nil {
		return
	}
	r.dialer.CloseAll()
	r.transport.CloseIdleConnections()
}

// Close ends all connections for good, unless they are shared. A request that is made later fails.
func (r *Reader) Close() {
	if r.dialer == nil {
		return
	}
	r.dialer.closed.Store(true)
	r.Disconnect()
}

// LastContact returns when the server last gave a sign of life. Zero if it never did.
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

// Ping asks for the version, which everybody may do by default, and which needs nothing of the server but itself.
func (r *Reader) Ping(ctx context.Context) error {
	_, err := r.read(ctx, []string{"version"}, nil, maxDocument)
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) {
		// It is the server that says so.
		r.touch()
		return nil
	}
	return err
}

// Get returns the JSON of an object.
func (r *Reader) Get(ctx context.Context, of Resource, namespace, name string) ([]byte, error) {
	return r.read(ctx, append(of.path(namespace), name), nil, maxObject)
}

// get returns the body of an answer.
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
	// How this ends doesn't matter: the connection is used again, or it isn't.
	_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	return nil, statusError(response.StatusCode)
}

// read returns a whole answer, which may have so many bytes.
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
	reader *Reader
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.reader.touch()
	}
	return n, err
}
