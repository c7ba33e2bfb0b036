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
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

const (
	// PipelineKind is the kind of a Pipeline.
	PipelineKind = "Pipeline"

	// PipelineFinalizer keeps a deleted Pipeline until its open pull requests were closed, for a minute at most.
	PipelineFinalizer = "finalizers.pipelines.weave.works"

	// WebhookAnnotation holds when a webhook last had the Pipeline's pull requests looked at.
	WebhookAnnotation = "pipelines.weave.works/webhookReceivedAt"
)

// PipelineSpec is the desired state of a Pipeline.
type PipelineSpec struct {
	// AppRef names the application object that every target of the Pipeline holds in its own namespace. It may be of any
	// kind that has a 'Ready' condition and a 'status.lastAppliedRevision', besides Flux's HelmRelease.
	// +required
	AppRef LocalAppReference `json:"appRef"`

	// Suspend stops the Pipeline: nothing is promoted, and open pull requests are left as they are. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Environments are the stations of a revision, in order. The revision that settles in the first one travels through
	// the others. The list may be empty. The names are unique.
	// +listType=map
	// +listMapKey=name
	// +required
	Environments []Environment `json:"environments"`

	// Promotion says how a revision gets into every environment that has no promotion of its own.
	// Without any, the Pipeline only shows what runs where.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`
}

// Environment is one station of a revision.
type Environment struct {
	// Name of the environment, such as 'dev' or 'prod'.
	// +required
	Name string `json:"name"`

	// Targets are the places that make up this environment.
	// An environment without targets is passed over; as the first one it keeps the Pipeline pending.
	// +required
	Targets []Target `json:"targets"`

	// Promotion says how a revision gets into this environment. It replaces spec.promotion as a whole.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`

	// Steady says when the environment has settled on a revision: 'now' (default), when all its targets are ready on it at the
	// same time, or 'ever', when each of them was ready on it at some time, for environments that are never all ready at once.
	// +kubebuilder:default=now
	// +optional
	Steady Steadiness `json:"steady,omitempty"`
}

// Steadiness says when an environment has settled on a revision.
// +kubebuilder:validation:Enum=now;ever
type Steadiness string

const (
	// SteadyNow asks for all targets to be ready on the revision at the same time.
	SteadyNow Steadiness = "now"
	// SteadyEver asks for each target to have been ready on the revision at some time.
	SteadyEver Steadiness = "ever"
)

// Target is a namespace of a cluster, in which the application object is looked up.
type Target struct {
	// Namespace of the application object.
	// +required
	Namespace string `json:"namespace"`

	// ClusterRef names the cluster of the application object. Defaults to the cluster that the Pipeline is in.
	// +optional
	ClusterRef *CrossNamespaceClusterReference `json:"clusterRef,omitempty"`
}

// Promotion says how a revision gets into an environment, and what it has to wait for.
type Promotion struct {
	// Manual makes each promotion wait for a person's approval. Defaults to false.
	// +optional
	Manual bool `json:"manual,omitempty"`

	// Approvals says how many approvals each promotion waits for. Defaults to one if Manual is true, else to none.
	// +optional
	Approvals *Approvals `json:"approvals,omitempty"`

	// Gates hold promotions back while they are closed.
	// +optional
	Gates *gatingv1.GateReferences `json:"gates,omitempty"`

	// Strategy is the means of promotion: exactly one of 'pull-request' and 'notification'.
	// +required
	Strategy Strategy `json:"strategy"`
}

