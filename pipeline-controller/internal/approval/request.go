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
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"
)

const (
	// maxComment is the maximum of the API server, in characters.
	maxComment     = 1024
	defaultComment = "by HTTP request"
)

// Promotion is the promotion to approve.
type Promotion struct {
	Namespace, Pipeline, Environment, Revision string
}

// Request is a request for approval.
type Request struct {
	Promotion Promotion
	// Method, Target, Header and Body of the HTTP request. The signature covers them. Target is the request target as
	// it was received.
	Method, Target string
	Header         http.Header
	Body           []byte
	// Client is the address of the client, for the log.
	Client string
}

// readComment returns the comment in a body, which is empty or {"comment": "..."}. Other bodies are rejected: Flux
// events may be signed with the same key and must not count as approvals.
func readComment(body []byte) (string, error) {
	if len(body) == 0 {
		return defaultComment, nil
	}
	var content *struct {
		Comment string `json:"comment"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil || content == nil {
		return "", errors.New(`the body must be empty or {"comment": "..."}`)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("the body has text after its JSON")
	}
	if utf8.RuneCountInString(content.Comment) > maxComment {
		return "", fmt.Errorf("the comment is longer than %d characters", maxComment)
	}
	if content.Comment == "" {
		return defaultComment, nil
	}
	return content.Comment, nil
}
