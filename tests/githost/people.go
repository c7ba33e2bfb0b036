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
	"fmt"
	"maps"
	"slices"
)

// person is the login for actions of tests.
const person = "person"

// CommitFiles commits the files, by path, to the branch and returns the commit. A missing branch is created from main,
// or is the first one of an empty repository.
func (s *Server) CommitFiles(owner, name, branch string, files map[string]string, message string) (string, error) {
	var commit string
	err := s.asPerson(owner, name, func(r *repository) error {
		parent, exists := r.branches[branch]
		if !exists {
			parent = r.branches[defaultBranch]
		}
		if err := r.git.importFiles(branch, parent, files, message, identityOf(person)); err != nil {
			return err
		}
		if err := r.sync(person); err != nil {
			return err
		}
		commit = r.branches[branch]
		return nil
	})
	return commit, err
}

// SetCollaborators sets the possible reviewers. By default, everyone is one.
func (s *Server) SetCollaborators(owner, name string, logins ...string) error {
	return s.asPerson(owner, name, func(r *repository) error {
		r.collaborators = append([]string{}, logins...)
		return nil
	})
}

// SetTeams sets the teams that are possible reviewers. By default, all teams are.
func (s *Server) SetTeams(owner, name string, slugs ...string) error {
	return s.asPerson(owner, name, func(r *repository) error {
		r.teams = append([]string{}, slugs...)
		return nil
	})
}

// RefuseDrafts makes the repository refuse drafts, like private repositories of GitHub Free.
func (s *Server) RefuseDrafts(owner, name string) error {
	return s.asPerson(owner, name, func(r *repository) error {
		r.noDrafts = true
		return nil
	})
}

// CreateTag creates a lightweight tag of a branch, another tag or a commit.
func (s *Server) CreateTag(owner, name, tag, of string) error {
	return s.asPerson(owner, name, func(r *repository) error {
		commit, exists := r.git.commit(of)
		if !exists {
			return fmt.Errorf("no commit found for %q", of)
		}
		return r.git.updateRef("refs/tags/"+tag, noObject, commit)
	})
}

// DeleteBranch deletes the branch, which closes its open pull requests.
func (s *Server) DeleteBranch(owner, name, branch string) error {
	return s.asPerson(owner, name, func(r *repository) error {
		commit, exists := r.branches[branch]
		if !exists {
			return fmt.Errorf("no branch %q", branch)
		}
		if err := r.git.updateRef("refs/heads/"+branch, commit, noObject); err != nil {
			return err
		}
		return r.sync(person)
	})
}

// Branches returns the head commits of the branches, by name.
func (s *Server) Branches(owner, name string) (map[string]string, error) {
	var branches map[string]string
	err := s.asPerson(owner, name, func(r *repository) error {
		branches = maps.Clone(r.branches)
		return nil
	})
	return branches, err
}

// ReadFile returns a file of a branch, a tag or a commit.
func (s *Server) ReadFile(owner, name, ref, path string) ([]byte, error) {
	var content []byte
	err := s.asPerson(owner, name, func(r *repository) error {
		commit, exists := r.git.commit(ref)
		if !exists {
			return fmt.Errorf("no commit found for %q", ref)
		}
		var err error
		content, err = r.git.file(commit, path)
		return err
	})
	return content, err
}

// PullRequests returns all pull requests, by number.
func (s *Server) PullRequests(owner, name string) ([]PullRequest, error) {
	var pulls []PullRequest
	err := s.asPerson(owner, name, func(r *repository) error {
		for _, pull := range r.pulls {
			snapshot := pull.PullRequest
			snapshot.Labels = slices.Clone(pull.Labels)
			snapshot.Reviewers = slices.Clone(pull.Reviewers)
			snapshot.TeamReviewers = slices.Clone(pull.TeamReviewers)
			snapshot.Comments = slices.Clone(pull.Comments)
			pulls = append(pulls, snapshot)
		}
		return nil
	})
	return pulls, err
}

// Merge merges the pull request with a merge commit, which it returns.
func (s *Server) Merge(owner, name string, number int) (string, error) {
	var commit string
	err := s.changePull(owner, name, number, func(r *repository, pull *pullRequest) error {
		if err := r.merge(pull, "merge", mergeMessage{}, person); err != nil {
			return err
		}
		commit = pull.MergeCommitSHA
		return nil
	})
	return commit, err
}

// ClosePullRequest closes the pull request without merging it.
func (s *Server) ClosePullRequest(owner, name string, number int) error {
	return s.changePull(owner, name, number, func(r *repository, pull *pullRequest) error {
		return r.change(pull, pullChange{State: new(closed)})
	})
}

// ReopenPullRequest opens a closed pull request again.
func (s *Server) ReopenPullRequest(owner, name string, number int) error {
	return s.changePull(owner, name, number, func(r *repository, pull *pullRequest) error {
		return r.change(pull, pullChange{State: new(open)})
	})
}

func (s *Server) changePull(owner, name string, number int, do func(*repository, *pullRequest) error) error {
	return s.asPerson(owner, name, func(r *repository) error {
		if number < 1 || number > len(r.pulls) {
			return fmt.Errorf("no pull request %d", number)
		}
		if err := do(r, r.pulls[number-1]); err != nil {
			return fmt.Errorf("pull request %d: %w", number, err)
		}
		return nil
	})
}

func (s *Server) asPerson(owner, name string, do func(*repository) error) error {
	repo, err := s.repository(owner, name)
	if err != nil {
		return err
	}
	if err := repo.lock(); err != nil {
		return err
	}
	defer repo.mu.Unlock()
	if err := do(repo); err != nil {
		return fmt.Errorf("%s: %w", repo.fullName(), err)
	}
	return nil
}
