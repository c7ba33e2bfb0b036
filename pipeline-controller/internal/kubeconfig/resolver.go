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

package kubeconfig

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

// capiSuffix is the suffix that Cluster API adds to a cluster's name for the Secret with its kubeconfig.
const capiSuffix = "-kubeconfig"

// Resolver returns the Kubeconfig of the cluster that an object represents. It reads objects one by one, without a
// cache: the controller is not allowed to list Secrets, and the kinds may not be installed.
type Resolver struct {
	// Client reads objects without a cache, and creates tokens for ServiceAccounts. Its scheme has GitopsClusters and
	// the core group.
	Client client.Client
	// Mapper returns the installed kinds.
	Mapper apimeta.RESTMapper
}

// Refusal is a definite error: there is no Kubeconfig that can be used.
type Refusal struct {
	// Reason is one of the reasons of a pipelinesv1.TargetStatus.
	Reason string
	// Message is always the same for the same cause, and contains no secrets.
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Version identifies the objects that a Kubeconfig was made from. It is made again only when they have changed. The
// zero value is none.
type Version struct {
	// from is the Secret or ConfigMap.
	from objectVersion
	// account is the ServiceAccount of a ConfigMap.
	account objectVersion
}

// objectVersion identifies an object at a point in time.
type objectVersion struct {
	types.NamespacedName
	uid             types.UID
	resourceVersion string
}

func versionOf(obj client.Object) objectVersion {
	return objectVersion{client.ObjectKeyFromObject(obj), obj.GetUID(), obj.GetResourceVersion()}
}

// Resolve returns the Kubeconfig of a cluster, with its Version. The Kubeconfig is nil if the Version has not changed.
// An error that is a *Refusal is definite, and comes with a Version if it is about the content. With any other error,
// the result is unknown.
func (r *Resolver) Resolve(ctx context.Context, ref Reference, before Version) (*Kubeconfig, Version, error) {
	if ref.Kind == configMapKind {
		return r.resolveIdentity(ctx, ref.NamespacedName, before)
	}
	secret, err := r.secretOf(ctx, ref)
	if err != nil {
		return nil, Version{}, err
	}
	if !IsName(secret.Name) {
		return nil, Version{}, refuse(pipelinesv1.SecretNotFoundReason, "%s has an invalid Secret name", ref)
	}
	// The metadata is sufficient to detect changes.
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(secretKind))
	if err := r.get(ctx, secret, metadata, pipelinesv1.SecretNotFoundReason); err != nil {
		return nil, Version{}, err
	}
	now := Version{from: versionOf(metadata)}
	if now == before {
		return nil, now, nil
	}
	content := &corev1.Secret{}
	if err := r.get(ctx, secret, content, pipelinesv1.SecretNotFoundReason); err != nil {
		return nil, Version{}, err
	}
	now.from = versionOf(content)
	config, err := Parse(content.Data)
	if err != nil {
		return nil, now, refuse(pipelinesv1.InvalidKubeconfigReason, "Secret %s: %s", secret, err)
	}
	return config, now, nil
}

// secretOf returns the name of the Secret with the kubeconfig.
func (r *Resolver) secretOf(ctx context.Context, ref Reference) (types.NamespacedName, error) {
	byConvention := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name + capiSuffix}
	switch ref.Kind {
	case secretKind:
		return ref.NamespacedName, nil
	case capiKind:
		return byConvention, r.capiCluster(ctx, ref.NamespacedName)
	}
	cluster := &gitopsv1.GitopsCluster{}
	if err := r.get(ctx, ref.NamespacedName, cluster, pipelinesv1.ClusterNotFoundReason); err != nil {
		return types.NamespacedName{}, err
	}
	if ready := apimeta.FindStatusCondition(cluster.Status.Conditions, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		return types.NamespacedName{}, refuse(pipelinesv1.ClusterNotReadyReason, "%s is not ready: %s", ref, ready.Message)
	}
	switch {
	case cluster.Spec.SecretRef != nil:
		return types.NamespacedName{Namespace: ref.Namespace, Name: cluster.Spec.SecretRef.Name}, nil
	case cluster.Spec.CAPIClusterRef != nil:
		byConvention.Name = cluster.Spec.CAPIClusterRef.Name + capiSuffix
		return byConvention, nil
	}
	return types.NamespacedName{}, refuse(pipelinesv1.SecretNotFoundReason, "%s has neither 'secretRef' nor 'capiClusterRef'", ref)
}

// capiCluster checks that the Cluster of Cluster API exists, in any served version.
func (r *Resolver) capiCluster(ctx context.Context, name types.NamespacedName) error {
	mapping, err := r.Mapper.RESTMapping(schema.GroupKind{Group: capiGroup, Kind: capiKind})
	if apimeta.IsNoMatchError(err) {
		return notInstalled(capiKind, capiGroup)
	}
	if err != nil {
		return err
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(mapping.GroupVersionKind)
	return r.get(ctx, name, metadata, pipelinesv1.ClusterNotFoundReason)
}

// get reads an object. If it does not exist, the error is a *Refusal with the given reason.
func (r *Resolver) get(ctx context.Context, name types.NamespacedName, obj client.Object, missing string) error {
	kind := kindOf(obj)
	err := r.Client.Get(ctx, name, obj)
	switch {
	case apimeta.IsNoMatchError(err):
		return notInstalled(kind.Kind, kind.Group)
	case apierrors.IsNotFound(err):
		return refuse(missing, "%s %s not found", kind.Kind, name)
	case apierrors.IsForbidden(err):
		return refuse(missing, "the controller may not read %s %s", kind.Kind, name)
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return nil
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

func notInstalled(kind, group string) *Refusal {
	return refuse(pipelinesv1.ClusterNotFoundReason, "the management cluster has no kind %s in %s", kind, group)
}
