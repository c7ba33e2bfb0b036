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
	"unicode/utf8"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

const (
	// PipelineKind is the kind of a Pipeline.
	PipelineKind = "Pipeline"

	// PipelineFinalizer keeps a deleted Pipeline until its open pull requests were closed, for a minute at most.
	PipelineFinalizer = "finalizers.pipelines.weave.works"

	// WebhookAnnotation holds when a webhook last had the Pipeline's pull requests looked at.
	WebhookAnnotation = "pipelines.weave.works/webhookReceivedAt"
)

// MaxEnvironments and MaxTargets are how many environments a Pipeline can have, and how many targets in all of them together. A Pipeline
// that was stored before the schema limited them may have more.
const (
	MaxEnvironments = 64
	MaxTargets      = 512
)

// PipelineSpec is the desired state of a Pipeline.
// +kubebuilder:validation:XValidation:rule="self.environments.map(e, size(e.targets)).sum() <= 512",message="all environments together can have at most 512 targets"
// +kubebuilder:validation:XValidation:rule="has(self.promotion) || self.environments.all(e, !has(e.promotion) || has(e.promotion.strategy))",message="an environment's promotion without a strategy takes that of spec.promotion, and there is none: add spec.promotion, or give the environment's promotion a strategy"
type PipelineSpec struct {
	// AppRef names the application object that every target of the Pipeline holds in its own namespace. It may be of any
	// kind that has a 'Ready' condition and a 'status.lastAppliedRevision', besides Flux's HelmRelease. With 'revision.expr' it may be of
	// any kind outside of the core group; Kubernetes' own, such as Deployment, are ready when kstatus says so.
	// +kubebuilder:validation:XValidation:rule="size(self.apiVersion) <= 317 && size(self.kind) <= 63 && size(self.name) <= 253",message="the apiVersion can have at most 317 characters, the kind 63, and the name 253"
	// +required
	AppRef LocalAppReference `json:"appRef"`

	// Revision says what counts as the revision of an application object. By default it is what Flux last applied: the revision of a
	// Kustomization's source, or the version of a HelmRelease's chart.
	// +optional
	Revision *RevisionSpec `json:"revision,omitempty"`

	// Suspend stops the Pipeline: nothing is promoted, and open pull requests are left as they are. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Environments are the stations of a revision, in order. The revision that settles in the first one travels through
	// the others. The list may be empty, and has at most 64 environments. The names are unique.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +required
	Environments []Environment `json:"environments"`

	// Promotion says how a revision gets into every environment that has no promotion of its own. Its strategy is required.
	// Without any, the Pipeline only shows what runs where.
	// +kubebuilder:validation:XValidation:rule="has(self.strategy)",message="strategy is required: pull-request or notification"
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`
}

// RevisionSpec says what counts as the revision of an application object.
type RevisionSpec struct {
	// Expr is an expression in CEL (https://cel.dev) that makes the revision, a string, of the application object, which is called
	// 'object': "object.spec.images[0].newTag", say. It has the string functions charAt, indexOf, lastIndexOf, lowerAscii, split,
	// substring, trim and upperAscii, and optional fields ("object.?spec.?images"); only whole numbers can be added. A target whose object it fails for, or makes no
	// word of up to 500 bytes of, is unknown. Whoever may read the Pipeline sees what it makes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('object')",message="the expression must take the revision from 'object', such as object.spec.images[0].newTag"
	// +required
	Expr string `json:"expr"`
}

// Environment is one station of a revision.
type Environment struct {
	// Name of the environment, such as 'dev' or 'prod'. It consists of letters, digits and '_', '.', ':', '+', '-', and begins with a
	// letter or digit.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{N}][\p{L}\p{M}\p{N}_.:+-]*$`
	// +required
	Name string `json:"name"`

	// Targets are the places that make up this environment.
	// An environment without targets is skipped; as the first one it keeps the Pipeline pending.
	// All environments together have at most 512 targets.
	// +kubebuilder:validation:MaxItems=512
	// +required
	Targets []Target `json:"targets"`

	// Promotion says how a revision gets into this environment. It replaces spec.promotion, of which only the strategy is taken if this
	// has none.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`

	// Settle says when the environment has settled on a revision: 'together' (default), when all its targets are ready on it at the
	// same time, or 'individually', when each of them was ready on it at some time, for environments that are never all ready at once.
	// +kubebuilder:default=together
	// +optional
	Settle SettleMode `json:"settle,omitempty"`
}

