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

// Address is a network, as net.Dial takes it, and an address in it.
type Address struct {
	Network, Address string
}

// Dial connects to the address.
func (a Address) Dial() (net.Conn, error) { return net.Dial(a.Network, a.Address) }

// Listen listens at the address.
func (a Address) Listen() (net.Listener, error) { return net.Listen(a.Network, a.Address) }

// Relay joins each connection that comes in with one of its own to another address, until the listener is closed.
//
// A socket in a file system is reachable from every network namespace; two relays that meet at one carry TCP from one
// namespace into another without a link between them.
func Relay(listener net.Listener, to Address) { relay(listener, to.Dial) }

// relay joins each connection that comes in with one that dial makes, until the listener is closed.
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
				return // whoever called sees the connection end
			}
			defer outgoing.Close()
			join(incoming, outgoing)
		}()
	}
}

// join copies both ways until both ends have said all they had to say.
func join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		transfer(a, b)
	}()
	transfer(b, a)
	<-done
}

// transfer copies until from has no more, and passes that on.
func transfer(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
