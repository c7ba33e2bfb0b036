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

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

const (
	// PipelineKind is the kind of a Pipeline.
	PipelineKind = "Pipeline"

	// PipelineFinalizer keeps a deleted Pipeline until its open pull requests are closed, for at most one minute.
	PipelineFinalizer = "finalizers.pipelines.weave.works"

	// WebhookAnnotation is the time of the last webhook that triggered a check of the Pipeline's pull requests.
	WebhookAnnotation = "pipelines.weave.works/webhookReceivedAt"
)

// MaxEnvironments and MaxTargets limit the environments of a Pipeline, and the targets of all its environments
// together. A Pipeline that was stored before the schema had these limits may exceed them.
const (
	MaxEnvironments = 64
	MaxTargets      = 512
)

// PipelineSpec is the desired state of a Pipeline.
// +kubebuilder:validation:XValidation:rule="self.environments.map(e, size(e.targets)).sum() <= 512",message="all environments together can have at most 512 targets"
// +kubebuilder:validation:XValidation:rule="has(self.promotion) || self.environments.all(e, !has(e.promotion) || has(e.promotion.strategy))",message="an environment's promotion without a strategy takes that of spec.promotion, and there is none: add spec.promotion, or give the environment's promotion a strategy"
type PipelineSpec struct {
	// AppRef names the application object of every target, in the target's namespace. It can be a Flux HelmRelease, or
	// any kind with a 'Ready' condition and a 'status.lastAppliedRevision'. With 'revision.expr' it can be any kind
	// outside the core group. Kubernetes' own kinds, such as Deployment, are ready when kstatus reports them as
	// current.
	// +kubebuilder:validation:XValidation:rule="size(self.apiVersion) <= 317 && size(self.kind) <= 63 && size(self.name) <= 253",message="the apiVersion can have at most 317 characters, the kind 63, and the name 253"
	// +required
	AppRef LocalAppReference `json:"appRef"`

	// Revision defines what counts as the revision of an application object. Defaults to the revision that Flux last
	// applied: the revision of a Kustomization's source, or the version of a HelmRelease's chart.
	// +optional
	Revision *RevisionSpec `json:"revision,omitempty"`

	// Suspend stops all promotions. Open pull requests are left as they are. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Environments that a revision passes through, in order. A revision that settles in the first environment is
	// promoted into the others. The list may be empty and has at most 64 environments. Their names are unique.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +required
	Environments []Environment `json:"environments"`

	// Promotion into every environment that has no promotion of its own. Its strategy is required. If it is absent, the
	// Pipeline only reports what runs in each environment.
	// +kubebuilder:validation:XValidation:rule="has(self.strategy)",message="strategy is required: pull-request or notification"
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`
}

// RevisionSpec defines what counts as the revision of an application object.
type RevisionSpec struct {
	// Expr is a CEL expression (https://cel.dev) that returns the revision of the application object as a string. The
	// object is available as 'object', as in "object.spec.images[0].newTag". The string functions charAt, indexOf,
	// lastIndexOf, lowerAscii, split, substring, trim and upperAscii are available, and optional fields
	// ("object.?spec.?images"). Only integers can be added. If the expression fails for a target's object, or does not
	// return a word of at most 500 bytes, the target's state is unknown. The result is visible to everyone who can read
	// the Pipeline.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('object')",message="the expression must take the revision from 'object', such as object.spec.images[0].newTag"
	// +required
	Expr string `json:"expr"`
}

// Environment is one stage of a Pipeline.
type Environment struct {
	// Name of the environment, such as 'dev' or 'prod'. It consists of letters, digits and '_', '.', ':', '+', '-', and
	// starts with a letter or digit.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{N}][\p{L}\p{M}\p{N}_.:+-]*$`
	// +required
	Name string `json:"name"`

	// Targets of the environment. An environment without targets is skipped. If it is the first environment, the
	// Pipeline stays pending. All environments together have at most 512 targets.
	// +kubebuilder:validation:MaxItems=512
	// +required
	Targets []Target `json:"targets"`

	// Promotion into this environment. It replaces spec.promotion. If it has no strategy, the strategy of
	// spec.promotion applies.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`

	// Settle defines when the environment has settled on a revision. With 'together' (default), all targets must be
	// ready on it at the same time. With 'individually', each target must have been ready on it at some time. Use
	// 'individually' for environments whose targets are never all ready at once.
	// +kubebuilder:default=together
	// +optional
	Settle SettleMode `json:"settle,omitempty"`
}

