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

// Package handpack creates Git packs by hand, including packs that Git never creates.
package handpack

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Types of entries.
const (
	Commit = 1
	Tree   = 2
	Blob   = 3
	Tag    = 4
	// OffsetDelta and HashDelta are based on the object in Entry.Upon or Entry.Base.
	OffsetDelta = 6
	HashDelta   = 7
)

// Hash is the hash of an object.
type Hash [sha1.Size]byte

func (h Hash) String() string { return fmt.Sprintf("%x", h[:]) }

// Entry is an entry of a pack.
type Entry struct {
	Type int
	// Size is the declared inflated size. 0 declares the real size.
	Size uint64
	// Content is the inflated content.
	Content []byte
	// Upon is the distance, in entries, to the base of an OffsetDelta.
	Upon int
	// Base is the base of a HashDelta.
	Base Hash
}

// HashOf returns the hash of an object of one of the first four types.
func HashOf(kind int, content []byte) Hash {
	name := map[int]string{Commit: "commit", Tree: "tree", Blob: "blob", Tag: "tag"}[kind]
	return sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", name, len(content)), content...))
}

// Pack returns a pack.
func Pack(entries ...Entry) []byte {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(entries)))
	offsets := make([]int, len(entries))
	for i, e := range entries {
		offsets[i] = len(pack)
		pack = e.appendHeader(pack)
		switch e.Type {
		case OffsetDelta:
			pack = append(pack, distance(offsets[i]-offsets[i-e.Upon])...)
		case HashDelta:
			pack = append(pack, e.Base[:]...)
		}
		pack = append(pack, deflate(e.Content)...)
	}
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

func (e Entry) appendHeader(pack []byte) []byte {
	size := e.Size
	if size == 0 {
		size = uint64(len(e.Content))
	}
	first := byte(e.Type<<4) | byte(size&15)
	if size>>4 == 0 {
		return append(pack, first)
	}
	return binary.AppendUvarint(append(pack, first|0x80), size>>4)
}

// distance encodes the offset of an earlier entry.
func distance(bytes int) []byte {
	encoded := []byte{byte(bytes & 0x7f)}
	for bytes >>= 7; bytes > 0; bytes >>= 7 {
		bytes--
		encoded = append(encoded, byte(bytes&0x7f)|0x80)
	}
	slices.Reverse(encoded)
	return encoded
}

func deflate(content []byte) []byte {
	var deflated bytes.Buffer
	writer := zlib.NewWriter(&deflated)
	_, _ = writer.Write(content) // a Buffer takes everything
	_ = writer.Close()
	return deflated.Bytes()
}

// Delta returns a delta with these steps that declares its sizes as from and to.
func Delta(from, to uint64, steps ...[]byte) []byte {
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, from), to)
	return append(delta, bytes.Join(steps, nil)...)
}

// Copy returns the steps of a delta that copy size bytes from an offset.
func Copy(offset, size int) (steps []byte) {
	const most = 1<<24 - 1
	for ; size > 0; offset, size = offset+most, size-most {
		piece := min(size, most)
		steps = append(steps, 0xff, byte(offset), byte(offset>>8), byte(offset>>16), byte(offset>>24), byte(piece), byte(piece>>8), byte(piece>>16))
	}
	return steps
}

// Insert returns the step of a delta that inserts content of 1 to 127 bytes.
func Insert(content string) []byte { return append([]byte{byte(len(content))}, content...) }

// CommitOf returns a commit with a tree.
func CommitOf(tree Hash) []byte {
	const who = "a <a@example.com> 1767225600 +0000"
	return fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\nm\n", tree, who, who)
}

// TreeOf returns a tree with files, or with directories whose names end in a slash.
func TreeOf(entries map[string]Hash) (tree []byte) {
	names := []string{}
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode := "100644"
		if strings.HasSuffix(name, "/") {
			mode = "40000"
		}
		hash := entries[name]
		tree = append(fmt.Appendf(tree, "%s %s\x00", mode, strings.TrimSuffix(name, "/")), hash[:]...)
	}
	return tree
}
