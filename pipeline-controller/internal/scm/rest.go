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

// maxMessage is the maximum length in bytes of an error body that is quoted without being parsed.
const maxMessage = 200

// rest is a JSON client for hosts without a well-maintained library.
type rest struct {
	client *http.Client
	// header is added to each request.
	header http.Header
	// message extracts the host's message from an error body.
	message func(body []byte) string
	// secrets returns the texts that must not appear in errors.
	secrets func() []string
}

// refusal is an error response.
type refusal struct {
	status  int
	message string
	// body from which the message was extracted.
	body []byte
}

func (r *refusal) Error() string { return r.message }

// call sends the body unless it is nil, and decodes the response into answer unless that is nil.
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
		return fmt.Errorf("unexpected response from %s: %w", address.Host, err)
	}
	return nil
}

func (r *rest) refused(response *http.Response) error {
	// Azure DevOps sends its sign-in page with status 203.
	if response.StatusCode == http.StatusNonAuthoritativeInfo {
		return &refusal{status: http.StatusUnauthorized, message: "the host requires an interactive sign-in"}
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the response with status %d: %w", response.StatusCode, err)
	}
	message := r.message(body)
	if message == "" {
		// A secret that is cut could no longer be redacted.
		message = hosthttp.NewError(nil, string(body), r.secrets()...).Error()
		message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	}
	return &refusal{status: response.StatusCode, message: message, body: body}
}

// refusalOf returns the error response and its status, or 0 if there was none.
func refusalOf(err error) (*refusal, int) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused, refused.status
	}
	return nil, 0
}