const longestEnvironmentName = 128

// HasValidName reports whether the name matches the schema. An environment that was stored before the schema restricted
// names may have any name. It is checked in every plan, and a regular expression takes ten times as long.
func (e *Environment) HasValidName() bool {
	for i, c := range e.Name {
		if !unicode.IsLetter(c) && !unicode.IsNumber(c) && (i == 0 || !unicode.IsMark(c) && !strings.ContainsRune("_.:+-", c)) {
			return false
		}
	}
	return e.Name != "" && utf8.RuneCountInString(e.Name) <= longestEnvironmentName
}

// SettleMode defines when an environment has settled on a revision.
// +kubebuilder:validation:Enum=together;individually
type SettleMode string

const (
	// SettleTogether requires all targets to be ready on the revision at the same time.
	SettleTogether SettleMode = "together"
	// SettleIndividually requires each target to have been ready on the revision at some time.
	SettleIndividually SettleMode = "individually"
)

// Target is a namespace of a cluster that contains the application object.
type Target struct {
	// Namespace of the application object.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// ClusterRef names the cluster of the application object. Defaults to the cluster of the Pipeline.
	// +kubebuilder:validation:XValidation:rule="(!has(self.apiVersion) || size(self.apiVersion) <= 317) && size(self.name) <= 253 && (!has(self.__namespace__) || size(self.__namespace__) <= 63)",message="the apiVersion can have at most 317 characters, the name 253, and the namespace 63"
	// +optional
	ClusterRef *CrossNamespaceClusterReference `json:"clusterRef,omitempty"`
}

// Promotion defines how a revision is promoted into an environment, and its preconditions.
type Promotion struct {
	// Manual requires an approval for each promotion. Defaults to false.
	// +optional
	Manual bool `json:"manual,omitempty"`

	// Approvals defines how many approvals each promotion requires, and which approvals count. Defaults to one approval
	// if Manual is true, and to none otherwise.
	// +optional
	Approvals *Approvals `json:"approvals,omitempty"`

	// Gates that block promotions while they are closed.
	// +optional
	Gates *gatingv1.GateReferences `json:"gates,omitempty"`

	// Strategy of the promotion: exactly one of 'pull-request' and 'notification'. If the strategy of an environment's
	// promotion is absent or empty, the strategy of spec.promotion applies, including its 'secretRef'.
	// +optional
	Strategy Strategy `json:"strategy,omitzero"`

	// PullRequest is rejected here: it belongs to the strategy.
	// +kubebuilder:validation:XValidation:rule="false",message="pull-request belongs to the strategy: write strategy: {pull-request: {url: ..., baseBranch: ..., secretRef: {name: ...}}}"
	// +optional
	PullRequest *Misplaced `json:"pull-request,omitempty"`

	// Notification is rejected here: it belongs to the strategy.
	// +kubebuilder:validation:XValidation:rule="false",message="notification belongs to the strategy: write strategy: {notification: {}}"
	// +optional
	Notification *Misplaced `json:"notification,omitempty"`
}

// Misplaced is a field in a place where it would have no effect. The schema rejects it. It preserves unknown fields,
// because the API server would otherwise drop the field or reject it with a message that does not help.
// +kubebuilder:pruning:PreserveUnknownFields
type Misplaced struct{}

// Approvals defines how many approvals a promotion requires, and which approvals count.
type Approvals struct {
	// Required is the number of different users that must approve.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	// +required
	Required int32 `json:"required"`

	// HTTP defines whether approvals by HTTP count. Defaults to true. All approvals by HTTP together count as one user.
	// If false, requests for approval are rejected, so a user with the 'hmac-key' cannot count as a second one.
	// +optional
	HTTP *bool `json:"http,omitempty"`
}

// CountsHTTP reports whether approvals by HTTP count.
func (p *Promotion) CountsHTTP() bool {
	return p.Approvals == nil || p.Approvals.HTTP == nil || *p.Approvals.HTTP
}

// RequiredApprovals returns the number of different users that must approve each promotion.
func (p *Promotion) RequiredApprovals() int {
	switch {
	case p.Approvals != nil:
		return int(p.Approvals.Required)
	case p.Manual:
		return 1
	}
	return 0
}

