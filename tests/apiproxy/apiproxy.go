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

// Package apiproxy is a proxy between a controller and its API server. A test can interrupt watches, or act at a chosen
// request of the controller. Both are reproducible.
package apiproxy

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Requests selects requests of the controller.
type Requests func(*http.Request) bool

// Proxy forwards requests to an API server with their own credentials.
type Proxy struct {
	front   *httptest.Server
	forward http.Handler

	mu sync.Mutex // guards what is below
	// before is called before the next request that it selects. It is nil if nothing is requested.
	before func(*http.Request)
	isFor  Requests
	// reads are the reads in progress, with the functions that cancel them.
	reads map[*http.Request]*read
	// cut selects the reads that are blocked. It is nil if none are. The channel is closed when they continue.
	cut      Requests
	restored chan struct{}
}

// read is a read in progress.
type read struct {
	end   context.CancelFunc
	ended chan struct{}
}

// Start starts a proxy for the API server of a configuration.
func Start(config *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0)
	p := &Proxy{reads: map[*http.Request]*read{}, forward: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      silent,
	}}
	p.front = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.front.Config.ErrorLog = silent
	// Clients send tokens over TLS only.
	p.front.StartTLS()
	return p, nil
}

// Config returns the address and the CA for the controller to connect to, without credentials.
func (p *Proxy) Config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.front.Certificate().Raw})
	return &rest.Config{Host: p.front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.Resume()
	p.front.CloseClientConnections()
	p.front.Close()
}

// Before calls do once, before the next selected request is forwarded.
func (p *Proxy) Before(requests Requests, do func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isFor, p.before = requests, do
}

// Interrupt ends the selected reads, and returns when none is in progress. As after a restart of the API server, no
// watch can be resumed: the controller must list again, which waits for Resume.
func (p *Proxy) Interrupt(requests Requests) {
	p.mu.Lock()
	p.cut, p.restored = requests, make(chan struct{})
	var ended []chan struct{}
	for r, read := range p.reads {
		if requests(r) {
			read.end()
			ended = append(ended, read.ended)
		}
	}
	p.mu.Unlock()
	for _, each := range ended {
		<-each
	}
}

// Resume unblocks all reads.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.cut = nil
		close(p.restored)
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if before := p.takeBefore(r); before != nil {
		before(r)
	}
	if r.Method != http.MethodGet {
		p.forward.ServeHTTP(w, r)
		return
	}
	for {
		began, restored := p.begin(r)
		switch {
		case restored == nil:
			defer p.finish(r)
			p.forward.ServeHTTP(w, began)
			return
		case goesOn(r):
			expired(w)
			return
		}
		select {
		case <-restored:
		case <-r.Context().Done():
			return
		}
	}
}

// takeBefore returns the function to call before a request, and removes it.
func (p *Proxy) takeBefore(r *http.Request) func(*http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before == nil || !p.isFor(r) {
		return nil
	}
	before := p.before
	p.before, p.isFor = nil, nil
	return before
}

// begin records a read and returns it with its context, or returns the channel to wait for.
func (p *Proxy) begin(r *http.Request) (*http.Request, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil && p.cut(r) {
		return nil, p.restored
	}
	ctx, cancel := context.WithCancel(r.Context())
	p.reads[r] = &read{end: cancel, ended: make(chan struct{})}
	return r.WithContext(ctx), nil
}

func (p *Proxy) finish(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads[r].end()
	close(p.reads[r].ended)
	delete(p.reads, r)
}

// goesOn reports whether a request resumes a watch without a list.
func goesOn(r *http.Request) bool {
	query := r.URL.Query()
	return query.Has("watch") && query.Get("sendInitialEvents") != "true"
}

// expired responds that the resource version is too old.
func expired(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusGone)
	_ = json.NewEncoder(w).Encode(apierrors.NewResourceExpired("").Status())
}
