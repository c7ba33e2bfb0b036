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

// AllowFromLabel on a namespace names another namespace. Pipelines of that other namespace can have targets in the
// labelled one, even if the controller runs with cross-namespace references disabled.
const AllowFromLabel = "pipelines.weave.works/allow-from"

// Reasons why a target cannot be read.
const (
	// ConnectingReason means that the first read of the cluster, or of the kind in it, is pending. It is transient.
	ConnectingReason = "Connecting"
	// UnreachableReason means that the API server of the cluster does not respond, or that the response is not from a
	// Kubernetes API server.
	UnreachableReason = "Unreachable"
	// UnauthorizedReason means that the API server rejects the credentials of the kubeconfig.
	UnauthorizedReason = "Unauthorized"
	// ForbiddenReason means that the credentials lack the required permissions.
	ForbiddenReason = "Forbidden"
	// CertificateExpiredReason means that the certificate of the API server, or that of the kubeconfig, has expired.
	CertificateExpiredReason = "CertificateExpired"
	// CertificateInvalidReason means that the kubeconfig does not trust the certificate of the API server.
	CertificateInvalidReason = "CertificateInvalid"
	// KindNotInstalledReason means that the cluster does not serve the kind.
	KindNotInstalledReason = "KindNotInstalled"
	// ObjectNotFoundReason means that the application object does not exist.
	ObjectNotFoundReason = "ObjectNotFound"
	// RevisionExpressionFailedReason means that spec.revision.expr returns no revision for the application object.
	RevisionExpressionFailedReason = "RevisionExpressionFailed"
	// InvalidTargetReason means that the target's reference cannot be to an application object, or to a cluster.
	InvalidTargetReason = "InvalidTarget"
	// AccessDeniedReason means that the Pipeline is not allowed to refer to that namespace.
	AccessDeniedReason = acl.AccessDeniedReason
	// ClusterNotFoundReason means that the object that represents the cluster does not exist.
	ClusterNotFoundReason = "ClusterNotFound"
	// ClusterNotReadyReason means that the object that represents the cluster is not ready.
	ClusterNotReadyReason = "ClusterNotReady"
	// SecretNotFoundReason means that the Secret with the kubeconfig does not exist or cannot be read.
	SecretNotFoundReason = "SecretNotFound"
	// InvalidKubeconfigReason means that the Secret has no usable kubeconfig, or that the ConfigMap is incomplete.
	InvalidKubeconfigReason = "InvalidKubeconfig"
	// TokenUnavailableReason means that no token is available for the ServiceAccount that the ConfigMap names.
	TokenUnavailableReason = "TokenUnavailable"
)

// ClusterReachable reports whether the cluster of a target responds and accepts the controller's credentials, according
// to the target's reason.
func (t *TargetStatus) ClusterReachable() metav1.ConditionStatus {
	switch t.Reason {
	case "", ForbiddenReason, KindNotInstalledReason, ObjectNotFoundReason, RevisionExpressionFailedReason:
		return metav1.ConditionTrue
	case ConnectingReason, InvalidTargetReason, AccessDeniedReason:
		return metav1.ConditionUnknown
	}
	return metav1.ConditionFalse
}
