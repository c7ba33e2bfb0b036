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

package githost

import (
	"fmt"
	"net/http"
	"strconv"
)

const docsURL = "https://docs.github.com/rest"

// apiError is an error response.
type apiError struct {
	status           int
	Message          string
	Errors           []fieldError
	DocumentationURL string
}

// fieldError names the rejected part of a request.
type fieldError struct {
	Resource string `json:"resource,omitempty"`
	Code     string `json:"code"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message,omitempty"`
}

type errorJSON struct {
	Message          string       `json:"message"`
	Errors           []fieldError `json:"errors,omitempty"`
	DocumentationURL string       `json:"documentation_url"`
	Status           string       `json:"status"`
}

func (e *apiError) Error() string {
	if len(e.Errors) == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s: %+v", e.Message, e.Errors)
}

func (e *apiError) body() errorJSON {
	docs := e.DocumentationURL
	if docs == "" {
		docs = docsURL
	}
	return errorJSON{Message: e.Message, Errors: e.Errors, DocumentationURL: docs, Status: strconv.Itoa(e.status)}
}

func errBadCredentials() *apiError {
	return &apiError{status: http.StatusUnauthorized, Message: "Bad credentials"}
}

func errForbidden() *apiError {
	return &apiError{status: http.StatusForbidden, Message: "Resource not accessible by personal access token"}
}

func errNotFound() *apiError {
	return &apiError{status: http.StatusNotFound, Message: "Not Found"}
}

func errRateLimit(login string) *apiError {
	return &apiError{
		status:           http.StatusForbidden,
		Message:          fmt.Sprintf("API rate limit exceeded for user %s.", login),
		DocumentationURL: docsURL + "/using-the-rest-api/rate-limits-for-the-rest-api",
	}
}

func errValidation(errors ...fieldError) *apiError {
	return &apiError{status: http.StatusUnprocessableEntity, Message: "Validation Failed", Errors: errors}
}

func errUnprocessable(format string, args ...any) *apiError {
	return &apiError{status: http.StatusUnprocessableEntity, Message: fmt.Sprintf(format, args...)}
}

func errNotSupplied(field string) *apiError {
	return errUnprocessable("Invalid request.\n\n%q wasn't supplied.", field)
}