// Strategy of a promotion: exactly one of PullRequest and Notification.
type Strategy struct {
	// PullRequest promotes with a pull request that sets the fields marked for the environment.
	// +optional
	PullRequest *PullRequestPromotion `json:"pull-request,omitempty"`

	// Notification promotes with an event that is sent to Flux's notification-controller.
	// +optional
	Notification *NotificationPromotion `json:"notification,omitempty"`

	// SecretRef names a Secret in the Pipeline's namespace whose 'hmac-key' authenticates requests for approval.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
}

// GitProviderType is the type of a Git host.
type GitProviderType string

const (
	// GitHub is github.com or GitHub Enterprise.
	GitHub GitProviderType = "github"
	// GitLab is gitlab.com or a self-hosted GitLab.
	GitLab GitProviderType = "gitlab"
	// BitbucketServer is Bitbucket Server or Data Center.
	BitbucketServer GitProviderType = "bitbucket-server"
	// AzureDevOps is Azure DevOps.
	AzureDevOps GitProviderType = "azure-devops"
	// Gitea is Gitea or Forgejo.
	Gitea GitProviderType = "gitea"
)

// PullRequestPromotion promotes with a pull request.
type PullRequestPromotion struct {
	// Type of the Git host. Optional for github.com, gitlab.com, dev.azure.com and visualstudio.com, where the URL
	// determines it.
	// +kubebuilder:validation:Enum=github;gitlab;bitbucket-server;azure-devops;gitea
	// +optional
	Type GitProviderType `json:"type,omitempty"`

	// URL is the HTTPS or SSH address of the repository that contains the marked fields.
	// +kubebuilder:validation:MaxLength=512
	// +required
	URL string `json:"url"`

	// BaseBranch is the branch that the pull request is merged into.
	// +kubebuilder:validation:MaxLength=255
	// +required
	BaseBranch string `json:"baseBranch"`

	// Path to search for markers: a file, or a directory including its subdirectories. It is relative to the root of
	// the repository, such as './apps/prod'. Defaults to the whole repository.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/|//|(^|/)[.][.](/|$)|/[.](/|$)|[[:cntrl:]]')",message="path must begin at the root of the repository and have no '..', such as ./apps/prod"
	// +optional
	Path string `json:"path,omitempty"`

	// SecretRef names a Secret in the Pipeline's namespace. 'username' and 'password' are used for Git, 'token' for the
	// API of the Git host. If one of 'password' and 'token' is absent, the other one is used for both. 'ca.crt' or
	// 'caFile' is the CA certificate of a Git host with its own CA. On GitHub, a GitHub App can be used instead of a
	// token. Its keys are the same as in Flux: 'githubAppID', 'githubAppInstallationID' and 'githubAppPrivateKey'.
	// +kubebuilder:validation:XValidation:rule="size(self.name) <= 253",message="the name can have at most 253 characters"
	// +required
	SecretRef meta.LocalObjectReference `json:"secretRef"`

	// Commit defines the author and the signature of commits.
	// +optional
	Commit *CommitSettings `json:"commit,omitempty"`

	// Labels of pull requests, on Git hosts that support labels.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Labels []string `json:"labels,omitempty"`

	// Reviewers of pull requests, by their user names on the Git host. On GitHub, 'org/team' names a team.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Reviewers []string `json:"reviewers,omitempty"`

	// Draft opens pull requests as drafts, which cannot be merged until a person marks them as ready. Defaults to
	// false.
	// +optional
	Draft bool `json:"draft,omitempty"`

	// Merge defines who merges pull requests. With 'manual' (default), people merge them. With 'auto', Sluice merges a
	// pull request once the Git host allows it, if all preconditions are met and nobody else has pushed to its branch.
	// +optional
	Merge MergeMode `json:"merge,omitempty"`

	// MergeMethod that Sluice uses: 'merge' (default), 'squash' or 'rebase'.
	// +optional
	MergeMethod MergeMethod `json:"mergeMethod,omitempty"`
}

const longestPath = 255

// invalidPath matches the values of PullRequestPromotion.Path that the schema rejects.
var invalidPath = regexp.MustCompile(`^/|//|(^|/)[.][.](/|$)|/[.](/|$)|[[:cntrl:]]`)

// HasValidPath reports whether the path matches the schema.
func (p *PullRequestPromotion) HasValidPath() bool {
	return utf8.RuneCountInString(p.Path) <= longestPath && !invalidPath.MatchString(p.Path)
}

