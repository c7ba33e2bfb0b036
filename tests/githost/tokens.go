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
	"net/http"
	"slices"
	"strings"
	"time"
)

// Access is the access level of a token in its repositories.
type Access int

const (
	// WriteAccess allows everything. It is the default.
	WriteAccess Access = iota
	// ReadAccess allows all reads and no changes.
	ReadAccess
	// ContentsAccess allows fetching, pushing and changing refs, but no access to pull requests and commit statuses.
	ContentsAccess
)

// Token is a personal access token. It is the password for Git, with any user name, and the bearer token for the API.
type Token struct {
	// Value is the secret.
	Value string
	// Login is the owner of the token. It must not be empty.
	Login string
	// Access is the access level. The default is WriteAccess.
	Access Access
	// Repositories, each as owner/name, are the visible repositories. The default is all.
	Repositories []string

	// expires is zero if the token does not expire.
	expires time.Time
}

// permission is a permission of fine-grained tokens.
type permission int

const (
	contents permission = iota
	pullRequests
	commitStatuses
)

// AddToken adds a token, and replaces one with the same value.
func (s *Server) AddToken(token Token) {
	token.Repositories = slices.Clone(token.Repositories)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token.Value] = token
}

func (t Token) sees(repo *repository) bool {
	return t.Login != "" && (len(t.Repositories) == 0 || slices.Contains(t.Repositories, repo.fullName()))
}

func (t Token) may(write bool, what permission) bool {
	switch t.Access {
	case ReadAccess:
		return !write
	case ContentsAccess:
		return what == contents
	default:
		return true
	}
}

// authenticate returns the token of an API request, the zero Token if it is anonymous, and false if the token is wrong.
func (s *Server) authenticate(r *http.Request) (Token, bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return Token{}, true
	}
	if _, password, isBasic := r.BasicAuth(); isBasic {
		return s.token(password)
	}
	scheme, value, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "token") {
		return Token{}, false
	}
	return s.token(value)
}

func (s *Server) token(value string) (Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, known := s.tokens[value]
	if !token.expires.IsZero() && !time.Now().Before(token.expires) {
		return Token{}, false
	}
	return token, known
}
