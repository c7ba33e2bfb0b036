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
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

const word = "told-to-nobody"

// content makes a kubeconfig with fields of its cluster and its user.
func content(cluster, user string) []byte {
	return fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: leaf
contexts:
- {name: leaf, context: {cluster: leaf, user: leaf}}
- {name: other, context: {cluster: other, user: other}}
clusters:
- {name: leaf, cluster: {%s}}
- {name: other, cluster: {server: 'https://other', certificate-authority: /not/used}}
users:
- {name: leaf, user: {%s}}
- {name: other, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: not-used, interactiveMode: Never}}}
`, cluster, user)
}

func TestParse(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("leaf", []net.IP{}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	chain, err := cert.ParseCertsPEM(certificate)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	base := base64.StdEncoding.EncodeToString

	parsed, err := Parse(map[string][]byte{"value": content(
		"server: 'https://leaf:6443/k8s/clusters/a', certificate-authority-data: "+base(certificate)+", tls-server-name: api, proxy-url: 'http://proxy:3128', disable-compression: true",
		"token: "+word+", client-certificate-data: "+base(certificate)+", client-key-data: "+base(key)+", as: someone, as-groups: [some]")})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	proxy, err := parsed.Config.Proxy(&http.Request{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(proxy.String()).To(Equal("http://proxy:3128"))
	parsed.Config.Proxy = nil
	g.Expect(parsed.Config).To(Equal(&rest.Config{
		Host: "https://leaf:6443/k8s/clusters/a", UserAgent: userAgent, BearerToken: word, DisableCompression: true,
		Impersonate:     rest.ImpersonationConfig{UserName: "someone", Groups: []string{"some"}},
		TLSClientConfig: rest.TLSClientConfig{ServerName: "api", CAData: certificate, CertData: certificate, KeyData: key},
	}))
	g.Expect(parsed.Server).To(Equal("https://leaf:6443"))
	g.Expect(parsed.Expires).To(BeTemporally("~", chain[0].NotAfter, time.Second))
}

func TestAKubeconfigIsRefused(t *testing.T) {
	ca, key, err := cert.GenerateSelfSignedCertKey("leaf", []net.IP{}, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	base := base64.StdEncoding.EncodeToString
	const server = "server: 'https://leaf'"
	for _, test := range []struct {
		name          string
		cluster, user string
		// whole is the content where it isn't made of those.
		whole   string
		message string
	}{
		{name: "that is no YAML", whole: "{" + word, message: "not a kubeconfig"},
		{name: "that is of another kind", whole: "{kind: " + word + "}", message: "not a kubeconfig"},
		{name: "that has no current context", whole: "{apiVersion: v1, kind: Config}", message: "no current context"},
		{
			name:    "whose current context names no cluster",
			whole:   "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: " + word + "}}]}",
			message: "does not have the cluster",
		},
		{name: "that runs a program", cluster: server, user: "exec: {apiVersion: client.authentication.k8s.io/v1, command: " + word + ", interactiveMode: Never}", message: "'exec'"},
		{name: "with an auth provider", cluster: server, user: "auth-provider: {name: " + word + "}", message: "'auth-provider'"},
		{name: "that names a file with a token", cluster: server, user: "tokenFile: /" + word, message: "'tokenFile'"},
		{name: "that names a file with a certificate", cluster: server, user: "client-certificate: /" + word, message: "'client-certificate'"},
		{name: "that names a file with a key", cluster: server, user: "client-key: /" + word, message: "'client-key'"},
		{name: "that names a file with a CA", cluster: server + ", certificate-authority: /" + word, message: "'certificate-authority'"},
		{name: "without a server", cluster: "", message: "'server' is not an http or https URL"},
		{name: "whose server is a socket of this machine", cluster: "server: 'unix:///" + word + "'", message: "'server' is not an http or https URL"},
		{name: "whose server has a password in it", cluster: "server: 'https://a:" + word + "@leaf'", message: "'server' is not an http or https URL"},
		{name: "whose proxy is a file", cluster: server + ", proxy-url: 'file:///" + word + "'", message: "'proxy-url' is not an http or https URL"},
		{name: "whose CA is none", cluster: server + ", certificate-authority-data: " + base([]byte(word)), message: "holds no certificate"},
		{
			name:    "that checks the server and doesn't",
			cluster: server + ", insecure-skip-tls-verify: true, certificate-authority-data: " + base(ca), message: "both",
		},
		{name: "with half a key pair", cluster: server, user: "client-certificate-data: " + base(ca), message: "are not a certificate and its key"},
		{
			name: "whose key is not the certificate's", cluster: server,
			user: "client-certificate-data: " + base(ca) + ", client-key-data: " + base([]byte(strings.Replace(string(key), "A", "B", 1))), message: "are not a certificate and its key",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			if test.whole == "" {
				test.whole = string(content(test.cluster, test.user))
			}
			_, err := Parse(map[string][]byte{"value": []byte(test.whole)})
			g.Expect(err).To(MatchError(And(ContainSubstring(test.message), Not(ContainSubstring(word)))))
		})
	}
}

func TestTheKeysOfAKubeconfigAreTriedInOrder(t *testing.T) {
	g := NewWithT(t)
	data := map[string][]byte{}
	for _, key := range []string{"kubeconfig", "value.yaml", "value"} {
		data[key] = content("server: 'https://"+strings.ReplaceAll(key, ".", "-")+"'", "")
		parsed, err := Parse(data)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parsed.Server).To(Equal("https://" + strings.ReplaceAll(key, ".", "-")))
	}
}

func TestTheEndOfAUsersCertificateIsKnownAlsoWhenItIsPast(t *testing.T) {
	g := NewWithT(t)
	expired, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "leaf", MaxAge: time.Minute})
	g.Expect(err).NotTo(HaveOccurred())
	base := base64.StdEncoding.EncodeToString
	parsed, err := Parse(map[string][]byte{"value": content("server: 'https://leaf'",
		"client-certificate-data: "+base(expired)+", client-key-data: "+base(key))})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parsed.Expires).To(BeTemporally("<", time.Now()))
}
