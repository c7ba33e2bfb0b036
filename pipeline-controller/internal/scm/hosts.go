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
	// idleAfter is how long what nobody uses is kept: longer than it takes until a pull request is looked at again.
	idleAfter = time.Hour
	// mostClients is how many credentials have connections and responses, and mostBudgets how many have limits that are known. Who may
	// create Secrets decides how many there are.
	mostClients = 1 << 10
	mostBudgets = 4 << 10
	// mostCertificates is how many bytes the certificate authorities of all clients have.
	mostCertificates = 32 << 20
)

// Hosts opens repositories' hosts. It keeps, for as long as they are in use, the
// connections to each and what is known of the limits of each credential, so
// that all who use a credential obey them together. It is safe for concurrent use.
type Hosts struct {
	// Network is how hosts are reached.
	Network hostnet.Network

	now func() time.Time

	mu      sync.Mutex
	budgets map[[sha256.Size]byte]*budget
	clients map[[sha256.Size]byte]*apiClient
	archive *archive
	reading *reading
}

// apiClient is what all repositories that one credential opens on one host have in common.
type apiClient struct {
	*http.Client
	transport *transport
	base      *hosthttp.Transport
	// older is how many versions of its API the host has refused as too new, of those that its kind knows.
	older atomic.Int32
	// opened is when somebody last asked for it, and certificates how many bytes of certificate authorities it has.
	opened       time.Time
	certificates int
}

// connector returns the client for the API at an address. What is equal gets the same one.
type connector func(api url.URL, authenticate credential) (*apiClient, error)

// NewHosts returns Hosts that are reached through network and know of no limits yet.
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

// Open returns the pull requests of a repository on a host of the given type,
// which may be left out where the URL tells. It makes no request: whether the
// repository exists and the token is right shows in the first method called.
func (h *Hosts) Open(hostType string, repository Repository) (Host, error) {
	kind, err := kindOf(hostType, repository)
	if err != nil {
		return nil, err
	}
	return kind.open(repository, func(api url.URL, authenticate credential) (*apiClient, error) {
		return h.connect(api, authenticate, repository.CABundle)
	})
}

// AppToken returns the token with which Git authenticates as the repository's App, under the name AppUsername.
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

// connect returns the client of a credential at a host.
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
	// The budget is the credential's, whatever else of a Secret changes.
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

// sweep forgets what is in no use. A limit is remembered until it ends.
func (h *Hosts) sweep() {
	since := h.now().Add(-idleAfter)
	for key, client := range h.clients {
		if client.transport.budget.idle(since) {
			h.forget(key)
		}
	}
	maps.DeleteFunc(h.budgets, func(_ [sha256.Size]byte, b *budget) bool { return b.idle(since) })
}

// makeRoom forgets the clients that were not asked for for the longest, and then such budgets, while there are more than allowed.
// Who has one of them can still use it.
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

// oldest returns the key of what was used before all others.
func oldest[V any](all map[[sha256.Size]byte]V, used func(V) time.Time) (key [sha256.Size]byte) {
	var since time.Time
	for candidate, value := range all {
		if at := used(value); since.IsZero() || at.Before(since) {
			key, since = candidate, at
		}
	}
	return key
}

// digest tells lists of texts apart and keeps none of them.
func digest(parts ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
