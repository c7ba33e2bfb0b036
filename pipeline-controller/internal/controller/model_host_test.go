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

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
)

// eventMemory is how long notification-controller rejects duplicates of an accepted event.
const eventMemory = 5 * time.Minute

// promotionID identifies a promotion externally: by its branch and its trailers, or by the token of its event.
type promotionID struct {
	environment, revision string
	// started is in seconds since 1970.
	started int64
}

func idOf(promotion promote.Promotion) promotionID {
	return promotionID{promotion.Environment, promotion.Revision, promotion.Started.Unix()}
}

func (id promotionID) branch() string { return id.environment + "/" + id.revision }

type modelPullRequest struct {
	number int
	id     promotionID
	state  string
	// closedBySluice is true if Sluice closed it last.
	closedBySluice bool
	// endSeen is true once a process has seen that it is no longer open.
	endSeen bool
	// reported is the commit status that was last set.
	reported *pipelinesv1.PreconditionsCommitStatus
	// foreign is true if the Pipeline no longer has to know of it: see where it is set.
	foreign bool
}

func (p *modelPullRequest) url() string { return fmt.Sprintf("https://git.example/pulls/%d", p.number) }

// modelHost is a Git host with one repository, and notification-controller.
type modelHost struct {
	pullRequests []*modelPullRequest
	branches     map[string]bool
	// base contains the revision that is set on the base branch for each environment.
	base map[string]string
	// created counts the pull requests of each promotion.
	created map[promotionID]int
	events  map[promotionID]*modelEvent
	// notified is the last revision that each environment was notified of.
	notified map[string]string
	// heldAlready contains promotions without a change on the base branch.
	heldAlready map[promotionID]bool
	// limitedUntil is the end of the rate limit.
	limitedUntil time.Time
}

// modelEvent is what notification-controller has seen of a promotion.
type modelEvent struct {
	accepted int
	last     time.Time
	// unheard is true if the last acceptance may be unknown: the response was lost, or the process died.
	unheard bool
}

func newModelHost() *modelHost {
	return &modelHost{
		branches: map[string]bool{}, base: map[string]string{}, created: map[promotionID]int{}, events: map[promotionID]*modelEvent{},
		notified: map[string]string{}, heldAlready: map[promotionID]bool{},
	}
}

// find returns the pull requests of a branch, newest first.
func (h *modelHost) find(branch string) []*modelPullRequest {
	var found []*modelPullRequest
	for _, pr := range slices.Backward(h.pullRequests) {
		if pr.id.branch() == branch {
			found = append(found, pr)
		}
	}
	return found
}

func (h *modelHost) pullRequest(number int64) *modelPullRequest {
	if number < 1 || int(number) > len(h.pullRequests) {
		return nil
	}
	return h.pullRequests[number-1]
}

// open returns the open pull requests that the Pipeline must know of.
func (h *modelHost) open() []*modelPullRequest {
	var open []*modelPullRequest
	for _, pr := range h.pullRequests {
		if pr.state == "open" && !pr.foreign {
			open = append(open, pr)
		}
	}
	return open
}

// baseCommit is derived from the content of the base branch.
func (h *modelHost) baseCommit() string { return fmt.Sprint(h.base) }

// merge is a person's merge.
func (h *modelHost) merge(pr *modelPullRequest) {
	pr.state = "merged"
	h.base[pr.id.environment] = pr.id.revision
}

// rateLimited is the error of a host that is rate limited until some time.
type rateLimited struct{ until time.Time }

func (e *rateLimited) Error() string { return "rate limited" }

func failed(err error) plan.Outcome {
	outcome := plan.Outcome{Err: err}
	var limited *rateLimited
	if errors.As(err, &limited) {
		outcome.RetryAt = limited.until
	}
	return outcome
}

// modelPullRequests implements promote.PullRequests for a process on the model's host. It finds, adopts, rejects and
// repeats the same as promote.PullRequests.
type modelPullRequests struct{ *process }

