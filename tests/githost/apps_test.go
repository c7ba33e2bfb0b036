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

package githost_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

// proof is a JSON web token, signed with the key as RS256 has it.
func proof(key *rsa.PrivateKey, algorithm, issuer string, issued, expires time.Time) string {
	encode := func(content any) string {
		encoded, err := json.Marshal(content)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(encoded)
	}
	signed := encode(map[string]string{"alg": algorithm}) + "." +
		encode(map[string]any{"iss": issuer, "iat": issued.Unix(), "exp": expires.Unix()})
	hash := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hash[:])
	if err != nil {
		panic(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestAppsProveThemselves(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ago, soon := now.Add(-time.Minute), now.Add(5*time.Minute)
	good := proof(key, "RS256", "12", ago, soon)
	for _, c := range []struct {
		name, authorization string
		installation        string
		status              int
		message             string
	}{
		{name: "a good proof", authorization: "Bearer " + good, installation: "34", status: http.StatusCreated},
		{name: "no proof", installation: "34", status: http.StatusUnauthorized, message: "could not be decoded"},
		{name: "no web token", authorization: "Bearer t0ken", installation: "34", status: http.StatusUnauthorized, message: "could not be decoded"},
		{name: "another installation", authorization: "Bearer " + good, installation: "35", status: http.StatusNotFound},
		{name: "another key", authorization: "Bearer " + proof(other, "RS256", "12", ago, soon), installation: "34", status: http.StatusUnauthorized, message: "could not be decoded"},
		{name: "a signature of another proof", authorization: "Bearer " + good[:strings.LastIndex(good, ".")] + "." + strings.Split(proof(key, "RS256", "12", ago, now), ".")[2],
			installation: "34", status: http.StatusUnauthorized, message: "could not be decoded"},
		{name: "another algorithm", authorization: "Bearer " + proof(key, "HS256", "12", ago, soon), installation: "34", status: http.StatusUnauthorized, message: "could not be decoded"},
		{name: "another App", authorization: "Bearer " + proof(key, "RS256", "13", ago, soon), installation: "34", status: http.StatusUnauthorized, message: "'iss'"},
		{name: "a clock that is fast", authorization: "Bearer " + proof(key, "RS256", "12", now.Add(time.Minute), soon), installation: "34", status: http.StatusUnauthorized, message: "'iat'"},
		{name: "one that has ended", authorization: "Bearer " + proof(key, "RS256", "12", ago, ago), installation: "34", status: http.StatusUnauthorized, message: "'exp'"},
		{name: "one that ends too late", authorization: "Bearer " + proof(key, "RS256", "12", ago, now.Add(11*time.Minute)), installation: "34", status: http.StatusUnauthorized, message: "too far in the future"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.host.AddApp(githost.App{ID: 12, Installation: 34, Key: &key.PublicKey, Repositories: []string{owner + "/" + repo}})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				w.host.APIURL()+"app/installations/"+c.installation+"/access_tokens", nil)
			w.Expect(err).NotTo(HaveOccurred())
			if c.authorization != "" {
				request.Header.Set("Authorization", c.authorization)
			}
			response, err := w.host.Transport().RoundTrip(request)
			w.Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			var body struct {
				Token, Message string
				ExpiresAt      time.Time `json:"expires_at"`
			}
			w.Expect(json.NewDecoder(response.Body).Decode(&body)).To(Succeed())
			w.Expect(response.StatusCode).To(Equal(c.status))
			w.Expect(body.Message).To(ContainSubstring(c.message))
			if c.status != http.StatusCreated {
				w.Expect(body.Token).To(BeEmpty())
				return
			}
			w.Expect(body.ExpiresAt).To(BeTemporally("~", now.Add(time.Hour), time.Minute))
			_, _, err = w.clientWith(body.Token).Repositories.Get(w.ctx, owner, repo)
			w.Expect(err).NotTo(HaveOccurred())
			w.host.RemoveToken(body.Token)
			_, _, err = w.clientWith(body.Token).Repositories.Get(w.ctx, owner, repo)
			status, _, _ := w.refusal(err)
			w.Expect(status).To(Equal(http.StatusUnauthorized))
		})
	}
}

func TestATokenOfAnAppEnds(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.host.AddApp(githost.App{ID: 12, Installation: 34, Key: &key.PublicKey, TokenLifetime: time.Nanosecond})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.host.APIURL()+"app/installations/34/access_tokens", nil)
	w.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+proof(key, "RS256", "12", time.Now().Add(-time.Minute), time.Now().Add(time.Minute)))
	response, err := w.host.Transport().RoundTrip(request)
	w.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var body struct{ Token string }
	w.Expect(json.NewDecoder(response.Body).Decode(&body)).To(Succeed())
	_, _, err = w.clientWith(body.Token).Repositories.Get(w.ctx, owner, repo)
	status, _, _ := w.refusal(err)
	w.Expect(status).To(Equal(http.StatusUnauthorized))
}
