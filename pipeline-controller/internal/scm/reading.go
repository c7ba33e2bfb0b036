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

package scm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// mostRead is the maximum memory in bytes of a response while it is read, and mostReadOfAll that of all responses
	// together. A full page of pull requests with long bodies needs half of the former.
	mostRead      = 64 << 20
	mostReadOfAll = 2 * mostRead
	// A text is in memory as the host sends it, in the decoder's buffer, which grows by doubling, and as a value. An
	// object of a few bytes may have a hundred fields, and a value in a list needs more than the comma after it.
	readPerByte   = 4
	readPerObject = 1 << 10
	readPerValue  = 64
)

var (
	errTooMuch     = fmt.Errorf("the response takes more than %d MiB of memory", mostRead>>20)
	errTooMuchBoth = errors.New("responses of Git hosts exceed the memory limit, and this one is the largest")
)

// reading limits the memory of all responses that are being read. If they exceed it, the largest one is cancelled, so a
// host that sends much, or slowly, blocks no other.
type reading struct {
	mu     sync.Mutex
	size   int64
	bodies map[*body]struct{}
}

func newReading() *reading { return &reading{bodies: map[*body]struct{}{}} }

// body returns the body of the response to a request that cancel ends.
func (r *reading) body(content io.ReadCloser, cancel context.CancelFunc) *body {
	return &body{ReadCloser: content, all: r, cancel: cancel}
}

// grow gives a body more memory, or returns an error if there is none.
func (r *reading) grow(b *body, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.givenUp != nil {
		return b.givenUp
	}
	r.bodies[b] = struct{}{}
	b.size += size
	r.size += size
	if b.size > mostRead {
		r.giveUp(b, errTooMuch)
	}
	for r.size > mostReadOfAll {
		r.giveUp(r.largest(), errTooMuchBoth)
	}
	return b.givenUp
}

func (r *reading) largest() *body {
	var largest *body
	for candidate := range r.bodies {
		if largest == nil || candidate.size > largest.size {
			largest = candidate
		}
	}
	return largest
}

// giveUp cancels a request whose body may be waited for.
func (r *reading) giveUp(b *body, why error) {
	b.givenUp = why
	r.free(b)
	b.cancel()
}

func (r *reading) free(b *body) {
	r.size -= b.size
	b.size = 0
	delete(r.bodies, b)
}

// body is the body of a response in JSON.
type body struct {
	io.ReadCloser
	all    *reading
	cancel context.CancelFunc
	// size and givenUp are guarded by all.mu.
	size    int64
	givenUp error

	inText, isEscaped bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if givenUp := b.all.grow(b, b.weigh(p[:n])); givenUp != nil {
		return 0, givenUp
	}
	return n, err
}

// Close releases the memory of the body and cancels the request.
func (b *body) Close() error {
	b.all.mu.Lock()
	b.all.free(b)
	b.all.mu.Unlock()
	defer b.cancel()
	return b.ReadCloser.Close()
}

// weigh returns the memory in bytes of a part of the body.
func (b *body) weigh(part []byte) int64 {
	weight := readPerByte * int64(len(part))
	for _, c := range part {
		switch {
		case b.isEscaped:
			b.isEscaped = false
		case b.inText && c == '\\':
			b.isEscaped = true
		case c == '"':
			b.inText = !b.inText
		case b.inText:
		case c == '{' || c == '[':
			weight += readPerObject
		case c == ',':
			weight += readPerValue
		}
	}
	return weight
}
