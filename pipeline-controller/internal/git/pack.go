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
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// bounded passes a pack on up to the first object that is larger than allowed. It must be closed.
//
// go-git holds each object of a pack in memory while it makes an index, and a pack of a few kilobytes can have objects of
// gigabytes in it. So the headers of the objects are read on the way, those of deltas too, which say how much they make.
func bounded(pack io.Reader) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(checkSizes(io.TeeReader(pack, writer))) }()
	return reader
}

func checkSizes(pack io.Reader) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	all := uint64(0)
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		size, begin := uint64(header.Length), prefix{}
		if size <= maxObject {
			if _, _, err := scanner.NextObject(&begin); err != nil {
				return err
			}
		}
		if header.Type.IsDelta() {
			size = max(size, begin.result())
		}
		if size > maxObject {
			return fmt.Errorf("the repository has a file of %d bytes, of which there may be no more than %d", size, maxObject)
		}
		if all += size; all > maxUnpacked {
			return fmt.Errorf("the files of the repository have more than %d bytes", int64(maxUnpacked))
		}
	}
	// What is left is the checksum.
	_, err = io.Copy(io.Discard, pack)
	return err
}

// prefix keeps the first bytes that are written to it: as many as two numbers take.
type prefix struct{ kept []byte }

func (p *prefix) Write(b []byte) (int, error) {
	p.kept = append(p.kept, b[:min(len(b), 2*binary.MaxVarintLen64-len(p.kept))]...)
	return len(b), nil
}

// result is the size of what a delta makes. It begins with that of what it is made from.
func (p *prefix) result() uint64 {
	_, n := binary.Uvarint(p.kept)
	size, _ := binary.Uvarint(p.kept[max(n, 0):])
	return size
}
