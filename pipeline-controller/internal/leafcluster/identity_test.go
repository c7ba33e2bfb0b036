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

package leafcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

// issuer makes tokens for ServiceAccounts, as the management cluster's API server does.
type issuer struct {
	mu       sync.Mutex
	lifetime time.Duration
	refuses  error
	// issued records the ServiceAccounts and audiences of the created tokens. Their number is part of the tokens.
	issued []string
}

func (i *issuer) create(_ context.Context, _ client.Client, subResource string, obj, request client.Object, _ ...client.SubResourceCreateOption) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refuses != nil {
		return i.refuses
	}
	asked, ok := request.(*authenticationv1.TokenRequest)
	if !ok || subResource != "token" {
		return fmt.Errorf("%T is created as %s", request, subResource)
	}
	i.issued = append(i.issued, fmt.Sprintf("%s/%s for %s", obj.GetNamespace(), obj.GetName(), strings.Join(asked.Spec.Audiences, ", ")))
	var err error
	asked.Status.Token, err = i.token(len(i.issued))
	return err
}

// token returns the token of a number.
func (i *issuer) token(number int) (string, error) {
	claims := jwt.MapClaims{"exp": time.Now().Add(i.lifetime).Unix(), "number": number}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("key"))
}

// refuse has tokens refused from now on, or with nil no longer.
func (i *issuer) refuse(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refuses = err
}

func (i *issuer) tokens() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.issued
}

// numberIn returns the number of a token, or 0 for what is none.
func numberIn(token string) int {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return 0
	}
	number, _ := claims["number"].(float64)
	return int(number)
}

func configMap(leaf *leafserver.Server, change func(data map[string]string)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{Data: map[string]string{
		"provider": "generic", "address": leaf.URL(), "ca.crt": string(leaf.CA()), "serviceAccountName": "eu-reader", "audiences": "eu\nleafs\n",
	}}
	c.Namespace, c.Name = "default", "eu"
	change(c.Data)
	return c
}

func asIs(map[string]string) {}

func account() *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{}
	a.Namespace, a.Name = "default", "eu-reader"
	return a
}

// byIdentity returns a target in the cluster of the ConfigMap.
func byIdentity() pipelinesv1.Target {
	return pipelinesv1.Target{Namespace: "prod", ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{Kind: "ConfigMap", Name: "eu"}}
}

// acceptTokens makes a leaf cluster accept the issuer's tokens, with exceptions.
func acceptTokens(leaf *leafserver.Server, but ...int) {
	leaf.AcceptIf(func(token string) bool {
		number := numberIn(token)
		return number > 0 && !slices.Contains(but, number)
	})
}

func TestAServiceAccountIsWhoLooksIntoTheClusterOfAConfigMap(t *testing.T) {
	g := NewWithT(t)
	w, leaf := newWorld(t), newAppLeaf(t)
	acceptTokens(leaf)
	w.create(account(), configMap(leaf, asIs))
	p := pipeline("p", byIdentity())
	w.watch(p)
	leaf.Put(app("v2"))
	g.Eventually(w.state(p)).Should(haveRevision("v2"))
	leaf.Requests()
	g.Eventually(func() int { return len(leaf.Requests()) }).Should(BeNumerically(">", 0))
	g.Consistently(w.issuer.tokens).Should(Equal([]string{"default/eu-reader for eu, leafs"}), "a token lasts")
}

func TestTheAudienceOfATokenIsTheAddressByDefault(t *testing.T) {
	g := NewWithT(t)
	w, leaf := newWorld(t), newAppLeaf(t)
	acceptTokens(leaf)
	w.create(account(), configMap(leaf, func(data map[string]string) { delete(data, "audiences") }))
	w.watch(pipeline("p", byIdentity()))
	g.Expect(w.issuer.tokens()).To(Equal([]string{"default/eu-reader for " + leaf.URL()}))
}

func TestATokenIsReplacedBeforeItsEndAndNothingIsInterrupted(t *testing.T) {
	g := NewWithT(t)
	w, leaf := newWorld(t), newAppLeaf(t)
	acceptTokens(leaf)
	w.issuer.lifetime = 2*time.Minute + 2*time.Second
	w.create(account(), configMap(leaf, asIs))
	p := pipeline("p", byIdentity())
	w.watch(p)
	g.Eventually(func() int {
		g.Expect(w.state(p)()).To(haveRevision("v1"))
		return len(w.issuer.tokens())
	}).Should(BeNumerically(">=", 2))
	_, dialed := leaf.Connections()
	g.Expect(dialed).To(Equal(1))
	leaf.Put(app("v2"))
	g.Eventually(w.state(p)).Should(haveRevision("v2"))
}

func TestATokenThatIsRefusedWhenItIsToBeReplacedIsTheReason(t *testing.T) {
	g := NewWithT(t)
	w, leaf := newWorld(t), newAppLeaf(t)
	acceptTokens(leaf)
	w.issuer.lifetime = 2 * time.Minute // It must be replaced immediately.
	w.create(account(), configMap(leaf, asIs))
	p := pipeline("p", byIdentity())
	w.watch(p)
	w.issuer.refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, "eu-reader", nil))
	g.Eventually(w.state(p)).Should(And(beUnknown(pipelinesv1.TokenUnavailableReason), HaveField("Message", ContainSubstring("may not create tokens"))))
	w.issuer.refuse(nil)
	g.Eventually(w.state(p)).Should(haveRevision("v1"))
}

