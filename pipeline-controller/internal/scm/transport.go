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
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

const maxRedirects = 5

// transport authenticates requests, respects their budget, and makes requests for cached responses conditional.
type transport struct {
	next       http.RoundTripper
	credential credential
	budget     *budget
	responses  *responses
	reading    *reading
}

// newHTTPClient returns a client for the API at one origin.
func newHTTPClient(api url.URL, next http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: next,
		// Hosts redirect to other paths of their own, for renamed repositories. The token must not be sent anywhere
		// else, where requests are useless without it.
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if request.URL.Scheme != api.Scheme || request.URL.Host != api.Host {
				return fmt.Errorf("the host redirects to %s://%s, which is not followed", request.URL.Scheme, request.URL.Host)
			}
			// After most redirects, clients follow with GET. For a change, that changes nothing but looks like a
			// success.
			if made := via[0].Method; request.Method != made {
				return fmt.Errorf("the host redirects a %s to %s://%s%s: if the repository was moved, correct its URL", made, request.URL.Scheme, request.URL.Host, request.URL.Path)
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.budget.take(request.Context()); err != nil {
		return nil, err
	}
	defer t.budget.release()
	authorization, err := t.credential.authorization(request.Context(), t.exchange)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", authorization)
	known := t.responses.askFor(request)
	response, err := t.exchange(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		t.credential.refused()
	}
	return t.responses.complete(request, response, known), nil
}

// exchange sends one request. The caller has the budget's turn.
func (t *transport) exchange(request *http.Request) (*http.Response, error) {
	// The client's own timeout would include the wait for the turn.
	ctx, cancel := context.WithTimeout(request.Context(), requestTimeout)
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	if err := t.budget.spend(response); err != nil {
		_ = response.Body.Close()
		cancel()
		return nil, err
	}
	response.Body = t.reading.body(response.Body, cancel)
	return response, nil
}

// authorization returns the current authorization header.
func (t *transport) authorization(ctx context.Context) (string, error) {
	if err := t.budget.take(ctx); err != nil {
		return "", err
	}
	defer t.budget.release()
	return t.credential.authorization(ctx, t.exchange)
}

func newBaseTransport(network hostnet.Network, caBundle []byte) (*hosthttp.Transport, error) {
	return hosthttp.NewTransport(network, caBundle, func(*http.Request) int64 { return maxResponse })
}
