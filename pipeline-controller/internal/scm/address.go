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
	"net/url"
	"strings"
)

// WebURL returns the HTTPS address of a repository that Git reaches by SSH, where the API of its host is. Other
// addresses are returned unchanged.
func WebURL(repository string) (web string, bySSH bool) {
	parsed, err := url.Parse(repository)
	if err != nil || parsed.Scheme != "ssh" {
		return repository, false
	}
	if host, path, ok := public(parsed); ok {
		return "https://" + host + path, true
	}
	return "https://" + parsed.Hostname() + parsed.EscapedPath(), true
}

// SameRepository reports whether two URLs, by HTTPS or by SSH, refer to the same repository.
func SameRepository(a, b string) bool {
	name := func(repository string) string {
		parsed, err := url.Parse(repository)
		if err != nil {
			return repository
		}
		if name, ok := publicName(parsed); ok {
			return name
		}
		return strings.ToLower(parsed.Hostname()) + trimmed(parsed.EscapedPath())
	}
	return name(a) == name(b)
}

// RepositoryName returns the same name for all URLs of a repository on a public host. For other hosts it is the URL:
// other ports may be other hosts.
func RepositoryName(repository string) string {
	parsed, err := url.Parse(repository)
	if err != nil {
		return repository
	}
	if name, ok := publicName(parsed); ok {
		return name
	}
	return repository
}

// HostName returns the name of a repository's host, with its port if it is not the default. All names of a public host
// return the same. It is empty if the URL is invalid.
func HostName(repository string) string {
	parsed, err := url.Parse(repository)
	if err != nil {
		return ""
	}
	if host, _, ok := public(parsed); ok {
		return host
	}
	return strings.ToLower(parsed.Host)
}

// public returns the canonical host and path of a repository on a public host.
func public(address *url.URL) (host, path string, ok bool) {
	for _, kind := range kinds {
		if host, path, ok := kind.find(address); ok {
			return host, path, true
		}
	}
	return "", "", false
}

func publicName(address *url.URL) (string, bool) {
	host, path, ok := public(address)
	return host + trimmed(path), ok
}

// renamed is the known function of kinds whose public hosts have the same paths under all their names.
func renamed(address *url.URL, names map[string]string) (host, path string, ok bool) {
	host, ok = names[strings.ToLower(address.Hostname())]
	return host, address.EscapedPath(), ok
}

// trimmed returns a path without optional suffixes.
func trimmed(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return strings.TrimSuffix(strings.TrimRight(path, "/"), ".git")
}
