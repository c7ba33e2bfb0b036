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

package githost

import (
	"maps"
	"slices"
	"sync"
)

const defaultBranch = "main"

// repository is a bare Git repository with GitHub's data about it.
type repository struct {
	id          int64
	owner, name string
	host        string
	git         *gitDir
	newID       func() int64

	mu       sync.Mutex
	branches map[string]string // head commits by name, as of the last sync
	pulls    []*pullRequest    // by number, which is the index + 1
	statuses map[string][]Status
	pushes   []Push
	// collaborators are the logins of possible reviewers. If it is nil, everyone is one.
	collaborators []string
	// teams are possible reviewers. If it is nil, all teams are. noDrafts rejects drafts.
	teams    []string
	noDrafts bool
}

func (r *repository) fullName() string { return r.owner + "/" + r.name }

func (r *repository) apiURL() string { return r.host + apiPrefix + "/repos/" + r.fullName() }

func (r *repository) htmlURL() string { return r.host + "/" + r.fullName() }

// lock locks the repository and syncs it with changes that were made in the bare repository. It stays unlocked on
// error.
func (r *repository) lock() error {
	r.mu.Lock()
	if err := r.sync(person); err != nil {
		r.mu.Unlock()
		return err
	}
	return nil
}

// sync updates pull requests after their branches have moved, as GitHub does after a push: it moves, merges or closes
// them.
func (r *repository) sync(by string) error {
	branches, err := r.git.refs("refs/heads/")
	if err != nil {
		return err
	}
	if maps.Equal(branches, r.branches) {
		return nil
	}
	r.branches = branches
	for _, pull := range r.pulls {
		if err := r.follow(pull, by); err != nil {
			return err
		}
	}
	return nil
}

type repositoryJSON struct {
	ID            int64           `json:"id"`
	Name          string          `json:"name"`
	FullName      string          `json:"full_name"`
	Owner         userJSON        `json:"owner"`
	Private       bool            `json:"private"`
	DefaultBranch string          `json:"default_branch"`
	URL           string          `json:"url"`
	HTMLURL       string          `json:"html_url"`
	CloneURL      string          `json:"clone_url"`
	Permissions   map[string]bool `json:"permissions,omitempty"`
}

func (r *repository) json() repositoryJSON {
	return repositoryJSON{
		ID: r.id, Name: r.name, FullName: r.fullName(), Owner: user(r.owner), Private: true, DefaultBranch: defaultBranch,
		URL: r.apiURL(), HTMLURL: r.htmlURL(), CloneURL: r.htmlURL() + ".git",
	}
}

func getRepository(r *request) (*reply, error) {
	body := r.repo.json()
	body.Permissions = map[string]bool{"admin": false, "pull": true, "push": r.token.may(true, contents)}
	return ok(body)
}

type branchJSON struct {
	Name      string     `json:"name"`
	Commit    commitJSON `json:"commit"`
	Protected bool       `json:"protected"`
}

type commitJSON struct {
	SHA string `json:"sha"`
	URL string `json:"url"`
}

func (r *repository) branchJSON(name string) branchJSON {
	sha := r.branches[name]
	return branchJSON{Name: name, Commit: commitJSON{SHA: sha, URL: r.apiURL() + "/commits/" + sha}}
}

func listBranches(r *request) (*reply, error) {
	var branches []branchJSON
	for _, name := range slices.Sorted(maps.Keys(r.repo.branches)) {
		branches = append(branches, r.repo.branchJSON(name))
	}
	return listOf(r, branches)
}

func getBranch(r *request) (*reply, error) {
	name := r.PathValue("branch")
	if _, exists := r.repo.branches[name]; !exists {
		failure := errNotFound()
		failure.Message = "Branch not found"
		return nil, failure
	}
	return ok(r.repo.branchJSON(name))
}
