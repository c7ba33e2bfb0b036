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

// Package uitest has a cluster for tests of the page. It has objects, rights and faults, and no API server.
package uitest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// User is the name of the user.
const User = "ada"

// Cluster is a client of a cluster.
type Cluster struct {
	client.WithWatch

	mu sync.Mutex
	// namespaces are those that may be listed. All may be if it is nil.
	namespaces []string
	rules      []authorizationv1.ResourceRule
	away       bool
	watches    []watch.Interface
	// reviews is the number of questions about rights.
	reviews int
}

// New returns a cluster with objects, whose user may do everything.
func New(t *testing.T, objects ...client.Object) *Cluster {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		gatingv1.AddToScheme, pipelinesv1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, sourcev1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	cluster := &Cluster{rules: []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
	cluster.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&pipelinesv1.Pipeline{}).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(object client.Object) []string {
			event, _ := object.(*corev1.Event)
			return []string{event.InvolvedObject.Kind}
		}).
		WithInterceptorFuncs(cluster.interceptors()).Build()
	return cluster
}

// IsWatchListSemanticsUnSupported tells reflectors to list first.
func (*Cluster) IsWatchListSemanticsUnSupported() bool { return true }

// AllowOnly lets the user list these namespaces only.
func (c *Cluster) AllowOnly(namespaces ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces = append([]string{}, namespaces...)
}

// Grant replaces the user's rights.
func (c *Cluster) Grant(rules ...authorizationv1.ResourceRule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = rules
}

// Reviews returns how often the user's rights were asked for.
func (c *Cluster) Reviews() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reviews
}

// Leave lets the API server go away, or come back.
func (c *Cluster) Leave(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
	if away {
		for _, watching := range c.watches {
			watching.Stop()
		}
		c.watches = nil
	}
}

var errRefused = errors.New("connection refused")

func (c *Cluster) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, kube client.WithWatch, objects client.ObjectList, options ...client.ListOption) error {
			if err := c.refuse(objects, options); err != nil {
				return err
			}
			err := kube.List(ctx, objects, options...)
			if runtime.IsNotRegisteredError(err) {
				return &meta.NoKindMatchError{}
			}
			return err
		},
		Watch: func(ctx context.Context, kube client.WithWatch, objects client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if err := c.refuse(objects, options); err != nil {
				return nil, err
			}
			watching, err := kube.Watch(ctx, objects, options...)
			if err == nil {
				c.mu.Lock()
				c.watches = append(c.watches, watching)
				c.mu.Unlock()
			}
			return watching, err
		},
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if self, ok := object.(*authenticationv1.SelfSubjectReview); ok {
				self.Status.UserInfo.Username = User
				return nil
			}
			review, ok := object.(*authorizationv1.SelfSubjectRulesReview)
			if !ok {
				return kube.Create(ctx, object, options...)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reviews++
			if c.away {
				return errRefused
			}
			review.Status.ResourceRules = c.rules
			return nil
		},
	}
}

// refuse returns the error of a request to list or watch.
func (c *Cluster) refuse(objects client.ObjectList, options []client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := objects.(*corev1.SecretList); ok {
		panic("a Secret is read")
	}
	var given client.ListOptions
	given.ApplyOptions(options)
	switch {
	case c.away:
		return errRefused
	case c.namespaces == nil:
		return nil
	}
	for _, namespace := range c.namespaces {
		if given.Namespace == namespace {
			return nil
		}
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: fmt.Sprintf("%T", objects)}, "", errors.New("no RBAC rule"))
}
