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
	"fmt"
	"slices"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1beta3"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// MayReadAlerts reports whether the cluster has Alerts, and the controller may list and watch them, in a namespace or
// in all. Otherwise, Pipelines never have the condition AlertMissing.
func MayReadAlerts(ctx context.Context, kube client.Client, namespace string) (bool, error) {
	mapping, err := kube.RESTMapper().RESTMapping(notificationv1.GroupVersion.WithKind(notificationv1.AlertKind).GroupKind(), notificationv1.GroupVersion.Version)
	if apimeta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up the kind Alert: %w", err)
	}
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource, Namespace: namespace,
			},
		}}
		if err := kube.Create(ctx, review); err != nil && !apierrors.IsForbidden(err) {
			return false, fmt.Errorf("checking whether Alerts may be read: %w", err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// alertsFor returns the Alerts for a Pipeline that promotes by notification, and nil for every other one. The result
// must not be modified.
func (r *PipelineReconciler) alertsFor(ctx context.Context, pipeline *pipelinesv1.Pipeline) (*notificationv1.AlertList, error) {
	if !r.ReadAlerts || !notifies(pipeline) {
		return nil, nil
	}
	alerts := &notificationv1.AlertList{}
	if err := r.List(ctx, alerts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Alerts: %w", err)
	}
	return alerts, nil
}

// notifies reports whether an environment of the Pipeline is promoted by notification.
func notifies(pipeline *pipelinesv1.Pipeline) bool {
	for env := range pipeline.PromotedEnvironments() {
		if promotion := pipeline.PromotionInto(env); promotion != nil && promotion.Strategy.Notification != nil {
			return true
		}
	}
	return false
}

// pipelinesOfAlert returns the Pipelines in the namespaces whose Pipelines an Alert names.
func (r *PipelineReconciler) pipelinesOfAlert(ctx context.Context, obj client.Object) []reconcile.Request {
	alert := obj.(*notificationv1.Alert)
	var requests []reconcile.Request
	var namespaces []string
	for _, source := range alert.Spec.EventSources {
		namespace := source.Namespace
		if namespace == "" {
			namespace = alert.Namespace
		}
		if source.Kind == pipelinesv1.PipelineKind && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
			requests = append(requests, r.requests(ctx, client.InNamespace(namespace))...)
		}
	}
	return requests
}
