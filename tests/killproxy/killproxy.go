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

// Package killproxy stands between a controller and the API server, and ends the controller at a chosen one of its writes. So a
// test can have it crash between any two steps of its work, the same ones each time.
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

// Moment is when to end the controller.
type Moment struct {
	// Write is the number of the write, from 1, since the moment was chosen.
	Write int
	// Done has the API server carry the write out, and the controller not learn of it. Otherwise the API server gets no word of it.
	Done bool
}

// Death tells how a controller was ended.
type Death struct {
	// Write is the method and path of the write.
	Write string
	// Err is what failed about ending it.
	Err error
}

// Proxy forwards requests to an API server, with the credentials that they come with.
type Proxy struct {
	// Config has the address and the CA for the controller to connect to, and no credentials.
	Config *rest.Config

	server  *httptest.Server
	forward http.Handler
	counts  func(*http.Request) bool
	// epoch counts the deaths. What still comes over a connection of a controller that is dead goes nowhere.
	epoch atomic.Int64

	mu sync.Mutex // guards what is below, and orders the writes that count: they are carried out one after the other
	// chosen is the moment that is waited for; nil while there is none.
	chosen *Moment
	kill   func() error
	dead   chan<- Death
	writes int
}

type epochKey struct{}

// New starts a proxy for an API server. Of the requests that change something, those count that counts returns true for.
func New(config *rest.Config, counts func(*http.Request) bool) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	p := &Proxy{counts: counts}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, epochKey{}, p.epoch.Load())
	}
	// A client sends its token over nothing but TLS.
	p.server.StartTLS()
	p.Config = &rest.Config{Host: p.server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}}
	return p, nil
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// KillAt has kill called at a moment, counted from now on, and returns a channel that then tells. Only one moment is waited for at
// a time.
func (p *Proxy) KillAt(moment Moment, kill func() error) <-chan Death {
	p.mu.Lock()
	defer p.mu.Unlock()
	dead := make(chan Death, 1)
	p.chosen, p.kill, p.dead, p.writes = &moment, kill, dead, 0
	return dead
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if changesNothing(r.Method) || !p.counts(r) {
		p.forward.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Context().Value(epochKey{}) != p.epoch.Load() {
		panic(http.ErrAbortHandler)
	}
	p.writes++
	now := p.chosen != nil && p.writes == p.chosen.Write
	if now && !p.chosen.Done {
		p.end(r)
	}
	answer := httptest.NewRecorder()
	p.forward.ServeHTTP(answer, r)
	if now {
		p.end(r)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(w)
}

// end kills the controller that has sent a request, and leaves the request without an answer.
func (p *Proxy) end(r *http.Request) {
	p.epoch.Add(1)
	death := Death{Write: r.Method + " " + r.URL.Path, Err: p.kill()}
	p.dead <- death
	p.chosen, p.kill, p.dead = nil, nil, nil
	panic(http.ErrAbortHandler)
}

func changesNothing(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
