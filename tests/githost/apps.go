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
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// defaultTokenLifetime is the lifetime of an installation token on GitHub.
	defaultTokenLifetime = time.Hour
	// longestProof is the maximum lifetime of an App's JSON web token on GitHub.
	longestProof = 10 * time.Minute
)

// App is a GitHub App with one installation.
type App struct {
	// ID and Installation are the IDs of the App and of its installation.
	ID, Installation int64
	// Owner installed the App: an organization, unless OwnerIsUser is set.
	Owner       string
	OwnerIsUser bool
	// Key is the public key of the App.
	Key *rsa.PublicKey
	// Repositories, each as owner/name, are the repositories of the installation. The default is all.
	Repositories []string
	// TokenLifetime is the lifetime of its tokens. The default is an hour.
	TokenLifetime time.Duration
}

// AddApp adds an App, and replaces one with the same installation.
func (s *Server) AddApp(app App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps[app.Installation] = app
}

// RemoveToken revokes a token.
func (s *Server) RemoveToken(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, value)
}

func errProof(message string) *apiError {
	return &apiError{status: http.StatusUnauthorized, Message: message}
}

// findInstallation returns the installation of an owner to an authenticated App.
func (s *Server) findInstallation(isUser bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := s.provenApp(r, func(app App) bool {
			return app.Owner == r.PathValue("owner") && app.OwnerIsUser == isUser
		}, func(app App) (*reply, error) {
			return ok(map[string]any{"id": app.Installation, "app_id": app.ID, "account": user(app.Owner)})
		})
		s.write(w, r, Token{}, result, err)
	}
}

// createInstallationToken returns an installation token to an authenticated App.
func (s *Server) createInstallationToken(w http.ResponseWriter, r *http.Request) {
	result, err := s.provenApp(r, func(app App) bool {
		return strconv.FormatInt(app.Installation, 10) == r.PathValue("installation")
	}, func(app App) (*reply, error) { return s.issueToken(app) })
	s.write(w, r, Token{}, result, err)
}

// provenApp calls the handler with the App that the request is authenticated as.
func (s *Server) provenApp(r *http.Request, isMeant func(App) bool, answer func(App) (*reply, error)) (*reply, error) {
	s.mu.Lock()
	apps := slices.Collect(maps.Values(s.apps))
	s.mu.Unlock()
	proof, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		return nil, errProof("A JSON web token could not be decoded")
	}
	meant := slices.IndexFunc(apps, isMeant)
	if meant < 0 {
		return nil, errNotFound()
	}
	if err := apps[meant].verify(proof, time.Now()); err != nil {
		return nil, err
	}
	return answer(apps[meant])
}

func (s *Server) issueToken(app App) (*reply, error) {
	lifetime := app.TokenLifetime
	if lifetime == 0 {
		lifetime = defaultTokenLifetime
	}
	token := Token{
		Value: "ghs_" + rand.Text(), Login: "app-" + strconv.FormatInt(app.ID, 10) + "[bot]",
		Repositories: app.Repositories, expires: time.Now().Add(lifetime),
	}
	s.AddToken(token)
	return created(map[string]any{
		"token": token.Value, "expires_at": timestamp(token.expires), "repository_selection": "selected",
		"permissions": map[string]string{"contents": "write", "pull_requests": "write", "statuses": "write"},
	})
}

// verify returns why a JSON web token does not authenticate the App, or "".
func (a App) verify(proof string, now time.Time) error {
	parts := strings.Split(proof, ".")
	if len(parts) != 3 {
		return errProof("A JSON web token could not be decoded")
	}
	var header struct{ Alg string }
	var claims struct {
		Iss      json.RawMessage
		Iat, Exp float64
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || decodePart(parts[0], &header) != nil || decodePart(parts[1], &claims) != nil {
		return errProof("A JSON web token could not be decoded")
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	at := func(seconds float64) time.Time { return time.Unix(int64(seconds), 0) }
	switch {
	case strings.Trim(string(claims.Iss), `"`) != strconv.FormatInt(a.ID, 10):
		return errProof("'Issuer' claim ('iss') must be an Integer")
	case header.Alg != "RS256" || rsa.VerifyPKCS1v15(a.Key, crypto.SHA256, hash[:], signature) != nil:
		return errProof("A JSON web token could not be decoded")
	case at(claims.Iat).After(now):
		return errProof("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	case !at(claims.Exp).After(now):
		return errProof("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case at(claims.Exp).After(now.Add(longestProof)):
		return errProof("'Expiration time' claim ('exp') is too far in the future")
	default:
		return nil
	}
}

func decodePart(part string, into any) error {
	content, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
