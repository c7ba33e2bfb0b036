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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
)

// maxMessage is the length, in bytes, of a refusal that is quoted without being understood.
const maxMessage = 200

// rest is a client of JSON for hosts that have no well-kept library.
type rest struct {
	client *http.Client
	// header goes with each request.
	header http.Header
	// message finds what a host says to people in the body of a refusal.
	message func(body []byte) string
	// secrets are what must stay out of errors.
	secrets func() []string
}

// refusal is a response that is no success.
type refusal struct {
	status  int
	message string
	// body is what the message was taken from.
	body []byte
}

func (r *refusal) Error() string { return r.message }

// call sends the body, if it is not nil, and decodes the answer into answer, if that is not nil.
func (r *rest) call(ctx context.Context, method string, address *url.URL, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), content)
	if err != nil {
		return err
	}
	request.Header = r.header.Clone()
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := r.refused(response); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("the answer of %s is not what was expected: %w", address.Host, err)
	}
	return nil
}

func (r *rest) refused(response *http.Response) error {
	// Azure DevOps sends its page for signing in with status 203.
	if response.StatusCode == http.StatusNonAuthoritativeInfo {
		return &refusal{status: http.StatusUnauthorized, message: "the host asks for an interactive sign-in"}
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading what was answered with status %d: %w", response.StatusCode, err)
	}
	message := r.message(body)
	if message == "" {
		// What is cut off of a secret would no longer be known for one.
		message = hosthttp.NewError(nil, string(body), r.secrets()...).Error()
		message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	}
	return &refusal{status: response.StatusCode, message: message, body: body}
}

// refusalOf returns what the host refused, and its status; 0 where there was no answer.
func refusalOf(err error) (*refusal, int) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused, refused.status
	}
	return nil, 0
}
