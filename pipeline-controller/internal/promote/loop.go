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
	"errors"
	"fmt"
	"regexp"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// loopGenerations is the maximum number of generations of commits on the base branch that are checked.
const loopGenerations = 50

// ownMessage matches the message of Sluice's own commits, and those that Git hosts create from them by a merge or a
// squash. By default, those contain the message of the commit, the description of the pull request, or at least its
// title.
var ownMessage = regexp.MustCompile(`(?m)^[ \t]*` + revisionTrailer + `: |\bPromote [^\s/]+/\S+ in \S+ to \S`)

// isOwn reports whether a commit with that message is Sluice's. A revert by a person quotes the title of what it
// reverts.
func isOwn(message string) bool {
	return !strings.HasPrefix(message, "Revert ") && ownMessage.MatchString(message)
}

// Earlier contains the earlier promotions of the Pipeline.
type Earlier struct {
	// Promoted maps commits to promoted revisions, and Merged maps merge commits to URLs of pull requests.
	Promoted, Merged map[string]string
}

// ancestry looks up commits of the base branch.
type ancestry struct {
	*PullRequests
	checkout  *git.Checkout
	to        access
	promotion Promotion
	// history is fetched when it is first needed. It remains nil if the host does not provide it.
	history *git.History
	asked   bool
}

// loop returns the previously promoted revision, if the promotion's revision adds nothing to it but Sluice's own
// commits. Otherwise it returns "": either the first environment does not track the branch that promotions are merged
// into, or there is a real change.
func (p *PullRequests) loop(ctx context.Context, to access, checkout *git.Checkout, promotion Promotion) (_ string, err error) {
	commit, ok := revision.Commit(promotion.Revision)
	if !ok || len(promotion.Earlier.Promoted) == 0 {
		return "", nil
	}
	a := &ancestry{PullRequests: p, checkout: checkout, to: to, promotion: promotion}
	defer func() { err = errors.Join(err, a.close()) }()
	for range loopGenerations {
		at, found, err := a.commit(ctx, commit)
		if err != nil || !found || len(at.Parents) == 0 {
			return "", err
		}
		if own, err := a.isOwn(ctx, commit, at); err != nil || !own {
			return "", err
		}
		commit = at.Parents[0]
		if before, ok := promotion.Earlier.Promoted[commit]; ok {
			return before, nil
		}
	}
	return "", nil
}

// isOwn reports whether a commit adds nothing to its first parent but Sluice's own commits.
func (a *ancestry) isOwn(ctx context.Context, hash string, commit git.Commit) (bool, error) {
	if _, ok := a.promotion.Earlier.Merged[hash]; ok {
		return true, nil
	}
	own := isOwn(commit.Message)
	for _, parent := range commit.Parents[1:] {
		merged, found, err := a.commit(ctx, parent)
		if err != nil {
			return false, err
		}
		// Commits that others pushed to the pull request's branch are changes.
		if found {
			own = isOwn(merged.Message)
		}
	}
	return own, nil
}

// commit returns a commit, and whether it is one of the newest of the base branch.
func (a *ancestry) commit(ctx context.Context, hash string) (git.Commit, bool, error) {
	if hash == a.checkout.Base() {
		tip, err := a.checkout.Tip()
		return tip, err == nil, err
	}
	if !a.asked {
		a.asked = true
		var err error
		a.history, err = a.Clones.History(ctx, a.to.remote, a.promotion.Strategy.PullRequest.BaseBranch, loopGenerations)
		if err != nil && ctx.Err() != nil {
			return git.Commit{}, false, err
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("only the newest commit of the base branch is checked for promotion loops", "error", err.Error())
		}
	}
	if a.history == nil {
		return git.Commit{}, false, nil
	}
	return a.history.Commit(hash)
}

func (a *ancestry) close() error {
	if a.history == nil {
		return nil
	}
	return a.history.Close()
}

// isCommit matches the hash of a commit.
var isCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// mergeCommit returns the merge commit. It drops everything else that the host returns in its place.
func mergeCommit(pr scm.PullRequest) string {
	if !isCommit.MatchString(pr.MergeCommit) {
		return ""
	}
	return pr.MergeCommit
}

// looped returns the message of a promotion that would promote its own result.
func (p Promotion) looped(before string) string {
	return fmt.Sprintf("it adds only Sluice's own commits to %s, which was promoted before", revision.Short(before))
}
