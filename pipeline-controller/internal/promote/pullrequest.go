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
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

// defaultAuthor is the author of commits if the Pipeline does not define one.
var defaultAuthor = git.Author{Name: "Sluice", Email: "sluice@noreply.invalid"}

// PullRequests promotes with pull requests.
type PullRequests struct {
	// Secrets reads the Secrets of strategies one by one, without a cache.
	Secrets client.Reader
	// Hosts opens repositories on Git hosts.
	Hosts *scm.Hosts
	// Clones keeps clones between promotions.
	Clones *git.Clones

	memory memory
}

// NewPullRequests returns a PullRequests. All promotions of a process must use the same one, because it limits the
// memory that they use together.
func NewPullRequests(secrets client.Reader, hosts *scm.Hosts, clones *git.Clones) *PullRequests {
	return &PullRequests{Secrets: secrets, Hosts: hosts, Clones: clones, memory: newMemory()}
}

// Open makes sure that the promotion has a pull request. It adopts one of an earlier attempt. Otherwise it sets the
// marked fields on top of the base branch, pushes the result as one commit and opens the pull request.
func (p *PullRequests) Open(ctx context.Context, promotion Promotion, confirm Confirm) plan.Outcome {
	outcome, err := p.open(ctx, promotion, confirm)
	if err != nil {
		return failure(err)
	}
	return outcome
}

func (p *PullRequests) open(ctx context.Context, promotion Promotion, confirm Confirm) (outcome plan.Outcome, err error) {
	if err := promotion.validate(); err != nil {
		return plan.Outcome{}, err
	}
	to, err := p.access(ctx, promotion)
	if err != nil {
		return plan.Outcome{}, err
	}
	adopted, found, err := adopt(ctx, to.host, promotion)
	if err != nil || found && adopted.PullRequest.HeadCommit == "" {
		return adopted, err
	}
	checkout, err := p.Clones.Checkout(ctx, to.remote, promotion.Strategy.PullRequest.BaseBranch)
	if err != nil {
		return plan.Outcome{}, err
	}
	defer func() { err = errors.Join(err, checkout.Close()) }()
	if !found {
		if before, err := p.loop(ctx, to, checkout, promotion); err != nil || before != "" {
			return plan.Outcome{Loop: before, Message: promotion.looped(before)}, err
		}
	}
	change, err := p.change(ctx, checkout, promotion)
	defer change.release()
	if found {
		// A branch with exactly the commit that Sluice creates is Sluice's own. Any other content is someone else's.
		if err == nil && change.commit == adopted.PullRequest.HeadCommit {
			change.isMadeIn(adopted.PullRequest, checkout)
		}
		return adopted, nil
	}
	if err != nil || change.isEmpty() {
		return heldAlready(promotion), err
	}
	if why, err := confirm(ctx); err != nil || why != "" {
		return plan.Outcome{Message: why}, err
	}
	if err := pushCommit(ctx, to.remote, checkout, change.commit, promotion.branch()); err != nil {
		return plan.Outcome{}, err
	}
	strategy := promotion.Strategy.PullRequest
	opened, err := to.host.Create(ctx, scm.NewPullRequest{
		Title: promotion.title(), Body: promotion.body(), Branch: promotion.branch(), Base: strategy.BaseBranch,
		Labels: strategy.Labels, Reviewers: strategy.Reviewers, Draft: strategy.Draft,
	})
	if errors.Is(err, scm.ErrAlreadyExists) {
		if outcome, found, err := adopt(ctx, to.host, promotion); found || err != nil {
			return outcome, err
		}
	}
	if err != nil {
		return plan.Outcome{}, err
	}
	linkSuccessor(ctx, to.host, promotion, opened)
	outcome = created(opened)
	if opened.HeadCommit == "" || opened.HeadCommit == change.commit {
		change.isMadeIn(outcome.PullRequest, checkout)
	}
	return outcome, nil
}

