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

package leafserver

import (
	"io"
	"net"
	"strings"
	"sync"
)

// Line forwards connections to a server, and can go silent. Then data on open and new connections is neither delivered
// nor rejected.
type Line struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	silent chan struct{} // closed when it carries again; nil while it does
	open   map[net.Conn]struct{}
	closed bool
}

// NewLine returns a line to the server at a URL.
func NewLine(url string) (*Line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Line{listener: listener, to: strings.TrimPrefix(url, "https://"), open: map[net.Conn]struct{}{}}
	go l.accept()
	return l, nil
}

// Blackhole returns a line that never forwards anything.
func Blackhole() (*Line, error) {
	l, err := NewLine("https://127.0.0.1:0")
	if err == nil {
		l.Silence()
	}
	return l, err
}

// URL returns the address of this end of the line.
func (l *Line) URL() string { return "https://" + l.listener.Addr().String() }

// Silence stops forwarding until Restore.
func (l *Line) Silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = make(chan struct{})
	}
}

// Restore resumes forwarding, starting with what was sent meanwhile.
func (l *Line) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent != nil {
		close(l.silent)
		l.silent = nil
	}
}

// Close closes the line and its connections.
func (l *Line) Close() error {
	l.Restore()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for conn := range l.open {
		_ = conn.Close()
	}
	return l.listener.Close()
}

func (l *Line) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		if l.track(conn) {
			go l.carry(conn)
		}
	}
}

// track closes a connection when the line is closed.
func (l *Line) track(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	l.open[conn] = struct{}{}
	return true
}

func (l *Line) end(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, conn)
}

func (l *Line) carry(conn net.Conn) {
	defer l.end(conn)
	l.wait()
	far, err := net.Dial("tcp", l.to)
	if err != nil || !l.track(far) {
		return
	}
	defer l.end(far)
	go func() {
		defer l.end(far)
		_, _ = io.Copy(far, &carried{line: l, Reader: conn})
	}()
	_, _ = io.Copy(conn, &carried{line: l, Reader: far})
}

// wait returns when the line forwards.
func (l *Line) wait() {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

// carried is one direction of a connection.
type carried struct {
	io.Reader
	line *Line
}

func (c *carried) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.line.wait()
	return n, err
}
