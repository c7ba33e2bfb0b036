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

package receiver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const (
	key  = "t0p-secret"
	body = `{"action":"closed"}`
	// recorded is a pull_request webhook of @octokit/webhooks-examples 7.6.1 (MIT), without most of its fields.
	recorded = `{"action":"closed","number":2,"pull_request":{"url":"https://api.github.com/repos/Codertocat/Hello-World/pulls/2","id":279147437,"state":"closed","title":"Update the README with new information.","merged_at":null,"merged":false},"repository":{"id":186853002,"full_name":"Codertocat/Hello-World"}}`
)

func macOf(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// pipeline reaches its repository with the Secret, and has a pull request that waits unless it is said to have none.
func pipeline(namespace, name, secret string, state pipelinesv1.PromotionState) *pipelinesv1.Pipeline {
	p := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.Environments = []pipelinesv1.Environment{{Name: "dev"}, {Name: "prod"}}
	p.Spec.Promotion = &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{}}}
	p.Spec.Promotion.Strategy.PullRequest.SecretRef.Name = secret
	if state != "" {
		p.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": {Promotion: &pipelinesv1.PromotionRecord{
			State: state, PullRequest: &pipelinesv1.PullRequestStatus{Number: 7},
		}}}
	}
	return p
}

func newReceiver(t *testing.T, intercept interceptor.Funcs) (*Receiver, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, pipelinesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(intercept).WithObjects(
		secret("git", map[string][]byte{secretKey: []byte(key), "token": []byte("t")}),
		secret("from-a-file", map[string][]byte{secretKey: []byte(key + "\n")}),
		secret("keyless", map[string][]byte{"token": []byte("t")}),
		secret("empty", map[string][]byte{secretKey: {}}),
		pipeline("shop", "waits", "git", pipelinesv1.PromotionCreated),
		pipeline("shop", "may-be-reopened", "git", pipelinesv1.PromotionAbandoned),
		pipeline("shop", "done", "git", pipelinesv1.PromotionSucceeded),
		pipeline("shop", "idle", "git", ""),
		pipeline("shop", "other-secret", "other", pipelinesv1.PromotionCreated),
		pipeline("elsewhere", "waits", "git", pipelinesv1.PromotionCreated),
	).Build()
	receiver := New(cluster, cluster, cluster, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- receiver.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-stopped).To(Succeed())
	})
	return receiver, cluster
}

func TestReceive(t *testing.T) {
	for _, test := range []struct {
		name   string
		secret string
		header http.Header
		// body is that of the tests if there is none.
		body   string
		signed bool
	}{
		{name: "GitHub's signature", secret: "git", header: http.Header{"X-Hub-Signature-256": {"sha256=" + macOf(key, body)}}, signed: true},
		{name: "GitHub's signature of a recorded webhook", secret: "git", header: http.Header{"X-Hub-Signature-256": {"sha256=" + macOf(key, recorded)}}, body: recorded, signed: true},
		{name: "Gitea's signature", secret: "git", header: http.Header{"X-Gitea-Signature": {macOf(key, body)}}, signed: true},
		{name: "GitLab's token", secret: "git", header: http.Header{"X-Gitlab-Token": {key}}, signed: true},
		// ":" + key
		{name: "Azure DevOps' password", secret: "git", header: http.Header{"Authorization": {"Basic OnQwcC1zZWNyZXQ="}}, signed: true},

		{name: "a key that ends in a line feed", secret: "from-a-file", header: http.Header{"X-Gitea-Signature": {macOf(key, body)}}, signed: true},

		{name: "no signature", secret: "git", header: http.Header{}},
		{name: "another key", secret: "git", header: http.Header{"X-Hub-Signature-256": {"sha256=" + macOf("guessed", body)}}},
		{name: "a signature of another body", secret: "git", header: http.Header{"X-Hub-Signature-256": {"sha256=" + macOf(key, body+" ")}}},
		{name: "a signature that is cut off", secret: "git", header: http.Header{"X-Gitea-Signature": {macOf(key, body)[:20]}}},
		{name: "no hexadecimal digits", secret: "git", header: http.Header{"X-Gitea-Signature": {"?"}}},
		{name: "the key as a user name", secret: "git", header: http.Header{"Authorization": {"Basic dDBwLXNlY3JldDo="}}}, // key + ":"
		{name: "another token", secret: "git", header: http.Header{"X-Gitlab-Token": {"guessed"}}},
		{name: "an empty token", secret: "git", header: http.Header{"X-Gitlab-Token": {""}}},
		{name: "a Secret without the key, and a signature with none", secret: "keyless", header: http.Header{"X-Hub-Signature-256": {"sha256=" + macOf("", body)}}},
		{name: "a Secret whose key is empty, and an empty token", secret: "empty", header: http.Header{"X-Gitlab-Token": {""}}},
		{name: "a Secret whose key is empty, and an empty password", secret: "empty", header: http.Header{"Authorization": {"Basic Og=="}}},
		{name: "a Secret that doesn't exist", secret: "nothing", header: http.Header{"X-Gitlab-Token": {key}}},
		{name: "a Secret's name that is no name", secret: "..", header: http.Header{"X-Gitlab-Token": {key}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			receiver, cluster := newReceiver(t, interceptor.Funcs{})
			signed, err := receiver.Receive(t.Context(), test.header, strings.NewReader(cmp.Or(test.body, body)), types.NamespacedName{Namespace: "shop", Name: test.secret})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(signed).To(Equal(test.signed))
			if !signed {
				g.Expect(receiver.queue.Len()).To(BeZero())
				return
			}
			if test.secret == "git" {
				g.Eventually(poked).WithArguments(t.Context(), cluster).Should(ConsistOf("shop/waits", "shop/may-be-reopened"))
			}
		})
	}
}

// poked returns the Pipelines that were triggered.
func poked(ctx context.Context, cluster client.Client) ([]string, error) {
	var pipelines pipelinesv1.PipelineList
	if err := cluster.List(ctx, &pipelines); err != nil {
		return nil, err
	}
	var names []string
	for _, p := range pipelines.Items {
		if p.Annotations[pipelinesv1.WebhookAnnotation] != "" {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return names, nil
}

func TestAFailureOfTheAPIServerIsNotTheHostsFault(t *testing.T) {
	g := NewWithT(t)
	down := errors.New("the API server is down")
	receiver, _ := newReceiver(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	})
	_, err := receiver.Receive(t.Context(), http.Header{}, strings.NewReader(body), types.NamespacedName{Namespace: "shop", Name: "git"})
	g.Expect(err).To(MatchError(down))
}

func TestAPipelineIsPokedOnceInAWhile(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	receiver := &Receiver{Now: func() time.Time { return now }}
	for _, test := range []struct {
		name, last string
		want       time.Duration
	}{
		{"at once if it never was", "", 0},
		{"at once if that is long ago", "2026-05-04T11:59:00Z", 0},
		{"after a few seconds if it was just now", "2026-05-04T11:59:59Z", 4 * time.Second},
		{"no later than that, whatever a clock says", "2027-05-04T12:00:00Z", 5 * time.Second},
		{"at once if someone has written nonsense", "soon", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &pipelinesv1.Pipeline{}
			p.Annotations = map[string]string{pipelinesv1.WebhookAnnotation: test.last}
			NewWithT(t).Expect(receiver.untilNext(p)).To(Equal(test.want))
		})
	}
}
