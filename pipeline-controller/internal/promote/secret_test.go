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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
)

func TestReadCredentials(t *testing.T) {
	for _, test := range []struct {
		name    string
		data    map[string][]byte
		want    credentials
		wantErr string
	}{
		{
			name: "what existing users have is taken as it is",
			data: map[string][]byte{"username": []byte("bot"), "password": []byte("p"), "token": []byte("t"), "hmac-key": []byte("h")},
			want: credentials{git: git.Credentials{Username: "bot", Password: "p"}, token: "t"},
		},
		{
			name: "a token alone is the password of Git too",
			data: map[string][]byte{"token": []byte("t")},
			want: credentials{git: git.Credentials{Username: "git", Password: "t"}, token: "t"},
		},
		{
			name: "a password alone is the token of the API too",
			data: map[string][]byte{"username": []byte("bot"), "password": []byte("p")},
			want: credentials{git: git.Credentials{Username: "bot", Password: "p"}, token: "p"},
		},
		{
			name: "a CA is found under Flux's newer name",
			data: map[string][]byte{"token": []byte("t"), "ca.crt": []byte("ca")},
			want: credentials{git: git.Credentials{Username: "git", Password: "t"}, token: "t", caBundle: []byte("ca")},
		},
		{
			name: "a CA is found under Flux's older name",
			data: map[string][]byte{"token": []byte("t"), "caFile": []byte("ca")},
			want: credentials{git: git.Credentials{Username: "git", Password: "t"}, token: "t", caBundle: []byte("ca")},
		},
		{
			name: "a bearer token is one for Git and the API",
			data: map[string][]byte{"bearerToken": []byte("b\n")},
			want: credentials{git: git.Credentials{Username: "git", BearerToken: "b"}, token: "b"},
		},
		{
			name: "with an SSH key the password is its passphrase, not the API's token",
			data: map[string][]byte{"identity": []byte("k"), "known_hosts": []byte("h"), "password": []byte("p"), "token": []byte("t")},
			want: credentials{git: git.Credentials{Username: "git", Password: "t", SSH: git.SSHKey{Identity: []byte("k"), Passphrase: []byte("p"), KnownHosts: []byte("h")}}, token: "t"},
		},
		{
			name:    "an SSH key alone doesn't reach the API",
			data:    map[string][]byte{"identity": []byte("k"), "known_hosts": []byte("h"), "password": []byte("p")},
			wantErr: "Secret default/s has an 'identity' for Git, and no 'token' for the API of the Git host",
		},
		{
			name: "the keys of a GitHub App take the place of a token",
			data: map[string][]byte{"githubAppID": []byte("7"), "githubAppInstallationID": []byte("8"), "githubAppPrivateKey": []byte("k")},
			want: credentials{app: &scm.GitHubApp{ID: 7, InstallationID: 8, PrivateKey: "k"}},
		},
		{
			name: "beside an SSH key, too",
			data: map[string][]byte{"githubAppID": []byte("7"), "githubAppInstallationID": []byte("8"), "githubAppPrivateKey": []byte("k"), "identity": []byte("i")},
			want: credentials{app: &scm.GitHubApp{ID: 7, InstallationID: 8, PrivateKey: "k"}, git: git.Credentials{SSH: git.SSHKey{Identity: []byte("i")}}},
		},
		{
			name:    "a GitHub App without its installation",
			data:    map[string][]byte{"githubAppID": []byte("7"), "githubAppPrivateKey": []byte("k")},
			wantErr: "Secret default/s: 'githubAppInstallationID' is missing or not a number",
		},
		{
			name:    "a Secret without either is an error that says what to add",
			data:    map[string][]byte{"username": []byte("bot")},
			wantErr: "Secret default/s has neither 'token' nor 'password'",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: test.data}
			got, err := readCredentials(t.Context(), fake.NewClientBuilder().WithObjects(secret).Build(), types.NamespacedName{Namespace: "default", Name: "s"})
			if test.wantErr != "" {
				g.Expect(err).To(MatchError(test.wantErr))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
}
