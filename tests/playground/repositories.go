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

package playground

import (
	"context"
	"encoding/base64"
	"fmt"

	"code.gitea.io/sdk/gitea"
)

// interval is how often Flux looks for new commits in the playground. It is short: a person is watching. What Flux
// applies follows at once, so that its own interval can be longer.
const interval = "5s"

// values are the values for the templates of the manifests.
type values struct {
	Name, Version, Interval   string
	AppURL, FleetURL          string
	Username, Password, Token string
}

func (p *Playground) values() values {
	return values{
		Version: FirstVersion, Interval: interval,
		AppURL: p.RepositoryURL("app"), FleetURL: p.RepositoryURL("fleet"),
		Username: p.Git.Username, Password: p.Git.Password, Token: p.Git.Token,
	}
}

// RepositoryURL is where a repository is cloned from.
func (p *Playground) RepositoryURL(name string) string {
	return fmt.Sprintf("%s/%s/%s.git", p.Git.URL, p.Git.Username, name)
}

// Seed makes the repositories app, released as FirstVersion, and fleet, and has Flux apply the fleet.
func (p *Playground) Seed(ctx context.Context) error {
	if _, err := p.Git.CreateRepository("app"); err != nil {
		return err
	}
	if err := p.Release("app", FirstVersion); err != nil {
		return err
	}
	if _, err := p.Git.CreateRepository("fleet"); err != nil {
		return err
	}
	files := map[string]string{}
	for _, env := range Environments {
		v := p.values()
		v.Name = env
		content, err := p.render("environment.yaml", v)
		if err != nil {
			return err
		}
		files[env+"/app.yaml"] = content
	}
	pipeline, err := p.render("pipeline.yaml", p.values())
	if err != nil {
		return err
	}
	files["pipeline.yaml"] = pipeline
	if err := p.Commit("fleet", "Run app in dev, staging and prod", files); err != nil {
		return err
	}
	cluster, err := p.render("cluster.yaml", p.values())
	if err != nil {
		return err
	}
	return p.Cluster.Apply(ctx, []byte(cluster))
}

// Release commits a version of an application to its repository and tags it.
func (p *Playground) Release(repository, version string) error {
	content, err := p.render("app.yaml", values{Version: version})
	if err != nil {
		return err
	}
	if err := p.Commit(repository, "Release "+version, map[string]string{"deploy/app.yaml": content}); err != nil {
		return err
	}
	_, _, err = p.Git.Client.CreateTag(p.Git.Username, repository, gitea.CreateTagOption{TagName: version, Target: "main"})
	return err
}

// Commit puts files on the main branch of a repository, one commit a file. Those that exist are replaced.
func (p *Playground) Commit(repository, message string, files map[string]string) error {
	for path, content := range files {
		encoded := base64.StdEncoding.EncodeToString([]byte(content))
		options := gitea.FileOptions{Message: message, BranchName: "main"}
		existing, _, err := p.Git.Client.GetContents(p.Git.Username, repository, "main", path)
		if err != nil {
			_, _, err = p.Git.Client.CreateFile(p.Git.Username, repository, path, gitea.CreateFileOptions{FileOptions: options, Content: encoded})
		} else {
			_, _, err = p.Git.Client.UpdateFile(p.Git.Username, repository, path, gitea.UpdateFileOptions{FileOptions: options, SHA: existing.SHA, Content: encoded})
		}
		if err != nil {
			return fmt.Errorf("committing %s to %s: %w", path, repository, err)
		}
	}
	return nil
}

// ReadFile returns a file of a repository's branch or commit.
func (p *Playground) ReadFile(repository, ref, path string) (string, error) {
	content, _, err := p.Git.Client.GetFile(p.Git.Username, repository, ref, path)
	return string(content), err
}

// Merge merges a pull request of a repository.
func (p *Playground) Merge(repository string, number int64) error {
	merged, _, err := p.Git.Client.MergePullRequest(p.Git.Username, repository, number, gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
	if err != nil {
		return fmt.Errorf("merging pull request %d: %w", number, err)
	}
	// The SDK reports a refusal this way.
	if !merged {
		return fmt.Errorf("Gitea refused to merge pull request %d", number)
	}
	return nil
}

// Diff returns what a pull request of the fleet changes.
func (p *Playground) Diff(number int64) (string, error) {
	diff, _, err := p.Git.Client.GetPullRequestDiff(p.Git.Username, "fleet", number, gitea.PullRequestDiffOptions{})
	return string(diff), err
}
