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
	// listsAtOnce bounds the lists of one API server that are under way at the same time.
	listsAtOnce = 2
	// liveTimeout bounds a read past the watch.
	liveTimeout = 5 * time.Second
	// answerGraces is how many times the time of grace the answer to a watch may take to begin. Nothing is heard of changes before. Some
	// proxies have it begin with the first event, and an API server sends one, if only a bookmark, each minute.
	answerGraces = 3
)

// server is an API server as one kubeconfig reaches it. Nothing of it changes.
type server struct {
	*apireader.Reader
	// kubeconfig that it was made from; nil for the management cluster.
	kubeconfig *kubeconfig.Kubeconfig
	// address and user are the names of the server, and of whom it is asked as, for messages.
	address, user string
	// lists holds one value for each list that is under way.
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

// answerTime is how long the answer to a watch may take to begin.
func (s *server) answerTime() time.Duration { return answerGraces * s.timing.Grace }

// retries is the backoff of lists and watches that fail.
func (s *server) retries() wait.Backoff {
	return wait.Backoff{Duration: s.timing.BackoffMin, Cap: s.timing.BackoffMax, Factor: 2, Jitter: 1, Steps: 10}
}

// probe asks for a sign of life.
func (s *server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.ProbeTimeout)
	defer cancel()
	return s.Ping(ctx)
}

// stillThere returns an error once the server has not been heard of for too long. Each sign of life counts, such as an event of a watch.
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
		// It may be that only the connections have gone silent, which requests and watches share: something on the way has forgotten them.
		s.Disconnect()
	}
	return nil
}

// readObject reads an object past the watch.
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
		return application.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "it does not exist", now)
	}
	return s.failedTo("get", key, err).at(nil, now).state()
}

// failedTo says what it means that objects could not be looked up, listed, watched or read.
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

// wayToAllow says where the rule is that the controller lacks, if there is one to be had.
func (s *server) wayToAllow(kind schema.GroupVersionKind) string {
	if s.isLeaf() || !application.IsWorkload(kind.Group) {
		return ""
	}
	return ", see config/components/workloads"
}

// failureOf says what it means that the server could not be connected.
func (s *server) failureOf(err error) *failure {
	if expired := s.expired(); expired != nil {
		return expired
	}
	return failureOf(s.address, err)
}

// expired returns that the kubeconfig's certificate has expired, if it has. Servers say so in different ways, if at all: one that does
// not know who issued the certificate takes the user for nobody, who may not look.
func (s *server) expired() *failure {
	if !s.isLeaf() || s.kubeconfig.Expires.IsZero() || time.Now().Before(s.kubeconfig.Expires) {
		return nil
	}
	return failed(pipelinesv1.CertificateExpiredReason, "the kubeconfig's certificate expired at %s", s.kubeconfig.Expires.UTC().Format(time.RFC3339))
}
