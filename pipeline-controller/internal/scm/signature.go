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

// MaxWebhook is the size in bytes of the largest webhook that a host sends: GitHub says so of its own. Signed holds none of it.
const MaxWebhook = 25 << 20

// claim is how a webhook claims to come from who has the key. The body is written to it, and then it is proved or not.
type claim struct {
	io.Writer
	proved func() bool
}

// Signed reports whether a webhook comes from a Git host that was given the key. It reads the body to its end, whatever the header says, and
// as it comes: a stranger can't have it held in memory.
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

// macClaim is that the header of this name holds, after a prefix, the body's MAC in hexadecimal.
func macClaim(header http.Header, name, prefix string, key []byte) []claim {
	digits, found := strings.CutPrefix(header.Get(name), prefix)
	sum, err := hex.DecodeString(digits)
	if !found || err != nil {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	return []claim{{mac, func() bool { return hmac.Equal(mac.Sum(nil), sum) }}}
}

// keyClaim is that what was sent is the key.
func keyClaim(sent string, key []byte) []claim {
	// By the sums, so that the time it takes to compare tells nothing about the lengths.
	given, own := sha256.Sum256([]byte(sent)), sha256.Sum256(key)
	return []claim{{io.Discard, func() bool { return hmac.Equal(given[:], own[:]) }}}
}

// standardClaims are those of Standard Webhooks, whose keys begin with whsec_. A signature covers the delivery and its time, which is not looked
// at: what is repeated does no more than it did. https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
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
