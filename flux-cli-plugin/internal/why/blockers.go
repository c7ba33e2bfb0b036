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

package why

import (
	"fmt"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// Blocker is one thing that the promotion into an environment waits for.
type Blocker struct {
	Kind BlockerKind
	// Text says what it is, on one line.
	Text string
	// URL is that of the pull request, or "".
	URL string
}

// BlockerKind is the kind of a blocker.
type BlockerKind string

const (
	// GatesBlocker: gates are closed.
	GatesBlocker BlockerKind = pipelinesv1.GatesPrecondition
	// ApprovalBlocker: approvals are missing.
	ApprovalBlocker BlockerKind = pipelinesv1.ApprovalPrecondition
	// PullRequestBlocker: a pull request is open.
	PullRequestBlocker BlockerKind = "PullRequest"
	// OtherBlocker is what the state's message says.
	OtherBlocker BlockerKind = "Other"
)

// Blockers returns what keeps an environment from running the revision. It is empty if the environment runs it, or if
// its turn has not come.
func Blockers(pipeline *pipelinesv1.Pipeline, env string) []Blocker {
	status := pipeline.Status.Environments[env]
	if status == nil || status.State == "" || status.State.Settled() || status.State == pipelinesv1.EnvironmentBehind {
		return nil
	}
	var blockers []Blocker
	if waits(status.State) && status.Promotion != nil {
		blockers = blockersOf(status)
	}
	if len(blockers) == 0 || status.State == pipelinesv1.EnvironmentFailed {
		blockers = append([]Blocker{{Kind: OtherBlocker, Text: plaintext.Line(status.Message)}}, blockers...)
	}
	return blockers
}

func blockersOf(status *pipelinesv1.EnvironmentStatus) []Blocker {
	var blockers []Blocker
	if pull := status.Promotion.PullRequest; pull != nil && status.State == pipelinesv1.EnvironmentPullRequestOpen {
		blockers = append(blockers, Blocker{Kind: PullRequestBlocker, Text: fmt.Sprintf("pull request #%d is open", pull.Number), URL: pull.URL})
	}
	for _, precondition := range status.Promotion.Preconditions {
		if !precondition.Met {
			blockers = append(blockers, Blocker{Kind: BlockerKind(precondition.Type), Text: plaintext.Line(precondition.Message)})
		}
	}
	return blockers
}
