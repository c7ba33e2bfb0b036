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

// Package git reads and writes a repository on a Git host through its objects.
//
// There is no work tree: a file's bytes are its blob's bytes, so neither
// .gitattributes nor autocrlf changes any, and a symlink is an entry that
// nothing follows. A Checkout holds one commit of one branch, without history.
// What it commits stays in memory until it is pushed.
//
// Everything that comes from the host is bounded in size, and every error is
// free of credentials, even where the host repeats them.
package git

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The limits on what is taken from a Git host. A repository beyond them is
// refused with an error that says so.
const (
	// maxPack is the size in bytes of a commit with all its files, as the host packs them.
	maxPack = 2 << 30
	// maxObject is the size in bytes of one file or directory, and maxUnpacked that of all together. GitHub takes no file of more
	// than 100 MB.
	maxObject   = 128 << 20
	maxUnpacked = 16 * maxPack
	// maxTree is the size in bytes of one directory, without what is in it.
	maxTree = 32 << 20
	// maxAdvertisement is the size in bytes of the host's list of references.
	maxAdvertisement = 64 << 20
	// maxFiles is how many entries of trees are walked. A few small trees that
	// hold each other many times over can make a repository of billions.
	maxFiles = 1 << 20
	// maxDepth is how many directories deep a file may be.
	maxDepth = 256
)

var (
	// ErrBranchNotFound says that the remote has no such branch.
	ErrBranchNotFound = errors.New("branch not found")
	// ErrRepositoryNotFound says that the host has no such repository, or none that these credentials may see.
	ErrRepositoryNotFound = errors.New("repository not found")
	// ErrUnauthorized says that the host wants credentials, refuses these, or refuses them this operation.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrLease says that a branch is not where the caller expected it: somebody else moved, made or deleted it.
	ErrLease = errors.New("the branch has moved")
	// ErrNoChange says that a commit would hold the very files of its base.
	ErrNoChange = errors.New("nothing to commit")
)

// Remote is a repository on a Git host.
type Remote struct {
	// URL is the repository's http, https or ssh URL. A user and password in it are
	// used when Credentials has none, and are kept out of every error.
	URL string
	// Credentials are sent to the URL's own origin only.
	Credentials Credentials
	// CABundle holds certificate authorities in PEM that are trusted besides the system's.
	CABundle []byte
	// Identity is whose credentials they are, where they change from time to time. What was cloned with earlier ones is then used with
	// later ones too. Empty, other credentials are somebody else's.
	Identity string
}

// Credentials authenticate to a Git host: over http by the bearer token when
// there is one, else by username and password; over ssh by the key. The zero
// value is anonymous.
type Credentials struct {
	Username    string
	Password    string
	BearerToken string
	SSH         SSHKey
}

func (c Credentials) anonymous() bool {
	return c.BearerToken == "" && c.Username == "" && c.Password == ""
}

// String tells the kind of the credentials and nothing of their content.
func (c Credentials) String() string {
	switch {
	case c.BearerToken != "":
		return "bearer token"
	case c.Username != "" || c.Password != "":
		return "username and password"
	case len(c.SSH.Identity) > 0:
		return "SSH key"
	default:
		return "anonymous"
	}
}

// GoString is String: %#v redacts too.
func (c Credentials) GoString() string { return fmt.Sprintf("git.Credentials(%s)", c) }

// MarshalJSON encodes String.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Author is who a commit is by.
type Author struct {
	Name  string
	Email string
}
