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

// Package killproxy is a proxy between a controller and its servers that kills the controller at a chosen call. A test
// can reproduce a crash between any two steps.
package killproxy

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Moment is the moment at which to kill the controller.
type Moment struct {
	// Call is the number of the call, from 1, since the moment was set.
	Call int
	// Done forwards the call but not its response. Otherwise, the call is not forwarded.
	Done bool
}

// Death reports how a controller was killed.
type Death struct {
	// Call is the method and path of the call.
	Call string
	// Err is the error of killing it.
	Err error
}

// Proxy forwards requests to servers with their own credentials.
type Proxy struct {
	fronts []*httptest.Server
	// epoch counts the deaths. Requests on connections of a dead controller are dropped.
	epoch atomic.Int64

	mu sync.Mutex // guards what is below, and orders the calls that count: they are carried out one after the other
	// chosen is the pending moment, or nil.
	chosen *Moment
	kill   func() error
	dead   chan<- Death
	calls  int
}

// Counts decides which calls count.
type Counts func(*http.Request) bool

type epochKey struct{}

// Kubernetes forwards to an API server. It returns the address and the CA for the controller, without credentials.
// Reads are not counted.
func (p *Proxy) Kubernetes(config *rest.Config, counts Counts) (*rest.Config, error) {
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	// Clients send tokens over TLS only.
	front, err := p.HTTPS(config.Host, transport, func(r *http.Request) bool { return !changesNothing(r.Method) && counts(r) })
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: CA(front)}}, nil
}

// HTTPS forwards to a server with a transport, and serves with its own certificate.
func (p *Proxy) HTTPS(target string, transport http.RoundTripper, counts Counts) (*httptest.Server, error) {
	front, err := p.front(target, transport, counts)
	if err == nil {
		front.StartTLS()
	}
	return front, err
}

// HTTP forwards to a server with a transport.
func (p *Proxy) HTTP(target string, transport http.RoundTripper, counts Counts) (*httptest.Server, error) {
	front, err := p.front(target, transport, counts)
	if err == nil {
		front.Start()
	}
	return front, err
}

// CA returns the certificate of a front in PEM.
func CA(front *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
}

func (p *Proxy) front(target string, transport http.RoundTripper, counts Counts) (*httptest.Server, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if counts(r) {
			p.count(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, epochKey{}, p.epoch.Load())
	}
	p.fronts = append(p.fronts, front)
	return front, nil
}

// Close ends all connections.
func (p *Proxy) Close() {
	for _, front := range p.fronts {
		front.CloseClientConnections()
		front.Close()
	}
}

// KillAt calls kill at a moment, counted from now on, and returns a channel with the result. Only one moment can be
// pending.
func (p *Proxy) KillAt(moment Moment, kill func() error) <-chan Death {
	p.mu.Lock()
	defer p.mu.Unlock()
	dead := make(chan Death, 1)
	p.chosen, p.kill, p.dead, p.calls = &moment, kill, dead, 0
	return dead
}

// Forget cancels the pending moment.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chosen = nil
}

func (p *Proxy) count(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Context().Value(epochKey{}) != p.epoch.Load() {
		panic(http.ErrAbortHandler)
	}
	p.calls++
	now := p.chosen != nil && p.calls == p.chosen.Call
	if now && !p.chosen.Done {
		p.end(r)
	}
	answer := httptest.NewRecorder()
	forward.ServeHTTP(answer, r)
	if now {
		p.end(r)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}

// end kills the controller that sent a request, and sends no response.
func (p *Proxy) end(r *http.Request) {
	p.epoch.Add(1)
	death := Death{Call: r.Method + " " + r.URL.Path, Err: p.kill()}
	p.dead <- death
	p.chosen, p.kill, p.dead = nil, nil, nil
	panic(http.ErrAbortHandler)
}

func changesNothing(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
