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

// Package endpoint serves the HTTP endpoints of controllers, which strangers can reach.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
)

const (
	idleTimeout     = 30 * time.Second
	shutdownTimeout = 10 * time.Second
)

// Serve serves until the context is cancelled, and then waits for the requests. what names them in errors. The limit of
// connections limits the memory that strangers can use: a connection has one request at a time. The caller sets the
// handler, the timeouts of requests, and the limit of headers.
func Serve(ctx context.Context, listener net.Listener, maxConnections int, what string, server *http.Server, log logr.Logger) error {
	server.IdleTimeout = idleTimeout
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelDebug)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	defer stop()
	log.Info("serving "+what, "address", listener.Addr().String())
	if err := server.Serve(netutil.LimitListener(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", what, err)
	}
	if err := <-stopped; err != nil {
		return errors.Join(fmt.Errorf("waiting for requests to end: %w", err), server.Close())
	}
	return nil
}
