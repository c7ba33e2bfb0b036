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

// Package leafserver is a light API server of a leaf cluster, for tests that need many of them, or one that misbehaves.
// It serves discovery, get, list and watch for given kinds over TLS and HTTP/2. It has no storage and no admission, and
// refuses only what a test selects.
package leafserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/client-go/util/cert"
)

// Kind is a kind that a Server serves.
type Kind struct {
	Group, Version, Kind, Resource string
}

// Kustomization is Flux's kind.
var Kustomization = Kind{
	Group: kustomizev1.GroupVersion.Group, Version: kustomizev1.GroupVersion.Version, Kind: kustomizev1.KustomizationKind, Resource: "kustomizations",
}

// Request is a request to a Server.
type Request struct {
	// Path and Query are those of its URL.
	Path, Query string
	// Watch is true if it opened a watch.
	Watch bool
	// User is the token of the request.
	User string
}

// Server is an API server. Its methods are safe for concurrent use.
type Server struct {
	address string
	handler http.Handler
	objects *store

	mu       sync.Mutex
	serving  *http.Server // nil while it is stopped
	kinds    []Kind
	accepts  func(token string) bool
	refuse   func(Request) int
	hung     chan struct{} // closed when it answers again; nil while it does
	requests []Request
	dialed   int
	open     map[net.Conn]struct{}
}

// Token is the initially accepted token.
const Token = "a-token"

// credentials are shared by all servers, because creating a key takes longer than starting a server. They are valid on
// loopback, and at one address for servers in a network namespace.
var credentials = sync.OnceValues(func() (tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("198.18.77.2")}, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
})

// Start starts a server on loopback.
func Start(kinds ...Kind) (*Server, error) { return StartAt("127.0.0.1:0", kinds...) }

// StartAt starts a server at an address.
func StartAt(address string, kinds ...Kind) (*Server, error) {
	s := &Server{address: address, objects: newStore(), kinds: kinds, accepts: oneOf(Token), open: map[net.Conn]struct{}{}}
	s.handler = s.routes()
	return s, s.Resume()
}

// Stop stops the server and closes all connections. Its address refuses connections until Resume.
func (s *Server) Stop() error {
	s.mu.Lock()
	serving := s.serving
	s.serving = nil
	s.mu.Unlock()
	if serving == nil {
		return nil
	}
	s.objects.disconnect()
	return serving.Close()
}

// Resume restarts the server at the same address with the same objects.
func (s *Server) Resume() error {
	certificate, err := credentials()
	if err != nil {
		return err
	}
	return s.ResumeWith(certificate)
}

// ResumeWith restarts the server with its own certificate.
func (s *Server) ResumeWith(certificate tls.Certificate) error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	serving := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ConnState:         s.count,
		ErrorLog:          discard,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address, s.serving = listener.Addr().String(), serving
	// It ends with Stop, and returns an error then.
	go func() { _ = serving.ServeTLS(listener, "", "") }()
	return nil
}

func (s *Server) count(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.dialed++
		s.open[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.open, conn)
	}
}

// Connections returns the number of open connections, and of all connections since the start.
func (s *Server) Connections() (open, ever int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.dialed
}

// URL returns the server's address.
func (s *Server) URL() string { return "https://" + s.address }

// CA returns the CA certificate of the server in PEM.
func (s *Server) CA() []byte {
	certificate, err := credentials()
	if err != nil {
		return nil
	}
	var ca []byte
	for _, der := range certificate.Certificate {
		if parsed, err := x509.ParseCertificate(der); err == nil && parsed.IsCA {
			ca = append(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		}
	}
	return ca
}

// Kubeconfig returns a kubeconfig with a token.
func (s *Server) Kubeconfig(token string) []byte { return Kubeconfig(s.URL(), s.CA(), token) }

// Kubeconfig returns a kubeconfig with a token and an address.
func Kubeconfig(url string, ca []byte, token string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"leaf",
"contexts":[{"name":"leaf","context":{"cluster":"leaf","user":"leaf"}}],
"clusters":[{"name":"leaf","cluster":{"server":%q,"certificate-authority-data":%q}}],
"users":[{"name":"leaf","user":{"token":%q}}]}`, url, base64.StdEncoding.EncodeToString(ca), token)
}

// Accept makes the server accept only these tokens.
func (s *Server) Accept(tokens ...string) { s.AcceptIf(oneOf(tokens...)) }

// AcceptIf makes the server accept the tokens that the function accepts.
func (s *Server) AcceptIf(accepts func(token string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepts = accepts
}

func oneOf(tokens ...string) func(string) bool {
	return func(token string) bool { return slices.Contains(tokens, token) }
}

// Serve makes the server serve only these kinds. Watches of others end, as when a CRD is deleted.
func (s *Server) Serve(kinds ...Kind) {
	s.mu.Lock()
	s.kinds = kinds
	s.mu.Unlock()
	s.objects.disconnect()
}

// Refuse gives requests the status that the function returns, unless it is zero. With nil, none is refused. Open
// watches continue.
func (s *Server) Refuse(status func(Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// Disconnect ends all watches.
func (s *Server) Disconnect() { s.objects.disconnect() }

// Hang makes the server accept connections and requests without a response, and silences watches, until Unhang.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = make(chan struct{})
	s.objects.mute(true)
}

// Unhang ends Hang.
func (s *Server) Unhang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.hung)
	s.hung = nil
	s.objects.mute(false)
}

// Requests returns the requests since its last call.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

func (s *Server) served(match func(Kind) bool) []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Kind
	for _, kind := range s.kinds {
		if match(kind) {
			found = append(found, kind)
		}
	}
	return found
}
