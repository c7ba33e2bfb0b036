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

package approval

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// hmacKey is the key of the Secret that requests are signed with.
const hmacKey = "hmac-key"

var (
	// decoySecret is read, and decoyKey used, where there is no Secret or no key to use, so that it takes the same steps. Neither
	// lets anybody in.
	decoySecret = types.NamespacedName{Namespace: "default", Name: "sluice-no-such-secret"}
	decoyKey    = make([]byte, 32)
)

// unavailable is a failure of the API server, and no one's fault who asks.
type unavailable struct{ error }

// approve answers a request for approval.
func (s *Server) approve(ctx context.Context, r *http.Request, asked promotion, body []byte) answer {
	log := s.Log.WithValues("pipeline", types.NamespacedName{Namespace: asked.namespace, Name: asked.pipeline}.String(),
		"environment", asked.environment, "revision", asked.revision, "client", r.RemoteAddr)

	pipeline, err := s.authenticate(ctx, r, asked, body)
	var down unavailable
	switch {
	case errors.As(err, &down):
		log.Error(down.error, "an approval could not be checked")
		return failure(http.StatusServiceUnavailable, "the API server does not answer")
	case err != nil:
		log.Info("refused an approval", "why", err.Error())
		return unauthorized()
	}
	return s.decide(ctx, log, pipeline, asked, body)
}

// decide answers who may ask.
func (s *Server) decide(ctx context.Context, log logr.Logger, pipeline *pipelinesv1.Pipeline, asked promotion, body []byte) answer {
	comment, err := readComment(body)
	if err != nil {
		return failure(http.StatusBadRequest, "%s", err)
	}
	if !pipeline.DeletionTimestamp.IsZero() {
		return failure(http.StatusUnprocessableEntity, "the Pipeline is being deleted")
	}
	user, err := s.Username(ctx)
	if err != nil {
		log.Error(err, "asking for the controller's own name failed")
		return failure(http.StatusServiceUnavailable, "the API server does not answer")
	}
	approvalOf := func(rev string) *pipelinesv1.PromotionApproval {
		spec := pipelinesv1.PromotionApprovalSpec{Environment: asked.environment, Revision: rev, ApprovedBy: user, Comment: comment}
		spec.PipelineRef.Name = pipeline.Name
		return pipelinesv1.NewPromotionApproval(pipeline.Namespace, spec)
	}
	// It is made of the revision as status tells it, so that it is the same one however the request writes that.
	waiting := waitingRevision(pipeline, asked.environment)
	if revision.Equal(waiting, asked.revision) {
		return s.create(ctx, log, pipeline, approvalOf(waiting))
	}
	// A promotion waits no more once it has its approvals. Who asks again, since the answer got lost, is told the same.
	if current := pipeline.Status.Revision; revision.Equal(current, asked.revision) {
		made := approvalOf(current)
		if s.Reader.Get(ctx, client.ObjectKeyFromObject(made), made) == nil && made.Concerns(pipeline) {
			return answer{code: http.StatusOK, body: details{Approval: made.Name}}
		}
	}
	return notWaiting(asked.environment, waiting)
}

func notWaiting(env, waiting string) answer {
	if waiting == "" {
		return failure(http.StatusUnprocessableEntity, "nothing waits for approval in environment %s", env)
	}
	refused := failure(http.StatusUnprocessableEntity, "environment %s waits for approval of another revision: %s", env, waiting)
	refused.body.Waiting = waiting
	return refused
}

func waitingRevision(pipeline *pipelinesv1.Pipeline, env string) string {
	if status := pipeline.Status.Environments[env]; status != nil {
		return status.WaitingApproval.Revision
	}
	return ""
}

func (s *Server) create(ctx context.Context, log logr.Logger, pipeline *pipelinesv1.Pipeline, approval *pipelinesv1.PromotionApproval) answer {
	err := s.Creator.Create(ctx, approval)
	switch {
	case apierrors.IsAlreadyExists(err):
		if s.Reader.Get(ctx, client.ObjectKeyFromObject(approval), approval) == nil && !approval.Concerns(pipeline) {
			return failure(http.StatusServiceUnavailable, "the approval of a deleted Pipeline of that name has yet to be collected")
		}
		return answer{code: http.StatusOK, body: details{Approval: approval.Name}}
	case err != nil:
		log.Error(err, "making an approval failed")
		return failure(http.StatusServiceUnavailable, "the approval could not be made: the controller's log says why")
	}
	log.Info("approved", "approval", approval.Name)
	return answer{code: http.StatusCreated, body: details{Approval: approval.Name}}
}

// authenticate returns the Pipeline if the request is signed with the key of the promotion that it asks to approve.
func (s *Server) authenticate(ctx context.Context, r *http.Request, asked promotion, body []byte) (*pipelinesv1.Pipeline, error) {
	// A signature without form, or out of time, is refused before anything is looked up.
	signature, err := s.readSignature(r, body)
	if err != nil {
		return nil, err
	}
	pipeline, secret, unknown := s.find(ctx, asked)
	if ctx.Err() != nil {
		return nil, unavailable{ctx.Err()}
	}
	key, missing := s.readKey(ctx, secret)
	matches := signature.matches(key)
	var down unavailable
	switch {
	case errors.As(missing, &down):
		return nil, down
	case unknown != nil:
		return nil, unknown
	case missing != nil:
		return nil, missing
	case !matches:
		return nil, errors.New("the signature is of something else, or with another key")
	}
	return pipeline, nil
}

// find returns the Pipeline, and the Secret that requests for approval are signed with. With an error, it is the decoy.
func (s *Server) find(ctx context.Context, asked promotion) (*pipelinesv1.Pipeline, types.NamespacedName, error) {
	pipeline := &pipelinesv1.Pipeline{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: asked.namespace, Name: asked.pipeline}, pipeline); err != nil {
		return nil, decoySecret, err
	}
	env := pipeline.Environment(asked.environment)
	if env == nil {
		return nil, decoySecret, errors.New("the Pipeline has no such environment")
	}
	promotion := pipeline.PromotionInto(env)
	if promotion == nil || promotion.Strategy.SecretRef == nil {
		return nil, decoySecret, errors.New("the promotion has no strategy.secretRef")
	}
	name := promotion.Strategy.SecretRef.Name
	// The client refuses to ask for one of these, by an error that looks like any other.
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, decoySecret, errors.New("strategy.secretRef is no name of a Secret")
	}
	return pipeline, types.NamespacedName{Namespace: pipeline.Namespace, Name: name}, nil
}

// readKey reads the key that requests are signed with. With an error, it is the decoy.
func (s *Server) readKey(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	var secret corev1.Secret
	err := s.Secrets.Get(ctx, name, &secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return decoyKey, err
	case err != nil:
		return decoyKey, unavailable{fmt.Errorf("reading Secret %s: %w", name, err)}
	}
	// With an empty key anybody can sign.
	if len(secret.Data[hmacKey]) == 0 {
		return decoyKey, fmt.Errorf("Secret %s has no '%s'", name, hmacKey)
	}
	return secret.Data[hmacKey], nil
}
