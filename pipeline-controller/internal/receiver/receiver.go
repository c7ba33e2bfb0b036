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

// Package receiver handles webhooks of Git hosts. A webhook only triggers an early check of the pull requests of some
// Pipelines. Its content is not trusted, and a lost webhook only causes a delay.
package receiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

const (
	// secretKey is the key of the Secret that contains the webhook's signing key.
	secretKey = "webhook-secret"
	// pokeInterval is the minimum time between two triggers of a Pipeline: hosts send several events for one change.
	pokeInterval = 5 * time.Second
	patchTimeout = 10 * time.Second
)

// Receiver handles webhooks for the Secrets that Pipelines use for their repositories.
type Receiver struct {
	// Reader reads Pipelines from a cache.
	Reader client.Reader
	// Secrets reads Secrets without a cache.
	Secrets client.Reader
	// Writer annotates Pipelines. The annotation triggers the check in the leader, which may be another replica than
	// the one that received the webhook.
	Writer client.Writer
	// Now returns the current time.
	Now func() time.Time
	Log logr.Logger

	queue workqueue.TypedDelayingInterface[types.NamespacedName]
}

// New returns a Receiver with an empty queue. Start processes the queue.
func New(reader, secrets client.Reader, writer client.Writer, log logr.Logger) *Receiver {
	return &Receiver{
		Reader: reader, Secrets: secrets, Writer: writer, Now: time.Now, Log: log,
		queue: workqueue.NewTypedDelayingQueue[types.NamespacedName](),
	}
}

// NeedLeaderElection returns false: every replica receives webhooks.
func (r *Receiver) NeedLeaderElection() bool { return false }

// Start annotates Pipelines until the context is cancelled.
func (r *Receiver) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.queue.ShutDown)()
	for {
		name, stopped := r.queue.Get()
		if stopped {
			return nil
		}
		if err := r.poke(ctx, name); err != nil {
			r.Log.Error(err, "handling a webhook failed, pull requests are polled at their next interval", "pipeline", name.String())
		}
		r.queue.Done(name)
	}
}

// Receive reports whether the request is a webhook signed with the key in the Secret of that name. If so, it triggers a
// check of the pull requests of all Pipelines in the namespace that use the Secret for their repositories.
func (r *Receiver) Receive(ctx context.Context, header http.Header, body io.Reader, secret types.NamespacedName) (bool, error) {
	key, err := r.key(ctx, secret)
	if err != nil {
		return false, err
	}
	signed, err := scm.Signed(header, body, key)
	if err != nil || !signed {
		return false, err
	}
	var pipelines pipelinesv1.PipelineList
	if err := r.Reader.List(ctx, &pipelines, client.InNamespace(secret.Namespace)); err != nil {
		return false, fmt.Errorf("listing Pipelines: %w", err)
	}
	for i := range pipelines.Items {
		if pipeline := &pipelines.Items[i]; uses(pipeline, secret.Name) && waits(pipeline) {
			r.queue.AddAfter(client.ObjectKeyFromObject(pipeline), r.untilNext(pipeline))
		}
	}
	return true, nil
}

// key returns the signing key, or nil.
func (r *Receiver) key(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	if name.Name == "" || name.Namespace == "" || len(content.IsPathSegmentName(name.Name)) > 0 || len(content.IsPathSegmentName(name.Namespace)) > 0 {
		return nil, nil
	}
	var secret corev1.Secret
	err := r.Secrets.Get(ctx, name, &secret)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	// The Secret may have been created from a file, which ends in a line feed that is not part of the key.
	return bytes.TrimRight(secret.Data[secretKey], "\r\n"), nil
}

// uses reports whether the Pipeline uses the Secret for a repository.
func uses(pipeline *pipelinesv1.Pipeline, secret string) bool {
	for i := range pipeline.Spec.Environments {
		promotion := pipeline.PromotionInto(&pipeline.Spec.Environments[i])
		if promotion != nil && promotion.Strategy.PullRequest != nil && promotion.Strategy.PullRequest.SecretRef.Name == secret {
			return true
		}
	}
	return false
}

// waits reports whether the Pipeline has a pull request whose state may change.
func waits(pipeline *pipelinesv1.Pipeline) bool {
	for _, env := range pipeline.Status.Environments {
		if env.Promotion != nil && env.Promotion.PullRequest != nil && env.Promotion.State != pipelinesv1.PromotionSucceeded {
			return true
		}
	}
	return false
}

// untilNext returns the time until the Pipeline can be triggered again.
func (r *Receiver) untilNext(pipeline *pipelinesv1.Pipeline) time.Duration {
	last, err := time.Parse(time.RFC3339Nano, pipeline.Annotations[pipelinesv1.WebhookAnnotation])
	if err != nil {
		return 0
	}
	return min(max(last.Add(pokeInterval).Sub(r.Now()), 0), pokeInterval)
}

func (r *Receiver) poke(ctx context.Context, name types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	pipeline := &pipelinesv1.Pipeline{}
	pipeline.Namespace, pipeline.Name = name.Namespace, name.Name
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, pipelinesv1.WebhookAnnotation, r.Now().UTC().Format(time.RFC3339Nano))
	return client.IgnoreNotFound(r.Writer.Patch(ctx, pipeline, client.RawPatch(types.MergePatchType, []byte(patch))))
}
