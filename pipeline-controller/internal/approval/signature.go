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

package approval

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// SignatureHeader contains 'sha256=' and the MAC in hexadecimal.
	SignatureHeader = "X-Signature"
	// TimestampHeader contains the time of the signature, in seconds since 1970.
	TimestampHeader = "X-Sluice-Timestamp"

	// scheme is the prefix of the signed message, so messages that are signed for other purposes with the same key are
	// not valid here.
	scheme  = "sluice-approval-v1"
	maxSkew = 5 * time.Minute
)

// signature is the claimed signature of a request, with the message that it must match.
type signature struct {
	message, mac []byte
	// signed is the time of the signature in whole seconds. It is zero for legacy signatures, which have none.
	signed time.Time
}

// readSignature returns the signature of a request. Its error is for the log only.
func (a *Approver) readSignature(request Request) (signature, error) {
	given, err := header(request.Header, SignatureHeader)
	if err != nil {
		return signature{}, err
	}
	digits, ok := strings.CutPrefix(given, "sha256=")
	mac, err := hex.DecodeString(digits)
	if !ok || err != nil || len(mac) != sha256.Size {
		return signature{}, fmt.Errorf("%s is not 'sha256=' and %d hexadecimal digits", SignatureHeader, hex.EncodedLen(sha256.Size))
	}
	if a.AllowLegacySignatures && len(request.Header.Values(TimestampHeader)) == 0 {
		return signature{message: request.Body, mac: mac}, nil
	}
	timestamp, err := header(request.Header, TimestampHeader)
	if err != nil {
		return signature{}, err
	}
	signed, err := a.readTimestamp(timestamp)
	if err != nil {
		return signature{}, err
	}
	return signature{message: message(request.Method, request.Target, timestamp, request.Body), mac: mac, signed: signed}, nil
}

func header(from http.Header, name string) (string, error) {
	values := from.Values(name)
	if len(values) != 1 {
		return "", fmt.Errorf("%d %s headers instead of one", len(values), name)
	}
	return values[0], nil
}

func (a *Approver) readTimestamp(timestamp string) (time.Time, error) {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return time.Time{}, errors.New(TimestampHeader + " is not a number of seconds")
	}
	if now := a.Now(); seconds < now.Add(-maxSkew).Unix() || seconds > now.Add(maxSkew).Unix() {
		return time.Time{}, fmt.Errorf("%s is more than %s from now", TimestampHeader, maxSkew)
	}
	return time.Unix(seconds, 0), nil
}

// precedes reports whether the request was signed before the promotion started. Such a request was made for an earlier
// promotion, and could be replayed by anyone who has seen it. Both times are in whole seconds, and a request from the
// same second counts. If the client's clock is behind, its requests are rejected for that long. If the clock is ahead,
// its requests can be replayed for that long.
func (s signature) precedes(began metav1.Time) bool {
	return !s.signed.IsZero() && s.signed.Before(began.Time)
}

// message returns the message that is signed. It is unique for each request: the parts before the body contain no line
// feed.
func message(method, target, timestamp string, body []byte) []byte {
	return append(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", scheme, method, target, timestamp), body...)
}

// matches compares the signatures in constant time.
func (s signature) matches(key []byte) bool {
	mac := hmac.New(sha256.New, key)
	mac.Write(s.message)
	return hmac.Equal(mac.Sum(nil), s.mac)
}
