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

// Package kubeconfig resolves the object that represents a cluster to the configuration of a client, from a Secret with
// a kubeconfig or a ConfigMap with an identity.
//
// The content of these objects is untrusted. A kubeconfig that refers to local files or programs is rejected, and
// errors never quote any of it.
package kubeconfig

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// keys are the keys of a Secret that may contain a kubeconfig, in order of precedence.
var keys = []string{"value", "value.yaml", "kubeconfig"}

// Fingerprint identifies the content of a kubeconfig or identity.
type Fingerprint [sha256.Size]byte

// userAgent is the user agent of requests with a Kubeconfig.
const userAgent = "sluice-pipeline-controller"

// Kubeconfig is the connection to a cluster, from a Secret or a ConfigMap.
type Kubeconfig struct {
	// Fingerprint is equal for Kubeconfigs with the same content.
	Fingerprint Fingerprint
	// Config is for clients of the cluster's API server.
	Config *rest.Config
	// Server is the scheme and host of the API server, for messages.
	Server string
	// Expires is the expiry of the client certificate. It is zero if there is none.
	Expires time.Time
}

// Parse parses the kubeconfig in a Secret. Errors do not quote it.
//
// It copies the supported fields one by one. clientcmd would follow everything that a kubeconfig on a person's disk can
// contain, such as paths of files and programs, and use the environment of the process for missing fields.
func Parse(data map[string][]byte) (*Kubeconfig, error) {
	content, err := contentOf(data)
	if err != nil {
		return nil, err
	}
	parsed, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("the content is not a kubeconfig")
	}
	context := parsed.Contexts[parsed.CurrentContext]
	if context == nil {
		return nil, errors.New("the kubeconfig has no current context")
	}
	cluster := parsed.Clusters[context.Cluster]
	if cluster == nil {
		return nil, errors.New("the kubeconfig does not have the cluster of its current context")
	}
	user := parsed.AuthInfos[context.AuthInfo]
	if user == nil {
		user = &clientcmdapi.AuthInfo{}
	}
	if err := errors.Join(refuseCluster(cluster), refuseUser(user)); err != nil {
		return nil, err
	}
	return newKubeconfig(content, cluster, user)
}

func contentOf(data map[string][]byte) ([]byte, error) {
	for _, key := range keys {
		if content := data[key]; len(content) > 0 {
			return content, nil
		}
	}
	return nil, errors.New("it has none of the keys 'value', 'value.yaml' and 'kubeconfig'")
}

// refuseCluster and refuseUser return an error for fields that refer to local files or programs.
func refuseCluster(cluster *clientcmdapi.Cluster) error {
	if cluster.CertificateAuthority != "" {
		return errors.New("the kubeconfig names a file in 'certificate-authority': use 'certificate-authority-data'")
	}
	return nil
}

func refuseUser(user *clientcmdapi.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return errors.New("the kubeconfig runs a program ('exec'): use a token or a certificate")
	case user.AuthProvider != nil:
		return errors.New("the kubeconfig has an 'auth-provider': use a token or a certificate")
	case user.ClientCertificate != "":
		return errors.New("the kubeconfig names a file in 'client-certificate': use 'client-certificate-data'")
	case user.ClientKey != "":
		return errors.New("the kubeconfig names a file in 'client-key': use 'client-key-data'")
	case user.TokenFile != "":
		return errors.New("the kubeconfig names a file in 'tokenFile': use 'token'")
	}
	return nil
}

func newKubeconfig(content []byte, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) (*Kubeconfig, error) {
	config := &rest.Config{
		Host:               cluster.Server,
		UserAgent:          userAgent,
		Username:           user.Username,
		Password:           user.Password,
		BearerToken:        user.Token,
		DisableCompression: cluster.DisableCompression,
		Impersonate: rest.ImpersonationConfig{
			UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra,
		},
		TLSClientConfig: rest.TLSClientConfig{
			Insecure:   cluster.InsecureSkipTLSVerify,
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}
	server, err := serverOf(cluster.Server)
	if err != nil {
		return nil, err
	}
	if config.Proxy, err = proxyOf(cluster.ProxyURL); err != nil {
		return nil, err
	}
	expires, err := checkCertificates(config)
	if err != nil {
		return nil, err
	}
	return &Kubeconfig{Fingerprint: sha256.Sum256(content), Config: config, Server: server, Expires: expires}, nil
}

func serverOf(address string) (string, error) {
	server, err := url.Parse(address)
	if err != nil || server.Host == "" || server.User != nil || server.Scheme != "https" && server.Scheme != "http" {
		return "", errors.New("the kubeconfig's 'server' is not an http or https URL")
	}
	return server.Scheme + "://" + server.Host, nil
}

// proxyOf returns the proxy of the kubeconfig. Without one, the proxy of the controller's environment applies.
func proxyOf(address string) (func(*http.Request) (*url.URL, error), error) {
	if address == "" {
		return nil, nil
	}
	proxy, err := url.Parse(address)
	if err != nil || proxy.Host == "" || proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, errors.New("the kubeconfig's 'proxy-url' is not an http or https URL")
	}
	return http.ProxyURL(proxy), nil
}

// isCABundle reports whether ca contains valid certificates. If it is empty, the system's certificate authorities are
// trusted.
func isCABundle(ca []byte) bool {
	return len(ca) == 0 || x509.NewCertPool().AppendCertsFromPEM(ca)
}

// checkCertificates returns an error for certificates that cannot be used, and the expiry of the client certificate if
// there is one.
func checkCertificates(config *rest.Config) (time.Time, error) {
	if !isCABundle(config.CAData) {
		return time.Time{}, errors.New("the kubeconfig's 'certificate-authority-data' holds no certificate")
	}
	if config.Insecure && len(config.CAData) > 0 {
		return time.Time{}, errors.New("the kubeconfig has both 'insecure-skip-tls-verify' and 'certificate-authority-data'")
	}
	if len(config.CertData) == 0 && len(config.KeyData) == 0 {
		return time.Time{}, nil
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return time.Time{}, errors.New("the kubeconfig's 'client-certificate-data' and 'client-key-data' are not a certificate and its key")
	}
	return pair.Leaf.NotAfter, nil
}