const longestEnvironmentName = 128

// environmentName is the pattern of Environment.Name.
var environmentName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{M}\p{N}_.:+-]*$`)

// HasValidName reports whether the schema allows the environment's name. An environment that was stored before the schema restricted
// names may have any other.
func (e *Environment) HasValidName() bool {
	return utf8.RuneCountInString(e.Name) <= longestEnvironmentName && environmentName.MatchString(e.Name)
}

// SettleMode says when an environment has settled on a revision.
// +kubebuilder:validation:Enum=together;individually
type SettleMode string

const (
	// SettleTogether asks for all targets to be ready on the revision at the same time.
	SettleTogether SettleMode = "together"
	// SettleIndividually asks for each target to have been ready on the revision at some time.
	SettleIndividually SettleMode = "individually"
)

// Target is a namespace of a cluster, in which the application object is looked up.
type Target struct {
	// Namespace of the application object.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// ClusterRef names the cluster of the application object. Defaults to the cluster that the Pipeline is in.
	// +kubebuilder:validation:XValidation:rule="(!has(self.apiVersion) || size(self.apiVersion) <= 317) && size(self.name) <= 253 && (!has(self.__namespace__) || size(self.__namespace__) <= 63)",message="the apiVersion can have at most 317 characters, the name 253, and the namespace 63"
	// +optional
	ClusterRef *CrossNamespaceClusterReference `json:"clusterRef,omitempty"`
}

// Promotion says how a revision gets into an environment, and what it has to wait for.
type Promotion struct {
	// Manual makes each promotion wait for a person's approval. Defaults to false.
	// +optional
	Manual bool `json:"manual,omitempty"`

	// Approvals says how many approvals each promotion waits for, and which count. Defaults to one if Manual is true, else to none.
	// +optional
	Approvals *Approvals `json:"approvals,omitempty"`

	// Gates hold promotions back while they are closed.
	// +optional
	Gates *gatingv1.GateReferences `json:"gates,omitempty"`

	// Strategy is the means of promotion: exactly one of 'pull-request' and 'notification'. An environment's promotion takes that of
	// spec.promotion, 'secretRef' included, if it is left out or empty here.
	// +optional
	Strategy Strategy `json:"strategy,omitzero"`

	// PullRequest is refused: it belongs to the strategy.
	// +kubebuilder:validation:XValidation:rule="false",message="pull-request belongs to the strategy: write strategy: {pull-request: {url: ..., baseBranch: ..., secretRef: {name: ...}}}"
	// +optional
	PullRequest *Misplaced `json:"pull-request,omitempty"`

	// Notification is refused: it belongs to the strategy.
	// +kubebuilder:validation:XValidation:rule="false",message="notification belongs to the strategy: write strategy: {notification: {}}"
	// +optional
	Notification *Misplaced `json:"notification,omitempty"`
}

// Misplaced is a field in a place where it would go unread. The schema refuses it, and knows of its content only so that it isn't
// dropped, or refused with a message that doesn't help.
// +kubebuilder:pruning:PreserveUnknownFields
type Misplaced struct{}

// Approvals says how many approvals a promotion waits for, and which count.
type Approvals struct {
	// Required is how many different people have to approve.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	// +required
	Required int32 `json:"required"`

	// HTTP says whether approvals by HTTP count. Defaults to true: all of them together count as one person. Where it is false, a person
	// with the 'hmac-key' can't count as a second one, and requests for approval are refused.
	// +optional
	HTTP *bool `json:"http,omitempty"`
}

// CountsHTTP reports whether approvals by HTTP count.
func (p *Promotion) CountsHTTP() bool {
	return p.Approvals == nil || p.Approvals.HTTP == nil || *p.Approvals.HTTP
}

// RequiredApprovals returns how many different people have to approve each promotion.
func (p *Promotion) RequiredApprovals() int {
	switch {
	case p.Approvals != nil:
		return int(p.Approvals.Required)
	case p.Manual:
		return 1
	}
	return 0
}

// Strategy is the means of promotion: exactly one of PullRequest and Notification.
type Strategy struct {
	// PullRequest promotes by a pull request that sets the fields marked for the environment.
	// +optional
	PullRequest *PullRequestPromotion `json:"pull-request,omitempty"`

	// Notification promotes by an event that is posted to Flux's notification-controller.
	// +optional
	Notification *NotificationPromotion `json:"notification,omitempty"`

	// SecretRef names a Secret in the Pipeline's namespace whose 'hmac-key' authenticates requests for approval.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
}

// GitProviderType is a kind of Git host.
type GitProviderType string

const (
	// GitHub is github.com, or GitHub Enterprise at any other host.
	GitHub GitProviderType = "github"
	// GitLab is gitlab.com or a self-hosted GitLab.
	GitLab GitProviderType = "gitlab"
	// BitbucketServer is Bitbucket Server or Data Center.
	BitbucketServer GitProviderType = "bitbucket-server"
	// AzureDevOps is Azure DevOps.
	AzureDevOps GitProviderType = "azure-devops"
	// Gitea is a Gitea or Forgejo.
	Gitea GitProviderType = "gitea"
)

// PullRequestPromotion promotes by a pull request.
type PullRequestPromotion struct {
	// Type is the kind of Git host. It may be left out where the URL tells: for github.com, gitlab.com, dev.azure.com and
	// visualstudio.com.
	// +kubebuilder:validation:Enum=github;gitlab;bitbucket-server;azure-devops;gitea
	// +optional
	Type GitProviderType `json:"type,omitempty"`

	// URL is the HTTPS or SSH address of the repository that holds the marked fields.
	// +kubebuilder:validation:MaxLength=512
	// +required
	URL string `json:"url"`

	// BaseBranch is the branch that the pull request is to be merged into.
	// +kubebuilder:validation:MaxLength=255
	// +required
	BaseBranch string `json:"baseBranch"`

	// Path is where markers are looked for: a directory, with all that is below it, or a file. It begins at the root of the repository, as
	// './apps/prod' does. Defaults to the whole repository.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/|//|(^|/)[.][.](/|$)|/[.](/|$)|[[:cntrl:]]')",message="path must begin at the root of the repository and have no '..', such as ./apps/prod"
	// +optional
	Path string `json:"path,omitempty"`

	// SecretRef names a Secret in the Pipeline's namespace: 'username' and 'password' for Git, 'token' for the API of the
	// Git host, each standing in for the other when it is absent, and 'ca.crt' or 'caFile' for a host with a CA of its own.
	// On GitHub, the keys of a GitHub App, as Flux names them, can take the place of a token: 'githubAppID',
	// 'githubAppInstallationID' and 'githubAppPrivateKey'.
	// +kubebuilder:validation:XValidation:rule="size(self.name) <= 253",message="the name can have at most 253 characters"
	// +required
	SecretRef meta.LocalObjectReference `json:"secretRef"`

	// Commit says who commits are by, and what signs them.
	// +optional
	Commit *CommitSettings `json:"commit,omitempty"`

	// Labels are put on pull requests, on Git hosts that have labels.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Labels []string `json:"labels,omitempty"`

	// Reviewers are asked to review pull requests, by their names on the Git host. A team of GitHub is named 'org/team'.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Reviewers []string `json:"reviewers,omitempty"`

	// Draft opens pull requests as drafts, which can't be merged until a person says that they are ready. Defaults to false.
	// +optional
	Draft bool `json:"draft,omitempty"`

	// Merge says who merges pull requests: people ('manual', the default), or Sluice ('auto') once the Git host says that it
	// can be merged, as long as all preconditions hold and nobody else has pushed to its branch.
	// +optional
	Merge MergeMode `json:"merge,omitempty"`

	// MergeMethod is how Sluice merges: 'merge' (default), 'squash' or 'rebase'.
	// +optional
	MergeMethod MergeMethod `json:"mergeMethod,omitempty"`
}

const longestPath = 255

// invalidPath matches what the schema refuses for PullRequestPromotion.Path.
var invalidPath = regexp.MustCompile(`^/|//|(^|/)[.][.](/|$)|/[.](/|$)|[[:cntrl:]]`)

