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
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// kind describes a kind of Git host. The file of its adapter declares it, and kinds contains it.
type kind struct {
	// open returns the pull requests of a repository on a host of the kind.
	open func(Repository, connector) (Host, error)
	// known returns the canonical host and path of a repository on a public host of the kind. Such a host may have
	// other names, and other forms of paths, for SSH or from earlier days. It is nil if there are no public hosts.
	known func(address *url.URL) (host, path string, ok bool)
	// gitTakesBearer is true if Git sends tokens without a user name as Authorization: Bearer.
	gitTakesBearer bool
	// claims returns the claims that a webhook comes from a host of the kind. It is nil if such hosts do not
	// authenticate webhooks.
	claims func(header http.Header, key []byte) []claim
}

// kinds contains the supported kinds, by their names in Pipelines.
var kinds = map[string]kind{
	"azure-devops":     azureKind,
	"bitbucket-server": bitbucketKind,
	"gitea":            giteaKind,
	"github":           gitHubKind,
	"gitlab":           gitLabKind,
}

// kindOf returns the kind of a repository's host, by its name or from the URL.
func kindOf(hostType string, repository Repository) (kind, error) {
	supported := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	if hostType == "" {
		root, _, err := parseURL(repository)
		if err != nil {
			return kind{}, err
		}
		for _, public := range kinds {
			if _, _, ok := public.find(&root); ok {
				return public, nil
			}
		}
		return kind{}, fmt.Errorf("the type of Git host %s can't be derived from its URL: set the type to one of %s", root.Host, supported)
	}
	named, ok := kinds[hostType]
	if !ok {
		return kind{}, fmt.Errorf("Git hosts of type %q are not supported: use one of %s", hostType, supported)
	}
	return named, nil
}

// GitTakesBearer reports whether Git sends a token to hosts of the type as Authorization: Bearer, unless there is a
// user name.
func GitTakesBearer(hostType string) bool { return kinds[hostType].gitTakesBearer }

func (k kind) find(address *url.URL) (host, path string, ok bool) {
	if k.known == nil {
		return "", "", false
	}
	return k.known(address)
}
