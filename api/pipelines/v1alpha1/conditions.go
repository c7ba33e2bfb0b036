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
	// SharedSourceCondition is True while environments take their revision from the same source. It is absent
	// otherwise. If promotions are configured, the Pipeline is stalled.
	SharedSourceCondition = "SharedSource"
	// PromotionPendingCondition is True while the first environment has not settled on a revision, so there is nothing
	// to promote yet.
	PromotionPendingCondition = "PromotionPending"

	// SettledCondition is True when every environment runs the revision that the Pipeline promotes. Its message names
	// the first environment that does not.
	SettledCondition = "Settled"

	// AlertMissingCondition is True while an environment is promoted by notification and no Alert of Flux's
	// notification-controller takes the event. It is absent otherwise, and where Alerts can't be read.
	AlertMissingCondition = "AlertMissing"
	// NoAlertReason is the reason of AlertMissingCondition.
	NoAlertReason = "NoAlert"

	// EnvironmentNotReadyReason means that the targets of an environment are not all ready on one revision.
	EnvironmentNotReadyReason = "EnvironmentNotReady"
	// TargetNotReadableReason means that the state of a target is unknown, so nothing is decided for later
	// environments.
	TargetNotReadableReason = "TargetNotReadable"
	// RollingOutReason means that a promoted revision has reached an environment but has not settled there.
	RollingOutReason = "RollingOut"
	// WaitingForPreconditionsReason means that a promotion waits for its gates or approvals.
	WaitingForPreconditionsReason = "WaitingForPreconditions"
	// PullRequestOpenReason means that a promotion waits for its pull request to be merged.
	PullRequestOpenReason = "PullRequestOpen"
	// PromotingReason means that a promotion is in progress or queued.
	PromotingReason = "Promoting"
	// PromotedReason means that a promotion succeeded and its environment does not run the revision yet.
	PromotedReason = "Promoted"
	// PromotionFailedReason means that the last attempt at a promotion failed and will be retried.
	PromotionFailedReason = "PromotionFailed"
	// PromotionAbandonedReason means that the pull request of a promotion was closed without being merged.
	PromotionAbandonedReason = "PromotionAbandoned"
	// TooManyApprovalsReason means that nothing is promoted until approvals of the Pipeline are deleted.
	TooManyApprovalsReason = "TooManyApprovals"
	// ApprovalDeletedReason means that an approval was deleted because it no longer applies.
	ApprovalDeletedReason = "ApprovalDeleted"
	// NoPromotionReason means that an environment does not run the revision and has no promotion configured.
	NoPromotionReason = "NoPromotion"
	// PullRequestUnknownReason means that the Git host does not report the state of a pull request.
	PullRequestUnknownReason = "PullRequestUnknown"
	// SuspendedReason means that the Pipeline is suspended.
	SuspendedReason = "Suspended"
	// EnvironmentReadyReason means that the targets of an environment are all ready on one revision.
	EnvironmentReadyReason = "EnvironmentReady"
	// RolledBackReason means that an environment had settled on the revision and now runs another one.
	RolledBackReason = "RolledBack"
	// UpToDateReason means that every environment runs the revision.
	UpToDateReason = "UpToDate"
	// InvalidSpecReason means that the Pipeline is not reconciled until its spec is corrected.
	InvalidSpecReason = "InvalidSpec"
	// SharedSourceReason means that environments take their revision from the same source, so the source does not show
	// what each environment runs.
	SharedSourceReason = "SharedSource"
	// PromotionLoopReason means that the first environment follows the branch that promotions are merged into, so each
	// merge would be a new revision to promote.
	PromotionLoopReason = "PromotionLoop"
)

// Types of preconditions, see PreconditionStatus.Type.
const (
	// GatesPrecondition is met when the gates of the promotion are open.
	GatesPrecondition = "Gates"
	// ApprovalPrecondition is met when the promotion has all required approvals.
	ApprovalPrecondition = "Approval"
)