// linkSuccessor adds a comment to the withdrawn pull request that links the new one. Errors are ignored: the new one
// refers to the old one anyway.
func linkSuccessor(ctx context.Context, host scm.Host, promotion Promotion, opened scm.PullRequest) {
	if promotion.Supersedes == nil {
		return
	}
	if err := host.Comment(ctx, int(promotion.Supersedes.Number), "Superseded by "+opened.URL); err != nil {
		ctrl.LoggerFrom(ctx).Info("commenting on the withdrawn pull request failed", "error", err.Error())
	}
}

// heldAlready is the outcome if there is nothing to change.
func heldAlready(promotion Promotion) plan.Outcome {
	return plan.Outcome{
		State:   pipelinesv1.PromotionSucceeded,
		Message: fmt.Sprintf("branch %s already has the revision", promotion.Strategy.PullRequest.BaseBranch),
	}
}

// adopt finds a pull request that an earlier attempt opened but could not record. It adopts any open pull request of
// the promotion's branch into its base branch. It adopts one that was merged or closed, or that has another base
// branch, only if it was made for this very promotion: the same revision may have been promoted before, and people
// reuse branches. A pull request into the base branch takes precedence over one into another branch, whose description
// may have been copied.
func adopt(ctx context.Context, host scm.Host, promotion Promotion) (plan.Outcome, bool, error) {
	found, err := host.Find(ctx, promotion.branch())
	if err != nil {
		return plan.Outcome{}, false, err
	}
	made := func(pr scm.PullRequest) bool { return promotion.made(pr.Body) }
	isThere := func(pr scm.PullRequest) bool { return pr.Base == promotion.Strategy.PullRequest.BaseBranch }
	for _, mine := range []func(scm.PullRequest) bool{
		func(pr scm.PullRequest) bool { return pr.State == scm.StateOpen && isThere(pr) },
		func(pr scm.PullRequest) bool { return made(pr) && isThere(pr) },
		made,
	} {
		if i := slices.IndexFunc(found, mine); i >= 0 {
			return created(found[i]), true, nil
		}
	}
	return plan.Outcome{}, false, nil
}

// created records a pull request in any state: the next poll shows whether it was closed, or merged and into which
// branch.
func created(pr scm.PullRequest) plan.Outcome {
	return plan.Outcome{
		State:   pipelinesv1.PromotionCreated,
		Message: fmt.Sprintf("pull request %s waits to be merged", pr.URL),
		PullRequest: &pipelinesv1.PullRequestStatus{
			URL: pr.URL, Number: int64(pr.Number), Branch: pr.Branch, HeadCommit: pr.HeadCommit, MergeCommit: mergeCommit(pr),
			Warning: pr.Warning,
		},
	}
}

// Poll returns the state of the promotion's pull request.
func (p *PullRequests) Poll(ctx context.Context, promotion Promotion, recorded *pipelinesv1.PullRequestStatus) plan.PullRequest {
	to, err := p.access(ctx, promotion)
	if err != nil {
		return plan.PullRequest{Err: err}
	}
	pr, err := to.host.Get(ctx, int(recorded.Number))
	if err != nil {
		outcome := failure(err)
		if outcome.RetryAt.IsZero() {
			err = fmt.Errorf("%w: check the credentials in secretRef, and the Git host", err)
		}
		return plan.PullRequest{Err: err, RetryAt: outcome.RetryAt}
	}
	// The Pipeline may refer to another repository now, in which the number belongs to another pull request.
	if pr.Branch != recorded.Branch {
		return plan.PullRequest{Err: fmt.Errorf("number %d is another pull request in %s: if the Pipeline was moved to this repository, restart the promotion with the annotation %s",
			recorded.Number, to.host.CloneURL(), meta.ForceRequestAnnotation)}
	}
	what := seen(pr, promotion.Strategy.PullRequest.BaseBranch)
	if pr.State == scm.StateOpen && what.Err == nil {
		// Without the commit, the pull request is followed nevertheless.
		what.BaseCommit, _, _ = git.RemoteBranch(ctx, to.remote, pr.Base)
	}
	return what
}

