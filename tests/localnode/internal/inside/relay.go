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
	"io"
	"net"
)

// Address has the arguments of net.Dial.
type Address struct {
	Network, Address string
}

// Dial connects to the address.
func (a Address) Dial() (net.Conn, error) { return net.Dial(a.Network, a.Address) }

// Listen listens at the address.
func (a Address) Listen() (net.Listener, error) { return net.Listen(a.Network, a.Address) }

// Relay forwards each incoming connection to an address, until the listener is closed.
//
// A socket in a file system is reachable from every network namespace. Two relays with a common socket forward TCP from
// one namespace to another without a link between them.
func Relay(listener net.Listener, to Address) { relay(listener, to.Dial) }

// relay forwards each incoming connection to one that dial opens, until the listener is closed.
func relay(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		incoming, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer incoming.Close()
			outgoing, err := dial()
			if err != nil {
				return // the caller sees its connection close
			}
			defer outgoing.Close()
			join(incoming, outgoing)
		}()
	}
}

// join copies in both directions until both ends have finished writing.
func join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		transfer(a, b)
	}()
	transfer(b, a)
	<-done
}

// transfer copies until from ends, and closes the writing side of to.
func transfer(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
