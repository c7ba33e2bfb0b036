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

package scm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

const (
	// idleAfter is how long unused entries are kept: longer than the interval between polls of a pull request.
	idleAfter = time.Hour
	// mostClients is the maximum number of credentials with connections and cached responses, and mostBudgets that of
	// known limits. Users who can create Secrets decide how many credentials there are.
	mostClients = 1 << 10
	mostBudgets = 4 << 10
	// mostCertificates is the maximum size in bytes of the certificate authorities of all clients.
	mostCertificates = 32 << 20
)

// Hosts opens repositories on Git hosts. It shares the connections of each host and the known limits of each
// credential, so all users of a credential respect its limits together. It is safe for concurrent use.
type Hosts struct {
	// Network connects to the hosts.
	Network hostnet.Network

	now func() time.Time

	mu      sync.Mutex
	budgets map[[sha256.Size]byte]*budget
	clients map[[sha256.Size]byte]*apiClient
	archive *archive
	reading *reading
}

// apiClient is the shared state of all repositories that one credential opens on one host.
type apiClient struct {
	*http.Client
	transport *transport
	base      *hosthttp.Transport
	// older counts the API versions of the kind that the host has rejected as too new.
	older atomic.Int32
	// opened is the time of the last use, and certificates the size in bytes of the certificate authorities.
	opened       time.Time
	certificates int
}

// connector returns the client for the API at an address. Equal arguments return the same client.
type connector func(api url.URL, authenticate credential) (*apiClient, error)

// NewHosts returns Hosts that connect through network, without any known limits.
func NewHosts(network hostnet.Network) *Hosts {
	return &Hosts{
		Network: network,
		now:     time.Now,
		budgets: map[[sha256.Size]byte]*budget{},
		clients: map[[sha256.Size]byte]*apiClient{},
		archive: newArchive(),
		reading: newReading(),
	}
}

// Open returns the pull requests of a repository on a host of the given type. The type may be empty if the URL
// determines it. Open sends no request: the first method call shows whether the repository exists and the token is
// valid.
func (h *Hosts) Open(hostType string, repository Repository) (Host, error) {
	kind, err := kindOf(hostType, repository)
	if err != nil {
		return nil, err
	}
	return kind.open(repository, func(api url.URL, authenticate credential) (*apiClient, error) {
		return h.connect(api, authenticate, repository.CABundle)
	})
}

// AppToken returns the token with which Git authenticates as the repository's App, for the user AppUsername.
func (h *Hosts) AppToken(ctx context.Context, hostType string, repository Repository) (Token, error) {
	if repository.App == nil {
		return "", errors.New("the repository has no GitHub App")
	}
	opened, err := h.Open(hostType, repository)
	if err != nil {
		return "", err
	}
	host, ok := opened.(*gitHub)
	if !ok {
		return "", errors.New("GitHub Apps work with hosts of type github only")
	}
	authorization, err := host.api.transport.authorization(ctx)
	if err != nil {
		return "", host.location.failed("authenticating as a GitHub App", nil, 0, err)
	}
	return Token(strings.TrimPrefix(authorization, "Bearer ")), nil
}

// connect returns the client of a credential on a host.
func (h *Hosts) connect(api url.URL, authenticate credential, caBundle []byte) (*apiClient, error) {
	origin := api.Scheme + "://" + api.Host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweep()
	key := digest(origin, authenticate.id(), string(caBundle))
	if known, ok := h.clients[key]; ok {
		known.opened = h.now()
		return known, nil
	}
	base, err := newBaseTransport(h.Network, caBundle)
	if err != nil {
		return nil, err
	}
	// The budget belongs to the credential, even if other fields of the Secret change.
	shared := digest(origin, authenticate.id())
	if h.budgets[shared] == nil {
		h.budgets[shared] = newBudget(h.now)
	}
	through := &transport{next: base, credential: authenticate, budget: h.budgets[shared], responses: h.archive.open(), reading: h.reading}
	client := &apiClient{Client: newHTTPClient(api, through), transport: through, base: base, opened: h.now(), certificates: len(caBundle)}
	h.clients[key] = client
	h.makeRoom()
	return client, nil
}

// sweep removes unused entries. Limits are kept until they end.
func (h *Hosts) sweep() {
	since := h.now().Add(-idleAfter)
	for key, client := range h.clients {
		if client.transport.budget.idle(since) {
			h.forget(key)
		}
	}
	maps.DeleteFunc(h.budgets, func(_ [sha256.Size]byte, b *budget) bool { return b.idle(since) })
}

// makeRoom removes the least recently used clients and budgets while there are too many. Callers that still have one
// can continue to use it.
func (h *Hosts) makeRoom() {
	certificates := 0
	for _, client := range h.clients {
		certificates += client.certificates
	}
	for len(h.clients) > mostClients || certificates > mostCertificates && len(h.clients) > 1 {
		key := oldest(h.clients, func(c *apiClient) time.Time { return c.opened })
		certificates -= h.clients[key].certificates
		h.forget(key)
	}
	for len(h.budgets) > mostBudgets {
		delete(h.budgets, oldest(h.budgets, (*budget).lastNeeded))
	}
}

func (h *Hosts) forget(key [sha256.Size]byte) {
	client := h.clients[key]
	client.base.CloseIdleConnections()
	h.archive.close(client.transport.responses)
	delete(h.clients, key)
}

// oldest returns the key of the least recently used entry.
func oldest[V any](all map[[sha256.Size]byte]V, used func(V) time.Time) (key [sha256.Size]byte) {
	var since time.Time
	for candidate, value := range all {
		if at := used(value); since.IsZero() || at.Before(since) {
			key, since = candidate, at
		}
	}
	return key
}

// digest identifies a list of texts without storing them.
func digest(parts ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
