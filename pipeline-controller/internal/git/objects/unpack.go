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

package objects

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto"
	"errors"
	"fmt"
	gohash "hash"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

// entryMemory is the memory in bytes of an entry while its pack is unpacked.
const entryMemory = recordSize + 2*48

// unpacking finds the objects of a pack, and resolves its deltas.
type unpacking struct {
	*Store
	// left is the number of bytes that may still be unpacked.
	left int64
	// found are the whole objects.
	found []record
	// byOffset and byHash are the deltas, sorted by their base.
	byOffset []offsetDelta
	byHash   []hashDelta
	// leavesOut is true if the pack has an object that is too large.
	leavesOut bool

	hash    gohash.Hash
	buffer  []byte
	out     *bufio.Writer
	deflate *zlib.Writer
}

// delta is an entry of a pack that is a delta.
type delta struct {
	// at is the offset of the entry. It is 0, which is no valid offset, once the delta is resolved.
	at int64
	// size is that of the delta itself, from that of its base, and to that of its result.
	size, from, to int32
}

type offsetDelta struct {
	base int64
	delta
}

type hashDelta struct {
	base plumbing.Hash
	delta
}

// whole is a whole object, and the offset by which deltas refer to it.
type whole struct {
	record
	entry int64
}

// unpack adds the objects of the pack at an offset of the store's data.
func (s *Store) unpack(ctx context.Context, start int64) error {
	section := io.NewSectionReader(s.data, start, s.size-start)
	count, err := readPackHeader(section)
	if err != nil {
		return err
	}
	if count > int64(s.limits.Objects) {
		return fmt.Errorf("the repository has more than %d files and directories", s.limits.Objects)
	}
	if count > section.Size()/leastEntry {
		return malformed("it is too short for %d objects", count)
	}
	giveBack, err := take(ctx, s.memory.entries, count*entryMemory)
	if err != nil {
		return err
	}
	defer giveBack()
	deflate, err := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	if err != nil {
		return err
	}
	u := &unpacking{
		Store: s, left: s.limits.Unpacked, found: make([]record, 0, count),
		hash: hash.New(crypto.SHA1), buffer: make([]byte, 1<<15), out: bufio.NewWriter(nil), deflate: deflate,
	}
	if err := u.scan(ctx, section, start, count); err != nil {
		return err
	}
	if err := u.resolve(ctx); err != nil {
		return err
	}
	return s.addRecords(u.found)
}

// addRecords adds records to the index. For a moment, the index is on disk twice.
func (s *Store) addRecords(records []record) error {
	before := s.index.size()
	most := offset(len(records)) + before
	if err := s.grow(most); err != nil {
		return err
	}
	if err := s.index.add(records); err != nil {
		return s.failed(err)
	}
	return s.grow(s.index.size() - most - before)
}

// scan reads all entries without holding any.
func (u *unpacking) scan(ctx context.Context, section *io.SectionReader, start, count int64) error {
	in := &inflater{Reader: bufio.NewReaderSize(section, 1<<16)}
	position := func() int64 {
		read, _ := section.Seek(0, io.SeekCurrent) // it always succeeds
		return read - int64(in.Buffered())
	}
	for range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := start + position()
		h, err := readHeader(in, at)
		if err != nil {
			return err
		}
		if err := u.count(h.size); err != nil {
			return err
		}
		if err := u.entry(in, at, h); err != nil {
			return err
		}
	}
	if position() != section.Size()-checksumSize {
		return malformed("it does not end after its last object")
	}
	return nil
}

// count counts unpacked bytes.
func (u *unpacking) count(bytes int64) error {
	if u.left -= bytes; u.left < 0 {
		return fmt.Errorf("with a file of %d bytes, the repository exceeds the limit of %d bytes for all files", bytes, u.limits.Unpacked)
	}
	return nil
}

// entry reads an entry.
func (u *unpacking) entry(in *inflater, at int64, h header) error {
	switch {
	case h.kind.IsDelta():
		return u.delta(in, at, h)
	case h.size <= u.limits.Object:
		hash, err := u.sum(h.kind, h.size, func(w io.Writer) error { return u.inflate(in, h.size, w) })
		u.found = append(u.found, newRecord(hash, h.kind, h.size, at))
		return err
	case h.kind == plumbing.BlobObject:
		u.leavesOut = true
		return u.inflate(in, h.size, io.Discard)
	default:
		return fmt.Errorf("the repository has a %s of %d bytes, more than the limit of %d", h.kind, h.size, u.limits.Object)
	}
}

// delta reads a delta and keeps its header.
func (u *unpacking) delta(in *inflater, at int64, h header) error {
	begin := prefix{}
	if err := u.inflate(in, h.size, &begin); err != nil {
		return err
	}
	from, to, _, err := deltaSizes(begin.kept)
	if err != nil {
		return err
	}
	if max(h.size, from, to) > u.limits.Object {
		u.leavesOut = true
		return nil
	}
	d := delta{at: at, size: int32(h.size), from: int32(from), to: int32(to)}
	if h.kind == plumbing.OFSDeltaObject {
		u.byOffset = append(u.byOffset, offsetDelta{h.base, d})
	} else {
		u.byHash = append(u.byHash, hashDelta{h.baseHash, d})
	}
	return nil
}

// prefix keeps the first bytes that are written to it.
type prefix struct{ kept []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.kept = append(p.kept, b[:min(len(b), deltaHeaderSize-len(p.kept))]...)
	return len(b), nil
}

