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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/hosthttp"
)

// idleAfter is how long what nobody uses is kept: longer than it takes until a pull request is looked at again.
const idleAfter = time.Hour

// hostTypes are the constructors of the hosts that are supported.
var hostTypes = map[string]func(Repository, connector) (Host, error){
	"azure-devops":     newAzure,
	"bitbucket-server": newBitbucket,
	"gitea":            newGitea,
	"github":           newGitHub,
	"gitlab":           newGitLab,
}

// Hosts opens repositories' hosts. It keeps, for as long as they are in use, the
// connections to each and what is known of the limits of each credential, so
// that all who use a credential obey them together. It is safe for concurrent use.
type Hosts struct {
	now func() time.Time

	mu      sync.Mutex
	budgets map[[sha256.Size]byte]*budget
	clients map[[sha256.Size]byte]*apiClient
}

// apiClient is what all repositories that one credential opens on one host have in common.
type apiClient struct {
	*http.Client
	transport *transport
	base      *hosthttp.Transport
}

// connector returns the client for the API at an address. What is equal gets the same one.
type connector func(api url.URL, authenticate credential) (*apiClient, error)

// NewHosts returns Hosts that know of no limits yet.
func NewHosts() *Hosts {
	return &Hosts{
		now:     time.Now,
		budgets: map[[sha256.Size]byte]*budget{},
		clients: map[[sha256.Size]byte]*apiClient{},
	}
}

// Open returns the pull requests of a repository on a host of the given type,
// which may be left out where the URL tells. It makes no request: whether the
// repository exists and the token is right shows in the first method called.
func (h *Hosts) Open(hostType string, repository Repository) (Host, error) {
	open, err := constructor(hostType, repository)
	if err != nil {
		return nil, err
	}
	return open(repository, func(api url.URL, authenticate credential) (*apiClient, error) {
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
		return "", errors.New("GitHub Apps are known to hosts of type github only")
	}
	authorization, err := host.api.transport.authorization(ctx)
	if err != nil {
		return "", host.location.failed("authenticating as a GitHub App", nil, 0, err)
	}
	return Token(strings.TrimPrefix(authorization, "Bearer ")), nil
}

func constructor(hostType string, repository Repository) (func(Repository, connector) (Host, error), error) {
	supported := strings.Join(slices.Sorted(maps.Keys(hostTypes)), ", ")
	if hostType == "" {
		root, _, err := parseURL(repository)
		if err != nil {
			return nil, err
		}
		if hostType = typeOf(root.Hostname()); hostType == "" {
			return nil, fmt.Errorf("the URL does not tell what kind of Git host %s is: set the type to one of %s", root.Host, supported)
		}
	}
	open, ok := hostTypes[hostType]
	if !ok {
		return nil, fmt.Errorf("Git hosts of type %q are not supported: use one of %s", hostType, supported)
	}
	return open, nil
}

// typeOf returns the type of the public hosts, and "" for any other.
func typeOf(host string) string {
	switch {
	case host == "github.com" || host == "www.github.com" || strings.HasSuffix(host, gitHubCloud):
		return "github"
	case host == "gitlab.com":
		return "gitlab"
	case host == "dev.azure.com" || strings.HasSuffix(host, visualStudio):
		return "azure-devops"
	default:
		return ""
	}
}

// connect returns the client of a credential at a host.
func (h *Hosts) connect(api url.URL, authenticate credential, caBundle []byte) (*apiClient, error) {
	origin := api.Scheme + "://" + api.Host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweep()
	key := digest(origin, authenticate.id(), string(caBundle))
	if known, ok := h.clients[key]; ok {
		return known, nil
	}
	base, err := newBaseTransport(caBundle)
	if err != nil {
		return nil, err
	}
	// The budget is the credential's, whatever else of a Secret changes.
	shared := digest(origin, authenticate.id())
	if h.budgets[shared] == nil {
		h.budgets[shared] = newBudget(h.now)
	}
	through := &transport{next: base, credential: authenticate, budget: h.budgets[shared]}
	client := &apiClient{Client: newHTTPClient(api, through), transport: through, base: base}
	h.clients[key] = client
	return client, nil
}

// sweep forgets what is in no use. A limit is remembered until it ends.
func (h *Hosts) sweep() {
	since := h.now().Add(-idleAfter)
	for key, client := range h.clients {
		if client.transport.budget.idle(since) {
			client.base.CloseIdleConnections()
			delete(h.clients, key)
		}
	}
	maps.DeleteFunc(h.budgets, func(_ [sha256.Size]byte, b *budget) bool { return b.idle(since) })
}

// digest tells lists of texts apart and keeps none of them.
func digest(parts ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
