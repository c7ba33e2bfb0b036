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
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	hashSize   = 20
	recordSize = 32
	// buckets is the number of prefixes of two bytes, and fanoutSize the size of the table before the records.
	buckets    = 1 << 16
	fanoutSize = buckets * 4
	// blockSize is the number of records that are read at once.
	blockSize = 64

	kindShift = 28
	markedBit = 1 << 31
)

// record is an object in the index: its hash; size, kind and mark in 4 bytes; the offset in the data.
type record [recordSize]byte

func newRecord(hash plumbing.Hash, kind plumbing.ObjectType, size, at int64) (r record) {
	copy(r[:], hash[:])
	binary.BigEndian.PutUint32(r[hashSize:], uint32(kind)<<kindShift|uint32(size))
	binary.BigEndian.PutUint64(r[hashSize+4:], uint64(at))
	return r
}

func (r record) hash() plumbing.Hash       { return plumbing.Hash(r[:hashSize]) }
func (r record) flags() uint32             { return binary.BigEndian.Uint32(r[hashSize:]) }
func (r record) size() int64               { return int64(r.flags() & (1<<kindShift - 1)) }
func (r record) kind() plumbing.ObjectType { return plumbing.ObjectType(r.flags() >> kindShift & 7) }
func (r record) marked() bool              { return r.flags()&markedBit != 0 }
func (r record) at() int64                 { return int64(binary.BigEndian.Uint64(r[hashSize+4:])) }

func compareRecords(a, b record) int { return bytes.Compare(a[:hashSize], b[:hashSize]) }

// index finds objects by hash. It stays on disk, because in memory a large one would need 32 MB while a clone is in
// use. It contains the number of records up to the end of each bucket, followed by the records sorted by hash.
type index struct {
	dir string
	// file and fanout are nil while there are no records.
	file   *os.File
	fanout []byte
}

func openIndex(dir string) (*index, error) {
	i := &index{dir: dir}
	file, err := os.OpenFile(i.path(), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return nil, err
	}
	i.file, i.fanout = file, make([]byte, fanoutSize)
	if _, err := io.ReadFull(file, i.fanout); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return i, nil
}

func (i *index) path() string { return filepath.Join(i.dir, indexFile) }

func (i *index) close() error {
	if i.file == nil {
		return nil
	}
	return i.file.Close()
}

// mark marks a record that find returned.
func (i *index) mark(r record, at int64) error {
	binary.BigEndian.PutUint32(r[hashSize:], r.flags()|markedBit)
	_, err := i.file.WriteAt(r[:], at)
	return err
}

// find returns a record and its offset in the file.
func (i *index) find(hash plumbing.Hash) (r record, at int64, found bool, err error) {
	low, high := i.bucket(int(binary.BigEndian.Uint16(hash[:])))
	for high-low > blockSize && err == nil {
		middle := (low + high) / 2
		_, err = i.file.ReadAt(r[:], offset(middle))
		if bytes.Compare(r[:hashSize], hash[:]) <= 0 {
			low = middle
		} else {
			high = middle
		}
	}
	if err != nil || low == high {
		return record{}, 0, false, err
	}
	var block [blockSize * recordSize]byte
	if _, err := i.file.ReadAt(block[:(high-low)*recordSize], offset(low)); err != nil {
		return record{}, 0, false, err
	}
	nth := sort.Search(high-low, func(n int) bool { return bytes.Compare(block[n*recordSize:][:hashSize], hash[:]) >= 0 })
	if nth == high-low {
		return record{}, 0, false, nil
	}
	r = record(block[nth*recordSize:])
	return r, offset(low + nth), r.hash() == hash, nil
}

// bucket returns the range of records in a bucket.
func (i *index) bucket(nth int) (low, high int) {
	if i.file == nil {
		return 0, 0
	}
	if nth > 0 {
		low = int(binary.BigEndian.Uint32(i.fanout[4*nth-4:]))
	}
	return low, int(binary.BigEndian.Uint32(i.fanout[4*nth:]))
}

// size returns the size of the file in bytes.
func (i *index) size() int64 {
	if i.file == nil {
		return 0
	}
	_, count := i.bucket(buckets - 1)
	return offset(count)
}

func offset(nth int) int64 { return fanoutSize + int64(nth)*recordSize }

// add adds records, which it sorts. Existing records are kept.
func (i *index) add(records []record) error {
	slices.SortStableFunc(records, compareRecords)
	if len(records) == 0 {
		return nil
	}
	next, err := os.Create(i.path() + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(i.merge(next, records), next.Close(), i.close()); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), i.path()); err != nil {
		return err
	}
	merged, err := openIndex(i.dir)
	if err == nil {
		*i = *merged
	}
	return err
}

// merge writes an index with the records of this one and others. Both are sorted.
func (i *index) merge(next *os.File, others []record) error {
	counts := make([]uint32, buckets)
	var last record
	out := bufio.NewWriterSize(next, 1<<16)
	write := func(r record) {
		if r.hash() != last.hash() {
			counts[binary.BigEndian.Uint16(r[:])]++
			_, _ = out.Write(r[:]) // Flush returns the error
		}
		last = r
	}
	_, _ = out.Write(make([]byte, fanoutSize))
	err := i.each(func(r record) {
		for len(others) > 0 && compareRecords(others[0], r) < 0 {
			write(others[0])
			others = others[1:]
		}
		write(r)
	})
	for _, r := range others {
		write(r)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	fanout, sum := make([]byte, 0, fanoutSize), uint32(0)
	for _, count := range counts {
		sum += count
		fanout = binary.BigEndian.AppendUint32(fanout, sum)
	}
	_, err = next.WriteAt(fanout, 0)
	return err
}

func (i *index) each(do func(record)) error {
	if i.file == nil {
		return nil
	}
	_, count := i.bucket(buckets - 1)
	in := bufio.NewReaderSize(io.NewSectionReader(i.file, fanoutSize, int64(count)*recordSize), 1<<16)
	for range count {
		var r record
		if _, err := io.ReadFull(in, r[:]); err != nil {
			return err
		}
		do(r)
	}
	return nil
}
