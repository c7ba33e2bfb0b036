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

package localcluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceAddress is the address of the Service "kubernetes". Nothing listens there, but the API server's certificate is
// valid for it.
const ServiceAddress = "10.0.0.1"

// ServiceRange is the network of Service addresses. ServiceAddress is its first address.
const ServiceRange = "10.0.0.0/24"

// controller-runtime's envtest is not used: it gives no access to its processes, so they stay when their parent is
// killed, and an early exit leaves no error.

// startControlPlane starts etcd and kube-apiserver, and sets Config, Kubeconfig and client.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	return c.startAPIServer(ctx)
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	data, err := c.subdirectory("etcd")
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	c.etcd = "http://" + address
	p, err := c.newControlPlaneProcess("etcd",
		"--data-dir="+data,
		"--listen-client-urls="+c.etcd,
		"--advertise-client-urls="+c.etcd,
		"--listen-peer-urls=http://127.0.0.1:0",
		"--unsafe-no-fsync",
	)
	if err != nil {
		return err
	}
	p.ready = answersOK(http.DefaultClient, c.etcd+"/health")
	return c.startProcess(ctx, p)
}

// credentials are the files with which kube-apiserver and kube-controller-manager authenticate each other.
type credentials struct {
	servingCertificate string // with its CA
	servingKey         string
	serviceAccountKey  string
	kubeletCertificate string // what kube-apiserver shows to kubelets, if any come: its own CA
	kubeletKey         string
	tokens             string
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	files, err := c.writeCredentials("https://" + address)
	if err != nil {
		return err
	}
	p, err := c.newControlPlaneProcess("kube-apiserver",
		"--etcd-servers="+c.etcd,
		"--bind-address=127.0.0.1",
		"--secure-port="+port,
		"--tls-cert-file="+files.servingCertificate,
		"--tls-private-key-file="+files.servingKey,
		"--token-auth-file="+files.tokens,
		"--authorization-mode=RBAC",
		// Other clusters can read the issuer of tokens and its keys.
		"--service-account-issuer="+c.Config.Host,
		"--service-account-jwks-uri="+c.Config.Host+"/openid/v1/jwks",
		"--service-account-key-file="+files.serviceAccountKey,
		"--service-account-signing-key-file="+files.serviceAccountKey,
		"--service-cluster-ip-range="+ServiceRange,
		"--kubelet-client-certificate="+files.kubeletCertificate,
		"--kubelet-client-key="+files.kubeletKey,
		// It does not write loopback addresses to the Endpoints of the Service "kubernetes". No Pod uses it.
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
	)
	if err != nil {
		return err
	}
	httpClient, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	p.ready = answersOK(httpClient, c.Config.Host+"/readyz")
	if err := c.startProcess(ctx, p); err != nil {
		return err
	}
	c.client, err = client.New(c.Config, client.Options{})
	if err != nil {
		return err
	}
	c.manager = newManager(c.client)
	return nil
}

// writeCredentials writes the files of the credentials, and sets Config and Kubeconfig.
func (c *Cluster) writeCredentials(url string) (credentials, error) {
	dir, err := c.subdirectory("credentials")
	if err != nil {
		return credentials{}, err
	}
	files := credentialsIn(dir)
	certificate, servingKey, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.ParseIP(ServiceAddress)}, []string{"localhost"})
	if err != nil {
		return credentials{}, err
	}
	kubeletCertificate, kubeletKey, err := newKubeletCredentials()
	if err != nil {
		return credentials{}, err
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return credentials{}, err
	}
	token := rand.Text()
	for path, content := range map[string][]byte{
		files.servingCertificate: certificate,
		files.servingKey:         servingKey,
		files.serviceAccountKey:  serviceAccountKey,
		files.kubeletCertificate: kubeletCertificate,
		files.kubeletKey:         kubeletKey,
		files.tokens:             []byte(token + ",admin,admin,system:masters\n"),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return credentials{}, err
		}
	}

	c.Config = &rest.Config{
		Host:            url,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: certificate},
		QPS:             -1,
	}
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	return files, writeKubeconfig(c.Kubeconfig, c.Config)
}

// newKubeletCredentials returns a certificate that is its own CA, and its key.
func newKubeletCredentials() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	selfSigned, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "kube-apiserver"}, private)
	if err != nil {
		return nil, nil, err
	}
	if certificate, err = cert.EncodeCertificates(selfSigned); err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return certificate, key, err
}

// KubeletClientCA returns the path of the CA of kube-apiserver's client certificate for kubelets.
func (c *Cluster) KubeletClientCA() string {
	return credentialsIn(filepath.Join(c.Dir, "credentials")).kubeletCertificate
}

func credentialsIn(dir string) credentials {
	return credentials{
		servingCertificate: filepath.Join(dir, "apiserver.crt"),
		servingKey:         filepath.Join(dir, "apiserver.key"),
		serviceAccountKey:  filepath.Join(dir, "service-accounts.key"),
		kubeletCertificate: filepath.Join(dir, "kubelet-client.crt"),
		kubeletKey:         filepath.Join(dir, "kubelet-client.key"),
		tokens:             filepath.Join(dir, "tokens.csv"),
	}
}

// writeKubeconfig writes a kubeconfig with the address, the CA and the bearer token of a configuration.
func writeKubeconfig(path string, from *rest.Config) error {
	const name = "sluice-local"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   from.Host,
		CertificateAuthorityData: from.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: from.BearerToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

// startControllerManager starts kube-controller-manager, and waits until it has done some work, because it has no
// endpoint.
func (c *Cluster) startControllerManager(ctx context.Context) error {
	files := credentialsIn(filepath.Join(c.Dir, "credentials"))
	p, err := c.newControlPlaneProcess("kube-controller-manager",
		"--kubeconfig="+c.Kubeconfig,
		"--authentication-kubeconfig="+c.Kubeconfig,
		"--authorization-kubeconfig="+c.Kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+files.serviceAccountKey,
		"--root-ca-file="+files.servingCertificate,
	)
	if err != nil {
		return err
	}
	p.ready = c.hasDefaultServiceAccount
	return c.startProcess(ctx, p)
}

func (c *Cluster) hasDefaultServiceAccount(ctx context.Context) error {
	key := client.ObjectKey{Namespace: FluxNamespace, Name: "default"}
	return c.client.Get(ctx, key, &corev1.ServiceAccount{})
}

// newControlPlaneProcess describes a process of the program with the same name.
func (c *Cluster) newControlPlaneProcess(name string, args ...string) (*Process, error) {
	path, err := c.programs.path(name)
	if err != nil {
		return nil, err
	}
	return c.newProcess(name, path, args...)
}
