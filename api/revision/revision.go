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

// Package revision takes apart what Flux writes as a revision: "main@sha1:<hex>" and "sha1:<hex>" of a GitRepository,
// "latest@sha256:<hex>" of an OCIRepository, "sha256:<hex>" of a Bucket, "1.2.3" of a Helm chart, and the older
// "main/<hex>" that objects not reconciled since Flux 0.36 may still hold.
package revision

import (
	"regexp"
	"strings"
)

var (
	digest       = regexp.MustCompile(`^(sha1|sha256|sha384|sha512|blake3):[0-9a-z]+$`)
	legacyCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	legacyDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Digest returns the algorithm and the hex digest of rev, such as "sha1:abc…".
// It is empty when rev has none, as a chart version has none.
func Digest(rev string) string {
	_, d := split(rev)
	return d
}

// Tag returns the name that rev was fetched by: the part before the '@', or all of a chart version. A full reference
// counts only below refs/tags/, without that prefix. That a short name is a branch's can't be told from rev: the tag of
// "main@sha1:…" is "main".
func Tag(rev string) (string, bool) {
	name, _ := split(rev)
	if tag, ok := strings.CutPrefix(name, "refs/tags/"); ok {
		return tag, tag != ""
	}
	if name == "" || name == "HEAD" || strings.HasPrefix(name, "refs/") {
		return "", false
	}
	return name, true
}

// Commit returns the hex of the Git commit that rev is of. A SHA-256 digest is no commit: what Flux fetches from Git is
// named by SHA-1, while the SHA-256 of an OCI artifact or a Bucket would look just the same.
func Commit(rev string) (string, bool) {
	if hex, ok := strings.CutPrefix(Digest(rev), "sha1:"); ok {
		return hex, true
	}
	return "", false
}

// Equal reports whether a and b are the same content: by their digests where both have one, else by their whole text.
// An empty revision equals nothing, not even another one.
func Equal(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if da, db := Digest(a), Digest(b); da != "" && db != "" {
		return da == db
	}
	return a == b
}

// Names reports whether asked, as a person or a program writes it, names rev: by its whole text, or by its digest alone. Another name
// with the same digest does not: the name is written into files, and can come to stand for other content.
func Names(asked, rev string) bool {
	return asked != "" && (asked == rev || asked == Digest(rev))
}

// leastAbbreviation is how many digits of a commit or digest a person has to give.
const leastAbbreviation = 7

// Matches reports whether asked is rev as a person abbreviates it: by what Names takes, by its name alone (a tag or branch), by seven digits or
// more of its commit or digest, or by rev cut after as many of them. It is for looking something up, not for deciding what is written.
func Matches(asked, rev string) bool {
	name, dig := split(rev)
	if tag, ok := Tag(rev); Names(asked, rev) || asked != "" && (asked == name || ok && asked == tag) {
		return true
	}
	_, digits, _ := strings.Cut(dig, ":")
	for _, whole := range []string{digits, dig, rev} {
		if cut := len(whole) - len(asked); strings.HasPrefix(whole, asked) && cut <= len(digits)-leastAbbreviation {
			return true
		}
	}
	return false
}

// split returns the name and the digest of rev, either of which may be empty.
func split(rev string) (name, dig string) {
	if i := strings.LastIndexByte(rev, '@'); digest.MatchString(rev[i+1:]) {
		return rev[:max(i, 0)], rev[i+1:]
	}
	i := strings.LastIndexByte(rev, '/')
	switch hex := rev[i+1:]; {
	case legacyCommit.MatchString(hex):
		return rev[:max(i, 0)], "sha1:" + hex
	case legacyDigest.MatchString(hex):
		return rev[:max(i, 0)], "sha256:" + hex
	}
	return rev, ""
}
