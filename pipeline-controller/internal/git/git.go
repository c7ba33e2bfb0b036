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

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

// The limits on what is taken from a Git host. A repository beyond them is
// refused with an error that says so.
const (
	// MaxFile is the size in bytes up to which files can be read. A larger one may be in the repository, and stays as it is.
	MaxFile = 32 << 20

	// maxAdvertisement is the size in bytes of the host's list of references, maxNegotiation that of what a host says before it sends
	// a pack or reports on one, and maxPackResponse that of a pack, with what its pieces are wrapped in.
	maxAdvertisement = 32 << 20
	maxNegotiation   = 4 << 20
	maxPackResponse  = maxPack + maxPack/16
	// maxPack is the size in bytes of a commit with all its files, as the host packs them.
	maxPack = 2 << 30
	// maxFiles is how many files and directories are walked. A few small trees that
	// hold each other many times over can make a repository of billions.
	maxFiles = 1 << 20
	// maxDepth is how many directories deep a file may be.
	maxDepth = 128
	// maxChanged is the size in bytes of the directories that a commit changes, without what is in them.
	maxChanged = 4 << 20
)

// limits are those on the objects of a repository. What deltas make, and so what is on disk, can be far more than what was sent.
var limits = objects.Limits{Pack: maxPack, Object: MaxFile, Unpacked: 8 << 30, Objects: maxFiles / 2, Disk: 2 * maxPack}

var (
	// ErrBranchNotFound says that the remote has no such branch.
	ErrBranchNotFound = errors.New("branch not found")
	// ErrRepositoryNotFound says that the host has no such repository, or none that these credentials may see.
	ErrRepositoryNotFound = errors.New("repository not found")
	// ErrUnauthorized says that the host wants credentials, refuses these, or refuses them this operation.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrLease says that a branch is not where the caller expected it: somebody else moved, made or deleted it.
	ErrLease = errors.New("the branch has moved")
	// ErrPathNotFound says that a commit has no directory and no regular file of that path.
	ErrPathNotFound = errors.New("no such directory or file")
	// ErrNoChange says that a commit would hold the very files of its base.
	ErrNoChange = errors.New("nothing to commit")
)

// Remote is a repository on a Git host.
type Remote struct {
	// URL is the repository's http, https or ssh URL. A user and password in it are
	// used when Credentials has none, and are kept out of every error.
	URL string
	// Repository is the same for all URLs of one repository, which then has one clone for them. Empty, it is the URL.
	Repository string
	// Credentials are sent to the URL's own origin only.
	Credentials Credentials
	// CABundle holds certificate authorities in PEM that are trusted besides the system's.
	CABundle []byte
	// Network is how the host is reached.
	Network hostnet.Network
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
