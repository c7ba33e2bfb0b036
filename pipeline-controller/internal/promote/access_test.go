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

package promote

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

func TestGitAuthenticatesAsItsHostWantsIt(t *testing.T) {
	for _, test := range []struct {
		name     string
		hostType pipelinesv1.GitProviderType
		url      string
		secret   map[string]string
		want     git.Credentials
	}{
		{"a token alone is a bearer token on Bitbucket, since those of projects and repositories are nothing else",
			pipelinesv1.BitbucketServer, "https://git.example/scm/org/fleet.git", map[string]string{"token": "t"}, git.Credentials{BearerToken: "t"}},
		{"a person's token on Bitbucket goes with their name, where the Secret has it",
			pipelinesv1.BitbucketServer, "https://git.example/scm/org/fleet.git", map[string]string{"token": "t", "username": "rita"},
			git.Credentials{Username: "rita", Password: "t"}},
		{"a token alone is a password elsewhere",
			pipelinesv1.GitHub, "https://git.example/org/fleet", map[string]string{"token": "t"}, git.Credentials{Username: "git", Password: "t"}},
		{"a bearer token is one everywhere",
			pipelinesv1.GitHub, "https://git.example/org/fleet", map[string]string{"bearerToken": "t"}, git.Credentials{Username: "git", BearerToken: "t"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{}}
			for key, value := range test.secret {
				secret.Data[key] = []byte(value)
			}
			requests := NewPullRequests(fake.NewClientBuilder().WithObjects(secret).Build(), scm.NewHosts(hostnet.Network{}), nil)
			promotion := Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{Type: test.hostType, URL: test.url}}}
			promotion.Pipeline.Namespace, promotion.Strategy.PullRequest.SecretRef.Name = "default", "s"
			to, err := requests.access(t.Context(), promotion)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(to.remote.Credentials).To(Equal(test.want))
		})
	}
}
