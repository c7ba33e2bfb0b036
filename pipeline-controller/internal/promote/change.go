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
	"slices"

	"github.com/sluice-toolkit/sluice/api/marker"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
)

// change is what a promotion changes on top of a base.
type change struct {
	// commit is the hash of the commit that makes the change; empty if there is nothing to change.
	commit string
	// baseFiles is a digest of the files that it changes, as they are on the base.
	baseFiles string
}

func (c change) isEmpty() bool { return c.commit == "" }

// isMadeIn notes that the pull request's head is the commit that makes the change.
func (c change) isMadeIn(pr *pipelinesv1.PullRequestStatus, checkout *git.Checkout) {
	pr.HeadCommit, pr.Commit = c.commit, c.commit
	pr.BaseCommit, pr.BaseFiles = checkout.Base(), c.baseFiles
}

// change makes the commit that sets the marked fields. It is the checkout's until it is pushed.
func (p *PullRequests) change(ctx context.Context, checkout *git.Checkout, promotion Promotion) (change, error) {
	changes, err := setMarkers(ctx, checkout, promotion)
	if err != nil || len(changes) == 0 {
		return change{}, err
	}
	signer, err := readSigner(ctx, p.Secrets, promotion.Pipeline.Namespace, promotion.Strategy.PullRequest.Commit)
	if err != nil {
		return change{}, err
	}
	contents, hash := map[string][]byte{}, sha256.New()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		fmt.Fprintf(hash, "%d:%s%x", len(name), name, changes[name].before)
		contents[name] = changes[name].content
	}
	commit, err := checkout.Commit(contents, promotion.commitMessage(), promotion.author(), promotion.Started.Time, signer)
	return change{commit: commit, baseFiles: hex.EncodeToString(hash.Sum(nil))}, err
}

// edit is what a file becomes, and the hash of what it was.
type edit struct {
	before  [sha256.Size]byte
	content []byte
}

// setMarkers returns the files that change when the fields marked for the promotion's environment are set to its revision.
func setMarkers(ctx context.Context, checkout *git.Checkout, promotion Promotion) (map[string]edit, error) {
	key := marker.Key{
		Namespace: promotion.Pipeline.Namespace, Pipeline: promotion.Pipeline.Name, Environment: promotion.Environment,
	}
	changes := map[string]edit{}
	marked := 0
	var unparsable error
	err := checkout.EachFile(ctx, func(name string, size int64, read func() ([]byte, error)) (bool, error) {
		if !marker.MayHold(name, size) {
			return false, nil
		}
		content, err := read()
		if err != nil || !marker.Mentions(content) {
			return false, err
		}
		changed, fields, err := marker.Set(name, content, key, promotion.Revision)
		if errors.Is(err, marker.ErrUnparsable) {
			unparsable = err
			return true, nil
		}
		if err != nil {
			return true, err
		}
		marked += fields
		if string(changed) != string(content) {
			changes[name] = edit{before: sha256.Sum256(content), content: changed}
		}
		return true, nil
	})
	switch {
	case err != nil:
		return nil, err
	case marked == 0 && unparsable != nil:
		return nil, unparsable
	case marked == 0:
		return nil, fmt.Errorf(`no field is marked for this promotion on branch %s: add the comment # {"$promotion": "%s:%s:%s"} to the line of the field that holds the revision`,
			promotion.Strategy.PullRequest.BaseBranch, key.Namespace, key.Pipeline, key.Environment)
	}
	return changes, nil
}

// pushCommit makes the branch hold the commit. That depends on nothing but the base and the promotion, so that an attempt which
// was cut off after its push pushes nothing again.
func pushCommit(ctx context.Context, remote git.Remote, checkout *git.Checkout, commit, branch string) error {
	// Whatever a branch of this name holds is an earlier attempt's, made from an older base.
	at, _, err := git.RemoteBranch(ctx, remote, branch)
	if err != nil {
		return err
	}
	return checkout.Push(ctx, commit, branch, at)
}
