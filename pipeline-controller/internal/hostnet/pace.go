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

package hostnet

import (
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// LeastRate is the minimum rate in bytes per second at which a host must send while it is waited for, averaged over
	// a Window. The connection is also closed if a host accepts no bytes for a Window.
	LeastRate = 1 << 10
	// Window is long enough for a host to prepare its response. Git sends one byte per second in the meantime.
	Window = time.Minute
)

// ErrTooSlow is the error after a connection was closed for being too slow.
var ErrTooSlow = fmt.Errorf("the Git host sent less than %d bytes a second for %s", LeastRate, Window)

// Pace measures how fast a host sends. Time during which it is not waited for does not count. The zero value is ready
// to use.
type Pace struct {
	waited time.Duration
	got    int
}

// Read reads, and calls interrupt if nothing was received for a Window. The error is ErrTooSlow if the host was too
// slow.
func (p *Pace) Read(read func() (int, error), interrupt func()) (int, error) {
	began := time.Now()
	timer := time.AfterFunc(Window, interrupt)
	n, err := read()
	timer.Stop()
	p.waited += time.Since(began)
	p.got += n
	if p.waited < Window {
		return n, err
	}
	tooSlow := float64(p.got) < LeastRate*p.waited.Seconds()
	*p = Pace{}
	if tooSlow && err != io.EOF {
		return n, ErrTooSlow
	}
	return n, err
}

// Paced returns a connection that is closed if its host sends too slowly. It is for connections on which the host is
// always waited for.
func Paced(conn net.Conn) net.Conn { return &pacedConn{Conn: conn} }

type pacedConn struct {
	net.Conn
	pace Pace
}

func (c *pacedConn) Read(b []byte) (int, error) {
	return c.pace.Read(func() (int, error) { return c.Conn.Read(b) }, func() { _ = c.Close() })
}

// takingConn is a connection that fails if its host accepts no bytes for a Window.
type takingConn struct{ net.Conn }

func (c takingConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(Window)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
