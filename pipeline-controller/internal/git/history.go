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
	"errors"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
)

// historyLimits are the limits for the commits of a History. A longer message is rejected, and so is a host that sends
// files as well.
var historyLimits = objects.Limits{Pack: 4 << 20, Object: 1 << 20, Unpacked: 16 << 20, Objects: 1 << 12, Disk: 16 << 20}

// errNoFilter means that the host does not send commits without files.
var errNoFilter = errors.New("the host does not send commits alone")

// Commit is the metadata of a commit.
type Commit struct {
	// Parents are the hashes of the parents. The first one is the branch that others were merged into.
	Parents []string
	Message string
}

// History contains commits without files, until it is closed.
type History struct {
	store *objects.Store
	dir   string
}

// History fetches that many generations of the newest commits of a branch. It returns an error for hosts that do not
// send commits without files.
func (c *Clones) History(ctx context.Context, remote Remote, branch string, generations int) (_ *History, err error) {
	defer recovered(ctx, &err)
	name, err := branchReference(branch)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(remote)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	history, err := c.newHistory()
	if err != nil {
		return nil, err
	}
	if err := conn.fetchCommits(ctx, name, generations, history.store); err != nil {
		return nil, errors.Join(err, history.Close())
	}
	return history, nil
}

func (c *Clones) newHistory() (*History, error) {
	dir, err := os.MkdirTemp(c.dir, "")
	if err != nil {
		return nil, err
	}
	// It needs little space on disk, and only for a moment.
	store, err := objects.Open(dir, historyLimits, c.memory, func(int64) error { return nil })
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &History{store: store, dir: dir}, nil
}

// Close removes the commits.
func (h *History) Close() error { return errors.Join(h.store.Close(), os.RemoveAll(h.dir)) }

// Commit returns a commit, and whether it is in the history.
func (h *History) Commit(hash string) (_ Commit, found bool, err error) {
	defer recovered(context.Background(), &err)
	return commitIn(h.store, hash)
}

// Tip returns the base commit.
func (c *Checkout) Tip() (_ Commit, err error) {
	defer recovered(context.Background(), &err)
	tip, _, err := commitIn(c.objects, c.base.String())
	return tip, err
}

func commitIn(store *objects.Store, hash string) (_ Commit, found bool, err error) {
	if !plumbing.IsHash(hash) {
		return Commit{}, false, nil
	}
	object, err := store.Find(plumbing.CommitObject, plumbing.NewHash(hash))
	if errors.Is(err, objects.ErrNotFound) {
		return Commit{}, false, nil
	}
	if err != nil {
		return Commit{}, false, err
	}
	content, err := object.Read()
	return parseCommit(string(content)), err == nil, err
}

// parseCommit parses a commit: lines with a key and a value, an empty line, and the message. Lines that start with a
// space continue the previous one.
func parseCommit(content string) Commit {
	header, message, _ := strings.Cut(content, "\n\n")
	commit := Commit{Message: message}
	for _, line := range strings.Split(header, "\n") {
		if parent, ok := strings.CutPrefix(line, "parent "); ok {
			commit.Parents = append(commit.Parents, parent)
		}
	}
	return commit
}
