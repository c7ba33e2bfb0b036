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

// Package git reads and writes a repository on a Git host at the level of objects.
//
// There is no work tree: a file's content is its blob's content. So neither .gitattributes nor autocrlf changes it, and
// symlinks are never followed. A Checkout is one commit of one branch, without history. New commits stay in memory
// until they are pushed.
//
// Everything from the host is limited in size. Errors never contain credentials, even if the host repeats them.
package git

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hostnet"
)

// Limits for Git hosts. A repository that exceeds them is rejected with an error.
const (
	// MaxFile is the maximum size in bytes of files that can be read. Larger files may exist, and are left unchanged.
	MaxFile = 32 << 20

	// maxAdvertisement is the maximum size in bytes of the list of references, maxNegotiation that of messages before a
	// pack and of reports on one, and maxPackResponse that of a pack including its framing.
	maxAdvertisement = 32 << 20
	maxNegotiation   = 4 << 20
	maxPackResponse  = maxPack + maxPack/16
	// maxPack is the maximum size in bytes of a packed commit with all its files.
	maxPack = 2 << 30
	// maxFiles is the maximum number of files and directories that are walked. With a few small trees that contain each
	// other many times, a repository can have billions.
	maxFiles = 1 << 20
	// maxDepth is the maximum depth of directories.
	maxDepth = 128
	// maxChanged is the maximum size in bytes of the trees that a commit changes, without their contents.
	maxChanged = 4 << 20
)

// limits for the objects of a repository. With deltas, the size on disk can be far more than what was sent.
var limits = objects.Limits{Pack: maxPack, Object: MaxFile, Unpacked: 8 << 30, Objects: maxFiles / 2, Disk: 2 * maxPack}

var (
	// ErrBranchNotFound means that the remote does not have the branch.
	ErrBranchNotFound = errors.New("branch not found")
	// ErrRepositoryNotFound means that the repository does not exist, or is not visible with the credentials.
	ErrRepositoryNotFound = errors.New("repository not found")
	// ErrUnauthorized means that the host requires credentials, rejects them, or denies the operation.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrLease means that a branch is not at the expected commit: someone else moved, created or deleted it.
	ErrLease = errors.New("the branch has moved")
	// ErrPathNotFound means that a commit has neither a directory nor a regular file of that path.
	ErrPathNotFound = errors.New("no such directory or file")
	// ErrNoChange means that a commit would not change any file.
	ErrNoChange = errors.New("nothing to commit")
)

// Remote is a repository on a Git host.
type Remote struct {
	// URL is the repository's http, https or ssh URL. Its user and password are used if Credentials has none, and never
	// appear in errors.
	URL string
	// Repository is the same for all URLs of one repository, which share a clone. If it is empty, the URL is used.
	Repository string
	// Credentials are only sent to the URL's own origin.
	Credentials Credentials
	// CABundle contains certificate authorities (PEM) that are trusted in addition to the system's.
	CABundle []byte
	// Network connects to the host.
	Network hostnet.Network
	// Identity identifies the owner of credentials that change from time to time, so later credentials use the same
	// clone. If it is empty, different credentials have different clones.
	Identity string
}

// Credentials authenticate to a Git host: by HTTP with the bearer token or otherwise the user name and password, by SSH
// with the key. The zero value is anonymous.
type Credentials struct {
	Username    string
	Password    string
	BearerToken string
	SSH         SSHKey
}

func (c Credentials) anonymous() bool {
	return c.BearerToken == "" && c.Username == "" && c.Password == ""
}

// String returns the kind of the credentials without their content.
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

// GoString redacts %#v too.
func (c Credentials) GoString() string { return fmt.Sprintf("git.Credentials(%s)", c) }

// MarshalJSON encodes String.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Author of a commit.
type Author struct {
	Name  string
	Email string
}
