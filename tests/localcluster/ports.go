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

// Ports are below the range of outgoing connections. Otherwise, a client connection could use a port after it was found
// free and before its server listens.
const (
	firstPort = 18000
	lastPort  = 31999
)

// freeAddress returns a free host and port on loopback. It reserves them for this program until the end, so a process
// can restart at the same address.
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
	// ports keeps the listeners from garbage collection, which would close them.
	ports []net.PacketConn
}

// reserve reserves an address until the program ends, and reports whether it was free. The UDP port of the same number,
// which is not used otherwise, marks the reservation.
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

// freeAddresses sets several addresses.
func freeAddresses(addresses ...*string) error {
	for _, address := range addresses {
		var err error
		if *address, err = freeAddress(); err != nil {
			return err
		}
	}
	return nil
}
