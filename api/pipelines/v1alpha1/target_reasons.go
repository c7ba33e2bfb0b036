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

package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/acl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllowFromLabel on a namespace names another namespace, whose Pipelines may have targets in it although the controller follows no
// references across namespaces.
const AllowFromLabel = "pipelines.weave.works/allow-from"

// Reasons why a target can't be read.
const (
	// ConnectingReason says that the cluster, or the kind in it, has yet to be looked at for the first time. It passes by itself.
	ConnectingReason = "Connecting"
	// UnreachableReason says that the cluster's API server doesn't answer, or not as one.
	UnreachableReason = "Unreachable"
	// UnauthorizedReason says that the API server doesn't accept the kubeconfig's credentials.
	UnauthorizedReason = "Unauthorized"
	// ForbiddenReason says that the credentials don't allow what is needed.
	ForbiddenReason = "Forbidden"
	// CertificateExpiredReason says that the certificate of the API server, or the kubeconfig's, is of the past.
	CertificateExpiredReason = "CertificateExpired"
	// CertificateInvalidReason says that the certificate of the API server isn't one that the kubeconfig trusts.
	CertificateInvalidReason = "CertificateInvalid"
	// KindNotInstalledReason says that the cluster has no such kind.
	KindNotInstalledReason = "KindNotInstalled"
	// ObjectNotFoundReason says that the application object does not exist.
	ObjectNotFoundReason = "ObjectNotFound"
	// RevisionExpressionFailedReason says that spec.revision.expr makes no revision of the application object.
	RevisionExpressionFailedReason = "RevisionExpressionFailed"
	// InvalidTargetReason says that what the Pipeline names can't be an application object, or a cluster.
	InvalidTargetReason = "InvalidTarget"
	// AccessDeniedReason says that the Pipeline may not refer to that namespace.
	AccessDeniedReason = acl.AccessDeniedReason
	// ClusterNotFoundReason says that the object that stands for the cluster does not exist.
	ClusterNotFoundReason = "ClusterNotFound"
	// ClusterNotReadyReason says that the object that stands for the cluster is not ready.
	ClusterNotReadyReason = "ClusterNotReady"
	// SecretNotFoundReason says that the Secret with the kubeconfig does not exist, or can't be read.
	SecretNotFoundReason = "SecretNotFound"
	// InvalidKubeconfigReason says that the Secret has no kubeconfig that can be used, or the ConfigMap says nothing that is as good.
	InvalidKubeconfigReason = "InvalidKubeconfig"
	// TokenUnavailableReason says that there is no token for the ServiceAccount that the ConfigMap names.
	TokenUnavailableReason = "TokenUnavailable"
)

// ClusterReachable reports whether the cluster of a target answers, and lets the controller in, as far as the target's reason tells.
func (t *TargetStatus) ClusterReachable() metav1.ConditionStatus {
	switch t.Reason {
	case "", ForbiddenReason, KindNotInstalledReason, ObjectNotFoundReason, RevisionExpressionFailedReason:
		return metav1.ConditionTrue
	case ConnectingReason, InvalidTargetReason, AccessDeniedReason:
		return metav1.ConditionUnknown
	}
	return metav1.ConditionFalse
}
