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
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"
)

// packed is an object of a pack: what it is said to be, and its bytes.
type packed struct {
	kind    plumbing.ObjectType
	size    uint64
	content []byte
}

func packOf(objects ...packed) []byte {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	for _, object := range objects {
		first, rest := byte(object.kind)<<4|byte(object.size&0xf), object.size>>4
		if rest > 0 {
			pack = binary.AppendUvarint(append(pack, first|0x80), rest)
		} else {
			pack = append(pack, first)
		}
		if object.kind == plumbing.REFDeltaObject {
			pack = append(pack, make([]byte, 20)...)
		}
		var deflated bytes.Buffer
		writer := zlib.NewWriter(&deflated)
		_, _ = writer.Write(object.content)
		_ = writer.Close()
		pack = append(pack, deflated.Bytes()...)
	}
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

// delta makes the size of a delta's result known, and no more.
func delta(from, to uint64) packed {
	content := binary.AppendUvarint(binary.AppendUvarint(nil, from), to)
	return packed{plumbing.REFDeltaObject, uint64(len(content)), content}
}

func TestAPackIsTakenUpToAnObjectThatIsTooLarge(t *testing.T) {
	const most = maxObject
	small := packed{plumbing.BlobObject, 5, []byte("hello")}
	var many []packed
	for range maxUnpacked/most + 1 {
		many = append(many, delta(1, most))
	}
	for _, test := range []struct {
		name string
		pack []byte
		says string
	}{
		{name: "small ones are passed on", pack: packOf(small, delta(5, most), small)},
		{name: "a file that says how large it is", pack: packOf(small, packed{plumbing.BlobObject, most + 1, nil}), says: "has a file of 134217729 bytes"},
		{name: "a delta that makes a large one", pack: packOf(small, delta(5, most+1)), says: "has a file of 134217729 bytes"},
		{name: "a delta that is large itself", pack: packOf(packed{plumbing.REFDeltaObject, most + 1, nil}), says: "has a file of 134217729 bytes"},
		{name: "many deltas that make large ones", pack: packOf(many...), says: "have more than 34359738368 bytes"},
		{name: "no pack at all", pack: []byte("<html>"), says: "malformed"},
		{name: "a pack that ends too early", pack: packOf(small)[:14], says: "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			reader := bounded(bytes.NewReader(test.pack))
			defer reader.Close()
			got, err := io.ReadAll(reader)
			if test.says != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.pack))
		})
	}
}

func TestAFileThatIsTooLargeIsNotStored(t *testing.T) {
	g := NewWithT(t)
	s, clones := newServer(t), newClones(t)
	r := s.newRepository(t, "bomb")
	small := file{"100644", "a"}
	first := r.commit("main", map[string]file{"app.yaml": small})
	_, base := read(t, clones, s.remote("bomb"), "main")
	g.Expect(base).To(Equal(first))

	// It takes some hundred kilobytes in a pack.
	r.commit("main", map[string]file{"app.yaml": small, "zeros": {"100644", strings.Repeat("\x00", maxObject+1)}})
	for _, clones := range []*Clones{clones, newClones(t)} {
		_, err := clones.Checkout(t.Context(), s.remote("bomb"), "main")
		g.Expect(err).To(MatchError(ContainSubstring("the repository has a file of 134217729 bytes")))
	}
}

func TestADirectoryThatIsTooLargeIsNotRead(t *testing.T) {
	g := NewWithT(t)
	s := newServer(t)
	r := s.newRepository(t, "bomb")
	blob := plumbing.NewHash(run(t, r.dir, []byte("x"), "hash-object", "-w", "--stdin"))
	var body bytes.Buffer
	for i := 0; body.Len() <= maxTree; i++ {
		fmt.Fprintf(&body, "100644 %0200d\x00%s", i, blob[:])
	}
	tree := run(t, r.dir, body.Bytes(), "hash-object", "-t", "tree", "-w", "--stdin")
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", tree, "-m", "m"))

	err := checkOut(t, s.remote("bomb"), "main").EachFile(t.Context(), func(string, int64, func() ([]byte, error)) (bool, error) { return true, nil })
	g.Expect(err).To(MatchError(ContainSubstring("the directory has more than 33554432 bytes")))
}
