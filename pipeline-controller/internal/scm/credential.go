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

// exchange carries out a request as it is, without a credential.
type exchange func(*http.Request) (*http.Response, error)

// credential authenticates at a host's API. One at a time uses it.
type credential interface {
	// id tells credentials apart. It is secret.
	id() string
	// authorization returns the header of that name, and may ask the host for it first.
	authorization(ctx context.Context, ask exchange) (string, error)
	// refused says that the host does not take the authorization.
	refused()
	// secrets are what must stay out of errors.
	secrets() []string
}

// tokenCredential is a token of which nothing more is known.
type tokenCredential struct {
	token  Token
	header string
}

// bearer sends the token as OAuth has it.
func bearer(token Token) credential {
	return tokenCredential{token: token, header: "Bearer " + string(token)}
}

// password sends the token as the password of nobody.
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

// tokenOf makes a credential of a repository's token, as the host wants it sent.
func tokenOf(repository Repository, send func(Token) credential) (credential, error) {
	if repository.App != nil {
		return nil, errors.New("GitHub Apps work with hosts of type github only")
	}
	if repository.Token == "" {
		return nil, errors.New("there is no token for the Git host's API")
	}
	return send(repository.Token), nil
}
