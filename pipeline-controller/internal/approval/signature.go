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
)

const (
	// SignatureHeader holds 'sha256=' and the MAC in hexadecimal.
	SignatureHeader = "X-Signature"
	// TimestampHeader holds when the request was signed, in seconds since 1970.
	TimestampHeader = "X-Sluice-Timestamp"

	// scheme begins what is signed, so that nothing else that is signed with the same key counts here.
	scheme  = "sluice-approval-v1"
	maxSkew = 5 * time.Minute
)

// signature is what a request claims to be signed with, and what that is a MAC of.
type signature struct {
	message, mac []byte
}

// readSignature takes the signature from a request. An error tells the log, and no one else, what is wrong with it.
func (s *Server) readSignature(r *http.Request, body []byte) (signature, error) {
	given, err := header(r, SignatureHeader)
	if err != nil {
		return signature{}, err
	}
	digits, ok := strings.CutPrefix(given, "sha256=")
	mac, err := hex.DecodeString(digits)
	if !ok || err != nil || len(mac) != sha256.Size {
		return signature{}, fmt.Errorf("%s is not 'sha256=' and %d hexadecimal digits", SignatureHeader, hex.EncodedLen(sha256.Size))
	}
	if s.AllowLegacySignatures && len(r.Header.Values(TimestampHeader)) == 0 {
		return signature{message: body, mac: mac}, nil
	}
	timestamp, err := header(r, TimestampHeader)
	if err != nil {
		return signature{}, err
	}
	if err := s.checkTimestamp(timestamp); err != nil {
		return signature{}, err
	}
	return signature{message: message(r.Method, r.RequestURI, timestamp, body), mac: mac}, nil
}

func header(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) != 1 {
		return "", fmt.Errorf("%d headers %s instead of one", len(values), name)
	}
	return values[0], nil
}

func (s *Server) checkTimestamp(timestamp string) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return errors.New(TimestampHeader + " is not a number of seconds")
	}
	if now := s.Now(); seconds < now.Add(-maxSkew).Unix() || seconds > now.Add(maxSkew).Unix() {
		return fmt.Errorf("%s is more than %s from now", TimestampHeader, maxSkew)
	}
	return nil
}

// message is what is signed. No two requests have the same one: the parts before the body hold no line feed.
func message(method, target, timestamp string, body []byte) []byte {
	return append(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", scheme, method, target, timestamp), body...)
}

// matches compares in a time that doesn't depend on where a difference is.
func (s signature) matches(key []byte) bool {
	mac := hmac.New(sha256.New, key)
	mac.Write(s.message)
	return hmac.Equal(mac.Sum(nil), s.mac)
}
