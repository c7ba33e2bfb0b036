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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Push moves branch on the remote to a commit that Commit created. It creates the branch if it must not exist yet. It
// is a push with a lease: the branch must be at the commit expected, or absent if expected is empty. Otherwise it is
// unchanged and the error is ErrLease. If the branch is at the new commit already, nothing is sent and there is no
// error.
func (c *Checkout) Push(ctx context.Context, hash, branch, expected string) (err error) {
	defer recovered(ctx, &err)
	name, err := branchReference(branch)
	if err != nil {
		return err
	}
	commit := plumbing.NewHash(hash)
	objects, ok := c.commits[commit]
	if !ok {
		return fmt.Errorf("commit %q was not made from this checkout", hash)
	}
	// The pack is as small as the change, and go-git holds the whole request in memory anyway.
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, c.written, false).Encode(objects, 0); err != nil {
		return fmt.Errorf("packing commit %s: %w", hash, err)
	}
	return c.connection.update(ctx, name, expected, commit, &pack)
}

// DeleteBranch deletes a branch of the remote. The branch must be at the commit expected. Otherwise it is unchanged and
// the error is ErrLease. It is not an error if the branch does not exist.
func DeleteBranch(ctx context.Context, remote Remote, branch, expected string) (err error) {
	defer recovered(ctx, &err)
	name, err := branchReference(branch)
	if err != nil {
		return err
	}
	if expected == "" {
		return errors.New("deleting a branch requires its expected commit")
	}
	conn, err := connect(remote)
	if err != nil {
		return err
	}
	defer conn.close()
	return conn.update(ctx, name, expected, plumbing.ZeroHash, nil)
}

// update moves a branch from expected (empty: it must be absent) to a commit, or deletes it if that is the zero hash.
func (c *connection) update(ctx context.Context, name plumbing.ReferenceName, expected string, to plumbing.Hash, pack io.Reader) error {
	if expected != "" && !plumbing.IsHash(expected) {
		return fmt.Errorf("%q is not the hash of a commit", expected)
	}
	old := plumbing.NewHash(expected)
	// go-git does not close the report's body. Cancelling the request frees the connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, advertised, err := c.receivePack(ctx)
	if err != nil {
		return err
	}
	at := advertised.References[name.String()]
	if at == to {
		return nil
	}
	if at != old {
		return c.leaseLost(name, at, expected)
	}

	request := packp.NewReferenceUpdateRequestFromCapabilities(advertised.Capabilities)
	// The host compares Old again, under its own lock, so a concurrent update is not overwritten.
	request.Commands = []*packp.Command{{Name: name, Old: old, New: to}}
	if to.IsZero() {
		if err := request.Capabilities.Set(capability.DeleteRefs); err != nil {
			return err
		}
	} else {
		request.Packfile = io.NopCloser(pack)
	}
	c.allowance.hold(maxNegotiation)
	report, err := session.ReceivePack(ctx, request)
	switch {
	case err == nil && report == nil:
		return c.failed("pushing "+name.Short()+" to", errors.New("the host did not report on it"))
	case err == nil:
		return nil
	case report == nil:
		return c.failed("pushing "+name.Short()+" to", err)
	}
	// The host rejected the push with its own message. The current commit of the branch shows whether a lost race was
	// the reason.
	if now, _, lookup := c.branch(ctx, name); lookup == nil && plumbing.NewHash(now) != old {
		return c.leaseLost(name, plumbing.NewHash(now), expected)
	}
	return c.failed("the host refused the push of "+name.Short()+" to", err)
}

func (c *connection) leaseLost(name plumbing.ReferenceName, at plumbing.Hash, expected string) error {
	describe := func(hash string) string {
		if hash == "" || plumbing.NewHash(hash).IsZero() {
			return "absent"
		}
		return "at " + hash
	}
	return fmt.Errorf("branch %s of %s is %s, expected it %s: %w",
		name.Short(), c.url, describe(at.String()), describe(expected), ErrLease)
}
