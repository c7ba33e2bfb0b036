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
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
)

// location is the location of a repository on its host.
type location struct {
	// root is the address of the host, with the path at which it is installed.
	root  url.URL
	owner string
	name  string
	// page is the URL of the repository in a browser.
	page string
	// clone is the URL for Git.
	clone string
	// secrets returns the texts that must not appear in errors.
	secrets func() []string
}

func (l location) String() string { return l.page }

// connect returns the client for an API at the root, which authenticates with the repository's token in the form that
// the host expects.
func (l *location) connect(repository Repository, form func(Token) credential, connect connector) (*apiClient, error) {
	authenticate, err := tokenOf(repository, form)
	if err != nil {
		return nil, err
	}
	l.secrets = authenticate.secrets
	return connect(l.root, authenticate)
}

// CloneURL implements Host.
func (l location) CloneURL() string { return l.clone }

// parseURL splits a repository's URL into the host's address and the segments of its path.
func parseURL(repository Repository) (url.URL, []string, error) {
	const example = "give one like https://host/owner/repository"
	parsed, err := url.Parse(repository.URL)
	if err != nil {
		// The error of url.Parse contains the URL with the password.
		return url.URL{}, nil, errors.New("the repository URL cannot be parsed: " + example)
	}
	if parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" {
		return url.URL{}, nil, fmt.Errorf("the repository URL has the scheme %q, not http or https: %s", parsed.Scheme, example)
	}
	segments := strings.Split(strings.Trim(parsed.Path, "/"), "/")
	last := len(segments) - 1
	segments[last] = strings.TrimSuffix(segments[last], ".git")
	if last < 1 || segments[last-1] == "" || segments[last] == "" {
		return url.URL{}, nil, errors.New("the repository URL names no owner and repository: " + example)
	}
	return url.URL{Scheme: parsed.Scheme, Host: strings.ToLower(parsed.Host)}, segments, nil
}

// locate is for hosts whose URLs end in owner and name. The rest of the path is where the host is installed.
func locate(repository Repository) (location, error) {
	root, segments, err := parseURL(repository)
	if err != nil {
		return location{}, err
	}
	last := len(segments) - 1
	return newLocation(under(root, segments[:last-1]), segments[last-1], segments[last]), nil
}

func newLocation(root url.URL, owner, name string) location {
	page := join(root, owner, name).String()
	return location{root: root, owner: owner, name: name, page: page, clone: page + ".git"}
}

// under returns the address of a host that is installed at a path.
func under(root url.URL, segments []string) url.URL {
	root.Path = strings.Join(segments, "/")
	if root.Path != "" {
		root.Path = "/" + root.Path
	}
	return root
}

// join returns the address of nested names on a host.
func join(root url.URL, names ...string) *url.URL {
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	return root.JoinPath(names...)
}

// failed returns the error of an operation on the repository. status is that of the host's response, or 0. kind is
// optional and wraps the error.
func (l location) failed(doing string, kind error, status int, err error) error {
	var limited *RateLimitedError
	if errors.As(err, &limited) {
		return fmt.Errorf("%s in %s: %w", doing, l, limited)
	}
	switch {
	case kind != nil:
	case status == http.StatusUnauthorized || status == http.StatusForbidden || errors.Is(err, ErrUnauthorized):
		kind = ErrUnauthorized
	case status == http.StatusNotFound:
		kind = ErrNotFound
	case errors.Is(err, context.Canceled):
		kind = context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		kind = context.DeadlineExceeded
	}
	text := fmt.Sprintf("%s in %s: ", doing, l)
	if kind != nil {
		text += kind.Error()
	}
	switch {
	case kind == ErrNotFound:
		text += ", or not visible to this token"
	case kind == nil && status != 0:
		text += fmt.Sprintf("status %d: %s", status, err)
	case kind == nil:
		text += err.Error()
	case status != 0 || kind == ErrUnauthorized:
		text += fmt.Sprintf(" (%s)", err)
	}
	return hosthttp.NewError(kind, text, l.secrets()...)
}

// unsupported returns the error for a merge method that the host does not support.
func (l location) unsupported(method MergeMethod, instead string) error {
	return fmt.Errorf("merging in %s by %q: %w: %s", l, method, ErrUnsupported, instead)
}
