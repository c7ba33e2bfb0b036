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

// WebURL returns the address at which a repository that Git reaches by SSH is found by https, where its host's API is. Any other
// address is returned as it is.
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

// SameRepository reports whether two URLs are of one repository, be it by https or by SSH.
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

// RepositoryName is the same for all URLs of a repository on a public host. Elsewhere it is the URL: other ports may lead to other hosts.
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

// HostName names the host of a repository, and its port if it has one of its own. All names of a public host are one. It is empty for
// what is no URL.
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

// public returns the host and the path by which a repository on a public host is known.
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

// renamed is a kind's known function for public hosts that keep each path under all their names.
func renamed(address *url.URL, names map[string]string) (host, path string, ok bool) {
	host, ok = names[strings.ToLower(address.Hostname())]
	return host, address.EscapedPath(), ok
}

// trimmed returns a path without what may stand at its end.
func trimmed(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return strings.TrimSuffix(strings.TrimRight(path, "/"), ".git")
}