// seen returns the state of a pull request with respect to the base branch, because people can change the base of a
// pull request.
func seen(pr scm.PullRequest, base string) plan.PullRequest {
	elsewhere := pr.Base != base
	switch {
	case pr.State == scm.StateMerged && elsewhere:
		return plan.PullRequest{Closed: fmt.Sprintf("merged into %s, not into %s", pr.Base, base)}
	case pr.State == scm.StateMerged:
		return plan.PullRequest{Merged: true, MergeCommit: mergeCommit(pr)}
	case pr.State == scm.StateClosed:
		return plan.PullRequest{Closed: "closed without being merged"}
	case elsewhere:
		return plan.PullRequest{Err: fmt.Errorf("its base branch is %s, not %s: restore the base branch, or close it", pr.Base, base)}
	}
	return plan.PullRequest{HeadCommit: pr.HeadCommit, Pipeline: pr.Pipeline}
}

// Renew creates the commit of the pull request again, on top of the current base branch, if the changed files have
// changed there. It never overwrites commits of others.
func (p *PullRequests) Renew(ctx context.Context, promotion Promotion, recorded *pipelinesv1.PullRequestStatus, confirm Confirm) plan.Outcome {
	outcome, err := p.renew(ctx, promotion, recorded, confirm)
	if err != nil {
		return failure(err)
	}
	return outcome
}

func (p *PullRequests) renew(ctx context.Context, promotion Promotion, recorded *pipelinesv1.PullRequestStatus, confirm Confirm) (outcome plan.Outcome, err error) {
	to, err := p.access(ctx, promotion)
	if err != nil {
		return plan.Outcome{}, err
	}
	checkout, err := p.Clones.Checkout(ctx, to.remote, promotion.Strategy.PullRequest.BaseBranch)
	if err != nil {
		return plan.Outcome{}, err
	}
	defer func() { err = errors.Join(err, checkout.Close()) }()
	change, err := p.change(ctx, checkout, promotion)
	defer change.release()
	if err != nil {
		return plan.Outcome{}, err
	}
	if why, err := confirm(ctx); err != nil || why != "" {
		return plan.Outcome{Message: why}, err
	}
	pr := recorded.DeepCopy()
	switch {
	case !change.isEmpty() && change.commit == recorded.HeadCommit:
		// An attempt whose end was not recorded has pushed it.
		change.isMadeIn(pr, checkout)
	case recorded.HeadCommit != recorded.Commit:
		// Someone else has pushed.
	case change.isEmpty():
		return p.obsolete(ctx, promotion)
	case change.baseFiles != recorded.BaseFiles:
		if err := checkout.Push(ctx, change.commit, promotion.branch(), recorded.Commit); err != nil {
			return plan.Outcome{}, err
		}
		change.isMadeIn(pr, checkout)
		tellRenewed(ctx, to.host, promotion, int(recorded.Number))
	}
	pr.BaseCommit = checkout.Base()
	return plan.Outcome{State: pipelinesv1.PromotionCreated, PullRequest: pr}, nil
}

// tellRenewed updates the description of a renewed pull request. Errors are ignored.
func tellRenewed(ctx context.Context, host scm.Host, promotion Promotion, number int) {
	pr, err := host.Get(ctx, number)
	if err == nil && !strings.Contains(pr.Body, promotion.from()) {
		err = host.Comment(ctx, number, fmt.Sprintf("Renewed by Sluice: the base branch has changed, and the environment runs %s now.", promotion.from()))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("updating the description of the renewed pull request failed", "error", err.Error())
	}
}

// obsolete closes a pull request that would no longer change anything.
func (p *PullRequests) obsolete(ctx context.Context, promotion Promotion) (plan.Outcome, error) {
	held := heldAlready(promotion)
	if _, err := p.withdraw(ctx, promotion, held.Message); err != nil {
		return plan.Outcome{}, err
	}
	return held, nil
}

// ReportPreconditions sets the commit status that reports whether the promotion's preconditions are met.
func (p *PullRequests) ReportPreconditions(ctx context.Context, promotion Promotion, recorded *pipelinesv1.PullRequestStatus, status pipelinesv1.PreconditionsCommitStatus) plan.Outcome {
	state := scm.StatusFailure
	if status.Met {
		state = scm.StatusSuccess
	}
	to, err := p.access(ctx, promotion)
	if err == nil {
		pr := scm.PullRequest{Number: int(recorded.Number), URL: recorded.URL, Branch: recorded.Branch, HeadCommit: status.Commit}
		err = to.host.SetStatus(ctx, pr, state, status.Description)
	}
	return stepTaken(err)
}

