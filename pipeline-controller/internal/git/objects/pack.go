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
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	packHeaderSize = 12
	checksumSize   = hashSize
	// leastEntry is the minimum size in bytes of an entry.
	leastEntry = 9
)

// errMalformed means that the pack is invalid.
var errMalformed = errors.New("the Git host sent a malformed pack")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errMalformed, fmt.Errorf(format, args...))
}

// header is the header of an entry of a pack. See https://git-scm.com/docs/pack-format.
type header struct {
	kind plumbing.ObjectType
	// size of the object or, for a delta, of the delta.
	size int64
	// base is the offset of the entry on which a delta is based. baseHash is the hash of the object, if the pack refers
	// to it by hash.
	base     int64
	baseHash plumbing.Hash
}

type byteReader interface {
	io.Reader
	io.ByteReader
}

// readPackHeader returns the number of entries of a pack.
func readPackHeader(in io.Reader) (int64, error) {
	var begin [packHeaderSize]byte
	if _, err := io.ReadFull(in, begin[:]); err != nil {
		return 0, malformed("it ends too early")
	}
	if version := binary.BigEndian.Uint32(begin[4:]); string(begin[:4]) != "PACK" || version != 2 {
		return 0, malformed("it does not begin as a pack of version 2")
	}
	return int64(binary.BigEndian.Uint32(begin[8:])), nil
}

// readHeader reads the header of the entry at an offset.
func readHeader(in byteReader, at int64) (h header, err error) {
	b, err := in.ReadByte()
	h.kind, h.size = plumbing.ObjectType(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0 && err == nil; shift += 7 {
		if b, err = in.ReadByte(); shift > 53 {
			return header{}, malformed("the size of an object has too many digits")
		}
		h.size |= int64(b&0x7f) << shift
	}
	switch {
	case err != nil:
	case h.kind == plumbing.OFSDeltaObject:
		h.base, err = readBase(in, at)
	case h.kind == plumbing.REFDeltaObject:
		_, err = io.ReadFull(in, h.baseHash[:])
	case h.kind < plumbing.CommitObject || h.kind > plumbing.TagObject:
		return header{}, malformed("it has an object of type %d", h.kind)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = malformed("it ends too early")
	}
	return h, err
}

// readBase reads the distance to the entry on which a delta is based.
func readBase(in io.ByteReader, at int64) (int64, error) {
	b, err := in.ReadByte()
	back := int64(b & 0x7f)
	for b&0x80 != 0 && err == nil {
		b, err = in.ReadByte()
		back = (back+1)<<7 | int64(b&0x7f)
		if back > at {
			break
		}
	}
	if err == nil && (back <= 0 || back > at) {
		err = malformed("a delta has no base")
	}
	return at - back, err
}

// headerOf returns the header of an entry that is not a delta.
func headerOf(kind plumbing.ObjectType, size int64) []byte {
	first, rest := byte(kind)<<4|byte(size&15), uint64(size>>4)
	if rest == 0 {
		return []byte{first}
	}
	return binary.AppendUvarint([]byte{first | 0x80}, rest)
}
