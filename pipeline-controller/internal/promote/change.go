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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sluice-toolkit/sluice/api/marker"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
)

// change is the change of a promotion on top of a base.
type change struct {
	// commit is the hash of the commit with the change. It is empty if nothing changes.
	commit string
	// baseFiles is a digest of the changed files as they are on the base.
	baseFiles string
	// memory used by the content of the commit.
	memory *share
}

// release releases the memory. It must be called once the commit is no longer needed.
func (c change) release() { c.memory.keep(0) }

func (c change) isEmpty() bool { return c.commit == "" }

// isMadeIn records that the pull request's head is the commit with the change.
func (c change) isMadeIn(pr *pipelinesv1.PullRequestStatus, checkout *git.Checkout) {
	pr.HeadCommit, pr.Commit = c.commit, c.commit
	pr.BaseCommit, pr.BaseFiles = checkout.Base(), c.baseFiles
}

// change creates the commit that sets the marked fields. It only exists in the checkout until it is pushed. The result
// must be released, even after an error.
func (p *PullRequests) change(ctx context.Context, checkout *git.Checkout, promotion Promotion) (change, error) {
	files, err := findMarked(ctx, checkout, promotion.below(), promotion.key())
	if errors.Is(err, git.ErrPathNotFound) {
		return change{}, promotion.noPath()
	}
	if err != nil {
		return change{}, err
	}
	made := change{}
	if made.memory, err = p.memory.take(ctx, files.memory()); err != nil {
		return made, err
	}
	changes, err := setMarkers(files, promotion)
	if err != nil || len(changes) == 0 {
		return made, err
	}
	signer, err := readSigner(ctx, p.Secrets, promotion.Pipeline.Namespace, promotion.Strategy.PullRequest.Commit)
	if err != nil {
		return made, err
	}
	contents, hash := map[string][]byte{}, sha256.New()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		fmt.Fprintf(hash, "%d:%s%x", len(name), name, changes[name].before)
		contents[name] = changes[name].content
	}
	made.baseFiles = hex.EncodeToString(hash.Sum(nil))
	made.commit, err = checkout.Commit(contents, promotion.commitMessage(), promotion.author(), promotion.Started.Time, signer)
	made.memory.keep(files.kept())
	return made, err
}

// edit is the new content of a file, and the hash of the old content.
type edit struct {
	before  [sha256.Size]byte
	content []byte
}

// setMarkers returns the files that change when the fields marked for the promotion's environment are set to its
// revision.
func setMarkers(files candidates, promotion Promotion) (map[string]edit, error) {
	key := promotion.key()
	changes := map[string]edit{}
	marked := 0
	var unparsable error
	for _, file := range files {
		content, err := file.Read()
		if err != nil {
			return nil, err
		}
		changed, fields, err := marker.Set(file.Path, content, key, promotion.Revision)
		if errors.Is(err, marker.ErrUnparsable) {
			unparsable = err
			continue
		}
		if err != nil {
			return nil, err
		}
		marked += fields
		if string(changed) != string(content) {
			changes[file.Path] = edit{before: sha256.Sum256(content), content: changed}
		}
	}
	switch {
	case marked == 0 && unparsable != nil:
		return nil, unparsable
	case marked == 0:
		return nil, fmt.Errorf(`no field is marked for this promotion %s: add the comment # {"$promotion": "%s"} to the line of the field that holds the revision`,
			promotion.where(), key)
	}
	return changes, nil
}

// below returns the path to search for markers in Git's notation. It is empty for the whole repository.
func (p Promotion) below() string {
	below := path.Clean(p.Strategy.PullRequest.Path)
	if below == "." {
		return ""
	}
	return below
}

// where describes the path for messages.
func (p Promotion) where() string {
	on := "on branch " + p.Strategy.PullRequest.BaseBranch
	if p.below() == "" {
		return on
	}
	return fmt.Sprintf("%s in %s", on, p.Strategy.PullRequest.Path)
}

func (p Promotion) noPath() error {
	strategy := p.Strategy.PullRequest
	return fmt.Errorf("branch %s has no directory or file %s: correct the strategy's path, which begins at the root of the repository, as ./apps/prod does, "+
		"and follows no symbolic links", strategy.BaseBranch, strategy.Path)
}

// pushCommit pushes the commit to the branch. The commit depends only on the base and the promotion, so an attempt that
// was interrupted after its push pushes nothing again.
func pushCommit(ctx context.Context, remote git.Remote, checkout *git.Checkout, commit, branch string) error {
	// An existing branch of this name was created by an earlier attempt from an older base.
	at, _, err := git.RemoteBranch(ctx, remote, branch)
	if err != nil {
		return err
	}
	return checkout.Push(ctx, commit, branch, at)
}