// Merge merges the pull request, unless someone has pushed to its branch since the last poll.
func (p *PullRequests) Merge(ctx context.Context, promotion Promotion, recorded *pipelinesv1.PullRequestStatus, confirm Confirm) plan.Outcome {
	to, err := p.access(ctx, promotion)
	if err != nil {
		return failure(err)
	}
	if why, err := confirm(ctx); err != nil || why != "" {
		return plan.Outcome{Message: why, Err: err}
	}
	pr, err := to.host.Get(ctx, int(recorded.Number))
	if err != nil {
		return failure(err)
	}
	if base := promotion.Strategy.PullRequest.BaseBranch; pr.State != scm.StateOpen || pr.Branch != recorded.Branch || pr.Base != base || pr.HeadCommit != recorded.HeadCommit {
		return plan.Outcome{Err: errors.New("the pull request has changed since it was last read")}
	}
	method := scm.MergeMethod(promotion.Strategy.PullRequest.MergeMethod)
	if method == "" {
		method = scm.MergeCommit
	}
	return stepTaken(to.host.Merge(ctx, int(recorded.Number), method, recorded.HeadCommit))
}

// stepTaken is the outcome of a step that leaves the promotion's pull request open.
func stepTaken(err error) plan.Outcome {
	if err != nil {
		return failure(err)
	}
	return plan.Outcome{State: pipelinesv1.PromotionCreated}
}

// Withdraw closes the promotion's open pull request and deletes its branch. It finds them by the name of the branch, so
// it includes those of an attempt whose end was not recorded. Why is added as a comment.
func (p *PullRequests) Withdraw(ctx context.Context, promotion Promotion, why string) plan.Outcome {
	outcome, err := p.withdraw(ctx, promotion, why)
	if err != nil {
		return failure(err)
	}
	return outcome
}

func (p *PullRequests) withdraw(ctx context.Context, promotion Promotion, why string) (plan.Outcome, error) {
	to, err := p.access(ctx, promotion)
	if err != nil {
		return plan.Outcome{}, err
	}
	found, err := to.host.Find(ctx, promotion.branch())
	if err != nil {
		return plan.Outcome{}, err
	}
	outcome := plan.Outcome{State: pipelinesv1.PromotionAbandoned, Message: why}
	for _, pr := range found {
		if pr.State == scm.StateOpen {
			if pr, err = to.host.Close(ctx, pr.Number); err != nil {
				return plan.Outcome{}, err
			}
			if err := to.host.Comment(ctx, pr.Number, "Closed by Sluice: "+text(why)+"."); err != nil {
				return plan.Outcome{}, err
			}
		}
		// It was merged in the meantime: the revision is in the base branch now.
		if seen(pr, promotion.Strategy.PullRequest.BaseBranch).Merged && promotion.made(pr.Body) {
			outcome = created(pr)
			outcome.State, outcome.Message = pipelinesv1.PromotionSucceeded, fmt.Sprintf("pull request %s was merged", pr.URL)
		}
	}
	return outcome, deleteBranch(ctx, to.remote, promotion.branch())
}

// deleteBranch deletes the branch, unless someone pushes to it at the same time.
func deleteBranch(ctx context.Context, remote git.Remote, branch string) error {
	at, exists, err := git.RemoteBranch(ctx, remote, branch)
	if err != nil || !exists {
		return err
	}
	if err := git.DeleteBranch(ctx, remote, branch, at); err != nil && !errors.Is(err, git.ErrLease) {
		return err
	}
	return nil
}

// failure is the outcome of a failed attempt. A rate limit includes the time of the next attempt.
func failure(err error) plan.Outcome {
	outcome := plan.Outcome{Err: err}
	var limited *scm.RateLimitedError
	if errors.As(err, &limited) {
		outcome.RetryAt = limited.Until
	}
	return outcome
}
