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
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// targetKey identifies an application object: its cluster, the watch that includes it, its namespace and name.
type targetKey struct {
	cluster kubeconfig.Reference
	watch   watchKey
	object  types.NamespacedName
}

// locator resolves the targets of Pipelines to objects.
type locator struct {
	// namespace, noCrossNamespaceRefs and namespaceLabels are the same as in Options.
	namespace            string
	noCrossNamespaceRefs bool
	namespaceLabels      func(ctx context.Context, namespace string) (map[string]string, error)
}

// locate returns the object of a target, or why it cannot be read.
func (l *locator) locate(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) (targetKey, *failure) {
	app := pipeline.Spec.AppRef
	key := targetKey{
		watch:  watchKey{kind: schema.FromAPIVersionAndKind(app.APIVersion, app.Kind), namespace: t.Namespace, expr: pipeline.RevisionExpr()},
		object: types.NamespacedName{Namespace: t.Namespace, Name: app.Name},
	}
	if err := checkKind(key.watch.kind); err != nil {
		return key, failed(pipelinesv1.InvalidTargetReason, "%s", err)
	}
	if !kubeconfig.IsName(t.Namespace) || !kubeconfig.IsName(app.Name) {
		// An empty namespace would mean all namespaces.
		return key, failed(pipelinesv1.InvalidTargetReason, "the namespace or the name of the target is invalid")
	}
	return l.place(ctx, pipeline, t, key)
}

// locateSource returns the object of a target's source, or why it cannot be read.
func (l *locator) locateSource(ctx context.Context, pipeline *pipelinesv1.Pipeline, of application.SourceOf) (targetKey, *failure) {
	source := of.Source
	kind, known := source.GroupVersionKind()
	if !known {
		return targetKey{}, failed(pipelinesv1.InvalidTargetReason, "%s is not a source kind", source.Kind)
	}
	return l.place(ctx, pipeline, of.Target, targetKey{
		watch:  watchKey{kind: kind, namespace: source.Namespace},
		object: types.NamespacedName{Namespace: source.Namespace, Name: source.Name},
	})
}

// place returns the cluster of an object, and the watch that includes it.
func (l *locator) place(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target, key targetKey) (targetKey, *failure) {
	if t.ClusterRef == nil {
		if key.watch.expr == "" {
			// Expressions differ between users: the cost of watching all namespaces must not depend on the number of
			// expressions.
			key.watch.namespace = l.namespace
		}
		return key, l.checkNamespace(ctx, pipeline.Namespace, key.object.Namespace)
	}
	var err error
	if key.cluster, err = kubeconfig.ReferenceOf(t.ClusterRef, pipeline.Namespace, l.noCrossNamespaceRefs); err != nil {
		return key, failureOf("", err)
	}
	return key, nil
}

// checkNamespace returns why Pipelines of a namespace may not have targets in another namespace of the management
// cluster. The result does not depend on whether that exists.
func (l *locator) checkNamespace(ctx context.Context, of, in string) *failure {
	switch {
	case l.namespace != "" && in != l.namespace:
		return failed(pipelinesv1.AccessDeniedReason, "access denied: the controller watches namespace %s only", l.namespace)
	case in == of, !l.noCrossNamespaceRefs:
		return nil
	}
	labels, err := l.namespaceLabels(ctx, in)
	if client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).Error(err, "reading the labels of a namespace failed", "namespace", in)
	}
	if err != nil || labels[pipelinesv1.AllowFromLabel] != of {
		return failed(pipelinesv1.AccessDeniedReason,
			"access denied: cross-namespace references are disabled; to allow this one, label namespace %s with %s=%s", in, pipelinesv1.AllowFromLabel, of)
	}
	return nil
}

// checkKind returns why objects of a kind are never read, in any cluster.
func checkKind(kind schema.GroupVersionKind) error {
	switch {
	case kind.Group == "" && kind.Version == "":
		return errors.New("spec.appRef.apiVersion is empty: set the API version of kind " + kind.Kind)
	case kind.Group == "":
		// None of these kinds is an application. One of them is Secret: nobody must be able to probe Secrets through
		// the controller.
		return fmt.Errorf("kind %s in %s is not an application", kind.Kind, kind.Version)
	case len(validation.IsDNS1123Subdomain(kind.Group)) > 0, len(validation.IsDNS1035Label(kind.Version)) > 0:
		return fmt.Errorf("%s is not an API version", kind.GroupVersion())
	}
	return nil
}
