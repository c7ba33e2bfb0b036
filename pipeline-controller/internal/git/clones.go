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
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
)

const (
	// mostClones is the maximum number of clones on disk, and longestIdle how long a clone is kept after its last use.
	mostClones  = 16
	longestIdle = 2 * time.Hour
	// mostOnDisk is the maximum size in bytes of all clones together, regardless of the limit of each one.
	mostOnDisk = 8 << 30
	// mostFetches is the maximum number of fetches into a clone. Objects that it no longer needs stay on disk until it
	// is created again.
	mostFetches = 100

	// patience is how long a caller waits for a clone that is in use. The first fetch of a large repository may take
	// minutes, and a waiting caller blocks a worker.
	patience = 15 * time.Second
)

// ErrBusy means that the clone was in use for longer than the patience.
var ErrBusy = errors.New("timed out waiting for another promotion in this repository")

// errDiskFull means that all clones together exceed the limit on disk.
type errDiskFull int64

func (most errDiskFull) Error() string {
	return fmt.Sprintf("the repositories in use exceed %d MiB on disk, and this one is the largest: split it, or lower --concurrent-promotions",
		int64(most)>>20)
}

// Clones keeps clones of repositories on disk, so only changes are fetched and read. There is a clone for each
// repository and credential. It is safe for concurrent use. Each clone has one user at a time.
type Clones struct {
	dir    string
	memory *objects.Memory

	mu     sync.Mutex
	clones map[cloneKey]*clone
	// onDisk is the size in bytes of all clones.
	onDisk     int64
	mostOnDisk int64

	patience time.Duration
	connect  func(Remote) (*connection, error)
}

type cloneKey [sha256.Size]byte

// clone is a clone on disk. Fields that are not guarded by Clones.mu belong to its current user.
type clone struct {
	dir string
	// held contains a value while the clone is in use.
	held chan struct{}
	// lastUsed, the size on disk, and whether the clone was taken from its user are guarded by Clones.mu.
	lastUsed time.Time
	onDisk   int64
	givenUp  bool

	// tips are the fetched commits, each with all its files and without its parents.
	tips    []plumbing.Hash
	fetches int
}

// NewClones returns Clones in a directory of their own, and removes the clones of an earlier process.
func NewClones(dir string) (*Clones, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	clones := &Clones{
		dir: dir, memory: objects.NewMemory(), clones: map[cloneKey]*clone{}, mostOnDisk: mostOnDisk, patience: patience, connect: connect,
	}
	return clones, os.MkdirAll(dir, 0o700)
}

// Close removes all clones. None may be in use.
func (c *Clones) Close() error { return os.RemoveAll(c.dir) }

// Checkout returns the newest commit of a branch, and fetches what is missing. The caller has exclusive use of the
// clone until Close. The error can be ErrBranchNotFound, ErrRepositoryNotFound, ErrUnauthorized or ErrBusy.
func (c *Clones) Checkout(ctx context.Context, remote Remote, branch string) (_ *Checkout, err error) {
	name, err := branchReference(branch)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(remote)
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
		release:    func() { <-held.held },
		written:    memory.NewStorage(),
		commits:    map[plumbing.Hash][]plumbing.Hash{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, checkout.Close())
		}
	}()
	// After a panic, the clone is released like after an error.
	defer recovered(ctx, &err)
	if err := c.checkOut(ctx, held, checkout, name); err != nil {
		return nil, err
	}
	return checkout, nil
}

// keyOf returns a key that includes everything that determines what is fetched.
func keyOf(remote Remote) cloneKey {
	if remote.Identity != "" {
		remote.Credentials = Credentials{}
	}
	hash := sha256.New()
	for _, part := range []string{
		cmp.Or(remote.Repository, remote.URL), remote.Identity, remote.Credentials.Username, remote.Credentials.Password, remote.Credentials.BearerToken, string(remote.CABundle),
		string(remote.Credentials.SSH.Identity), string(remote.Credentials.SSH.KnownHosts),
	} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return cloneKey(hash.Sum(nil))
}

// hold returns the clone once nobody else uses it.
func (c *Clones) hold(ctx context.Context, key cloneKey) (*clone, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, ErrBusy)
	defer cancel()
	for {
		wanted, err := c.find(key)
		if err != nil {
			return nil, err
		}
		select {
		case wanted.held <- struct{}{}:
			if c.has(key, wanted) {
				return wanted, nil
			}
			<-wanted.held // it was removed in the meantime
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Clones) has(key cloneKey, wanted *clone) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clones[key] == wanted
}