// MergeMode defines who merges pull requests.
// +kubebuilder:validation:Enum=manual;auto
type MergeMode string

const (
	// MergeManual leaves merging to people.
	MergeManual MergeMode = "manual"
	// MergeAuto merges pull requests once the Git host allows it.
	MergeAuto MergeMode = "auto"
)

// MergeMethod defines how the commits of a pull request are added to the base branch.
// +kubebuilder:validation:Enum=merge;squash;rebase
type MergeMethod string

const (
	// MergeCommit adds a merge commit with two parents.
	MergeCommit MergeMethod = "merge"
	// MergeSquash combines all commits into one.
	MergeSquash MergeMethod = "squash"
	// MergeRebase rebases the commits onto the base branch.
	MergeRebase MergeMethod = "rebase"
)

// CommitSettings define the author and the signature of commits. The fields are the same as in Flux's
// ImageUpdateAutomation.
type CommitSettings struct {
	// Author of commits. Defaults to Sluice.
	// +optional
	Author *CommitUser `json:"author,omitempty"`

	// SigningKey signs commits. If it is absent, commits are not signed.
	// +optional
	SigningKey *SigningKey `json:"signingKey,omitempty"`
}

// CommitUser is the author of commits.
type CommitUser struct {
	// Name of the author. Defaults to 'Sluice'.
	// +kubebuilder:validation:Pattern=`^[^<>\n\x00]*$`
	// +optional
	Name string `json:"name,omitempty"`

	// Email of the author.
	// +kubebuilder:validation:Pattern=`^[^<>\n\x00]+$`
	// +required
	Email string `json:"email"`
}

// SigningKeyType is the format of a signing key.
// +kubebuilder:validation:Enum=gpg;ssh
type SigningKeyType string

const (
	// SigningKeyGPG is an OpenPGP key.
	SigningKeyGPG SigningKeyType = "gpg"
	// SigningKeySSH is an SSH key.
	SigningKeySSH SigningKeyType = "ssh"
)

// SigningKey refers to the key that signs commits.
type SigningKey struct {
	// SecretRef names a Secret in the Pipeline's namespace. For 'gpg', it contains an armored private key in 'git.asc',
	// and its 'passphrase' if it has one. For 'ssh', it contains a private key in 'identity', and its 'password' if it
	// has one.
	// +required
	SecretRef meta.LocalObjectReference `json:"secretRef"`

	// Type of the key: 'gpg' (default) or 'ssh'.
	// +kubebuilder:default=gpg
	// +optional
	Type SigningKeyType `json:"type,omitempty"`
}

// NotificationPromotion promotes with an event. It has no settings.
type NotificationPromotion struct{}