// inflate reads the data after an entry's header, which must have exactly that size.
func (u *unpacking) inflate(in *inflater, size int64, to io.Writer) error {
	if err := in.begin(); err != nil {
		return malformed("an object can't be inflated: %w", err)
	}
	inflated, err := io.CopyBuffer(to, io.LimitReader(in.zlib, size+1), u.buffer)
	if err != nil {
		return malformed("an object can't be inflated: %w", err)
	}
	if inflated != size {
		return malformed("an object does not have the %d bytes that it declares", size)
	}
	return nil
}

// sum returns the hash of an object whose content is written by write.
func (u *unpacking) sum(kind plumbing.ObjectType, size int64, write func(io.Writer) error) (plumbing.Hash, error) {
	u.hash.Reset()
	fmt.Fprintf(u.hash, "%s %d\x00", kind, size)
	err := write(u.hash)
	return plumbing.Hash(u.hash.Sum(nil)), err
}

// resolve resolves the deltas whose bases are whole objects of this pack or of the store, directly or through other
// deltas.
func (u *unpacking) resolve(ctx context.Context) error {
	slices.SortFunc(u.byOffset, func(a, b offsetDelta) int { return cmp.Compare(a.base, b.base) })
	slices.SortFunc(u.byHash, func(a, b hashDelta) int { return bytes.Compare(a.base[:], b.base[:]) })
	for _, r := range u.found {
		if err := u.resolveUpon(ctx, whole{r, r.at()}); err != nil {
			return err
		}
	}
	for i := range u.byHash {
		if u.byHash[i].at == 0 {
			continue
		}
		r, _, found, err := u.index.find(u.byHash[i].base)
		if err == nil && found {
			err = u.resolveUpon(ctx, whole{r, -1})
		}
		if err != nil {
			return err
		}
	}
	isLeft := func(d delta) bool { return d.at != 0 }
	left := slices.ContainsFunc(u.byOffset, func(d offsetDelta) bool { return isLeft(d.delta) }) ||
		slices.ContainsFunc(u.byHash, func(d hashDelta) bool { return isLeft(d.delta) })
	// Deltas of an omitted blob are omitted too.
	if left && !u.leavesOut {
		return malformed("the base of a delta is missing")
	}
	return nil
}

// resolveUpon resolves the deltas of an object, the deltas of those, and so on.
func (u *unpacking) resolveUpon(ctx context.Context, base whole) error {
	bases := []whole{base}
	for len(bases) > 0 {
		last := bases[len(bases)-1]
		bases = bases[:len(bases)-1]
		made, err := u.applyAll(ctx, last, u.upon(last))
		if err != nil {
			return err
		}
		bases = append(bases, made...)
	}
	return nil
}

// upon returns the deltas of an object.
func (u *unpacking) upon(base whole) (deltas []*delta) {
	first, _ := slices.BinarySearchFunc(u.byOffset, base.entry, func(d offsetDelta, at int64) int { return cmp.Compare(d.base, at) })
	for i := first; i < len(u.byOffset) && u.byOffset[i].base == base.entry; i++ {
		deltas = append(deltas, &u.byOffset[i].delta)
	}
	hash := base.hash()
	first, _ = slices.BinarySearchFunc(u.byHash, hash, func(d hashDelta, h plumbing.Hash) int { return bytes.Compare(d.base[:], h[:]) })
	for i := first; i < len(u.byHash) && u.byHash[i].base == hash; i++ {
		if u.byHash[i].at != 0 {
			deltas = append(deltas, &u.byHash[i].delta)
		}
	}
	return deltas
}

// applyAll resolves deltas of one object.
func (u *unpacking) applyAll(ctx context.Context, base whole, deltas []*delta) (made []whole, err error) {
	if len(deltas) == 0 {
		return nil, nil
	}
	var size, to int32
	for _, d := range deltas {
		size, to = max(size, d.size), max(to, d.to)
	}
	giveBack, err := take(ctx, u.memory.contents, base.size()+int64(size)+int64(to))
	if err != nil {
		return nil, err
	}
	defer giveBack()
	content, packed, result := make([]byte, base.size()), make([]byte, size), make([]byte, 0, to)
	if err := u.read(base.at(), content); err != nil {
		return nil, err
	}
	for _, d := range deltas {
		if err := errors.Join(ctx.Err(), u.count(int64(d.to)), u.read(d.at, packed[:d.size])); err != nil {
			return nil, err
		}
		result, err := applyDelta(result, content, packed[:d.size])
		if err != nil {
			return nil, err
		}
		r, err := u.add(base.kind(), result)
		if err != nil {
			return nil, err
		}
		made = append(made, whole{r, d.at})
		d.at = 0
	}
	return made, nil
}

// add appends a whole object to the store's data, as an entry like those of packs.
func (u *unpacking) add(kind plumbing.ObjectType, content []byte) (record, error) {
	size := int64(len(content))
	hash, err := u.sum(kind, size, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		return record{}, err
	}
	r := newRecord(hash, kind, size, u.size)
	u.found = append(u.found, r)
	to := io.NewOffsetWriter(u.data, u.size)
	u.out.Reset(growing{u.grow, to})
	u.deflate.Reset(u.out)
	_, err = u.out.Write(headerOf(kind, size))
	if err == nil {
		_, err = u.deflate.Write(content)
	}
	err = errors.Join(err, u.deflate.Close(), u.out.Flush())
	written, _ := to.Seek(0, io.SeekCurrent) // it always succeeds
	if u.size += written; err == nil && u.size > u.limits.Disk {
		err = u.full()
	}
	return r, err
}
