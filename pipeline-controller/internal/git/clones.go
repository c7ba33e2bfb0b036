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

package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"
)

const (
	// cacheSize is how many bytes of objects of a clone are held in memory while it is read.
	cacheSize = 16 * cache.MiByte
	// largeObject is the size in bytes from which a blob is streamed from disk instead of held in memory.
	largeObject = 1 << 20

	// mostClones is how many repositories are kept on disk, and longestIdle how long each is after its last use.
	mostClones  = 16
	longestIdle = 2 * time.Hour
	// mostFetches is how often a clone is added to. What it once held and no longer needs is on disk until it is made anew.
	mostFetches = 100

	// patience is how long a clone's next user waits for the one before. A large repository may take minutes the first time, and who waits
	// keeps a worker from other repositories.
	patience = 15 * time.Second
)

// ErrBusy says that the repository was used by somebody else for as long as one may wait.
var ErrBusy = errors.New("another promotion in the same repository takes long")

// Clones keeps repositories on disk from one use to the next, so that only
// what has changed since is fetched, and read. They are kept apart by the
// credentials that they were fetched with. It is safe for concurrent use; one
// clone has one user at a time.
type Clones struct {
	dir string

	mu     sync.Mutex
	clones map[cloneKey]*clone

	patience time.Duration
}

type cloneKey [sha256.Size]byte

// clone is a repository on disk. All but its last use belongs to who holds it.
type clone struct {
	dir string
	// held has room for the one who uses the clone.
	held chan struct{}
	// lastUsed is guarded by Clones.mu.
	lastUsed time.Time

	// tips are the commits that were fetched, each with all its files and without its parents.
	tips    []plumbing.Hash
	fetches int
	// dull holds the trees, and the blobs that were read, in which nothing was of interest to EachFile's caller.
	dull map[plumbing.Hash]struct{}
}

// NewClones returns a place for clones in a directory of its own, from which it removes what an earlier process has left.
func NewClones(dir string) (*Clones, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return &Clones{dir: dir, clones: map[cloneKey]*clone{}, patience: patience}, os.MkdirAll(dir, 0o700)
}

// Close removes all clones. None may be in use.
func (c *Clones) Close() error { return os.RemoveAll(c.dir) }

// Checkout returns the newest commit of a branch, of which it fetches what
// isn't on disk yet. The repository is the caller's alone until Close. The
// error is ErrBranchNotFound, ErrRepositoryNotFound, ErrUnauthorized or ErrBusy
// where one of them is the matter.
func (c *Clones) Checkout(ctx context.Context, remote Remote, branch string) (_ *Checkout, err error) {
	name, err := branchReference(branch)
	if err != nil {
		return nil, err
	}
	conn, err := connect(remote)
	if err != nil {
		return nil, err
	}
	held, err := c.hold(ctx, keyOf(remote))
	if err != nil {
		conn.close()
		return nil, err
	}
	checkout := &Checkout{
		connection: conn,
		clone:      held,
		release:    func() { <-held.held },
		written:    memory.NewStorage(),
		commits:    map[plumbing.Hash][]plumbing.Hash{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, checkout.Close())
		}
	}()

	if checkout.base, err = held.update(ctx, conn, name); err != nil {
		return nil, err
	}
	checkout.objects = held.open()
	commit, err := object.GetCommit(checkout.objects, checkout.base)
	if err != nil {
		// Whatever has become of the files on disk, the next use makes them anew.
		return nil, errors.Join(fmt.Errorf("reading commit %s: %w", checkout.base, err), held.reset())
	}
	checkout.root = commit.TreeHash
	return checkout, nil
}

// keyOf keeps repositories apart that differ in anything that decides what is fetched.
func keyOf(remote Remote) cloneKey {
	if remote.Identity != "" {
		remote.Credentials = Credentials{}
	}
	hash := sha256.New()
	for _, part := range []string{
		remote.URL, remote.Identity, remote.Credentials.Username, remote.Credentials.Password, remote.Credentials.BearerToken, string(remote.CABundle),
		string(remote.Credentials.SSH.Identity), string(remote.Credentials.SSH.KnownHosts),
	} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return cloneKey(hash.Sum(nil))
}

// hold returns the clone when nobody else uses it any more.
func (c *Clones) hold(ctx context.Context, key cloneKey) (*clone, error) {
	wanted, err := c.find(key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, ErrBusy)
	defer cancel()
	select {
	case wanted.held <- struct{}{}:
		return wanted, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// find returns the clone, which it makes if there is none, and removes those that nobody has used for long.
func (c *Clones) find(key cloneKey) (*clone, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	wanted := c.clones[key]
	if wanted == nil {
		dir, err := os.MkdirTemp(c.dir, "")
		if err != nil {
			return nil, fmt.Errorf("making a directory for a clone: %w", err)
		}
		wanted = &clone{dir: dir, held: make(chan struct{}, 1), dull: map[plumbing.Hash]struct{}{}}
		c.clones[key] = wanted
	}
	wanted.lastUsed = now
	return wanted, c.evict(wanted, now)
}

// evict removes clones that were idle for too long, and the longest idle one if there are too many. Those in use stay.
func (c *Clones) evict(wanted *clone, now time.Time) error {
	var errs []error
	for {
		var oldest *clone
		var oldestKey cloneKey
		for key, candidate := range c.clones {
			if candidate != wanted && len(candidate.held) == 0 && (oldest == nil || candidate.lastUsed.Before(oldest.lastUsed)) {
				oldest, oldestKey = candidate, key
			}
		}
		if oldest == nil || len(c.clones) <= mostClones && now.Sub(oldest.lastUsed) < longestIdle {
			return errors.Join(errs...)
		}
		// Somebody may have found it just now and taken hold of it: then it is in use. Who takes hold of it next finds nothing on disk.
		select {
		case oldest.held <- struct{}{}:
			errs = append(errs, oldest.reset())
			<-oldest.held
			delete(c.clones, oldestKey)
		default:
			return errors.Join(errs...)
		}
	}
}

// update fetches the newest commit of a branch, unless it is here already, and returns its hash.
func (c *clone) update(ctx context.Context, conn *connection, name plumbing.ReferenceName) (plumbing.Hash, error) {
	if c.fetches >= mostFetches {
		if err := c.reset(); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	objects := c.open()
	commit, wrote, err := conn.fetch(ctx, name, objects, slices.Clone(c.tips))
	err = errors.Join(err, objects.Close())
	switch {
	case err != nil && wrote:
		// A fetch that was cut off may have left anything.
		return plumbing.ZeroHash, errors.Join(err, c.reset())
	case err != nil:
		return plumbing.ZeroHash, err
	case wrote:
		c.tips = append(c.tips, commit)
		c.fetches++
	}
	return commit, nil
}

// open returns the objects on disk.
func (c *clone) open() *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(c.dir), cache.NewObjectLRU(cacheSize), filesystem.Options{
		ExclusiveAccess:      true,
		KeepDescriptors:      true,
		LargeObjectThreshold: largeObject,
	})
}

// reset makes the clone as good as new. Its directory comes back with the first file in it.
func (c *clone) reset() error {
	c.tips, c.fetches, c.dull = nil, 0, map[plumbing.Hash]struct{}{}
	return os.RemoveAll(c.dir)
}
