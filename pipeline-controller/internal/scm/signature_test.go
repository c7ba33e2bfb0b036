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

package scm

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func basic(user, password string) string {
	request := http.Request{Header: http.Header{}}
	request.SetBasicAuth(user, password)
	return request.Header.Get("Authorization")
}

func TestSigned(t *testing.T) {
	const secret = "It's a Secret to Everybody"
	for _, test := range []struct {
		name, key, body string
		header          map[string]string
		signed          bool
	}{
		// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
		{name: "GitHub's own example", key: secret, body: "Hello, World!", signed: true,
			header: map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
		// https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks: Data Center signs in the same way
		{name: "Bitbucket's own example", key: secret, body: "Hello World!", signed: true,
			header: map[string]string{"X-Hub-Signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"}},
		{name: "Bitbucket's signature of another body", key: secret, body: "Hello, World!",
			header: map[string]string{"X-Hub-Signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"}},
		{name: "GitHub's older signature, by SHA-1, which is no longer safe", key: secret, body: "Hello, World!",
			header: map[string]string{"X-Hub-Signature": "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59"}},
		// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
		{name: "GitLab's signing token, by the example of Standard Webhooks", key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body: `{"test": 2432232314}`, signed: true,
			header: map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
				"Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
		{name: "one of several signatures, while a signing token is replaced", key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body: `{"test": 2432232314}`, signed: true,
			header: map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
				"Webhook-Signature": "v1,AAAA v2,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
		{name: "a signature of another time", key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body: `{"test": 2432232314}`,
			header: map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265331",
				"Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
		{name: "a signing token that is empty, which everybody has", key: "whsec_", body: "{}",
			header: map[string]string{"Webhook-Id": "1", "Webhook-Timestamp": "1", "Webhook-Signature": "v1,b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"}},
		{name: "GitLab's secret token", key: secret, body: "{}", header: map[string]string{"X-Gitlab-Token": secret}, signed: true},
		{name: "Azure DevOps' password", key: secret, body: "{}", header: map[string]string{"Authorization": basic("", secret)}, signed: true},
		{name: "Azure DevOps' password, with a user name", key: secret, body: "{}", header: map[string]string{"Authorization": basic("sluice", secret)}, signed: true},
		{name: "another password", key: secret, body: "{}", header: map[string]string{"Authorization": basic("", "guessed")}},
		{name: "the key as a user name", key: secret, body: "{}", header: map[string]string{"Authorization": basic(secret, "")}},
		{name: "the key as a bearer token", key: secret, body: "{}", header: map[string]string{"Authorization": "Bearer " + secret}},
		{name: "an empty password, and no key", body: "{}", header: map[string]string{"Authorization": basic("", "")}},
		{name: "nothing", key: secret, body: "{}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{}
			for name, value := range test.header {
				header.Set(name, value)
			}
			signed, err := Signed(header, strings.NewReader(test.body), []byte(test.key))
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(signed).To(Equal(test.signed))
		})
	}
}