// PipelineStatus is the observed state of a Pipeline.
type PipelineStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`
	meta.ForceRequestStatus     `json:",inline"`

	// ObservedGeneration is the last generation of the Pipeline that was reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions of the Pipeline: 'Ready', 'Reconciling', 'Stalled', 'SharedSource', 'AlertMissing', 'PromotionPending'
	// and 'Settled'.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Revision that is promoted through the environments. All targets of the first environment are ready on it. It is
	// empty while the first environment has not settled.
	// +optional
	Revision string `json:"revision,omitempty"`

	// Environments is the state of each environment, by name.
	// +optional
	Environments map[string]*EnvironmentStatus `json:"environments,omitempty"`
}

// RevisionInto returns the revision of a promotion into an environment, by the name that is written, shown and
// approved. A promotion that was attempted keeps its name, even if the Pipeline's revision changes to another name of
// the same digest.
func (s *PipelineStatus) RevisionInto(env string) string {
	status := s.Environments[env]
	if status == nil || status.Promotion == nil || status.Promotion.Superseded || !status.Promotion.IsOf(s.Revision) {
		return s.Revision
	}
	return status.Promotion.Revision
}

// EnvironmentState is the state of an environment, relative to the revision that the Pipeline promotes.
// +kubebuilder:validation:Enum=Current;Skipped;NotReady;Unknown;Behind;Waiting;Promoting;PullRequestOpen;Promoted;RollingOut;RolledBack;Failed;Abandoned;NotPromoted;Suspended;Invalid
type EnvironmentState string

const (
	// EnvironmentCurrent means that the environment has settled on the revision.
	EnvironmentCurrent EnvironmentState = "Current"
	// EnvironmentSkipped means that the environment has no targets, so the revision skips it.
	EnvironmentSkipped EnvironmentState = "Skipped"
	// EnvironmentNotReady means that the first environment has not settled on a revision, so there is nothing to
	// promote.
	EnvironmentNotReady EnvironmentState = "NotReady"
	// EnvironmentUnknown means that a target cannot be read.
	EnvironmentUnknown EnvironmentState = "Unknown"
	// EnvironmentBehind means that the environment waits for an earlier one.
	EnvironmentBehind EnvironmentState = "Behind"
	// EnvironmentWaiting means that the promotion waits for its preconditions.
	EnvironmentWaiting EnvironmentState = "Waiting"
	// EnvironmentPromoting means that the promotion is in progress, is queued, or waits for the withdrawal of another
	// promotion.
	EnvironmentPromoting EnvironmentState = "Promoting"
	// EnvironmentPullRequestOpen means that the pull request waits to be merged.
	EnvironmentPullRequestOpen EnvironmentState = "PullRequestOpen"
	// EnvironmentPromoted means that the promotion succeeded and the environment does not run the revision yet.
	EnvironmentPromoted EnvironmentState = "Promoted"
	// EnvironmentRollingOut means that some targets run the revision, or that not all targets are ready on it.
	EnvironmentRollingOut EnvironmentState = "RollingOut"
	// EnvironmentRolledBack means that the environment had settled on the revision and now runs another one. It takes a
	// person to promote the revision again.
	EnvironmentRolledBack EnvironmentState = "RolledBack"
	// EnvironmentFailed means that the promotion cannot continue until the problem named in the message is fixed. It is
	// retried.
	EnvironmentFailed EnvironmentState = "Failed"
	// EnvironmentAbandoned means that the pull request was closed without being merged. The revision is not promoted
	// again.
	EnvironmentAbandoned EnvironmentState = "Abandoned"
	// EnvironmentNotPromoted means that the environment does not run the revision and has no promotion configured.
	EnvironmentNotPromoted EnvironmentState = "NotPromoted"
	// EnvironmentSuspended means that the environment does not run the revision, and the Pipeline is suspended.
	EnvironmentSuspended EnvironmentState = "Suspended"
	// EnvironmentInvalid means that the environment does not run the revision, and the Pipeline's spec must be
	// corrected.
	EnvironmentInvalid EnvironmentState = "Invalid"
)

// Settled reports whether the revision needs nothing more in the environment: it has settled there or skips it.
func (s EnvironmentState) Settled() bool { return s == EnvironmentCurrent || s == EnvironmentSkipped }

// EnvironmentStatus is the observed state of an environment.
type EnvironmentStatus struct {
	// State of the environment. The Ready condition, events and metrics repeat it. It is empty for an environment that
	// was removed from the spec and whose promotion is being withdrawn.
	// +optional
	State EnvironmentState `json:"state,omitempty"`

	// Message explains the state, and what the environment waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// Since is the time at which the environment entered this state for the current revision.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// WaitingApproval is the revision whose promotion into this environment waits for approval.
	// +optional
	WaitingApproval WaitingApproval `json:"waitingApproval,omitempty"`

	// Targets is the state of each target, in the order of the spec.
	// +optional
	Targets []TargetStatus `json:"targets,omitempty"`

	// Promotion is the record of the last promotion into this environment.
	// +optional
	Promotion *PromotionRecord `json:"promotion,omitempty"`

	// History is the records of up to ten earlier promotions, newest first.
	// +kubebuilder:validation:MaxItems=10
	// +optional
	History []PromotionRecord `json:"history,omitempty"`
}

// WaitingApproval is the promotion that waits for approval.
type WaitingApproval struct {
	// Revision that waits for approval, by the name that is promoted. It is empty if no promotion waits.
	Revision string `json:"revision"`
}

// TargetStatus is the observed state of a target.
type TargetStatus struct {
	// ClusterAppRef names the application object and its cluster.
	ClusterAppRef ClusterAppReference `json:"clusterAppRef"`

	// Namespace of the application object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Ready is true if the application object's 'Ready' condition is True for its current generation.
	Ready bool `json:"ready"`

	// Revision of the application object. It is empty if no revision was applied, or if the object cannot be read.
	// +optional
	Revision string `json:"revision,omitempty"`

	// ReadyRevision is the last revision on which the application object was ready.
	// +optional
	ReadyRevision string `json:"readyRevision,omitempty"`

	// Error explains why the application object is not ready or cannot be read. It is empty otherwise.
	// +optional
	Error string `json:"error,omitempty"`

	// Reason in CamelCase why the application object cannot be read, such as 'Unreachable' or 'ObjectNotFound'. It is
	// empty otherwise.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Since is the time from which the application object could not be read for that reason, if known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// PromotionState is the state of the promotion of a revision into an environment.
// +kubebuilder:validation:Enum=unapproved;unattempted;created;failed;succeeded;abandoned
type PromotionState string

const (
	// PromotionUnapproved waits for its preconditions.
	PromotionUnapproved PromotionState = "unapproved"
	// PromotionUnattempted has met its preconditions. Its first attempt has not finished.
	PromotionUnattempted PromotionState = "unattempted"
	// PromotionCreated has an open pull request.
	PromotionCreated PromotionState = "created"
	// PromotionFailed means that the last attempt failed. Attempts are retried indefinitely, with backoff.
	PromotionFailed PromotionState = "failed"
	// PromotionSucceeded was merged or notified. It is final for this revision.
	PromotionSucceeded PromotionState = "succeeded"
	// PromotionAbandoned was closed without being merged. It is final for this revision.
	PromotionAbandoned PromotionState = "abandoned"
)

// Ended reports whether the state is final for the revision.
func (s PromotionState) Ended() bool {
	return s == PromotionSucceeded || s == PromotionAbandoned
}

// PromotionRecord records the promotion of one revision into one environment.
type PromotionRecord struct {
	// Revision that is promoted.
	Revision string `json:"revision"`

	// State of the promotion.
	State PromotionState `json:"state"`

	// Message explains what the promotion waits for, or how it ended.
	// +optional
	Message string `json:"message,omitempty"`

	// Preconditions as of the last evaluation.
	// +listType=map
	// +listMapKey=type
	// +optional
	Preconditions []PreconditionStatus `json:"preconditions,omitempty"`

	// Approvers as of the last evaluation of the preconditions.
	// +optional
	Approvers []string `json:"approvers,omitempty"`

	// Superseded is true if the promotion must be withdrawn: another revision replaced it, a user requested a new
	// start, or its environment runs the revision without it. The withdrawal is completed even if the Pipeline's
	// revision changes in the meantime.
	// +optional
	Superseded bool `json:"superseded,omitempty"`

	// Attempts is the number of attempts.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// LastError is the error of the last attempt. It is cleared by an attempt without an error.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// StartTime is the time at which the promotion was created. It distinguishes this promotion from earlier ones of
	// the same revision.
	StartTime metav1.Time `json:"startTime"`

	// LastAttemptTime is the start of the last attempt.
	// +optional
	LastAttemptTime *metav1.Time `json:"lastAttemptTime,omitempty"`

	// NextAttemptTime is the time of the next attempt. It is set before an attempt starts, so an interrupted attempt is
	// not repeated immediately. It is replaced or cleared when the attempt finishes.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// RateLimitedUntil is the time before which the Git host accepts no requests. Unlike the backoff between attempts,
	// a reconcile request does not override it.
	// +optional
	RateLimitedUntil *metav1.Time `json:"rateLimitedUntil,omitempty"`

	// CompletionTime is the time at which the promotion succeeded or was abandoned.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Loop is the previously promoted revision, if this one adds nothing to it but Sluice's own commits. In that case
	// the first environment follows the branch that promotions are merged into. It is empty otherwise.
	// +optional
	Loop string `json:"loop,omitempty"`

	// ArrivalTime is the time at which all targets of the environment were first seen to run the revision.
	// +optional
	ArrivalTime *metav1.Time `json:"arrivalTime,omitempty"`

	// RollbackTime is the time at which the environment, after running the revision, was first seen to run RolledBackTo
	// instead. It is cleared when the environment runs the revision again.
	// +optional
	RollbackTime *metav1.Time `json:"rollbackTime,omitempty"`

	// RolledBackTo is the first revision that the environment was seen to run after this one.
	// +optional
	RolledBackTo string `json:"rolledBackTo,omitempty"`

	// Repository in which the last attempt searched for the pull request, or opened it. Later attempts search there
	// even if the spec has changed.
	// +optional
	Repository *RepositoryReference `json:"repository,omitempty"`

	// PullRequest of the promotion.
	// +optional
	PullRequest *PullRequestStatus `json:"pullRequest,omitempty"`
}

// IsOf reports whether the promotion is of the revision. Before the first attempt nothing uses its name, so another
// name of the same digest is another revision. From the first attempt on, the digest decides.
func (r *PromotionRecord) IsOf(current string) bool {
	if r.Attempts == 0 {
		return r.Revision == current
	}
	return revision.Equal(r.Revision, current)
}

// PreconditionStatus is the last observed state of one precondition of a promotion.
type PreconditionStatus struct {
	// Type of the precondition, such as 'Gates' or 'Approval'.
	Type string `json:"type"`

	// Met is true if this precondition does not block the promotion.
	Met bool `json:"met"`

	// Reason in CamelCase.
	Reason string `json:"reason"`

	// Message explains the reason, and what would change it.
	// +optional
	Message string `json:"message,omitempty"`

	// LastTransitionTime is the last time at which the precondition was seen to become met or unmet.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// NextTransitionTime is the time at which the precondition becomes met or unmet without a change to any object, if
	// known.
	// +optional
	NextTransitionTime *metav1.Time `json:"nextTransitionTime,omitempty"`
}

// PullRequestStatus is the observed state of a pull request.
type PullRequestStatus struct {
	// URL of the pull request in a browser.
	URL string `json:"url"`

	// Number of the pull request on its Git host.
	Number int64 `json:"number"`

	// Branch of the pull request.
	Branch string `json:"branch"`

	// HeadCommit is the commit at the head of the branch.
	// +optional
	HeadCommit string `json:"headCommit,omitempty"`

	// Commit that Sluice pushed. If the head is another commit, someone else pushed to the branch, and Sluice leaves it
	// alone.
	// +optional
	Commit string `json:"commit,omitempty"`

	// MergeCommit is the commit of the base branch after the merge, if the Git host reports it. A revision at that
	// commit is not promoted, because it would be promoted again and again.
	// +optional
	MergeCommit string `json:"mergeCommit,omitempty"`

	// BaseCommit is the commit of the base branch that the pull request was last compared with.
	// +optional
	BaseCommit string `json:"baseCommit,omitempty"`

	// BaseFiles is a digest of the changed files on the base branch. If they change there, the commit is created again
	// on top of the base branch.
	// +optional
	BaseFiles string `json:"baseFiles,omitempty"`

	// ComparisonTime is the time of the last comparison with the base branch after the base branch moved.
	// +optional
	ComparisonTime *metav1.Time `json:"comparisonTime,omitempty"`

	// Warning names the labels and reviewers that the Git host rejected.
	// +optional
	Warning string `json:"warning,omitempty"`

	// CommitStatus is the commit status 'sluice/preconditions' as it was last set.
	// +optional
	CommitStatus *PreconditionsCommitStatus `json:"commitStatus,omitempty"`

	// Reporting is the state of failed attempts to set the commit status.
	// +optional
	Reporting *StepStatus `json:"reporting,omitempty"`

	// Merging is the state of failed attempts to update the commit or to merge the pull request.
	// +optional
	Merging *StepStatus `json:"merging,omitempty"`
}

// StepStatus is the state of a step that has not succeeded yet.
type StepStatus struct {
	// Attempts is the number of attempts.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// LastError is the error of the last attempt.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// NextAttemptTime is the time of the next attempt. It is set before an attempt starts, and replaced or cleared when
	// the attempt finishes.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
}

// RepositoryReference is the repository of a pull request, as it was when the pull request was opened.
type RepositoryReference struct {
	// Type of the Git host.
	// +optional
	Type GitProviderType `json:"type,omitempty"`
	// URL of the repository.
	URL string `json:"url"`
	// BaseBranch is the branch that the pull request is merged into.
	BaseBranch string `json:"baseBranch"`
	// Path that was searched for markers.
	// +optional
	Path string `json:"path,omitempty"`
	// SecretRef names a Secret in the Pipeline's namespace.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// PreconditionsCommitStatus is the commit status 'sluice/preconditions'. A Git host can require it, so that a pull
// request cannot be merged while preconditions of the promotion are not met.
type PreconditionsCommitStatus struct {
	// Commit that the status was set on.
	Commit string `json:"commit"`

	// Pipeline is the newest CI pipeline of the commit when the status was set, on Git hosts where a status belongs to
	// a CI pipeline.
	// +optional
	Pipeline string `json:"pipeline,omitempty"`

	// Met is true if the status is 'success' because all preconditions are met, and false if it is 'failure'.
	Met bool `json:"met"`

	// Description is the text of the status.
	// +optional
	Description string `json:"description,omitempty"`
}

// Pipeline promotes a revision of an application from environment to environment.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=sluice,shortName=pipe
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.appRef.name`
// +kubebuilder:printcolumn:name="App Kind",type=string,JSONPath=`.spec.appRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Pipeline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the Pipeline.
	// +optional
	Spec PipelineSpec `json:"spec,omitempty"`

	// Status is the observed state of the Pipeline.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status PipelineStatus `json:"status,omitempty"`
}