// find returns the clone, which it creates if necessary, and removes idle ones.
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
		wanted = &clone{dir: dir, held: make(chan struct{}, 1)}
		c.clones[key] = wanted
	}
	wanted.lastUsed = now
	return wanted, c.evict(wanted, now)
}

// evict removes clones that were idle for too long, and the least recently used one if there are too many. Clones in
// use are kept.
func (c *Clones) evict(wanted *clone, now time.Time) error {
	var errs []error
	for {
		key, oldest := c.longestIdle(wanted)
		if oldest == nil || len(c.clones) <= mostClones && now.Sub(oldest.lastUsed) < longestIdle {
			return errors.Join(errs...)
		}
		errs = append(errs, c.remove(key, oldest))
	}
}

// longestIdle returns the least recently used clone, except the wanted one.
func (c *Clones) longestIdle(wanted *clone) (key cloneKey, oldest *clone) {
	for candidateKey, candidate := range c.clones {
		if candidate != wanted && len(candidate.held) == 0 && (oldest == nil || candidate.lastUsed.Before(oldest.lastUsed)) {
			key, oldest = candidateKey, candidate
		}
	}
	return key, oldest
}

// remove removes a clone, unless it was just taken into use.
func (c *Clones) remove(key cloneKey, idle *clone) error {
	select {
	case idle.held <- struct{}{}:
		defer func() { <-idle.held }()
		delete(c.clones, key)
		return c.empty(idle)
	default:
		return nil
	}
}

// grow records that a clone needs more bytes on disk. If all together need too much, it removes idle ones. If that is
// not enough, it takes the largest clone in use from its user: a repository that is large, or grows without end, must
// not affect others.
func (c *Clones) grow(growing *clone, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if growing.givenUp {
		return errDiskFull(c.mostOnDisk)
	}
	growing.onDisk += bytes
	c.onDisk += bytes
	for c.onDisk > c.mostOnDisk {
		if err := c.makeRoom(growing); err != nil {
			return fmt.Errorf("removing a clone: %w", err)
		}
		if growing.givenUp {
			return errDiskFull(c.mostOnDisk)
		}
	}
	return nil
}

func (c *Clones) makeRoom(growing *clone) error {
	if key, oldest := c.longestIdle(growing); oldest != nil {
		return c.remove(key, oldest)
	}
	largest := growing
	for _, candidate := range c.clones {
		if candidate.onDisk > largest.onDisk {
			largest = candidate
		}
	}
	largest.givenUp = true
	c.free(largest)
	return objects.Discard(largest.dir)
}

func (c *Clones) free(freed *clone) {
	c.onDisk -= freed.onDisk
	freed.onDisk = 0
}

// empty resets a clone that is in use. Its directory is created again with the first file.
func (c *Clones) empty(held *clone) error {
	held.tips, held.fetches = nil, 0
	err := os.RemoveAll(held.dir)
	c.free(held)
	held.givenUp = false
	return err
}

// reset resets a clone that the caller uses.
func (c *Clones) reset(held *clone) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty(held)
}

// isUsedUp reports whether a clone must be created again.
func (c *Clones) isUsedUp(held *clone) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return held.givenUp || held.fetches >= mostFetches
}

// checkOut fetches the newest commit of a branch for the checkout. If that fails, the next use creates the clone again,
// because the state of its files is unknown.
func (c *Clones) checkOut(ctx context.Context, held *clone, checkout *Checkout, name plumbing.ReferenceName) (err error) {
	if c.isUsedUp(held) {
		if err := c.reset(held); err != nil {
			return err
		}
	}
	grow := func(bytes int64) error { return c.grow(held, bytes) }
	if checkout.objects, err = objects.Open(held.dir, limits, c.memory, grow); err != nil {
		return err
	}
	broken := true
	defer func() {
		if broken {
			err = errors.Join(err, c.reset(held))
		}
	}()
	commit, wrote, err := checkout.connection.fetch(ctx, name, checkout.objects, slices.Clone(held.tips))
	if err != nil {
		broken = wrote
		return err
	}
	if wrote {
		held.tips = append(held.tips, commit)
		held.fetches++
	}
	checkout.base = commit
	checkout.root, err = rootOf(checkout.objects, commit)
	broken = err != nil
	return err
}
