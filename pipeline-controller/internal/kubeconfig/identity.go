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
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/generic"
	authutils "github.com/fluxcd/pkg/auth/utils"
	"github.com/go-logr/logr"
	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// The role has no permission to read ServiceAccounts and to create tokens for them, because that allows the controller
// to impersonate any ServiceAccount. The permission is in config/components/workload-identity.

const (
	// tokenTimeout is the timeout for getting a token, which may need a request to the API server and two to a cloud.
	tokenTimeout = 10 * time.Second
	// tokenEarly is how long before its expiry a token is replaced. The shortest lifetime is that of EKS, 15 minutes.
	tokenEarly = 2 * time.Minute
)

func init() {
	// Flux has the feature gate ObjectLevelWorkloadIdentity for this. Here, the permission to create tokens enables it.
	auth.EnableObjectLevelWorkloadIdentity()
}

// identity is the identity of the controller in a cluster, as defined by a ConfigMap: a ServiceAccount in the same
// namespace, as a cloud or the cluster itself knows it. It is a source of tokens.
type identity struct {
	account  types.NamespacedName
	provider auth.RESTConfigProvider
	options  []auth.Option
	log      logr.Logger
}

// resolveIdentity resolves a ConfigMap with Flux's keys for workload identity.
func (r *Resolver) resolveIdentity(ctx context.Context, name types.NamespacedName, before Version) (*Kubeconfig, Version, error) {
	configMap := &corev1.ConfigMap{}
	if err := r.get(ctx, name, configMap, pipelinesv1.ClusterNotFoundReason); err != nil {
		return nil, Version{}, err
	}
	who, err := newIdentity(configMap, r.Client, ctrl.LoggerFrom(ctx))
	if err != nil {
		return nil, Version{}, refuse(pipelinesv1.InvalidKubeconfigReason, "ConfigMap %s: %s", name, err)
	}
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	switch err := r.Client.Get(ctx, who.account, account); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, Version{}, who.refusal(err)
	case err != nil:
		return nil, Version{}, err
	}
	now := Version{from: versionOf(configMap), account: versionOf(account)}
	if now == before {
		return nil, now, nil
	}
	config, err := who.kubeconfig(ctx)
	if err != nil {
		return nil, Version{}, err
	}
	// Tokens change. The fingerprint depends on the identity, so another identity is another connection.
	content, err := json.Marshal([]any{configMap.Data, who.account, account.UID, account.ResourceVersion})
	if err != nil {
		return nil, Version{}, err
	}
	config.Fingerprint = sha256.Sum256(content)
	return config, now, nil
}

// newIdentity reads a ConfigMap with the keys that Flux defines, see meta.KubeConfigReference. The ServiceAccount is
// required: authors of ConfigMaps must not use the controller's own identity.
func newIdentity(configMap *corev1.ConfigMap, client client.Client, log logr.Logger) (*identity, error) {
	data := configMap.Data
	provider, err := authutils.ProviderByName[auth.RESTConfigProvider](data[meta.KubeConfigKeyProvider])
	if err != nil {
		return nil, errors.New("its 'provider' is not one of 'generic', 'aws', 'azure' and 'gcp'")
	}
	account := data[meta.KubeConfigKeyServiceAccountName]
	if !IsName(account) {
		return nil, errors.New("it has no 'serviceAccountName'")
	}
	if !isCABundle([]byte(data[meta.KubeConfigKeyCACert])) {
		return nil, errors.New("its 'ca.crt' holds no certificate")
	}
	address := data[meta.KubeConfigKeyAddress]
	if _, err := auth.ParseClusterAddress(address); err != nil && (address != "" || provider.GetName() == generic.ProviderName) {
		return nil, errors.New("its 'address' is not the https URL of an API server")
	}
	options := []auth.Option{
		auth.WithClient(client),
		auth.WithServiceAccountNamespace(configMap.Namespace),
		auth.WithServiceAccountName(account),
		auth.WithClusterResource(data[meta.KubeConfigKeyCluster]),
		auth.WithClusterAddress(address),
		auth.WithCAData(data[meta.KubeConfigKeyCACert]),
		auth.WithAudiences(strings.Fields(data[meta.KubeConfigKeyAudiences])...),
	}
	if _, err := provider.GetAccessTokenOptionsForCluster(options...); err != nil {
		return nil, err
	}
	return &identity{
		account:  types.NamespacedName{Namespace: configMap.Namespace, Name: account},
		provider: provider,
		options:  options,
		log:      log.WithValues("serviceAccount", account, "provider", provider.GetName()),
	}, nil
}

// kubeconfig returns a Kubeconfig whose token is replaced before it expires. It gets the first token immediately, to
// find out whether that succeeds.
func (i *identity) kubeconfig(ctx context.Context) (*Kubeconfig, error) {
	found, err := i.connect(ctx)
	if err != nil {
		return nil, err
	}
	server, err := serverOf(found.Host)
	if err != nil {
		return nil, refuse(pipelinesv1.InvalidKubeconfigReason, "provider %s gives no https URL for the cluster", i.provider.GetName())
	}
	tokens := oauth2.ReuseTokenSourceWithExpiry(tokenOf(found), i, tokenEarly)
	return &Kubeconfig{Server: server, Config: &rest.Config{
		Host:            found.Host,
		UserAgent:       userAgent,
		TLSClientConfig: rest.TLSClientConfig{CAData: found.CAData},
		WrapTransport: func(base http.RoundTripper) http.RoundTripper {
			return &oauth2.Transport{Source: tokens, Base: base}
		},
	}}, nil
}

// Token returns a new token. Its error is a *Refusal.
func (i *identity) Token() (*oauth2.Token, error) {
	found, err := i.connect(context.Background())
	if err != nil {
		return nil, err
	}
	return tokenOf(found), nil
}

func tokenOf(found *auth.RESTConfig) *oauth2.Token {
	return &oauth2.Token{AccessToken: found.BearerToken, Expiry: found.ExpiresAt}
}

// connect gets a new token, and the connection details.
func (i *identity) connect(ctx context.Context) (*auth.RESTConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	found, err := auth.GetRESTConfig(ctx, i.provider, i.options...)
	if err != nil {
		return nil, i.refusal(err)
	}
	return found, nil
}

// refusal explains why there is no token. The error of the cloud, which differs each time, is only logged.
func (i *identity) refusal(err error) *Refusal {
	switch {
	case apierrors.IsForbidden(err):
		return refuse(pipelinesv1.TokenUnavailableReason,
			"the controller may not create tokens for ServiceAccount %s: see config/components/workload-identity", i.account)
	case apierrors.IsNotFound(err):
		return refuse(pipelinesv1.TokenUnavailableReason, "ServiceAccount %s not found", i.account)
	}
	i.log.Error(err, "getting a token failed")
	return refuse(pipelinesv1.TokenUnavailableReason,
		"getting a token for ServiceAccount %s from provider %s failed: see the log of pipeline-controller", i.account, i.provider.GetName())
}
