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
			want: credentials{username: "bot", password: "p", token: "t"},
		},
		{
			name: "a token alone is the password of Git too",
			data: map[string][]byte{"token": []byte("t")},
			want: credentials{username: "git", password: "t", token: "t"},
		},
		{
			name: "a password alone is the token of the API too",
			data: map[string][]byte{"username": []byte("bot"), "password": []byte("p")},
			want: credentials{username: "bot", password: "p", token: "p"},
		},
		{
			name: "a CA is found under Flux's newer name",
			data: map[string][]byte{"token": []byte("t"), "ca.crt": []byte("ca")},
			want: credentials{username: "git", password: "t", token: "t", caBundle: []byte("ca")},
		},
		{
			name: "a CA is found under Flux's older name",
			data: map[string][]byte{"token": []byte("t"), "caFile": []byte("ca")},
			want: credentials{username: "git", password: "t", token: "t", caBundle: []byte("ca")},
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
