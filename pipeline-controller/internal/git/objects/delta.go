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

import "encoding/binary"

// deltaHeaderSize is the maximum size in bytes of a delta's header: two sizes.
const deltaHeaderSize = 2 * binary.MaxVarintLen64

// deltaSizes returns the sizes of a delta's base and result, and the rest of the delta.
func deltaSizes(delta []byte) (base, result int64, rest []byte, err error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, 0, nil, malformed("a delta has no size")
	}
	to, m := binary.Uvarint(delta[n:])
	if m <= 0 || from>>62 != 0 || to>>62 != 0 {
		return 0, 0, nil, malformed("a delta has no size")
	}
	return int64(from), int64(to), delta[n+m:], nil
}

// applyDelta appends the result of applying delta to base to result, which is empty and has the capacity.
func applyDelta(result, base, delta []byte) ([]byte, error) {
	from, size, delta, err := deltaSizes(delta)
	if err != nil {
		return nil, err
	}
	if from != int64(len(base)) {
		return nil, malformed("a delta needs a base of %d bytes, not %d", from, len(base))
	}
	left := size
	for len(delta) > 0 && left >= 0 {
		var piece []byte
		if delta[0]&0x80 != 0 {
			piece, delta, err = copied(base, delta)
		} else {
			piece, delta, err = inserted(delta)
		}
		if err != nil {
			return nil, err
		}
		if left -= int64(len(piece)); left >= 0 {
			result = append(result, piece...)
		}
	}
	if left != 0 {
		return nil, malformed("a delta does not produce the %d bytes that it declares", size)
	}
	return result, nil
}

// copied returns the piece of base for a copy instruction at the start of delta, and the rest of the delta.
func copied(base, delta []byte) (piece, rest []byte, err error) {
	code, delta := delta[0], delta[1:]
	var number [7]byte
	for bit := range number {
		if code&(1<<bit) == 0 {
			continue
		}
		if len(delta) == 0 {
			return nil, nil, malformed("a delta ends too early")
		}
		number[bit], delta = delta[0], delta[1:]
	}
	offset := int64(binary.LittleEndian.Uint32(number[:4]))
	size := int64(number[4]) | int64(number[5])<<8 | int64(number[6])<<16
	if size == 0 {
		size = 1 << 16
	}
	if offset+size > int64(len(base)) {
		return nil, nil, malformed("a delta copies data from outside its base")
	}
	return base[offset : offset+size], delta, nil
}

// inserted returns the piece of an insert instruction, and the rest of the delta.
func inserted(delta []byte) (piece, rest []byte, err error) {
	size := int(delta[0])
	if size == 0 || size >= len(delta) {
		return nil, nil, malformed("a delta ends too early")
	}
	return delta[1 : 1+size], delta[1+size:], nil
}
