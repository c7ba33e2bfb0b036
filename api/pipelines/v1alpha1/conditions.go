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

package v1alpha1

const (
	// SharedSourceCondition is True while environments take their revision from one source. Where promotions are configured, the Pipeline is
	// stalled for that reason. It is left out otherwise.
	SharedSourceCondition = "SharedSource"
	// PromotionPendingCondition is True exactly while the first environment isn't settled on one revision, so that there
	// is nothing to promote yet.
	PromotionPendingCondition = "PromotionPending"

	// SettledCondition is True when every environment runs the revision that travels through the Pipeline. Its message names the first
	// one that doesn't.
	SettledCondition = "Settled"

	// EnvironmentNotReadyReason says that the targets of an environment are not all ready on one revision.
	EnvironmentNotReadyReason = "EnvironmentNotReady"
	// TargetNotReadableReason says that a target's state is not known, so that nothing can be decided past it.
	TargetNotReadableReason = "TargetNotReadable"
	// RollingOutReason says that a promoted revision has reached an environment but not settled there.
	RollingOutReason = "RollingOut"
	// WaitingForPreconditionsReason says that a promotion waits for its gates or approvals.
	WaitingForPreconditionsReason = "WaitingForPreconditions"
	// PullRequestOpenReason says that a promotion waits for its pull request to be merged.
	PullRequestOpenReason = "PullRequestOpen"
	// PromotingReason says that a promotion is about to be attempted.
	PromotingReason = "Promoting"
	// PromotedReason says that a promotion was carried out and its environment has yet to run the revision.
	PromotedReason = "Promoted"
	// PromotionFailedReason says that the last attempt at a promotion failed and will be repeated.
	PromotionFailedReason = "PromotionFailed"
	// PromotionAbandonedReason says that a promotion's pull request was closed without being merged.
	PromotionAbandonedReason = "PromotionAbandoned"
	// TooManyApprovalsReason says that nothing is promoted until approvals of the Pipeline have been deleted.
	TooManyApprovalsReason = "TooManyApprovals"
	// NoPromotionReason says that an environment doesn't run the revision and that the Pipeline has no promotion for it.
	NoPromotionReason = "NoPromotion"
	// PullRequestUnknownReason says that the Git host doesn't tell what became of a pull request.
	PullRequestUnknownReason = "PullRequestUnknown"
	// SuspendedReason says that the Pipeline is suspended.
	SuspendedReason = "Suspended"
	// EnvironmentReadyReason says that the targets of an environment are all ready on one revision.
	EnvironmentReadyReason = "EnvironmentReady"
	// RolledBackReason says that an environment had settled on the revision and runs something else.
	RolledBackReason = "RolledBack"
	// UpToDateReason says that every environment runs the revision.
	UpToDateReason = "UpToDate"
	// InvalidSpecReason says that the Pipeline can't be acted on until its spec is corrected.
	InvalidSpecReason = "InvalidSpec"
	// SharedSourceReason says that environments take their revision from one source, so that it says nothing of what each of them runs.
	SharedSourceReason = "SharedSource"
	// PromotionLoopReason says that the first environment follows the branch that promotions are merged into, so that each would be a new
	// revision to promote.
	PromotionLoopReason = "PromotionLoop"
)

// The types of preconditions, as PreconditionStatus.Type names them.
const (
	// GatesPrecondition asks for the gates of the promotion to be open.
	GatesPrecondition = "Gates"
	// ApprovalPrecondition asks for as many people's approval as the promotion requires.
	ApprovalPrecondition = "Approval"
)
