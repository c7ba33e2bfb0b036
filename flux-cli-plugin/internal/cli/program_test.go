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

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// The tests of package main run the commands as programs, like flux. The tests here run them in-process, with a fake
// API server.

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(offset time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(offset)} }

// cluster is the fake API server, with ada as the user.
type cluster struct {
	objects []client.Object
	// after is called with each created object.
	after func(ctx context.Context, kube client.Client, created client.Object)
	// read is called with each object that is read, before the program receives it.
	read func(client.Object)
	// refuse returns the error for a forbidden request.
	refuse func(verb string, obj any) error
	// dialed is called with the client that the program receives.
	dialed func(client.Client)
	// typed is the input at the terminal. If it is nil, there is no terminal.
	typed *string
	// colours is true if the output is a terminal.
	colours bool
	// unreachable is true for commands that must not contact the API server.
	unreachable bool
}

// run runs a command line, starting with the name of the program.
func (c cluster) run(t *testing.T, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	g := NewWithT(t)
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	kube := withFields(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(c.objects...).WithInterceptorFuncs(c.interceptors()).Build()

	var out, errOut bytes.Buffer
	program := newProgram(command[0], "0.0.0-test", outside{
		dial: func(*cobra.Command, *clusterFlags) (client.WithWatch, error) {
			g.Expect(c.unreachable).To(BeFalse(), "the API server is asked")
			if c.dialed != nil {
				c.dialed(kube)
			}
			return kube, nil
		},
		isTerminal: func(stream any) bool {
			if stream == io.Writer(&out) {
				return c.colours
			}
			return c.typed != nil
		},
		now: func() time.Time { return now },
	})
	program.SetArgs(command[1:])
	program.SetOut(&out)
	program.SetErr(&errOut)
	if c.typed != nil {
		program.SetIn(strings.NewReader(*c.typed))
	}
	err = program.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// withFields lets objects be selected by fields, as an API server does.
func withFields(builder *fake.ClientBuilder) *fake.ClientBuilder {
	listed := []client.Object{&gatingv1.Gate{}, &pipelinesv1.Pipeline{}}
	for _, kind := range gatingv1.HeldKinds() {
		listed = append(listed, objectOf(kind))
	}
	for _, object := range listed {
		builder.WithIndex(object, metav1.ObjectNameField, func(object client.Object) []string { return []string{object.GetName()} })
	}
	for field, value := range map[string]func(*corev1.Event) string{
		"involvedObject.kind": func(event *corev1.Event) string { return event.InvolvedObject.Kind },
		"involvedObject.name": func(event *corev1.Event) string { return event.InvolvedObject.Name },
	} {
		builder.WithIndex(&corev1.Event{}, field, func(object client.Object) []string { return []string{value(object.(*corev1.Event))} })
	}
	return builder
}

func (c cluster) interceptors() interceptor.Funcs {
	refused := func(verb string, obj any) error {
		if c.refuse == nil {
			return nil
		}
		return c.refuse(verb, obj)
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			if err := refused("get", obj); err != nil {
				return err
			}
			err := kube.Get(ctx, key, obj, options...)
			if err == nil && c.read != nil {
				c.read(obj)
			}
			return err
		},
		List: func(ctx context.Context, kube client.WithWatch, objects client.ObjectList, options ...client.ListOption) error {
			var given client.ListOptions
			given.ApplyOptions(options)
			verb := "list"
			if given.Namespace == "" {
				verb = "list all"
			}
			if err := refused(verb, objects); err != nil {
				return err
			}
			return kube.List(ctx, objects, options...)
		},
		Create: func(ctx context.Context, kube client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			if err := refused("create", obj); err != nil {
				return err
			}
			if review, ok := obj.(*authenticationv1.SelfSubjectReview); ok {
				review.Status.UserInfo.Username = "ada"
				return nil
			}
			if err := kube.Create(ctx, obj, options...); err != nil {
				return err
			}
			if c.after != nil {
				c.after(ctx, kube, obj)
			}
			return nil
		},
	}
}

// forbidden is the error of an API server for a request that RBAC denies.
func forbidden(resource, name, message string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "pipelines.weave.works", Resource: resource}, name, errors.New(message))
}

// commandTest is a command line and its expected output.
type commandTest struct {
	name    string
	command string
	objects []client.Object
	// refuse is that of the cluster.
	refuse  func(verb string, obj any) error
	wantOut string
	wantErr string
	// wantLog is the expected standard error.
	wantLog string
}

func testCommands(t *testing.T, tests []commandTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			stdout, stderr, err := cluster{objects: tt.objects, refuse: tt.refuse}.run(t, strings.Fields(tt.command)...)
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tt.wantErr))
			}
			g.Expect(stdout).To(Equal(strings.TrimPrefix(tt.wantOut, "\n")))
			g.Expect(stderr).To(Equal(tt.wantLog))
		})
	}
}