// Approvals says how many approvals a promotion waits for.
type Approvals struct {
	// Required is how many different people have to approve.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	// +required
	Required int32 `json:"required"`
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
	// +required
	URL string `json:"url"`

	// BaseBranch is the branch that the pull request is to be merged into.
	// +required
	BaseBranch string `json:"baseBranch"`

	// SecretRef names a Secret in the Pipeline's namespace: 'username' and 'password' for Git, 'token' for the API of the
	// Git host, each standing in for the other when it is absent, and 'ca.crt' or 'caFile' for a host with a CA of its own.
	// On GitHub, the keys of a GitHub App, as Flux names them, can take the place of a token: 'githubAppID',
	// 'githubAppInstallationID' and 'githubAppPrivateKey'.
	// +required
	SecretRef meta.LocalObjectReference `json:"secretRef"`

	// Commit says who commits are by, and what signs them.
	// +optional
	Commit *CommitSettings `json:"commit,omitempty"`

	// Labels are put on pull requests, on Git hosts that have labels.
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Labels []string `json:"labels,omitempty"`

	// Reviewers are asked to review pull requests, by their names on the Git host. A team of GitHub is named 'org/team'.
	// +kubebuilder:validation:MaxItems=20
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

// MergeMode says who merges pull requests.
// +kubebuilder:validation:Enum=manual;auto
type MergeMode string

const (
	// MergeManual leaves merging to people.
	MergeManual MergeMode = "manual"
	// MergeAuto merges once the Git host lets it.
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

	// Conditions of the Pipeline: 'Ready', 'Reconciling', 'Stalled' and 'PromotionPending'.
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

// EnvironmentStatus is the observed state of an environment.
type EnvironmentStatus struct {
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
	// Revision that waits for approval. It is empty when none does.
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

// Ended tells whether nothing more will be attempted for the revision.
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

	// NextAttemptTime is when a failed promotion is attempted again.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// RateLimitedUntil is until when the Git host wants no more requests. Unlike the wait for the next attempt, nobody's
	// request ends it.
	// +optional
	RateLimitedUntil *metav1.Time `json:"rateLimitedUntil,omitempty"`

	// CompletionTime is when the promotion succeeded or was abandoned.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// ArrivalTime is when all targets of the environment were first seen to run the revision.
	// +optional
	ArrivalTime *metav1.Time `json:"arrivalTime,omitempty"`

	// Repository is where the last attempt has looked for the pull request, or opened it. It is looked for there whatever becomes of the spec.
	// +optional
	Repository *RepositoryReference `json:"repository,omitempty"`

	// PullRequest is the one that carries the promotion.
	// +optional
	PullRequest *PullRequestStatus `json:"pullRequest,omitempty"`
}

// PreconditionStatus is what one precondition of a promotion was last seen to be.
type PreconditionStatus struct {
	// Type of the precondition, such as 'Gates' or 'Approval'.
	Type string `json:"type"`

	// Met tells whether the promotion may go ahead as far as this precondition is concerned.
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

	// BaseCommit is the commit of the base branch that the pull request was last compared with.
	// +optional
	BaseCommit string `json:"baseCommit,omitempty"`

	// BaseFiles is a digest of what the files that the pull request changes were on the base branch. When they are something else
	// there, the commit is made anew on top of that.
	// +optional
	BaseFiles string `json:"baseFiles,omitempty"`

	// Warning says which of the labels and reviewers the Git host did not take.
	// +optional
	Warning string `json:"warning,omitempty"`

	// Gates is the commit status 'sluice/gates' as it was last set.
	// +optional
	Gates *GatesCommitStatus `json:"gates,omitempty"`

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

	// NextAttemptTime is when the next one is made.
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
	// SecretRef names a Secret in the Pipeline's namespace.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// GatesCommitStatus is the commit status 'sluice/gates', which lets a Git host keep a pull request from being merged while the
// promotion's preconditions aren't met.
type GatesCommitStatus struct {
	// Commit that the status was set on.
	Commit string `json:"commit"`

	// Met tells whether the status is 'success', since all preconditions are met, or 'failure'.
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

// PromotionInto returns the promotion that applies to an environment: its own, else that of the Pipeline, else nil. The
// environment is nil for one that has left the spec.
func (p *Pipeline) PromotionInto(env *Environment) *Promotion {
	if env != nil && env.Promotion != nil {
		return env.Promotion
	}
	return p.Spec.Promotion
}

// MergesItself tells whether pull requests are merged by the controller, and not by people.
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