func TestAServiceAccountThatWasRecreatedHasANewToken(t *testing.T) {
	g := NewWithT(t)
	w, leaf := newWorld(t), newAppLeaf(t)
	acceptTokens(leaf)
	w.create(account(), configMap(leaf, asIs))
	p := pipeline("p", byIdentity())
	w.watch(p)
	w.delete(account())
	g.Eventually(w.state(p)).Should(And(beUnknown(pipelinesv1.TokenUnavailableReason), HaveField("Message", "ServiceAccount default/eu-reader not found")))
	acceptTokens(leaf, 1)
	w.create(account())
	g.Eventually(w.state(p)).Should(haveRevision("v1"))
}

func TestTroubleWithAConfigMap(t *testing.T) {
	set := func(key, value string) func(map[string]string) {
		return func(data map[string]string) { data[key] = value }
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, "eu-reader", nil)
	for _, test := range []struct {
		name            string
		change          func(map[string]string)
		refuses         error
		reason, message string
	}{
		{name: "that names no provider", change: set("provider", ""), reason: pipelinesv1.InvalidKubeconfigReason, message: "ConfigMap default/eu: its 'provider' is not one of"},
		{name: "that names a provider nobody knows", change: set("provider", "acme"), reason: pipelinesv1.InvalidKubeconfigReason, message: "its 'provider' is not one of"},
		{name: "that names no ServiceAccount", change: set("serviceAccountName", ""), reason: pipelinesv1.InvalidKubeconfigReason, message: "it has no 'serviceAccountName'"},
		{name: "that names the ServiceAccount of another namespace", change: set("serviceAccountName", "../kube-system/admin"), reason: pipelinesv1.InvalidKubeconfigReason, message: "it has no 'serviceAccountName'"},
		{name: "that has no address", change: set("address", ""), reason: pipelinesv1.InvalidKubeconfigReason, message: "its 'address' is not the https URL of an API server"},
		{name: "whose address is not by TLS", change: set("address", "http://127.0.0.1"), reason: pipelinesv1.InvalidKubeconfigReason, message: "its 'address' is not the https URL of an API server"},
		{name: "whose CA is none", change: set("ca.crt", "none"), reason: pipelinesv1.InvalidKubeconfigReason, message: "its 'ca.crt' holds no certificate"},
		{name: "whose CA is another one's", change: set("ca.crt", ""), reason: pipelinesv1.CertificateInvalidReason, message: "is not trusted by the kubeconfig"},
		{name: "that names a cluster which its cloud can't have", change: func(data map[string]string) {
			data["provider"], data["cluster"] = "aws", "eu"
		}, reason: pipelinesv1.InvalidKubeconfigReason, message: "ConfigMap default/eu: invalid EKS cluster ARN"},
		{name: "that names a ServiceAccount which does not exist", change: set("serviceAccountName", "other"), reason: pipelinesv1.TokenUnavailableReason, message: "ServiceAccount default/other not found"},
		{name: "whose ServiceAccount the controller may not create tokens for", change: asIs, refuses: forbidden, reason: pipelinesv1.TokenUnavailableReason, message: "may not create tokens for ServiceAccount default/eu-reader: see config/components/workload-identity"},
		{name: "whose ServiceAccount gets no token", change: asIs, refuses: errors.New(leafserver.Secret), reason: pipelinesv1.TokenUnavailableReason, message: "getting a token for ServiceAccount default/eu-reader from provider generic failed"},
	} {
		t.Run("a ConfigMap "+test.name+" is the reason, until it is fixed", func(t *testing.T) {
			g := NewWithT(t)
			w, leaf := newWorld(t), newAppLeaf(t)
			acceptTokens(leaf)
			w.create(account(), configMap(leaf, test.change))
			w.issuer.refuse(test.refuses)
			p := pipeline("p", byIdentity())
			w.Want(context.Background(), p)
			g.Eventually(w.state(p)).Should(And(beUnknown(test.reason), HaveField("Message", And(ContainSubstring(test.message), Not(ContainSubstring(leafserver.Secret))))))
			w.update(configMap(leaf, asIs))
			w.issuer.refuse(nil)
			g.Eventually(w.state(p)).Should(haveRevision("v1"))
		})
	}
	t.Run("that there is none is the reason, until there is", func(t *testing.T) {
		g := NewWithT(t)
		w, leaf := newWorld(t), newAppLeaf(t)
		acceptTokens(leaf)
		p := pipeline("p", byIdentity())
		w.Want(context.Background(), p)
		g.Eventually(w.state(p)).Should(And(beUnknown(pipelinesv1.ClusterNotFoundReason), HaveField("Message", "ConfigMap default/eu not found")))
		w.create(account(), configMap(leaf, asIs))
		g.Eventually(w.state(p)).Should(haveRevision("v1"))
		w.delete(configMap(leaf, asIs))
		g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.ClusterNotFoundReason))
	})
}
