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

// Package approval handles signed approval requests from clients without a user in the cluster. It only creates
// PromotionApprovals, in the name of the controller. Whether and when a promotion continues is decided elsewhere.
//
// The responses do not reveal to strangers what exists. If the credentials or the names in a request are wrong, the
// response is always the same, after the same steps: a lookup in the cache, one read of a Secret, one MAC. What remains
// is a timing difference of the API server between Secrets that exist and those that do not.
package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// hmacKey is the key of the Secret that contains the signing key.
const hmacKey = "hmac-key"

var (
	// decoySecret is read, and decoyKey used, if there is no Secret or no key, so the steps are the same. Neither
	// grants access.
	decoySecret = types.NamespacedName{Namespace: "default", Name: "sluice-no-such-secret"}
	decoyKey    = make([]byte, 32)
)

// Creator creates objects.
type Creator interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// Approver creates approvals.
type Approver struct {
	// Reader reads Pipelines and PromotionApprovals from a cache.
	Reader client.Reader
	// Secrets reads Secrets without a cache.
	Secrets client.Reader
	// Creator creates PromotionApprovals.
	Creator Creator
	// Username returns the controller's own user name at the API server. The controller cannot approve in any other
	// name.
	Username func(context.Context) (string, error)
	// AllowLegacySignatures accepts signatures that cover only the body. Anyone who sees such a request can replay it
	// without a time limit, also for other promotions.
	AllowLegacySignatures bool
	// Now returns the current time.
	Now func() time.Time
	// Log receives accepted and rejected requests, with the reason.
	Log logr.Logger
}

// Made is an existing approval.
type Made struct {
	// Name is that of the PromotionApproval.
	Name string
	// New reports whether the approval was just created.
	New bool
}

// Reason is the reason why there is no approval.
type Reason int

const (
	// Unauthenticated is the only reason that strangers see.
	Unauthenticated Reason = iota
	// Unavailable means that the API server failed.
	Unavailable
	// Malformed means that the request cannot be parsed.
	Malformed
	// Denied means that the approval would not count.
	Denied
	// NotWaiting means that the promotion does not wait for approval.
	NotWaiting
)

// Refusal is the error for rejected requests.
type Refusal struct {
	Reason  Reason
	Message string
	// Waiting is the revision that waits for approval, if any.
	Waiting string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) (Made, error) {
	return Made{}, &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// unavailable is an error of the API server.
type unavailable struct{ error }

// Approve creates the requested approval if the signature is valid. The error is a Refusal.
func (a *Approver) Approve(ctx context.Context, request Request) (Made, error) {
	asked := request.Promotion
	log := a.Log.WithValues("pipeline", types.NamespacedName{Namespace: asked.Namespace, Name: asked.Pipeline}.String(),
		"environment", asked.Environment, "revision", asked.Revision, "client", request.Client)

	pipeline, signature, err := a.authenticate(ctx, request)
	var down unavailable
	switch {
	case errors.As(err, &down):
		log.Error(down.error, "checking an approval failed")
		return refuse(Unavailable, "the API server is not responding")
	case err != nil:
		log.Info("refused an approval", "why", err.Error())
		return refuse(Unauthenticated, "unauthorized")
	}
	return a.decide(ctx, log, pipeline, asked, signature, request.Body)
}

// decide handles an authenticated request.
func (a *Approver) decide(ctx context.Context, log logr.Logger, pipeline *pipelinesv1.Pipeline, asked Promotion, signature signature, body []byte) (Made, error) {
	comment, err := readComment(body)
	if err != nil {
		return refuse(Malformed, "%s", err)
	}
	if !pipeline.DeletionTimestamp.IsZero() {
		return refuse(NotWaiting, "the Pipeline is being deleted")
	}
	if !pipeline.PromotionInto(pipeline.Environment(asked.Environment)).CountsHTTP() {
		return refuse(Denied, "approvals by HTTP don't count for promotions into environment %s: approvals.http is false", asked.Environment)
	}
	user, err := a.Username(ctx)
	if err != nil {
		log.Error(err, "looking up the controller's own username failed")
		return refuse(Unavailable, "the API server is not responding")
	}
	approvalOf := func(rev string) *pipelinesv1.PromotionApproval {
		spec := pipelinesv1.PromotionApprovalSpec{Environment: asked.Environment, Revision: rev, ApprovedBy: user, Comment: comment}
		spec.PipelineRef.Name = pipeline.Name
		return pipelinesv1.NewPromotionApproval(pipeline.Namespace, spec)
	}
	// The approval uses the name of the revision in the status, so a request with only the digest creates the same
	// approval. Another name of the digest is not what the request approves.
	waiting := waitingPromotion(pipeline, asked.Environment)
	if waiting != nil && revision.Names(asked.Revision, waiting.Revision) {
		if signature.precedes(waiting.StartTime) {
			return signedBefore(waiting, signature)
		}
		return a.create(ctx, log, pipeline, approvalOf(waiting.Revision))
	}
	// A promotion no longer waits once it has its approvals. A client that repeats its request because the response was
	// lost receives the same response.
	if promoted := pipeline.Status.RevisionInto(asked.Environment); revision.Names(asked.Revision, promoted) {
		wanted, made := approvalOf(promoted), &pipelinesv1.PromotionApproval{}
		if a.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), made) == nil && made.Concerns(pipeline) && made.Spec.Repeats(wanted.Spec) {
			return Made{Name: made.Name}, nil
		}
	}
	return notWaiting(asked.Environment, waiting)
}

