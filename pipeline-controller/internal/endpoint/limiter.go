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
	// clientRate and clientBurst limit the requests of one client: the rate per second, and the burst.
	clientRate, clientBurst = 5, 20
	// totalRate and totalBurst limit all requests together: each request costs a read of the API server, which shares
	// its budget with the controller's own work.
	totalRate, totalBurst = 20, 40
	// maxClients limits the number of clients in memory. Clients that are forgotten start again with a full burst, but
	// the total limit still applies.
	maxClients = 4096
)

// limiter limits the rate of requests. The zero value is ready to use.
type limiter struct {
	mu      sync.Mutex
	total   *rate.Limiter
	clients map[netip.Prefix]*list.Element
	recent  list.List // buckets, the most recent client first
}

type bucket struct {
	client netip.Prefix
	tokens *rate.Limiter
}

// wait returns zero and counts the request if the client may send it now. Otherwise it returns how long the client must
// wait.
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

// bucket returns the client's bucket. If there are too many, it forgets the client with the oldest request.
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

// clientOf identifies clients by the address of the connection, which unlike a header cannot be forged. For IPv6 it is
// the /64, because the owner of one address has all of it.
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
