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

// Package endpoint is the HTTP endpoint that answers whether a gate is open, for webhooks such as Flagger's.
package endpoint

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/runtime/endpoint"
)

const (
	maxHeader      = 16 << 10
	maxConnections = 64

	readTimeout = 5 * time.Second
	// requestTimeout is how long a request waits for the cache to sync. Flagger waits 10 seconds for a webhook.
	requestTimeout = 5 * time.Second
	writeTimeout   = readTimeout + requestTimeout + 5*time.Second
)

// Server is the endpoint. Every replica of the controller serves it, not only the leader.
type Server struct {
	// Addr is the address to listen on.
	Addr string
	// Gates reads Gates from a cache. It waits until the cache has synced, or returns an error.
	Gates client.Reader
	Now   func() time.Time
	Log   logr.Logger
}

// NeedLeaderElection returns false: every replica serves the endpoint.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context is cancelled.
func (s *Server) Start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listening for requests about gates: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /gates/{namespace}/{name}", s.answer)
	mux.HandleFunc("POST /gates/{namespace}/{name}", s.answer)
	server := &http.Server{
		Handler:        mux,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeader,
	}
	return endpoint.Serve(ctx, listener, maxConnections, "gates", server, s.Log)
}

// answer ignores the body of a request: the path alone names the gate. net/http reads little of an ignored body, and
// closes the connection if there is more.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	code, message := s.ask(ctx, types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, message) // the client may have disconnected
}

// ask returns 200 only for a gate that is known to be open.
func (s *Server) ask(ctx context.Context, key types.NamespacedName) (int, string) {
	ref := gatingv1.GateReference(key.String())
	found := gatingv1.Found{}
	gate := &gatingv1.Gate{}
	switch err := s.Gates.Get(ctx, key, gate); {
	case err == nil:
		found[ref] = gatingv1.Finding{Gate: gate}
	case !apierrors.IsNotFound(err):
		s.Log.Error(err, "reading a gate failed", "gate", key.String())
		return http.StatusServiceUnavailable, "the state of the gate is unknown: reading it failed"
	}
	switch evaluation := gatingv1.Evaluate(&gatingv1.GateReferences{Refs: []gatingv1.GateReference{ref}}, found, s.Now()); {
	case evaluation.Open:
		return http.StatusOK, evaluation.Message
	case evaluation.Reason == gatingv1.GateNotFoundReason:
		return http.StatusNotFound, evaluation.Message
	default:
		return http.StatusForbidden, evaluation.Message
	}
}
