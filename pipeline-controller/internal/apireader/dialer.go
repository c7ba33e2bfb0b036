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

package apireader

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/connrotation"
)

// dialer tracks the open connections of a client, so they can be closed. http.Transport only closes idle ones.
type dialer struct {
	*connrotation.Dialer
	// closed is set before the connections are closed for good. Otherwise a connection that is being established
	// meanwhile would stay open, and the transport would keep it if it is HTTP/2.
	closed atomic.Bool
}

func newDialer() *dialer {
	return &dialer{Dialer: connrotation.NewDialer((&net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}).DialContext)}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.closed.Load() {
		_ = conn.Close()
		return nil, fmt.Errorf("dialing %s: %w", address, net.ErrClosed)
	}
	return conn, nil
}
