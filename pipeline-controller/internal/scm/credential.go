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
	"encoding/base64"
	"errors"
	"net/http"
)

// exchange sends a request without adding a credential.
type exchange func(*http.Request) (*http.Response, error)

// credential authenticates requests to a host's API. It is not safe for concurrent use.
type credential interface {
	// id identifies the credential. It is secret.
	id() string
	// authorization returns the Authorization header, and may request it from the host first.
	authorization(ctx context.Context, ask exchange) (string, error)
	// refused is called if the host rejects the authorization.
	refused()
	// secrets returns the texts that must not appear in errors.
	secrets() []string
}

// tokenCredential is a plain token.
type tokenCredential struct {
	token  Token
	header string
}

// bearer sends the token as an OAuth bearer token.
func bearer(token Token) credential {
	return tokenCredential{token: token, header: "Bearer " + string(token)}
}

// password sends the token as a password without a user name.
func password(token Token) credential {
	return tokenCredential{token: token, header: "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+string(token)))}
}

func (c tokenCredential) id() string { return c.header }

func (c tokenCredential) authorization(context.Context, exchange) (string, error) {
	return c.header, nil
}

func (c tokenCredential) refused() {}

func (c tokenCredential) secrets() []string {
	return []string{string(c.token), base64.StdEncoding.EncodeToString([]byte(":" + string(c.token)))}
}

// tokenOf returns a credential for a repository's token, in the form that the host expects.
func tokenOf(repository Repository, send func(Token) credential) (credential, error) {
	if repository.App != nil {
		return nil, errors.New("GitHub Apps work with hosts of type github only")
	}
	if repository.Token == "" {
		return nil, errors.New("there is no token for the Git host's API")
	}
	return send(repository.Token), nil
}
