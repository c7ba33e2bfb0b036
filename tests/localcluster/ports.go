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

package localcluster

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that systems use for outgoing connections, where between the moment a port is
// found free and the one its server takes it, any client connection could be given it.
const (
	firstPort = 18000
	lastPort  = 31999
)

// freeAddress returns a host and port on loopback at which nothing listens, and which no other cluster of this machine
// is given as long as this program runs: a process that is stopped for a while finds it free when it is started again.
func freeAddress() (string, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", err
		}
		if reserve(address) {
			return address, nil
		}
	}
	return "", errors.New("found no free port on 127.0.0.1")
}

var reserved struct {
	sync.Mutex
	// ports are kept here from the garbage collector, which would close them.
	ports []net.PacketConn
}

// reserve takes an address until the program ends, and reports whether no one else has. The port of the same number for
// UDP, which nobody here uses, stands for it.
func reserve(address string) bool {
	port, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.ports = append(reserved.ports, port)
	return true
}

// freeAddresses fills several addresses.
func freeAddresses(addresses ...*string) error {
	for _, address := range addresses {
		var err error
		if *address, err = freeAddress(); err != nil {
			return err
		}
	}
	return nil
}
