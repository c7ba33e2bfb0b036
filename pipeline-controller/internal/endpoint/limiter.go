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

package endpoint

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// A client may ask so often a second, and so often at once.
	clientRate, clientBurst = 5, 20
	// All together may ask no more than this: a request costs a read of the API server, and the controller's own work shares
	// its budget of these.
	totalRate, totalBurst = 20, 40
	// maxClients bounds how many clients are remembered. Those that are forgotten begin anew, all of them bounded by the total.
	maxClients = 4096
)

// limiter bounds how often clients ask. The zero value is ready.
type limiter struct {
	mu      sync.Mutex
	total   *rate.Limiter
	clients map[netip.Prefix]*list.Element
	recent  list.List // of buckets, the last client to ask at the front
}

type bucket struct {
	client netip.Prefix
	tokens *rate.Limiter
}

// wait returns zero if the client may ask now, which counts, or how long it has to wait, which doesn't.
func (l *limiter) wait(client netip.Prefix, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total == nil {
		l.total = rate.NewLimiter(totalRate, totalBurst)
		l.clients = map[netip.Prefix]*list.Element{}
	}
	own := l.bucket(client).tokens.ReserveN(now, 1)
	if wait := own.DelayFrom(now); wait > 0 {
		own.CancelAt(now)
		return wait
	}
	all := l.total.ReserveN(now, 1)
	if wait := all.DelayFrom(now); wait > 0 {
		all.CancelAt(now)
		own.CancelAt(now)
		return wait
	}
	return 0
}

// bucket returns the client's, and forgets the client that hasn't asked for the longest time if there are too many.
func (l *limiter) bucket(client netip.Prefix) bucket {
	if known, ok := l.clients[client]; ok {
		l.recent.MoveToFront(known)
		return known.Value.(bucket)
	}
	if l.recent.Len() >= maxClients {
		oldest := l.recent.Remove(l.recent.Back()).(bucket)
		delete(l.clients, oldest.client)
	}
	added := bucket{client: client, tokens: rate.NewLimiter(clientRate, clientBurst)}
	l.clients[client] = l.recent.PushFront(added)
	return added
}

// clientOf tells clients apart by the address of the connection, which can't be forged as a header can. Who has one IPv6 address
// has its /64.
func clientOf(remote string) netip.Prefix {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip := address.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	client, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return client
}