// HasValidPath reports whether the schema allows the path.
func (p *PullRequestPromotion) HasValidPath() bool {
	return utf8.RuneCountInString(p.Path) <= longestPath && !invalidPath.MatchString(p.Path)
}

// MergeMode says who merges pull requests.
// +kubebuilder:validation:Enum=manual;auto
type MergeMode string

const (
	// MergeManual leaves merging to people.
	MergeManual MergeMode = "manual"
	// MergeAuto merges once the Git host allows it.
	MergeAuto MergeMode = "auto"
)

// MergeMethod is how the commits of a pull request get into the base branch.
// +kubebuilder:validation:Enum=merge;squash;rebase
type MergeMethod string

const (
	// MergeCommit adds a commit with two parents.
	MergeCommit MergeMethod = "merge"
	// MergeSquash makes one commit of all.
	MergeSquash MergeMethod = "squash"
	// MergeRebase makes the commits anew on top of the base branch.
	MergeRebase MergeMethod = "rebase"
)

// CommitSettings say who commits are by, and what signs them. They are written as in Flux's ImageUpdateAutomation.
type CommitSettings struct {
	// Author of commits. Defaults to Sluice.
	// +optional
	Author *CommitUser `json:"author,omitempty"`

	// SigningKey signs commits. Without one, commits are not signed.
	// +optional
	SigningKey *SigningKey `json:"signingKey,omitempty"`
}

