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

// Package revision shortens and compares what Flux writes as a revision: 'main@sha1:…', 'latest@sha256:…', '1.2.3', and the
// older 'main/…'.
package revision

import (
	"regexp"
	"strings"
)

// shortHex is as many digits of a digest as tell it from others at a glance.
const shortHex = 8

var (
	named = regexp.MustCompile(`^(?:(.*)@)?((?:sha1|sha256|sha384|sha512|blake3):[0-9a-z]+)$`)
	older = regexp.MustCompile(`^(?:(.*)/)?([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// Equal tells whether two revisions are the same: by their digests where both have one, else as text. No revision is not the
// same as another one.
func Equal(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	_, digestA := split(a)
	_, digestB := split(b)
	if digestA != "" && digestB != "" {
		return digestA == digestB
	}
	return a == b
}

// Short cuts the digest of a revision for people to read.
func Short(revision string) string {
	name, digest := split(revision)
	if digest == "" {
		return revision
	}
	algorithm, hex, _ := strings.Cut(digest, ":")
	digest = algorithm + ":" + hex[:min(len(hex), shortHex)]
	if name == "" {
		return digest
	}
	return name + "@" + digest
}

// split parts a revision into what names it and its digest. Without a digest it is all name.
func split(revision string) (name, digest string) {
	if parts := named.FindStringSubmatch(revision); parts != nil {
		return parts[1], parts[2]
	}
	parts := older.FindStringSubmatch(revision)
	switch {
	case parts == nil:
		return revision, ""
	case len(parts[2]) == 40:
		return parts[1], "sha1:" + parts[2]
	default:
		return parts[1], "sha256:" + parts[2]
	}
}
