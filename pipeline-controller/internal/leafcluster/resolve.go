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
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=gitops.weave.works,resources=gitopsclusters,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get

// capiSuffix is what Cluster API appends to a cluster's name for that of the Secret with its kubeconfig.
const capiSuffix = "-kubeconfig"

// resolver finds the kubeconfig of the cluster that an object stands for. Objects are read one by one, past any cache: the controller may
// not list Secrets, and the kinds need not be installed.
type resolver struct {
	client client.Client
	mapper apimeta.RESTMapper
}

// resolved is what a kubeconfig was made from, so that it is made again only when that has changed.
type resolved struct {
	// from is the Secret or ConfigMap.
	from version
	// account is the ServiceAccount that a ConfigMap names.
	account version
}

// version is an object as it was at some time.
type version struct {
	types.NamespacedName
	uid             types.UID
	resourceVersion string
}

func versionOf(obj client.Object) version {
	return version{client.ObjectKeyFromObject(obj), obj.GetUID(), obj.GetResourceVersion()}
}

// resolve returns the kubeconfig of a cluster, or nil if it is the same as before; or why there is none, which is a definite answer. An
// error is none: the API server doesn't tell.
func (r *resolver) resolve(ctx context.Context, key clusterKey, before resolved) (*kubeconfig, resolved, *failure, error) {
	if key.kind == configMapKind {
		return r.resolveIdentity(ctx, key.NamespacedName, before)
	}
	secret, refused, err := r.secretOf(ctx, key)
	if refused != nil || err != nil {
		return nil, resolved{}, refused, err
	}
	if !isName(secret.Name) {
		return nil, resolved{}, failed(pipelinesv1.SecretNotFoundReason, "%s does not name its Secret by a valid name", key), nil
	}
	// The metadata is enough to know that nothing has changed.
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(secretKind))
	if refused, err := r.get(ctx, secret, metadata, pipelinesv1.SecretNotFoundReason); refused != nil || err != nil {
		return nil, resolved{}, refused, err
	}
	now := resolved{from: versionOf(metadata)}
	if now == before {
		return nil, now, nil, nil
	}
	content := &corev1.Secret{}
	if refused, err := r.get(ctx, secret, content, pipelinesv1.SecretNotFoundReason); refused != nil || err != nil {
		return nil, resolved{}, refused, err
	}
	now.from = versionOf(content)
	config, err := parseKubeconfig(content.Data)
	if err != nil {
		return nil, now, failed(pipelinesv1.InvalidKubeconfigReason, "Secret %s: %s", secret, err), nil
	}
	return config, now, nil, nil
}

// secretOf returns which Secret holds the kubeconfig.
func (r *resolver) secretOf(ctx context.Context, key clusterKey) (types.NamespacedName, *failure, error) {
	byConvention := types.NamespacedName{Namespace: key.Namespace, Name: key.Name + capiSuffix}
	switch key.kind {
	case secretKind:
		return key.NamespacedName, nil, nil
	case capiKind:
		refused, err := r.capiCluster(ctx, key.NamespacedName)
		return byConvention, refused, err
	}
	cluster := &gitopsv1.GitopsCluster{}
	if refused, err := r.get(ctx, key.NamespacedName, cluster, pipelinesv1.ClusterNotFoundReason); refused != nil || err != nil {
		return types.NamespacedName{}, refused, err
	}
	if ready := apimeta.FindStatusCondition(cluster.Status.Conditions, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		return types.NamespacedName{}, failed(pipelinesv1.ClusterNotReadyReason, "%s is not ready: %s", key, ready.Message), nil
	}
	switch {
	case cluster.Spec.SecretRef != nil:
		return types.NamespacedName{Namespace: key.Namespace, Name: cluster.Spec.SecretRef.Name}, nil, nil
	case cluster.Spec.CAPIClusterRef != nil:
		byConvention.Name = cluster.Spec.CAPIClusterRef.Name + capiSuffix
		return byConvention, nil, nil
	}
	return types.NamespacedName{}, failed(pipelinesv1.SecretNotFoundReason, "%s has neither 'secretRef' nor 'capiClusterRef'", key), nil
}

// capiCluster finds out whether there is a Cluster of Cluster API of that name, in whichever version it is served.
func (r *resolver) capiCluster(ctx context.Context, name types.NamespacedName) (*failure, error) {
	mapping, err := r.mapper.RESTMapping(schema.GroupKind{Group: capiGroup, Kind: capiKind})
	if apimeta.IsNoMatchError(err) {
		return notInstalled(capiKind, capiGroup), nil
	}
	if err != nil {
		return nil, err
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(mapping.GroupVersionKind)
	return r.get(ctx, name, metadata, pipelinesv1.ClusterNotFoundReason)
}

// get reads an object. That it does not exist is a definite answer, for which the reason is given.
func (r *resolver) get(ctx context.Context, name types.NamespacedName, obj client.Object, missing string) (*failure, error) {
	kind := kindOf(obj)
	err := r.client.Get(ctx, name, obj)
	switch {
	case apimeta.IsNoMatchError(err):
		return notInstalled(kind.Kind, kind.Group), nil
	case apierrors.IsNotFound(err):
		return failed(missing, "%s %s does not exist", kind.Kind, name), nil
	case apierrors.IsForbidden(err):
		return failed(missing, "the controller may not read %s %s", kind.Kind, name), nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return nil, nil
}

func kindOf(obj client.Object) schema.GroupVersionKind {
	switch obj.(type) {
	case *corev1.Secret:
		return corev1.SchemeGroupVersion.WithKind(secretKind)
	case *corev1.ConfigMap:
		return corev1.SchemeGroupVersion.WithKind(configMapKind)
	case *gitopsv1.GitopsCluster:
		return gitopsv1.GroupVersion.WithKind(gitopsv1.GitopsClusterKind)
	}
	return obj.GetObjectKind().GroupVersionKind()
}

func notInstalled(kind, group string) *failure {
	return failed(pipelinesv1.ClusterNotFoundReason, "the cluster of the controller has no kind %s in %s", kind, group)
}
