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
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	appIDKey           = "githubAppID"
	appInstallationKey = "githubAppInstallationID"
	appOwnerKey        = "githubAppInstallationOwner"
	appPrivateKeyKey   = "githubAppPrivateKey"
	appBaseURLKey      = "githubAppBaseURL"

	// AppUsername is the user name that Git sends with an installation's token.
	AppUsername = "x-access-token"

	// clockSkew is how far a host's clock may be behind.
	clockSkew = 30 * time.Second
	// refreshBefore is how long before its expiry an installation's token is replaced, so operations finish with the
	// token with which they started.
	refreshBefore = 10 * time.Minute
	// rememberedTokens is the number of installation tokens that are redacted from errors. Each is valid for an hour.
	rememberedTokens = 3
)

// GitHubApp authenticates as the installation of a GitHub App, with tokens that are valid for an hour.
type GitHubApp struct {
	ID int64
	// InstallationID is 0 if Owner identifies the installation.
	InstallationID int64
	// Owner is the organization or user that installed it.
	Owner string
	// PrivateKey is the App's RSA key in PEM.
	PrivateKey Token
	// BaseURL is the address of the API. If it is empty, it is derived from the repository's URL.
	BaseURL string
}

// GitHubAppFromSecret reads the keys that Flux defines for GitHub Apps. It returns nil if there are none.
func GitHubAppFromSecret(data map[string][]byte) (*GitHubApp, error) {
	present := func(key string) bool { return len(data[key]) > 0 }
	if !slices.ContainsFunc([]string{appIDKey, appInstallationKey, appPrivateKeyKey}, present) {
		return nil, nil
	}
	text := func(key string) string { return strings.TrimSpace(string(data[key])) }
	app := &GitHubApp{PrivateKey: Token(data[appPrivateKeyKey]), BaseURL: text(appBaseURLKey), Owner: text(appOwnerKey)}
	if app.PrivateKey == "" {
		return nil, fmt.Errorf("'%s' is missing", appPrivateKeyKey)
	}
	if app.Owner != "" && present(appInstallationKey) {
		return nil, fmt.Errorf("there are both '%s' and '%s'", appInstallationKey, appOwnerKey)
	}
	for key, number := range map[string]*int64{appIDKey: &app.ID, appInstallationKey: &app.InstallationID} {
		if key == appInstallationKey && app.Owner != "" {
			continue
		}
		parsed, err := strconv.ParseInt(text(key), 10, 64)
		if err != nil || parsed <= 0 {
			return nil, fmt.Errorf("'%s' is missing or not a number", key)
		}
		*number = parsed
	}
	return app, nil
}

// appCredential contains the token of an App's installation, and replaces it before it expires.
type appCredential struct {
	app GitHubApp
	api url.URL
	key *rsa.PrivateKey
	now func() time.Time

	// installation is 0 until it was looked up.
	installation int64
	token        string
	expires      time.Time

	mu sync.Mutex
	// issued contains the newest tokens, and the JWTs with which they were requested.
	issued []string
}

func newAppCredential(app GitHubApp, api url.URL, now func() time.Time) (*appCredential, error) {
	key, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(app.PrivateKey))
	if err != nil {
		// The library's message is omitted because it may quote the key.
		return nil, fmt.Errorf("'%s' is not an RSA key in PEM", appPrivateKeyKey)
	}
	return &appCredential{app: app, api: api, key: key, now: now, installation: app.InstallationID}, nil
}

func (c *appCredential) id() string {
	return fmt.Sprintf("%d/%d/%s/%s/%s", c.app.ID, c.app.InstallationID, c.app.Owner, &c.api, string(c.app.PrivateKey))
}

func (c *appCredential) authorization(ctx context.Context, ask exchange) (string, error) {
	if c.token == "" || !c.now().Add(refreshBefore).Before(c.expires) {
		if err := c.refresh(ctx, ask); err != nil {
			return "", err
		}
	}
	return "Bearer " + c.token, nil
}

// refused makes the next request get a new token: this one was revoked.
func (c *appCredential) refused() { c.token = "" }

func (c *appCredential) secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.issued)
}

// refresh requests a token of the installation.
func (c *appCredential) refresh(ctx context.Context, ask exchange) error {
	proof, err := c.proof()
	if err != nil {
		return err
	}
	if err := c.findInstallation(ctx, ask, proof); err != nil {
		return err
	}
	var issued struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	installation := strconv.FormatInt(c.installation, 10)
	status, err := c.call(ctx, ask, proof, http.MethodPost, &issued, "app", "installations", installation, "access_tokens")
	if err != nil {
		if status == http.StatusNotFound {
			// The App may have been installed again.
			c.installation = c.app.InstallationID
		}
		return c.failed("got no token for its installation "+installation, status, err)
	}
	if issued.Token == "" {
		return errors.New("the host's response to the GitHub App has no token")
	}
	c.token, c.expires = issued.Token, issued.Expires
	c.remember(issued.Token)
	return nil
}

// findInstallation looks up the owner's installation, if its ID is not configured.
func (c *appCredential) findInstallation(ctx context.Context, ask exchange, proof string) error {
	if c.installation != 0 {
		return nil
	}
	var found struct {
		ID int64 `json:"id"`
	}
	status, err := c.call(ctx, ask, proof, http.MethodGet, &found, "orgs", c.app.Owner, "installation")
	if status == http.StatusNotFound {
		status, err = c.call(ctx, ask, proof, http.MethodGet, &found, "users", c.app.Owner, "installation")
	}
	if err != nil {
		return c.failed("has no installation of "+c.app.Owner, status, err)
	}
	c.installation = found.ID
	return nil
}

// call sends a request as the App itself. The status is 0 if there was no response.
func (c *appCredential) call(ctx context.Context, ask exchange, proof, method string, answer any, path ...string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, join(c.api, path...).String(), nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("Authorization", "Bearer "+proof)
	response, err := ask(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		var body struct {
			Message string `json:"message"`
		}
		content, _ := io.ReadAll(response.Body)
		_ = json.Unmarshal(content, &body)
		return response.StatusCode, errors.New(body.Message)
	}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(answer)
}

// failed explains why there is no token. If the host rejected the request, the App or its installation does not match
// the Secret.
func (c *appCredential) failed(what string, status int, err error) error {
	if status == 0 {
		return err
	}
	text := fmt.Sprintf("GitHub App %d %s: status %d: %s", c.app.ID, what, status, err)
	if status >= http.StatusMultipleChoices && status < http.StatusInternalServerError {
		return fmt.Errorf("%w: %s", ErrUnauthorized, text)
	}
	return errors.New(text)
}

// proof returns the JWT that authenticates the App. It is valid for one request.
func (c *appCredential) proof() (string, error) {
	issued := c.now().Add(-clockSkew)
	proof, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    strconv.FormatInt(c.app.ID, 10),
		IssuedAt:  jwt.NewNumericDate(issued),
		ExpiresAt: jwt.NewNumericDate(issued.Add(5 * time.Minute)),
	}).SignedString(c.key)
	if err != nil {
		return "", errors.New("signing as GitHub App failed")
	}
	c.remember(proof)
	return proof, nil
}

func (c *appCredential) remember(secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued = append(c.issued, secret)
	c.issued = c.issued[max(0, len(c.issued)-2*rememberedTokens):]
}