func (p modelPullRequests) Open(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome {
	p.model.checkAttempt(p.process, promotion, plan.OpenPullRequest)
	outcome, err := p.open(ctx, promotion, confirm)
	if err != nil {
		return failed(err)
	}
	return outcome
}

func (p modelPullRequests) open(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) (plan.Outcome, error) {
	host, id := p.model.host, idOf(promotion)
	if outcome, found, err := p.adopt(id); found || err != nil {
		return outcome, err
	}
	holds := false
	if err := p.onHost("clone", func() { holds = host.base[id.environment] == id.revision }); err != nil {
		return plan.Outcome{}, err
	}
	if holds {
		host.heldAlready[id] = true
		return plan.Outcome{State: pipelinesv1.PromotionSucceeded, Message: "the base branch already has the revision"}, nil
	}
	if why, err := p.confirmed(ctx, confirm); err != nil || why != "" {
		return plan.Outcome{Message: why}, err
	}
	if err := p.onHost("push", func() { host.branches[id.branch()] = true }); err != nil {
		return plan.Outcome{}, err
	}
	var opened *modelPullRequest
	if err := p.onHost("create", func() { opened = p.create(id) }); err != nil {
		return plan.Outcome{}, err
	}
	if opened == nil {
		outcome, _, err := p.adopt(id)
		return outcome, err
	}
	return created(opened), nil
}

func (p modelPullRequests) adopt(id promotionID) (outcome plan.Outcome, found bool, err error) {
	err = p.onHost("find "+id.branch(), func() {
		for _, pr := range p.model.host.find(id.branch()) {
			if pr.state == "open" || pr.id == id {
				if pr.id == id && p.model.nothingIsLost() {
					p.model.fail("%s has opened pull request %d, and did not record it", p.name, pr.number)
				}
				outcome, found = created(pr), true
				p.model.count("pull requests adopted")
				return
			}
		}
	})
	return outcome, found, err
}

func created(pr *modelPullRequest) plan.Outcome {
	return plan.Outcome{State: pipelinesv1.PromotionCreated, Message: "waits to be merged", PullRequest: &pipelinesv1.PullRequestStatus{
		URL: pr.url(), Number: int64(pr.number), Branch: pr.id.branch(), HeadCommit: "c0ffee", Commit: "c0ffee",
	}}
}

// create opens a pull request, unless the branch has an open one.
func (p modelPullRequests) create(id promotionID) *modelPullRequest {
	host := p.model.host
	for _, pr := range host.find(id.branch()) {
		if pr.state == "open" {
			return nil
		}
	}
	p.model.overlapped[id] = p.model.overlapped[id] || p.overtaken
	pr := &modelPullRequest{number: len(host.pullRequests) + 1, id: id, state: "open", foreign: p.model.overlapped[id]}
	host.pullRequests = append(host.pullRequests, pr)
	p.model.checkCreated(p.process, pr)
	return pr
}

// Poll is not a step of its own. What fails does not depend on the order in which pull requests are polled.
func (p modelPullRequests) Poll(_ context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus) plan.PullRequest {
	if err := p.pollError(promotion.Environment); err != nil {
		outcome := failed(err)
		return plan.PullRequest{Err: outcome.Err, RetryAt: outcome.RetryAt}
	}
	pr := p.model.host.pullRequest(recorded.Number)
	pr.endSeen = pr.endSeen || pr.state != "open"
	seen := plan.PullRequest{Merged: pr.state == "merged", HeadCommit: "c0ffee", BaseCommit: p.model.host.baseCommit()}
	if pr.state == "closed" {
		seen.Closed = "closed without being merged"
	}
	return seen
}

// Renew closes a pull request that would no longer change anything.
func (p modelPullRequests) Renew(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome {
	host, id := p.model.host, idOf(promotion)
	holds, base := false, ""
	if err := p.onHost("fetch", func() { holds, base = host.base[id.environment] == id.revision, host.baseCommit() }); err != nil {
		return failed(err)
	}
	if why, err := p.confirmed(ctx, confirm); err != nil || why != "" {
		return plan.Outcome{Message: why, Err: err}
	}
	if holds {
		if _, err := p.withdraw(id, "the base branch already has the revision"); err != nil {
			return failed(err)
		}
		host.heldAlready[id] = true
		p.model.count("pull requests that the base has made obsolete")
		return plan.Outcome{State: pipelinesv1.PromotionSucceeded, Message: "the base branch already has the revision"}
	}
	if err := p.onHost("push", func() {}); err != nil {
		return failed(err)
	}
	p.model.count("commits renewed")
	renewed := recorded.DeepCopy()
	renewed.BaseCommit = base
	return plan.Outcome{State: pipelinesv1.PromotionCreated, PullRequest: renewed}
}

func (p modelPullRequests) ReportPreconditions(_ context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, status pipelinesv1.PreconditionsCommitStatus) plan.Outcome {
	if err := p.onHost(fmt.Sprintf("set the status of %d", recorded.Number), func() { p.model.host.pullRequest(recorded.Number).reported = &status }); err != nil {
		return failed(err)
	}
	p.model.count("commit statuses set")
	return plan.Outcome{State: pipelinesv1.PromotionCreated}
}

// Merge merges a pull request if it is open, like hosts do.
func (p modelPullRequests) Merge(ctx context.Context, promotion promote.Promotion, recorded *pipelinesv1.PullRequestStatus, confirm promote.Confirm) plan.Outcome {
	if why, err := p.confirmed(ctx, confirm); err != nil || why != "" {
		return plan.Outcome{Message: why, Err: err}
	}
	merged := false
	if err := p.onHost(fmt.Sprintf("merge %d", recorded.Number), func() { merged = p.merge(recorded.Number) }); err != nil {
		return failed(err)
	}
	if !merged {
		return plan.Outcome{Err: errors.New("not mergeable")}
	}
	return plan.Outcome{State: pipelinesv1.PromotionCreated}
}

func (p modelPullRequests) merge(number int64) bool {
	pr := p.model.host.pullRequest(number)
	if pr.state != "open" {
		return false
	}
	p.model.checkMerge(p.process, pr)
	p.model.host.merge(pr)
	p.model.count("pull requests merged by Sluice")
	return true
}

func (p modelPullRequests) Withdraw(_ context.Context, promotion promote.Promotion, why string) plan.Outcome {
	p.model.checkWithdrawal(p.process, promotion)
	outcome, err := p.withdraw(idOf(promotion), why)
	if err != nil {
		return failed(err)
	}
	return outcome
}

func (p modelPullRequests) withdraw(id promotionID, why string) (plan.Outcome, error) {
	host := p.model.host
	var found []*modelPullRequest
	if err := p.onHost("find "+id.branch(), func() { found = host.find(id.branch()) }); err != nil {
		return plan.Outcome{}, err
	}
	outcome := plan.Outcome{State: pipelinesv1.PromotionAbandoned, Message: why}
	for _, pr := range found {
		if pr.state == "open" {
			if err := p.onHost(fmt.Sprintf("close %d", pr.number), func() { p.close(pr) }); err != nil {
				return plan.Outcome{}, err
			}
		}
		if pr.state == "merged" && pr.id == id {
			outcome = plan.Outcome{State: pipelinesv1.PromotionSucceeded, Message: "was merged"}
		}
	}
	return outcome, p.onHost("delete the branch", func() { p.deleteBranch(id.branch()) })
}

// deleteBranch closes the open pull request of the branch, like Git hosts do.
func (p modelPullRequests) deleteBranch(branch string) {
	delete(p.model.host.branches, branch)
	for _, pr := range p.model.host.find(branch) {
		p.close(pr)
	}
}

// close ignores a pull request that was merged or closed in the meantime. If a process closes one after another process
// has overtaken it, the other one cannot distinguish that from a person's close.
func (p modelPullRequests) close(pr *modelPullRequest) {
	if pr.state == "open" {
		pr.state, pr.closedBySluice = "closed", !p.overtaken
		p.model.count("pull requests withdrawn")
	}
}

// modelNotifications implements promote.Notifications for a process.
type modelNotifications struct{ *process }

func (n modelNotifications) Notify(ctx context.Context, promotion promote.Promotion, confirm promote.Confirm) plan.Outcome {
	n.model.checkAttempt(n.process, promotion, plan.Notify)
	if why, err := n.confirmed(ctx, confirm); err != nil || why != "" {
		return plan.Outcome{Message: why, Err: err}
	}
	if err := n.onHost("post the event", func() { n.accept(idOf(promotion)) }); err != nil {
		return failed(err)
	}
	return plan.Outcome{State: pipelinesv1.PromotionSucceeded, Message: "the notification was accepted"}
}

// accept accepts an event, unless it was just accepted.
func (n modelNotifications) accept(id promotionID) {
	n.model.checkTouch(n.process, id)
	host := n.model.host
	event := host.events[id]
	if event == nil {
		event = &modelEvent{}
		host.events[id] = event
	}
	if event.accepted > 0 && n.model.now.Sub(event.last) < eventMemory {
		n.model.count("events refused as duplicates")
		return
	}
	if event.accepted > 0 && !event.unheard {
		n.model.fail("the event of %v is accepted once more, though its acceptance had been heard", id)
	}
	event.accepted++
	event.last = n.model.now
	event.unheard = n.overtaken || n.verdict == lost || n.verdict == die
	n.unrecorded = event
	host.notified[id.environment] = id.revision
	n.model.count("events accepted")
	if event.accepted > 1 {
		n.model.count("events accepted twice, after a crash or a lost answer")
	}
}
