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

package pullhost

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"time"
)

const defaultBranch = "main"

// State is the state of a pull request.
type State int

// The states of a pull request.
const (
	Open State = iota
	Merged
	Closed
)

// PullRequest is a pull request or merge request.
type PullRequest struct {
	Number int
	// Version counts its changes.
	Version     int
	Title, Body string
	// Source and Target are the names of its branches.
	Source, Target string
	// Head follows the source branch while it is open.
	Head    string
	State   State
	Created time.Time
	// Draft is set on hosts that don't mark drafts in the title.
	Draft     bool
	Labels    []string
	Reviewers []string
	Comments  []string
	// Statuses are the statuses of the pull request itself, newest last.
	Statuses []Status
	// Iterations are all its heads, oldest first.
	Iterations []string
	// Checked is true after the host has tried to merge the head.
	Checked bool
	// Failure is the result of the last merge in the background, and MergeError the error of the last immediate one.
	Failure, MergeError string
	// Completing is true from the request to merge until the merge.
	Completing bool
	// Method is the merge method, as the host names it.
	Method string
	// MergeCommit is the commit to which the merge moved the target branch.
	MergeCommit string
}

// Status is a status, in the host's terms.
type Status struct {
	Name, State, Description string
	// Parent and Ref belong to a build, Iteration to a pull request, and Pipeline to a commit. Unset ones are 0.
	Parent, Ref         string
	Iteration, Pipeline int
}

// Repository is a repository with pull requests. It is not safe for concurrent use.
type Repository struct {
	// Statuses are the statuses of commits, newest last.
	Statuses map[string][]Status

	branches  map[string]string
	history   map[string][]string
	conflicts map[string]bool
	pulls     []*PullRequest
}

func newRepository() *Repository {
	r := &Repository{
		Statuses: map[string][]Status{}, branches: map[string]string{}, history: map[string][]string{}, conflicts: map[string]bool{},
	}
	r.commit(defaultBranch)
	return r
}

// commit adds a commit to a branch, which also contains the history of other commits.
func (r *Repository) commit(branch string, also ...string) string {
	parent, exists := r.branches[branch]
	if !exists {
		parent = r.branches[defaultBranch]
	}
	commit := fmt.Sprintf("%x", sha1.Sum([]byte(fmt.Sprint(branch, len(r.history)))))
	r.history[commit] = append([]string{commit}, r.history[parent]...)
	for _, other := range also {
		r.history[commit] = append(r.history[commit], r.history[other]...)
	}
	r.branches[branch] = commit
	for _, pull := range r.pulls {
		if pull.State == Open && pull.Source == branch {
			pull.Head, pull.Checked = commit, false
			pull.Iterations = append(pull.Iterations, commit)
		}
	}
	return commit
}

// Head returns the newest commit of a branch.
func (r *Repository) Head(branch string) string { return r.branches[branch] }

// HasBranch reports whether the branch exists.
func (r *Repository) HasBranch(name string) bool { return r.branches[name] != "" }

// HasCommit reports whether the commit exists.
func (r *Repository) HasCommit(id string) bool { return r.history[id] != nil }

// Differ reports whether the source branch has commits that the target lacks.
func (r *Repository) Differ(source, target string) bool {
	return !slices.Contains(r.history[r.branches[target]], r.branches[source])
}

// OpenPull returns the open pull request between two branches, or nil.
func (r *Repository) OpenPull(source, target string) *PullRequest {
	for _, pull := range r.pulls {
		if pull.State == Open && pull.Source == source && pull.Target == target {
			return pull
		}
	}
	return nil
}

// Add opens a pull request.
func (r *Repository) Add(pull PullRequest) *PullRequest {
	pull.Number, pull.Head, pull.Created = len(r.pulls)+1, r.branches[pull.Source], time.Now()
	pull.Iterations = []string{pull.Head}
	r.pulls = append(r.pulls, &pull)
	return &pull
}

// Pull returns a pull request by number, or nil.
func (r *Repository) Pull(number int) *PullRequest {
	if number < 1 || number > len(r.pulls) {
		return nil
	}
	return r.pulls[number-1]
}

// Pulls returns the pull requests from a branch, or all, oldest first.
func (r *Repository) Pulls(source string) []*PullRequest {
	return slices.DeleteFunc(slices.Clone(r.pulls), func(p *PullRequest) bool { return source != "" && p.Source != source })
}

// Conflicts reports whether a pull request cannot be merged.
func (r *Repository) Conflicts(pull *PullRequest) bool { return r.conflicts[pull.Source] }

// Merge merges a pull request with a merge commit.
func (r *Repository) Merge(pull *PullRequest) { r.merged(pull, r.commit(pull.Target, pull.Head)) }

// FastForward merges a pull request by moving the target to its head.
func (r *Repository) FastForward(pull *PullRequest) {
	r.branches[pull.Target] = pull.Head
	r.merged(pull, pull.Head)
}

func (r *Repository) merged(pull *PullRequest, commit string) {
	pull.State, pull.Completing, pull.MergeCommit = Merged, false, commit
	pull.Version++
}

// Close closes a pull request.
func (r *Repository) Close(pull *PullRequest) {
	pull.State = Closed
	pull.Version++
}

// Known is the only one besides its own user whom a host knows.
const Known = "rita"
