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
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// access is what is needed to reach a promotion's repository.
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
	web, bySSH := webURL(strategy.URL)
	repository := scm.Repository{URL: web, Token: scm.Token(secret.token), App: secret.app, CABundle: secret.caBundle}
	host, err := p.Hosts.Open(string(strategy.Type), repository)
	if err != nil {
		return access{}, err
	}
	remote := git.Remote{URL: host.CloneURL(), Credentials: secret.git, CABundle: secret.caBundle}
	switch {
	case bySSH:
		remote.URL = strategy.URL
	case secret.app != nil:
		token, err := p.Hosts.AppToken(ctx, string(strategy.Type), repository)
		if err != nil {
			return access{}, err
		}
		remote.Credentials = git.Credentials{Username: scm.AppUsername, Password: string(token)}
		// Its token is another one each hour. Nobody gets one without the key.
		remote.Identity = fmt.Sprintf("GitHub App %d/%d %s", secret.app.ID, secret.app.InstallationID, secret.app.Owner)
	}
	return access{host: host, remote: remote}, nil
}

// sshHosts are the hosts that take SSH alone, at port 443, for those whose firewall lets nothing else out, and the hosts whose they
// are. See https://docs.github.com/en/authentication/troubleshooting-ssh/using-ssh-over-the-https-port and
// https://about.gitlab.com/blog/2016/02/18/gitlab-dot-com-now-supports-an-alternate-git-plus-ssh-port/.
var sshHosts = map[string]string{
	"ssh.github.com":    "github.com",
	"altssh.gitlab.com": "gitlab.com",
}

// webURL returns the address at which a repository that Git reaches by SSH is found by https, where its host's API is. Any other
// address is returned as it is.
func webURL(repository string) (web string, bySSH bool) {
	parsed, err := url.Parse(repository)
	if err != nil || parsed.Scheme != "ssh" {
		return repository, false
	}
	host := parsed.Hostname()
	if web, ok := sshHosts[host]; ok {
		host = web
	}
	web = "https://" + host + parsed.EscapedPath()
	// Azure DevOps has a host, and a form of path, for SSH alone: /v3/organization/project/repository.
	if parts := strings.Split(strings.Trim(parsed.EscapedPath(), "/"), "/"); host == "ssh.dev.azure.com" && len(parts) == 4 {
		web = "https://dev.azure.com/" + parts[1] + "/" + parts[2] + "/_git/" + parts[3]
	}
	return web, true
}
