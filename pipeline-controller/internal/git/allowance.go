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

package git

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

const (
	// heldFor is how many bytes of memory go-git takes for a byte of what it holds.
	heldFor = 3
	// littleHeld is how many bytes of an answer are not counted, so that most repositories don't depend on others.
	littleHeld = 1 << 20
	// maxHeld is how many bytes of memory all answers take together.
	maxHeld = heldFor * maxAdvertisement
)

// held counts the memory that answers take which go-git holds: those of all connections, as they have one memory.
var held = semaphore.NewWeighted(maxHeld)

var errHeld = errors.New("responses of Git hosts use too much memory at the moment")

// allowance is how much a host may yet send. The zero value allows nothing.
type allowance struct {
	mu   sync.Mutex
	left int64
	// holds reports whether go-git holds what comes. read is how much that was, and taken is its part of the memory.
	holds       bool
	read, taken int64
	// cutOff is why the host was cut off, if it was. By SSH, go-git tells only that the connection has ended.
	cutOff error
}

// hold allows an answer that go-git holds in memory.
func (a *allowance) hold(bytes int64) { a.set(bytes, true) }

// pass allows an answer that go-git passes on.
func (a *allowance) pass(bytes int64) { a.set(bytes, false) }

func (a *allowance) set(bytes int64, holds bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left, a.holds = bytes, holds
}

// spend counts bytes that have come.
func (a *allowance) spend(bytes int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left -= bytes; a.left < 0 {
		return hosthttp.ErrTooLarge
	}
	if !a.holds {
		return nil
	}
	a.read += bytes
	more := heldFor*max(0, a.read-littleHeld) - a.taken
	if !held.TryAcquire(more) {
		return errHeld
	}
	a.taken += more
	return nil
}

// release gives back the memory, when nothing is held any more.
func (a *allowance) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	held.Release(a.taken)
	a.left, a.read, a.taken = 0, 0, 0
}

// readFrom reads as far as is allowed.
func (a *allowance) readFrom(r io.Reader, p []byte) (int, error) {
	n, err := r.Read(p)
	if over := a.spend(int64(n)); over != nil {
		n, err = 0, over
	}
	if errors.Is(err, hosthttp.ErrTooLarge) || errors.Is(err, errHeld) || errors.Is(err, hostnet.ErrTooSlow) {
		a.mu.Lock()
		a.cutOff = err
		a.mu.Unlock()
	}
	return n, err
}

// reason returns why the host was cut off, and nil if it was not.
func (a *allowance) reason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cutOff
}

// transport returns a RoundTripper whose answers are read as far as is allowed.
func (a *allowance) transport(next http.RoundTripper) http.RoundTripper {
	return allowedTransport{next, a}
}

type allowedTransport struct {
	next      http.RoundTripper
	allowance *allowance
}

func (t allowedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		response.Body = allowedBody{response.Body, t.allowance}
	}
	return response, err
}

type allowedBody struct {
	io.ReadCloser
	allowance *allowance
}

func (b allowedBody) Read(p []byte) (int, error) { return b.allowance.readFrom(b.ReadCloser, p) }

// allowedConn is a connection that is read as far as is allowed.
type allowedConn struct {
	net.Conn
	allowance *allowance
}

func (c allowedConn) Read(p []byte) (int, error) { return c.allowance.readFrom(c.Conn, p) }
