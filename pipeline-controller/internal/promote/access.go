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

package promote

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// access is the access to a promotion's repository.
type access struct {
	host   scm.Host
	remote git.Remote
}

func (p *PullRequests) access(ctx context.Context, promotion Promotion) (access, error) {
	strategy := promotion.Strategy.PullRequest
	name := types.NamespacedName{Namespace: promotion.Pipeline.Namespace, Name: strategy.SecretRef.Name}
	secret, err := readCredentials(ctx, p.Secrets, name)
	if err != nil {
		return access{}, err
	}
	web, bySSH := scm.WebURL(strategy.URL)
	repository := scm.Repository{URL: web, Token: scm.Token(secret.token), App: secret.app, CABundle: secret.caBundle}
	host, err := p.Hosts.Open(string(strategy.Type), repository)
	if err != nil {
		return access{}, err
	}
	remote := git.Remote{URL: host.CloneURL(), Repository: scm.RepositoryName(strategy.URL), Credentials: secret.git, CABundle: secret.caBundle, Network: p.Hosts.Network}
	switch {
	case bySSH:
		remote.URL = strategy.URL
	case secret.git.Username == gitUser && secret.git.BearerToken == "" && scm.GitTakesBearer(string(strategy.Type)):
		remote.Credentials = git.Credentials{BearerToken: secret.git.Password}
	case secret.app != nil:
		token, err := p.Hosts.AppToken(ctx, string(strategy.Type), repository)
		if err != nil {
			return access{}, err
		}
		remote.Credentials = git.Credentials{Username: scm.AppUsername, Password: string(token)}
		// An App's token changes every hour, but only the owner of the private key can get one.
		remote.Identity = fmt.Sprintf("GitHub App %d/%d %s", secret.app.ID, secret.app.InstallationID, secret.app.Owner)
	}
	return access{host: host, remote: remote}, nil
}
