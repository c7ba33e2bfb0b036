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

// targetKey identifies an application object: its cluster, the watch that it is seen by there, its namespace and name.
type targetKey struct {
	cluster kubeconfig.Reference
	watch   watchKey
	object  types.NamespacedName
}

// locator finds out which objects the targets of Pipelines are.
type locator struct {
	// namespace, noCrossNamespaceRefs and namespaceLabels are those of Options.
	namespace            string
	noCrossNamespaceRefs bool
	namespaceLabels      func(ctx context.Context, namespace string) (map[string]string, error)
}

// locate finds out which object a target of a Pipeline is, or why it is none that may be looked at.
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
		// A namespace that is none would be looked at as all of them.
		return key, failed(pipelinesv1.InvalidTargetReason, "the target has no valid namespace and name")
	}
	return l.place(ctx, pipeline, t, key)
}

// locateSource finds out which object the source of a target is, or why it is none that may be looked at.
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

// place finds out in which cluster an object of a target is, and by which watch it is seen there.
func (l *locator) place(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target, key targetKey) (targetKey, *failure) {
	if t.ClusterRef == nil {
		if key.watch.expr == "" {
			// An expression is somebody's own: what it costs to look at all namespaces must not depend on how many people have thought of one.
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

// checkNamespace returns why Pipelines of a namespace may have no targets in another one of the management cluster. It does not report whether
// that exists.
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

// checkKind returns why objects of a kind are never looked at, in any cluster.
func checkKind(kind schema.GroupVersionKind) error {
	switch {
	case kind.Group == "" && kind.Version == "":
		return errors.New("spec.appRef.apiVersion is empty, name the API of kind " + kind.Kind)
	case kind.Group == "":
		// No such kind is an application. Secrets are one, which nobody should be able to probe through the controller.
		return fmt.Errorf("kind %s in %s is not an application", kind.Kind, kind.Version)
	case len(validation.IsDNS1123Subdomain(kind.Group)) > 0, len(validation.IsDNS1035Label(kind.Version)) > 0:
		return fmt.Errorf("%s is not an API version", kind.GroupVersion())
	}
	return nil
}