// PromotionInto returns the promotion that applies to an environment: its own, or that of the Pipeline, or nil. If its
// own has no strategy, it has that of the Pipeline. Callers pass nil for an environment that is no longer in the spec.
func (p *Pipeline) PromotionInto(env *Environment) *Promotion {
	switch {
	case env == nil || env.Promotion == nil:
		return p.Spec.Promotion
	case p.Spec.Promotion == nil || env.Promotion.Strategy != (Strategy{}):
		return env.Promotion
	}
	inherited := *env.Promotion
	inherited.Strategy = p.Spec.Promotion.Strategy
	return &inherited
}

// RevisionExpr returns the CEL expression of the revision, or "" if there is none.
func (p *Pipeline) RevisionExpr() string {
	if p.Spec.Revision == nil {
		return ""
	}
	return p.Spec.Revision.Expr
}

// MergesItself reports whether the controller merges pull requests, rather than people.
func (p *Promotion) MergesItself() bool {
	return p.Strategy.PullRequest != nil && p.Strategy.PullRequest.Merge == MergeAuto
}

// Environment returns the environment of that name, or nil.
func (p *Pipeline) Environment(name string) *Environment {
	for i := range p.Spec.Environments {
		if p.Spec.Environments[i].Name == name {
			return &p.Spec.Environments[i]
		}
	}
	return nil
}