func notWaiting(env string, waiting *pipelinesv1.PromotionRecord) (Made, error) {
	if waiting == nil {
		return refuse(NotWaiting, "nothing waits for approval in environment %s", env)
	}
	return Made{}, &Refusal{
		Reason: NotWaiting, Message: fmt.Sprintf("environment %s waits for approval of another revision: %s", env, waiting.Revision),
		Waiting: waiting.Revision,
	}
}

func signedBefore(waiting *pipelinesv1.PromotionRecord, signature signature) (Made, error) {
	return Made{}, &Refusal{
		Reason: NotWaiting,
		Message: fmt.Sprintf("the request was signed at %s, before this promotion began at %s: sign a new request, and check the clock",
			signature.signed.UTC().Format(time.RFC3339), waiting.StartTime.UTC().Format(time.RFC3339)),
		Waiting: waiting.Revision,
	}
}

// waitingPromotion returns the promotion into an environment if it waits for approval.
func waitingPromotion(pipeline *pipelinesv1.Pipeline, env string) *pipelinesv1.PromotionRecord {
	status := pipeline.Status.Environments[env]
	if status == nil || status.Promotion == nil || status.WaitingApproval.Revision != status.Promotion.Revision {
		return nil
	}
	return status.Promotion
}

func (a *Approver) create(ctx context.Context, log logr.Logger, pipeline *pipelinesv1.Pipeline, approval *pipelinesv1.PromotionApproval) (Made, error) {
	err := a.Creator.Create(ctx, approval)
	switch {
	case apierrors.IsAlreadyExists(err):
		return a.repeat(ctx, pipeline, approval)
	case err != nil:
		log.Error(err, "creating an approval failed")
		return refuse(Unavailable, "creating the approval failed: see the controller's log")
	}
	log.Info("approved", "approval", approval.Name)
	return Made{Name: approval.Name, New: true}, nil
}

// repeat returns the existing approval, unless another object has its name.
func (a *Approver) repeat(ctx context.Context, pipeline *pipelinesv1.Pipeline, approval *pipelinesv1.PromotionApproval) (Made, error) {
	made := &pipelinesv1.PromotionApproval{}
	found := a.Reader.Get(ctx, client.ObjectKeyFromObject(approval), made) == nil
	switch {
	case found && !made.Concerns(pipeline):
		return refuse(Unavailable, "an approval of a deleted Pipeline with this name is not garbage-collected yet")
	case found && !made.Spec.Repeats(approval.Spec):
		return refuse(Unavailable, "PromotionApproval %s already exists and approves something else: delete it", made.Name)
	}
	return Made{Name: approval.Name}, nil
}

// authenticate returns the Pipeline and the signature if the request is signed with the key of the promotion.
func (a *Approver) authenticate(ctx context.Context, request Request) (*pipelinesv1.Pipeline, signature, error) {
	// A malformed or expired signature is rejected before any lookup.
	signed, err := a.readSignature(request)
	if err != nil {
		return nil, signature{}, err
	}
	pipeline, secret, unknown := a.find(ctx, request.Promotion)
	if ctx.Err() != nil {
		return nil, signature{}, unavailable{ctx.Err()}
	}
	key, missing := a.readKey(ctx, secret)
	matches := signed.matches(key)
	var down unavailable
	switch {
	case errors.As(missing, &down):
		return nil, signature{}, down
	case unknown != nil:
		return nil, signature{}, unknown
	case missing != nil:
		return nil, signature{}, missing
	case !matches:
		return nil, signature{}, errors.New("the signature does not match: it is for another request or made with another key")
	}
	return pipeline, signed, nil
}

// find returns the Pipeline and the Secret with the signing key. With an error, it returns the decoy.
func (a *Approver) find(ctx context.Context, asked Promotion) (*pipelinesv1.Pipeline, types.NamespacedName, error) {
	pipeline := &pipelinesv1.Pipeline{}
	if err := a.Reader.Get(ctx, types.NamespacedName{Namespace: asked.Namespace, Name: asked.Pipeline}, pipeline); err != nil {
		return nil, decoySecret, err
	}
	env := pipeline.Environment(asked.Environment)
	if env == nil {
		return nil, decoySecret, errors.New("the Pipeline has no such environment")
	}
	promotion := pipeline.PromotionInto(env)
	if promotion == nil || promotion.Strategy.SecretRef == nil {
		return nil, decoySecret, errors.New("the promotion has no strategy.secretRef")
	}
	name := promotion.Strategy.SecretRef.Name
	// The client rejects these names itself, with an error like any other.
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, decoySecret, errors.New("strategy.secretRef is not a valid Secret name")
	}
	return pipeline, types.NamespacedName{Namespace: pipeline.Namespace, Name: name}, nil
}

// readKey reads the signing key. With an error, it returns the decoy.
func (a *Approver) readKey(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	var secret corev1.Secret
	err := a.Secrets.Get(ctx, name, &secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return decoyKey, err
	case err != nil:
		return decoyKey, unavailable{fmt.Errorf("reading Secret %s: %w", name, err)}
	}
	// Anyone can sign with an empty key.
	if len(secret.Data[hmacKey]) == 0 {
		return decoyKey, fmt.Errorf("Secret %s has no '%s'", name, hmacKey)
	}
	return secret.Data[hmacKey], nil
}
