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

// Package objects stores the objects of Git packs on disk. It is designed for untrusted hosts: what a pack claims does
// not cost memory.
//
// A pack is written to disk while it is received, and then read once without holding any object. Deltas are resolved
// and added as whole objects. So later every object can be read by itself, as a stream, regardless of the pack's
// structure. Blobs that are too large are omitted.
package objects

import (
	"bufio"
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// The files of a store.
const (
	dataFile  = "data"
	indexFile = "index"
)

// ErrNotFound means that the object is not in the store. A blob may have been omitted.
var ErrNotFound = errors.New("object not found")

// Limits limit what is accepted from a host.
type Limits struct {
	// Pack is the maximum size in bytes of a pack as it is received.
	Pack int64
	// Object is the maximum size in bytes of objects. Larger blobs are omitted. A pack with any other larger object is
	// rejected.
	Object int64
	// Unpacked is the maximum size in bytes of all objects of a pack together, and Objects their maximum number.
	Unpacked int64
	Objects  int
	// Disk is the maximum size in bytes of all packs of a store, including resolved deltas.
	Disk int64
}

// Grow is called before a store needs more bytes on disk, and after it needs fewer. After an error, the store can no
// longer be used, and all operations return that error.
type Grow func(bytes int64) error

// Store contains objects in a directory. It is not safe for concurrent use.
type Store struct {
	dir    string
	limits Limits
	memory *Memory
	grow   Grow
	// data contains the packs as they were received, each followed by its resolved deltas. size is its size.
	data  *os.File
	size  int64
	index *index
	// inflaters are reused, because each needs 40 KB.
	inflaters sync.Pool
}

// Open opens the store in a directory, which it creates if necessary.
func Open(dir string, limits Limits, memory *Memory, grow Grow) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	data, err := os.OpenFile(filepath.Join(dir, dataFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, limits: limits, memory: memory, grow: grow, data: data}
	if s.size, err = data.Seek(0, io.SeekEnd); err == nil {
		s.index, err = openIndex(dir)
	}
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return s, nil
}

// Discard frees the space of the store in a directory, even while it is open. After that, the store can neither be used
// nor opened again.
func Discard(dir string) error {
	var errs []error
	for _, name := range []string{dataFile, indexFile} {
		if err := os.Truncate(filepath.Join(dir, name), 0); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close closes the store's files. The store can be opened again.
func (s *Store) Close() error { return errors.Join(s.data.Close(), s.index.close()) }

// Add adds the objects of a pack, which it closes as soon as it is on disk. Its deltas may be based on existing
// objects. After an error, the store must neither be used nor opened again.
func (s *Store) Add(ctx context.Context, pack io.ReadCloser) error {
	start := s.size
	if err := errors.Join(s.spool(pack), pack.Close()); err != nil {
		return err
	}
	return s.unpack(ctx, start)
}

// spool writes a pack to disk.
func (s *Store) spool(pack io.Reader) error {
	most := min(s.limits.Pack, s.limits.Disk-s.size)
	written, err := io.Copy(growing{s.grow, io.NewOffsetWriter(s.data, s.size)}, io.LimitReader(pack, most+1))
	s.size += written
	switch {
	case err != nil:
		return err
	case written > s.limits.Pack:
		return fmt.Errorf("the repository's pack is larger than %d bytes", s.limits.Pack)
	case s.size > s.limits.Disk:
		return s.full()
	}
	return nil
}

// growing writes as long as there is space.
type growing struct {
	grow Grow
	to   io.Writer
}

func (w growing) Write(p []byte) (int, error) {
	if err := w.grow(int64(len(p))); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// failed returns why reading failed: the store may have been discarded.
func (s *Store) failed(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(s.grow(0), err)
}

func (s *Store) full() error {
	return fmt.Errorf("the repository takes more than %d bytes on disk", s.limits.Disk)
}

// Find returns an object. The error is ErrNotFound if it does not exist or is of another kind.
func (s *Store) Find(kind plumbing.ObjectType, hash plumbing.Hash) (Object, error) {
	r, at, found, err := s.index.find(hash)
	if err != nil {
		return Object{}, s.failed(err)
	}
	if !found || r.kind() != kind {
		return Object{}, fmt.Errorf("%s %s: %w", kind, hash, ErrNotFound)
	}
	return Object{store: s, record: r, indexed: at}, nil
}

// Object is an object of a store. It is valid until something is added to the store.
type Object struct {
	store   *Store
	record  record
	indexed int64
}

// Size returns the object's size in bytes.
func (o Object) Size() int64 { return o.record.size() }

// Open returns the object's content as a stream.
func (o Object) Open() (io.ReadCloser, error) { return o.store.open(o.record.at()) }

// Read returns the object's content.
func (o Object) Read() ([]byte, error) {
	content := make([]byte, o.Size())
	return content, o.store.read(o.record.at(), content)
}

// Marked reports whether the object is marked.
func (o Object) Marked() bool { return o.record.marked() }

// Mark marks the object, for the caller's own use. The mark is stored in the store.
func (o Object) Mark() error { return o.store.index.mark(o.record, o.indexed) }

// read reads the content of the entry at an offset, which has the length of into.
func (s *Store) read(at int64, into []byte) error {
	stream, err := s.open(at)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(stream, into)
	return errors.Join(s.failed(err), stream.Close())
}

// open returns the inflated content of the entry at an offset.
func (s *Store) open(at int64) (io.ReadCloser, error) {
	in, _ := s.inflaters.Get().(*inflater)
	if in == nil {
		in = &inflater{Reader: bufio.NewReader(nil)}
	}
	in.Reset(io.NewSectionReader(s.data, at, s.size-at))
	_, err := readHeader(in, at)
	if err == nil {
		err = in.begin()
	}
	if err != nil {
		return nil, s.failed(err)
	}
	return &stream{s, in}, nil
}

// stream is the content of an object. It must be closed.
type stream struct {
	store    *Store
	inflater *inflater
}

func (s *stream) Read(p []byte) (int, error) {
	if s.inflater == nil {
		return 0, os.ErrClosed
	}
	n, err := s.inflater.zlib.Read(p)
	if err != io.EOF {
		err = s.store.failed(err)
	}
	return n, err
}

func (s *stream) Close() error {
	if s.inflater != nil {
		s.store.inflaters.Put(s.inflater)
		s.inflater = nil
	}
	return nil
}

// inflater reads entries of packs.
type inflater struct {
	*bufio.Reader
	zlib io.ReadCloser
}

// begin resets zlib to read what follows.
func (i *inflater) begin() (err error) {
	if i.zlib == nil {
		i.zlib, err = zlib.NewReader(i)
		return err
	}
	return i.zlib.(zlib.Resetter).Reset(i, nil)
}