// PromotedEnvironments returns the environments that revisions are promoted into: all but the first one, which provides
// the revision.
func (p *Pipeline) PromotedEnvironments() iter.Seq[*Environment] {
	return func(yield func(*Environment) bool) {
		for i := range p.Spec.Environments {
			if i > 0 && !yield(&p.Spec.Environments[i]) {
				return
			}
		}
	}
}

// WaitsForGates returns the last observed precondition 'Gates' of the promotion into an environment, if the promotion
// waits for it. A pull request that people merge waits for no gate.
func (p *Pipeline) WaitsForGates(env string) *PreconditionStatus {
	status := p.Status.Environments[env]
	if status == nil || status.Promotion == nil || status.Promotion.State.Ended() {
		return nil
	}
	promotion := p.PromotionInto(p.Environment(env))
	if status.Promotion.State == PromotionCreated && (promotion == nil || !promotion.MergesItself()) {
		return nil
	}
	for i, precondition := range status.Promotion.Preconditions {
		if precondition.Type == GatesPrecondition && !precondition.Met {
			return &status.Promotion.Preconditions[i]
		}
	}
	return nil
}

// GateReferences returns all gates that promotions of the Pipeline wait for.
func (p *Pipeline) GateReferences() []gatingv1.GateReference {
	var refs []gatingv1.GateReference
	for i := range p.Spec.Environments {
		promotion := p.PromotionInto(&p.Spec.Environments[i])
		if promotion != nil && promotion.Gates != nil {
			refs = append(refs, promotion.Gates.Refs...)
		}
	}
	return refs
}

// GetConditions returns the conditions of the Pipeline.
func (p *Pipeline) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the Pipeline.
func (p *Pipeline) SetConditions(conditions []metav1.Condition) { p.Status.Conditions = conditions }

// GetLastHandledReconcileRequest returns the last value of the annotation reconcile.fluxcd.io/requestedAt that was
// acted on.
func (p *Pipeline) GetLastHandledReconcileRequest() string {
	return p.Status.GetLastHandledReconcileRequest()
}

// GetLastHandledForceRequestStatus returns a pointer to the last handled value of the annotation
// reconcile.fluxcd.io/forceAt.
func (p *Pipeline) GetLastHandledForceRequestStatus() *string {
	return &p.Status.LastHandledForceAt
}

// PipelineList is a list of Pipelines.
// +kubebuilder:object:root=true
type PipelineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pipeline `json:"items"`
}
