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

package inside

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
)

// Names maps names to addresses.
type Names map[string]netip.Addr

// lookup returns the address of a name in lower case.
type lookup func(name string) (netip.Addr, bool)

// serve answers queries until the connection is closed. A name that lookup does not find gets NXDOMAIN.
func (l lookup) serve(conn net.PacketConn) {
	message := make([]byte, 512)
	for {
		length, from, err := conn.ReadFrom(message)
		if err != nil {
			return
		}
		if answer := l.answer(message[:length]); answer != nil {
			// Resolvers retry if they get no answer.
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// The length of the header of a DNS message, and the offset of its flags (RFC 1035, section 4).
const (
	headerLength = 12
	flagsAt      = 2
)

const (
	typeA   = 1
	classIN = 1

	isAnswer   = 1 << 15
	isFinal    = 1 << 10 // authoritative answer
	wantsMore  = 1 << 8  // recursion desired
	canDoMore  = 1 << 7  // recursion available
	noSuchName = 3
)

// answer returns the answer to a message with one question, or nil for any other message. Resolvers send only one.
func (l lookup) answer(message []byte) []byte {
	name, rest, ok := readName(message)
	if !ok || len(rest) < 4 {
		return nil
	}
	question := message[headerLength : len(message)-len(rest)+4]
	kind, class := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	address, known := l(strings.ToLower(name))

	flags := isAnswer | isFinal | canDoMore | binary.BigEndian.Uint16(message[flagsAt:])&wantsMore
	if !known {
		flags |= noSuchName
	}
	answers := uint16(0)
	if known && kind == typeA && class == classIN {
		answers = 1
	}
	reply := append([]byte{}, message[:flagsAt]...)
	for _, field := range []uint16{flags, 1, answers, 0, 0} {
		reply = binary.BigEndian.AppendUint16(reply, field)
	}
	reply = append(reply, question...)
	if answers == 0 {
		return reply
	}
	const sameName, seconds = 0xc000 | headerLength, 5
	reply = binary.BigEndian.AppendUint16(reply, sameName)
	reply = binary.BigEndian.AppendUint16(reply, typeA)
	reply = binary.BigEndian.AppendUint16(reply, classIN)
	reply = binary.BigEndian.AppendUint32(reply, seconds)
	reply = binary.BigEndian.AppendUint16(reply, net.IPv4len)
	return append(reply, address.AsSlice()...)
}

// readName returns the name in the question of a message, and the bytes after it.
func readName(message []byte) (name string, rest []byte, ok bool) {
	if len(message) < headerLength {
		return "", nil, false
	}
	rest = message[headerLength:]
	var labels []string
	for len(rest) > 0 {
		length := int(rest[0])
		rest = rest[1:]
		if length == 0 {
			return strings.Join(labels, "."), rest, true
		}
		if length > len(rest) {
			return "", nil, false
		}
		labels = append(labels, string(rest[:length]))
		rest = rest[length:]
	}
	return "", nil, false
}
