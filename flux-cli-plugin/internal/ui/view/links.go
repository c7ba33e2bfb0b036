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

package view

import (
	"net/url"
	"regexp"
	"strings"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

var wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// commit returns the Git commit of a revision, or "".
func commit(rev string) string {
	hex, found := strings.CutPrefix(revision.Digest(rev), "sha1:")
	if !found || !wholeCommit.MatchString(hex) {
		return ""
	}
	return hex
}

// repositoryOf returns the address of the repository that a revision comes from: that of the GitRepositories which have
// published it. It is nil if there are none, or if they disagree.
func (v *View) repositoryOf(rev string) *url.URL {
	address := ""
	for i := range v.Sources {
		source := &v.Sources[i]
		if source.Kind != gatingv1.GitRepositoryKind || commit(rev) == "" || commit(source.Status.Artifact.Revision) != commit(rev) {
			continue
		}
		if address != "" && address != source.Spec.URL {
			return nil
		}
		address = source.Spec.URL
	}
	return webAddress(address)
}

// webAddress returns the address of a repository in a browser, or nil. It has no credentials.
func webAddress(address string) *url.URL {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return nil
	}
	switch parsed.Scheme {
	case "http", "https":
	case "ssh":
		parsed.Scheme, parsed.Host = "https", parsed.Hostname()
	default:
		return nil
	}
	return &url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: strings.TrimSuffix(strings.TrimSuffix(parsed.Path, "/"), ".git")}
}

// hostType returns the type of a Git host, or "" if it is not known.
func hostType(pipeline *pipelinesv1.Pipeline, repository *url.URL) pipelinesv1.GitProviderType {
	if repository == nil {
		return ""
	}
	switch repository.Hostname() {
	case "github.com":
		return pipelinesv1.GitHub
	case "gitlab.com":
		return pipelinesv1.GitLab
	case "dev.azure.com":
		return pipelinesv1.AzureDevOps
	}
	for i := range pipeline.Spec.Environments {
		promotion := pipeline.PromotionInto(&pipeline.Spec.Environments[i])
		if promotion == nil || promotion.Strategy.PullRequest == nil {
			continue
		}
		if known := webAddress(promotion.Strategy.PullRequest.URL); known != nil && known.Hostname() == repository.Hostname() {
			return promotion.Strategy.PullRequest.Type
		}
	}
	return ""
}

// compareURL returns the address that shows what changes from a commit to another, or "".
func compareURL(repository *url.URL, host pipelinesv1.GitProviderType, from, to string) string {
	if repository == nil || from == "" || to == "" {
		return ""
	}
	switch host {
	case pipelinesv1.GitHub, pipelinesv1.Gitea:
		return repository.JoinPath("compare", from+"..."+to).String()
	case pipelinesv1.GitLab:
		return repository.JoinPath("-", "compare", from+"..."+to).String()
	case pipelinesv1.AzureDevOps:
		compared := repository.JoinPath("branchCompare")
		compared.RawQuery = url.Values{"baseVersion": {"GC" + from}, "targetVersion": {"GC" + to}}.Encode()
		return compared.String()
	}
	return ""
}

// WebURL returns an address if it may be linked: only http and https are.
func WebURL(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return ""
	}
	return parsed.String()
}
