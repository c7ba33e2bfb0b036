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

package controller

import (
	"context"
	"errors"
	"testing"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestMayReadAlerts(t *testing.T) {
	for _, test := range []struct {
		name    string
		absent  bool
		allowed []string
		err     error
		want    bool
		wantErr string
	}{
		{name: "the cluster has no Alerts", absent: true},
		{name: "both verbs are allowed", allowed: []string{"list", "watch"}, want: true},
		{name: "one verb is allowed", allowed: []string{"list"}},
		{name: "nobody may ask", err: apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectaccessreviews"}, "", errors.New("not granted"))},
		{name: "there is no answer", err: errors.New("timeout"), wantErr: "checking whether Alerts may be read: timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			mapper := apimeta.NewDefaultRESTMapper(nil)
			if !test.absent {
				mapper.Add(notificationv1.GroupVersion.WithKind(notificationv1.AlertKind), apimeta.RESTScopeNamespace)
			}
			kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					review := obj.(*authorizationv1.SelfSubjectAccessReview)
					g.Expect(review.Spec.ResourceAttributes.Namespace).To(Equal("apps"))
					for _, verb := range test.allowed {
						review.Status.Allowed = review.Status.Allowed || verb == review.Spec.ResourceAttributes.Verb
					}
					return test.err
				},
			}).Build()
			may, err := MayReadAlerts(t.Context(), kube, "apps")
			if test.wantErr != "" {
				g.Expect(err).To(MatchError(test.wantErr))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(may).To(Equal(test.want))
		})
	}
}
