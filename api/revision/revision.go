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

// Package revision parses revisions as Flux writes them: "main@sha1:<hex>" and "sha1:<hex>" of a GitRepository,
// "latest@sha256:<hex>" of an OCIRepository, "sha256:<hex>" of a Bucket, "1.2.3" of a Helm chart, and the older
// "main/<hex>" of objects that were not reconciled since Flux 0.36.
package revision

import "strings"

// Digest returns the algorithm and the hex digest of rev, such as "sha1:abc…". It is empty if rev has no digest, such
// as a chart version.
func Digest(rev string) string {
	_, d := split(rev)
	return d
}

// Tag returns the name in rev: the part before the '@', or the whole of a chart version. Of full references, only those
// below refs/tags/ count, and the prefix is removed. rev does not show whether a short name is a tag or a branch: the
// tag of "main@sha1:…" is "main".
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

// Commit returns the hex of the Git commit in rev. A SHA-256 digest is not a commit: Flux identifies Git commits by
// SHA-1, and the SHA-256 digest of an OCI artifact or a Bucket would look the same.
func Commit(rev string) (string, bool) {
	if hex, ok := strings.CutPrefix(Digest(rev), "sha1:"); ok {
		return hex, true
	}
	return "", false
}

// Equal reports whether a and b have the same content. It compares their digests if both have one, and the whole text
// otherwise. An empty revision is not equal to any revision, not even an empty one.
func Equal(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if a == b { // most often, and cheaper than to find the digests
		return true
	}
	digest := Digest(a)
	return digest != "" && digest == Digest(b)
}

// Names reports whether asked, which is user input, identifies rev: by its whole text, or by its digest alone. Another
// name with the same digest does not match, because the name is written into files and can later refer to other
// content.
func Names(asked, rev string) bool {
	return asked != "" && (asked == rev || asked == Digest(rev))
}

// leastAbbreviation is the minimum number of digits in an abbreviated commit or digest.
const leastAbbreviation = 7

// Matches reports whether asked is rev or an abbreviation of it: anything that Names accepts, its name alone (a tag or
// branch), at least seven digits of its commit or digest, or rev itself cut after at least seven digits. Use it for
// lookups, not for deciding what is written.
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

// split returns the name and the digest of rev. Either can be empty.
func split(rev string) (name, dig string) {
	if i := strings.LastIndexByte(rev, '@'); isDigest(rev[i+1:]) {
		return rev[:max(i, 0)], rev[i+1:]
	}
	i := strings.LastIndexByte(rev, '/')
	switch hex := rev[i+1:]; {
	case len(hex) == 40 && consistsOf(hex, 'f'):
		return rev[:max(i, 0)], "sha1:" + hex
	case len(hex) == 64 && consistsOf(hex, 'f'):
		return rev[:max(i, 0)], "sha256:" + hex
	}
	return rev, ""
}

func isDigest(text string) bool {
	algorithm, digits, _ := strings.Cut(text, ":")
	switch algorithm {
	case "sha1", "sha256", "sha384", "sha512", "blake3":
		return digits != "" && consistsOf(digits, 'z')
	}
	return false
}

// consistsOf reports whether all characters of text are digits, or letters from 'a' to last.
func consistsOf(text string, last byte) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > last) {
			return false
		}
	}
	return true
}
