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

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/hosthttp"
)

// location is a repository's place on its host.
type location struct {
	// root is the host's own address, with the path that it is installed at if that is not /.
	root  url.URL
	owner string
	name  string
	token Token
}

// locate takes a repository's URL apart: its last two segments are owner and name.
func locate(repository Repository) (location, error) {
	const example = "give one like https://host/owner/repository"
	parsed, err := url.Parse(repository.URL)
	if err != nil {
		// The error of url.Parse repeats the URL, password and all.
		return location{}, errors.New("the repository URL cannot be parsed: " + example)
	}
	if parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" {
		return location{}, fmt.Errorf("the repository URL has the scheme %q, not http or https: %s", parsed.Scheme, example)
	}
	segments := strings.Split(strings.Trim(parsed.Path, "/"), "/")
	last := len(segments) - 1
	segments[last] = strings.TrimSuffix(segments[last], ".git")
	if last < 1 || segments[last-1] == "" || segments[last] == "" {
		return location{}, errors.New("the repository URL names no owner and repository: " + example)
	}
	if repository.Token == "" {
		return location{}, errors.New("there is no token for the Git host's API")
	}
	return location{
		root:  url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: strings.Join(segments[:last-1], "/")},
		owner: segments[last-1],
		name:  segments[last],
		token: repository.Token,
	}, nil
}

func (l location) String() string { return l.root.JoinPath(l.owner, l.name).String() }

// failed says what could not be done in the repository. status is that of the
// host's response, 0 for none; kind, where it is known already, goes before it.
func (l location) failed(doing string, kind error, status int, err error) error {
	var limited *RateLimitedError
	if errors.As(err, &limited) {
		return fmt.Errorf("%s in %s: %w", doing, l, limited)
	}
	switch {
	case kind != nil:
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
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
	case status != 0:
		text += fmt.Sprintf(" (%s)", err)
	}
	return hosthttp.NewError(kind, text, string(l.token))
}
