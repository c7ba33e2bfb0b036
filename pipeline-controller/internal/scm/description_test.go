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
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/sluice-toolkit/sluice/tests/githost"
)

// description is the part of a host's published API description that is used.
type description struct {
	t      testing.TB
	router routers.Router
}

func describe(t testing.TB, hostType string) description {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromFile("testdata/descriptions/" + hostType + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	return description{t, router}
}

// newDescribedGitHub starts a GitHub with the description around it. Faults that are placed later don't count.
func newDescribedGitHub(t *testing.T) testGitHub {
	t.Helper()
	h, described := newTestGitHub(t), describe(t, "github")
	h.server.FailNext("", "^/api/", githost.Always, func(w http.ResponseWriter, r *http.Request, carryOut http.Handler) {
		described.around(carryOut).ServeHTTP(w, r)
	})
	return h
}

func init() {
	// Azure DevOps has a page for people in place of some errors.
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
}

// around returns a handler that calls the next one, and fails the test if a request or a response does not match the
// description.
func (d description) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		described := r.Clone(r.Context())
		r.Body, described.Body = io.NopCloser(bytes.NewReader(sent)), io.NopCloser(bytes.NewReader(sent))
		answered := httptest.NewRecorder()
		next.ServeHTTP(answered, r)
		if err := d.check(described, answered); err != nil {
			d.t.Errorf("%s %s with %s: %s", r.Method, r.URL, sent, err)
		}
		maps.Copy(w.Header(), answered.Header())
		w.WriteHeader(answered.Code)
		_, _ = w.Write(answered.Body.Bytes())
	})
}

func (d description) check(request *http.Request, answered *httptest.ResponseRecorder) error {
	route, parameters, err := d.router.FindRoute(request)
	if err != nil {
		return fmt.Errorf("it is not described: %w", err)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: parameters, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateRequest(request.Context(), input); err != nil {
		return fmt.Errorf("the request is not as it is described: %w", err)
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answered.Code, Header: answered.Header(), Options: input.Options,
	}
	output.SetBodyBytes(answered.Body.Bytes())
	if err := openapi3filter.ValidateResponse(request.Context(), output); err != nil {
		return fmt.Errorf("the fake's response is not as it is described: %w", err)
	}
	return nil
}
