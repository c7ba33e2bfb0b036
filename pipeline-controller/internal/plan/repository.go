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

package plan

import (
	"net/url"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// repositoryOf returns the repository in which a pull request is opened, or nil if the URL is invalid. A password in
// the URL is not used, and is not written to the status.
func repositoryOf(pr *pipelinesv1.PullRequestPromotion) *pipelinesv1.RepositoryReference {
	parsed, err := url.Parse(pr.URL)
	if err != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil
	}
	if parsed.User != nil && parsed.Scheme == "ssh" {
		parsed.User = url.User(parsed.User.Username())
	} else {
		parsed.User = nil
	}
	return &pipelinesv1.RepositoryReference{Type: pr.Type, URL: parsed.String(), BaseBranch: pr.BaseBranch, Path: pr.Path, SecretRef: pr.SecretRef}
}
