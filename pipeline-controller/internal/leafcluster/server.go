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

package leafcluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

const (
	// listsAtOnce is the maximum number of concurrent lists of one API server.
	listsAtOnce = 2
	// liveTimeout is the timeout of a read without a watch.
	liveTimeout = 5 * time.Second
	// answerGraces is the timeout for the start of the response to a watch, as a multiple of Timing.Grace. No changes
	// are received before that. Some proxies send the start with the first event, and an API server sends an event, at
	// least a bookmark, every minute.
	answerGraces = 3
)

// server is an API server, as reached with one kubeconfig. It is immutable.
type server struct {
	*apireader.Reader
	// kubeconfig of the connection; nil for the management cluster.
	kubeconfig *kubeconfig.Kubeconfig
	// address of the server and name of the user, for messages.
	address, user string
	// lists contains one value for each running list.
	lists  chan struct{}
	timing Timing
}

func leafServer(config *kubeconfig.Kubeconfig, timing Timing) (*server, error) {
	reader, err := apireader.New(config.Config)
	if err != nil {
		return nil, err
	}
	return &server{
		Reader: reader, kubeconfig: config, address: config.Server, user: "the kubeconfig's user",
		lists: make(chan struct{}, listsAtOnce), timing: timing,
	}, nil
}

func managementServer(config *rest.Config, client *http.Client, timing Timing) (*server, error) {
	reader, err := apireader.NewShared(config, client)
	if err != nil {
		return nil, err
	}
	return &server{
		Reader: reader, address: "the API server of this cluster", user: "the controller",
		lists: make(chan struct{}, listsAtOnce), timing: timing,
	}, nil
}

func (s *server) isLeaf() bool { return s.kubeconfig != nil }

// answerTime returns the timeout for the start of the response to a watch.
func (s *server) answerTime() time.Duration { return answerGraces * s.timing.Grace }

// retries returns the backoff of failed lists and watches.
func (s *server) retries() wait.Backoff {
	return wait.Backoff{Duration: s.timing.BackoffMin, Cap: s.timing.BackoffMax, Factor: 2, Jitter: 1, Steps: 10}
}

// probe checks that the server responds.
func (s *server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.ProbeTimeout)
	defer cancel()
	return s.Ping(ctx)
}

// stillThere returns an error if nothing was received from the server for too long. Everything counts, such as an event
// of a watch.
func (s *server) stillThere(ctx context.Context) error {
	if !s.isLeaf() {
		return nil
	}
	asked := time.Now()
	err := s.probe(ctx)
	if err == nil || ctx.Err() != nil || s.LastContact().After(asked) {
		return nil
	}
	if time.Since(s.LastContact()) >= s.timing.Grace {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// Perhaps only the connections are dead, which requests and watches share: something on the way has dropped
		// them silently.
		s.Disconnect()
	}
	return nil
}

// readObject reads an object without the watch.
func (s *server) readObject(ctx context.Context, key watchKey, name types.NamespacedName) application.State {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	resource, err := s.Resource(ctx, key.kind)
	if err == nil {
		var content []byte
		if content, err = s.Get(ctx, resource, name.Namespace, name.Name); err == nil {
			var object *application.Object
			if object, err = application.NewDecoder(resource.Kind, key.expr).Decode(content); err == nil {
				return object.State
			}
		}
	}
	now := time.Now()
	if resource.Name != "" && apierrors.IsNotFound(err) {
		return application.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "not found", now)
	}
	return s.failedTo("get", key, err).at(nil, now).state()
}

// failedTo returns the failure of an operation on objects: look up, list, watch or read.
func (s *server) failedTo(do string, key watchKey, err error) *failure {
	if expired := s.expired(); expired != nil {
		return expired
	}
	kind, where := key.kind, "in namespace "+key.namespace
	if key.namespace == "" {
		where = "in all namespaces"
	}
	switch {
	case errors.Is(err, apireader.ErrNoKind), apierrors.IsNotFound(err):
		s.ForgetResource(kind)
		return failed(pipelinesv1.KindNotInstalledReason, "the cluster has no kind %s in %s", kind.Kind, kind.GroupVersion())
	case apierrors.IsForbidden(err) && do != lookUp:
		return failed(pipelinesv1.ForbiddenReason, "%s may not %s objects of kind %s.%s %s: allow it to get, list and watch them%s",
			s.user, do, kind.Kind, kind.Group, where, s.wayToAllow(kind))
	case errors.Is(err, apireader.ErrTooMany):
		return failed(pipelinesv1.InvalidTargetReason, "there are more than %d objects of kind %s.%s %s", maxObjects, kind.Kind, kind.Group, where)
	}
	return failureOf(s.address, err)
}

// wayToAllow says where the missing RBAC rule can be found, if Sluice provides one.
func (s *server) wayToAllow(kind schema.GroupVersionKind) string {
	if s.isLeaf() || !application.IsWorkload(kind.Group) {
		return ""
	}
	return ", see config/components/workloads"
}

// failureOf returns the failure of an attempt to connect.
func (s *server) failureOf(err error) *failure {
	if expired := s.expired(); expired != nil {
		return expired
	}
	return failureOf(s.address, err)
}

// expired returns a failure if the kubeconfig's certificate has expired. Servers report this in different ways, if at
// all: a server that does not know the issuer of the certificate treats the user as anonymous and denies access.
func (s *server) expired() *failure {
	if !s.isLeaf() || s.kubeconfig.Expires.IsZero() || time.Now().Before(s.kubeconfig.Expires) {
		return nil
	}
	return failed(pipelinesv1.CertificateExpiredReason, "the kubeconfig's certificate expired at %s", s.kubeconfig.Expires.UTC().Format(time.RFC3339))
}