// CommitUser is who commits are by.
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

// SigningKeyType is the format of a key that signs commits.
// +kubebuilder:validation:Enum=gpg;ssh
type SigningKeyType string

const (
	// SigningKeyGPG is an OpenPGP key.
	SigningKeyGPG SigningKeyType = "gpg"
	// SigningKeySSH is an SSH key.
	SigningKeySSH SigningKeyType = "ssh"
)

// SigningKey names the Secret of a key that signs commits.
type SigningKey struct {
	// SecretRef names a Secret in the Pipeline's namespace. For 'gpg': 'git.asc', an armored private key, and 'passphrase' if it
	// has one. For 'ssh': 'identity', a private key, and 'password' if it has one.
	// +required
	SecretRef meta.LocalObjectReference `json:"secretRef"`

	// Type of the key: 'gpg' (default) or 'ssh'.
	// +kubebuilder:default=gpg
	// +optional
	Type SigningKeyType `json:"type,omitempty"`
}

// NotificationPromotion promotes by an event. It has no settings.
type NotificationPromotion struct{}

// PipelineStatus is the observed state of a Pipeline.
type PipelineStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`
	meta.ForceRequestStatus     `json:",inline"`

	// ObservedGeneration is the generation of the Pipeline that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions of the Pipeline: 'Ready', 'Reconciling', 'Stalled', 'PromotionPending' and 'Settled'.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Revision is the one that travels through the Pipeline: all targets of the first environment are ready on it.
	// It is empty while the first environment isn't settled.
	// +optional
	Revision string `json:"revision,omitempty"`

	// Environments holds the state of each environment by its name.
	// +optional
	Environments map[string]*EnvironmentStatus `json:"environments,omitempty"`
}

// RevisionInto returns the revision that a promotion into an environment is of, by the name that is written, shown and approved. A
// promotion that was attempted keeps its name, though the one of the run changes to another of the same digest.
func (s *PipelineStatus) RevisionInto(env string) string {
	status := s.Environments[env]
	if status == nil || status.Promotion == nil || status.Promotion.Superseded || !status.Promotion.IsOf(s.Revision) {
		return s.Revision
	}
	return status.Promotion.Revision
}

// EnvironmentState is where an environment stands on the way of the revision that travels through the Pipeline.
// +kubebuilder:validation:Enum=Current;Skipped;NotReady;Unknown;Behind;Waiting;Promoting;PullRequestOpen;Promoted;RollingOut;RolledBack;Failed;Abandoned;NotPromoted;Suspended;Invalid
type EnvironmentState string

const (
	// EnvironmentCurrent has settled on the revision.
	EnvironmentCurrent EnvironmentState = "Current"
	// EnvironmentSkipped has no targets, so that the revision goes past it.
	EnvironmentSkipped EnvironmentState = "Skipped"
	// EnvironmentNotReady is the first environment while it has not settled on any revision, so there is nothing to promote.
	EnvironmentNotReady EnvironmentState = "NotReady"
	// EnvironmentUnknown has a target that can't be read.
	EnvironmentUnknown EnvironmentState = "Unknown"
	// EnvironmentBehind waits for an environment before it.
	EnvironmentBehind EnvironmentState = "Behind"
	// EnvironmentWaiting is promoted into once all preconditions are met.
	EnvironmentWaiting EnvironmentState = "Waiting"
	// EnvironmentPromoting is being promoted into, or is next, or has another promotion withdrawn first.
	EnvironmentPromoting EnvironmentState = "Promoting"
	// EnvironmentPullRequestOpen has a pull request that waits to be merged.
	EnvironmentPullRequestOpen EnvironmentState = "PullRequestOpen"
	// EnvironmentPromoted had the promotion carried out, and has yet to run the revision.
	EnvironmentPromoted EnvironmentState = "Promoted"
	// EnvironmentRollingOut runs the revision in part, or isn't ready on it.
	EnvironmentRollingOut EnvironmentState = "RollingOut"
	// EnvironmentRolledBack had settled on the revision and runs something else. Promoting the revision again is a person's decision.
	EnvironmentRolledBack EnvironmentState = "RolledBack"
	// EnvironmentFailed is not promoted into until somebody mends what the message names. Attempts go on.
	EnvironmentFailed EnvironmentState = "Failed"
	// EnvironmentAbandoned had its pull request closed without being merged. Nothing more is attempted for the revision.
	EnvironmentAbandoned EnvironmentState = "Abandoned"
	// EnvironmentNotPromoted doesn't run the revision, and has no promotion configured.
	EnvironmentNotPromoted EnvironmentState = "NotPromoted"
	// EnvironmentSuspended doesn't run the revision, and nothing is promoted while the Pipeline is suspended.
	EnvironmentSuspended EnvironmentState = "Suspended"
	// EnvironmentInvalid doesn't run the revision, and nothing is promoted until the Pipeline's spec is corrected.
	EnvironmentInvalid EnvironmentState = "Invalid"
)

// Settled reports whether the revision has no business in the environment any longer: it has settled there or goes past it.
func (s EnvironmentState) Settled() bool { return s == EnvironmentCurrent || s == EnvironmentSkipped }

// EnvironmentStatus is the observed state of an environment.
type EnvironmentStatus struct {
	// State is where the environment stands. The Ready condition, events and metrics repeat it. It is empty for an environment that has
	// left the spec and whose promotion is being withdrawn.
	// +optional
	State EnvironmentState `json:"state,omitempty"`

	// Message says in a sentence why the environment stands there, and what it waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// Since is from when on the environment has been in that state, for the revision that travels through the Pipeline.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// WaitingApproval holds the revision whose promotion into this environment waits for a person's approval.
	// +optional
	WaitingApproval WaitingApproval `json:"waitingApproval,omitempty"`

	// Targets holds the state of each target, in the order of the spec.
	// +optional
	Targets []TargetStatus `json:"targets,omitempty"`

	// Promotion is the record of the last promotion into this environment that was needed.
	// +optional
	Promotion *PromotionRecord `json:"promotion,omitempty"`

	// History holds the records of the ten promotions before it, newest first.
	// +kubebuilder:validation:MaxItems=10
	// +optional
	History []PromotionRecord `json:"history,omitempty"`
}

// WaitingApproval is what waits for a person's approval.
type WaitingApproval struct {
	// Revision that waits for approval, by the name that is promoted. It is empty when none does.
	Revision string `json:"revision"`
}

// TargetStatus is the observed state of a target.
type TargetStatus struct {
	// ClusterAppRef names the application object and the cluster that it is in.
	ClusterAppRef ClusterAppReference `json:"clusterAppRef"`

	// Namespace of the application object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Ready is true if the application object's 'Ready' condition is True for its current generation.
	Ready bool `json:"ready"`

	// Revision that the application object runs. It is empty if none was ever applied, or if the object can't be read.
	// +optional
	Revision string `json:"revision,omitempty"`

	// ReadyRevision is the last revision on which the application object was seen ready.
	// +optional
	ReadyRevision string `json:"readyRevision,omitempty"`

	// Error says why the application object isn't ready or can't be read. It is empty otherwise.
	// +optional
	Error string `json:"error,omitempty"`

	// Reason is one word for why the application object can't be read, such as 'Unreachable' or 'ObjectNotFound'. It is empty if it can.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Since is from when on the application object could not be read for that reason, where that is known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// PromotionState is where the promotion of a revision into an environment stands.
// +kubebuilder:validation:Enum=unapproved;unattempted;created;failed;succeeded;abandoned
type PromotionState string

const (
	// PromotionUnapproved waits for its preconditions.
	PromotionUnapproved PromotionState = "unapproved"
	// PromotionUnattempted has had its preconditions met; its first attempt has not ended.
	PromotionUnattempted PromotionState = "unattempted"
	// PromotionCreated has an open pull request.
	PromotionCreated PromotionState = "created"
	// PromotionFailed had its last attempt fail. It is attempted again, with backoff, for ever.
	PromotionFailed PromotionState = "failed"
	// PromotionSucceeded has been carried out: merged or notified. It ends the matter for this revision.
	PromotionSucceeded PromotionState = "succeeded"
	// PromotionAbandoned was closed without being merged. It ends the matter for this revision.
	PromotionAbandoned PromotionState = "abandoned"
)

// Ended reports whether nothing more will be attempted for the revision.
func (s PromotionState) Ended() bool {
	return s == PromotionSucceeded || s == PromotionAbandoned
}

// PromotionRecord is the record of the promotion of one revision into one environment.
type PromotionRecord struct {
	// Revision that is promoted.
	Revision string `json:"revision"`

	// State of the promotion.
	State PromotionState `json:"state"`

	// Message says in a sentence what the promotion waits for, or how it ended.
	// +optional
	Message string `json:"message,omitempty"`

	// Preconditions as they were last seen.
	// +listType=map
	// +listMapKey=type
	// +optional
	Preconditions []PreconditionStatus `json:"preconditions,omitempty"`

	// Approvers are those who had approved when the preconditions were last looked at.
	// +optional
	Approvers []string `json:"approvers,omitempty"`

	// Superseded is true once the promotion is to be withdrawn: another revision has taken its place, a person has asked for it to be
	// started anew, or its environment runs the revision without it. It is withdrawn to the end, whatever the run's revision is then.
	// +optional
	Superseded bool `json:"superseded,omitempty"`

	// Attempts counts how often the promotion was attempted.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// LastError is why the last attempt failed. It is cleared by one that doesn't.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// StartTime is when the promotion was found to be needed. It tells this promotion from earlier ones of the same revision.
	StartTime metav1.Time `json:"startTime"`

	// LastAttemptTime is when the last attempt began.
	// +optional
	LastAttemptTime *metav1.Time `json:"lastAttemptTime,omitempty"`

	// NextAttemptTime is when the promotion is attempted again. It is written when an attempt begins, so that one which is interrupted
	// is not repeated at once, and is replaced or cleared when the attempt ends.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// RateLimitedUntil is until when the Git host wants no more requests. Unlike the wait for the next attempt, nobody's
	// request ends it.
	// +optional
	RateLimitedUntil *metav1.Time `json:"rateLimitedUntil,omitempty"`

	// CompletionTime is when the promotion succeeded or was abandoned.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// Loop is the revision that was promoted before and to which this one adds nothing but Sluice's own commits: the first environment
	// follows the branch that promotions are merged into. It is empty for all others.
	// +optional
	Loop string `json:"loop,omitempty"`

	// ArrivalTime is when all targets of the environment were first seen to run the revision.
	// +optional
	ArrivalTime *metav1.Time `json:"arrivalTime,omitempty"`

	// RollbackTime is when the environment, having run the revision, was first seen to run RolledBackTo instead. It is cleared when it runs
	// the revision again.
	// +optional
	RollbackTime *metav1.Time `json:"rollbackTime,omitempty"`

	// RolledBackTo is the revision that the environment was first seen to run after this one.
	// +optional
	RolledBackTo string `json:"rolledBackTo,omitempty"`

	// Repository is where the last attempt has looked for the pull request, or opened it. It is looked for there whatever becomes of the spec.
	// +optional
	Repository *RepositoryReference `json:"repository,omitempty"`

	// PullRequest is the one that carries the promotion.
	// +optional
	PullRequest *PullRequestStatus `json:"pullRequest,omitempty"`
}

// IsOf reports whether the promotion is of that revision. Until its first attempt nothing holds its name, so that another name of the
// same digest is another revision; from then on the digest decides.
func (r *PromotionRecord) IsOf(current string) bool {
	if r.Attempts == 0 {
		return r.Revision == current
	}
	return revision.Equal(r.Revision, current)
}

// PreconditionStatus is what one precondition of a promotion was last seen to be.
type PreconditionStatus struct {
	// Type of the precondition, such as 'Gates' or 'Approval'.
	Type string `json:"type"`

	// Met reports whether the promotion may go ahead as far as this precondition is concerned.
	Met bool `json:"met"`

	// Reason is one word that says why.
	Reason string `json:"reason"`

	// Message says why, and what would change it.
	// +optional
	Message string `json:"message,omitempty"`

	// LastTransitionTime is when the precondition was last seen to become met or unmet.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// NextTransitionTime is when the precondition becomes met or unmet by itself, where that is known.
	// +optional
	NextTransitionTime *metav1.Time `json:"nextTransitionTime,omitempty"`
}

// PullRequestStatus is a pull request, and what was done about it.
type PullRequestStatus struct {
	// URL at which a person finds the pull request.
	URL string `json:"url"`

	// Number of the pull request on its Git host.
	Number int64 `json:"number"`

	// Branch that the pull request is made from.
	Branch string `json:"branch"`

	// HeadCommit is the commit at the head of the branch.
	// +optional
	HeadCommit string `json:"headCommit,omitempty"`

	// Commit is the one that Sluice has pushed. While another one is at the head, somebody else has pushed to the branch, and Sluice
	// leaves it alone.
	// +optional
	Commit string `json:"commit,omitempty"`

	// MergeCommit is the commit that the base branch was moved to when the pull request was merged, where the Git host tells. A revision at
	// that commit is not promoted: it would be promoted again and again.
	// +optional
	MergeCommit string `json:"mergeCommit,omitempty"`

	// BaseCommit is the commit of the base branch that the pull request was last compared with.
	// +optional
	BaseCommit string `json:"baseCommit,omitempty"`

	// BaseFiles is a digest of what the files that the pull request changes were on the base branch. When they are something else
	// there, the commit is made anew on top of that.
	// +optional
	BaseFiles string `json:"baseFiles,omitempty"`

	// ComparisonTime is when the pull request was last compared with the base branch after that had moved.
	// +optional
	ComparisonTime *metav1.Time `json:"comparisonTime,omitempty"`

	// Warning says which of the labels and reviewers the Git host did not take.
	// +optional
	Warning string `json:"warning,omitempty"`

	// CommitStatus is the commit status 'sluice/preconditions' as it was last set.
	// +optional
	CommitStatus *PreconditionsCommitStatus `json:"commitStatus,omitempty"`

	// Reporting is what has kept that commit status from being set since.
	// +optional
	Reporting *StepStatus `json:"reporting,omitempty"`

	// Merging is what has kept the commit from being renewed, or the pull request from being merged by Sluice.
	// +optional
	Merging *StepStatus `json:"merging,omitempty"`
}

// StepStatus is what became of the attempts at a step that has not succeeded yet.
type StepStatus struct {
	// Attempts counts them.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// LastError is why the last one failed.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// NextAttemptTime is when the next one is made. It is written when an attempt begins, and replaced or cleared when it ends.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
}

// RepositoryReference is a repository, as it was when a pull request was opened there.
type RepositoryReference struct {
	// Type is the kind of Git host.
	// +optional
	Type GitProviderType `json:"type,omitempty"`
	// URL of the repository.
	URL string `json:"url"`
	// BaseBranch is the branch that the pull request is to be merged into.
	BaseBranch string `json:"baseBranch"`
	// Path is where markers were looked for.
	// +optional
	Path string `json:"path,omitempty"`
	// SecretRef names a Secret in the Pipeline's namespace.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// PreconditionsCommitStatus is the commit status 'sluice/preconditions', which lets a Git host keep a pull request from being merged while the
// promotion's preconditions aren't met.
type PreconditionsCommitStatus struct {
	// Commit that the status was set on.
	Commit string `json:"commit"`

	// Pipeline is the newest CI pipeline of the commit when the status was set, on hosts where a status belongs to one.
	// +optional
	Pipeline string `json:"pipeline,omitempty"`

	// Met reports whether the status is 'success', since all preconditions are met, or 'failure'.
	Met bool `json:"met"`

	// Description is the text of the status.
	// +optional
	Description string `json:"description,omitempty"`
}

// Pipeline carries a revision of an application from environment to environment.
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

// PromotionInto returns the promotion that applies to an environment: its own, else that of the Pipeline, else nil. One of its own that has
// no strategy has that of the Pipeline. The environment is nil for one that is no longer in the spec.
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

// RevisionExpr returns the expression that makes the revision of an application object; empty if there is none.
func (p *Pipeline) RevisionExpr() string {
	if p.Spec.Revision == nil {
		return ""
	}
	return p.Spec.Revision.Expr
}

// MergesItself reports whether pull requests are merged by the controller, and not by people.
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

// PromotedEnvironments returns the environments that revisions are promoted into. Nothing is promoted into the first one: its revision
// is the run's.
func (p *Pipeline) PromotedEnvironments() iter.Seq[*Environment] {
	return func(yield func(*Environment) bool) {
		for i := range p.Spec.Environments {
			if i > 0 && !yield(&p.Spec.Environments[i]) {
				return
			}
		}
	}
}

// WaitsForGates returns the precondition 'Gates' of the promotion into an environment, as it was last seen, if the promotion waits for that. A
// pull request that people merge waits for no gate.
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

// GetLastHandledReconcileRequest returns the last value of the annotation reconcile.fluxcd.io/requestedAt that was acted on.
func (p *Pipeline) GetLastHandledReconcileRequest() string {
	return p.Status.GetLastHandledReconcileRequest()
}

// GetLastHandledForceRequestStatus returns where the last value of the annotation reconcile.fluxcd.io/forceAt is kept.
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
