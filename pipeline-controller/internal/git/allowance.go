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
	// heldFor is the number of bytes of memory that go-git needs for each byte that it holds.
	heldFor = 3
	// littleHeld is the number of bytes of a response that are not counted, so most repositories do not depend on
	// others.
	littleHeld = 1 << 20
	// maxHeld is the maximum memory in bytes of all responses together.
	maxHeld = heldFor * maxAdvertisement
)

// held counts the memory of all responses that go-git holds, across all connections.
var held = semaphore.NewWeighted(maxHeld)

var errHeld = errors.New("responses of Git hosts exceed the memory limit")

// allowance is how much a host may still send. The zero value allows nothing.
type allowance struct {
	mu   sync.Mutex
	left int64
	// holds is true if go-git holds what is received. read is the number of bytes so far, and taken the reserved
	// memory.
	holds       bool
	read, taken int64
	// cutOff is the reason why the connection was closed. By SSH, go-git only reports that it has ended.
	cutOff error
}

// hold allows a response that go-git holds in memory.
func (a *allowance) hold(bytes int64) { a.set(bytes, true) }

// pass allows a response that go-git passes on.
func (a *allowance) pass(bytes int64) { a.set(bytes, false) }

func (a *allowance) set(bytes int64, holds bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left, a.holds = bytes, holds
}

// spend counts received bytes.
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

// release releases the memory when nothing is held anymore.
func (a *allowance) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	held.Release(a.taken)
	a.left, a.read, a.taken = 0, 0, 0
}

// readFrom reads as far as the allowance permits.
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

// reason returns why the connection was closed, or nil.
func (a *allowance) reason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cutOff
}

// transport returns a RoundTripper whose responses are limited by the allowance.
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

// allowedConn is a connection whose reads are limited by the allowance.
type allowedConn struct {
	net.Conn
	allowance *allowance
}

func (c allowedConn) Read(p []byte) (int, error) { return c.allowance.readFrom(c.Conn, p) }
