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
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// MaxWebhook is the maximum size in bytes of a webhook, as documented by GitHub. Signed does not keep the body in
// memory.
const MaxWebhook = 25 << 20

// claim is the unverified proof of origin of a webhook. The body is written to it, and then it is verified.
type claim struct {
	io.Writer
	proved func() bool
}

// Signed reports whether a webhook comes from a Git host that has the key. It always reads the whole body, as a stream,
// so strangers cannot make it use memory.
func Signed(header http.Header, body io.Reader, key []byte) (bool, error) {
	var claims []claim
	var writers []io.Writer
	for _, kind := range kinds {
		if kind.claims == nil || len(key) == 0 {
			continue
		}
		for _, made := range kind.claims(header, key) {
			claims, writers = append(claims, made), append(writers, made)
		}
	}
	if _, err := io.Copy(io.MultiWriter(writers...), body); err != nil {
		return false, err
	}
	signed := false
	for _, made := range claims {
		signed = made.proved() || signed
	}
	return signed, nil
}

// macClaim verifies a header that contains, after a prefix, the hexadecimal MAC of the body.
func macClaim(header http.Header, name, prefix string, key []byte) []claim {
	digits, found := strings.CutPrefix(header.Get(name), prefix)
	sum, err := hex.DecodeString(digits)
	if !found || err != nil {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	return []claim{{mac, func() bool { return hmac.Equal(mac.Sum(nil), sum) }}}
}

// keyClaim verifies that the sent value is the key.
func keyClaim(sent string, key []byte) []claim {
	// It compares hashes, so the duration does not depend on the lengths.
	given, own := sha256.Sum256([]byte(sent)), sha256.Sum256(key)
	return []claim{{io.Discard, func() bool { return hmac.Equal(given[:], own[:]) }}}
}

// standardClaims are those of Standard Webhooks, whose keys start with whsec_. The signature covers the delivery and
// its time. The time is not checked, because a replayed webhook has no further effect.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
func standardClaims(header http.Header, key []byte) []claim {
	encoded, isStandard := strings.CutPrefix(string(key), "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !isStandard || err != nil || len(secret) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"))
	return []claim{{mac, func() bool {
		for signature := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
			digits, isV1 := strings.CutPrefix(signature, "v1,")
			if sum, err := base64.StdEncoding.DecodeString(digits); isV1 && err == nil && hmac.Equal(mac.Sum(nil), sum) {
				return true
			}
		}
		return false
	}}}
}
