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
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
)

// fetch stores the newest commit of a branch, without the objects of commits that exist already, and returns its hash.
// It fetches nothing if the commit exists. wrote is true if anything was stored, even partially.
func (c *connection) fetch(ctx context.Context, name plumbing.ReferenceName, into *objects.Store, have []plumbing.Hash) (_ plumbing.Hash, wrote bool, err error) {
	// go-git does not close a response that it cannot parse. Cancelling the request frees the connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, advertised, err := c.uploadPack(ctx)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	commit, ok := advertised.References[name.String()]
	if !ok {
		return plumbing.ZeroHash, false, fmt.Errorf("branch %q of %s: %w", name.Short(), c.url, ErrBranchNotFound)
	}
	if slices.Contains(have, commit) {
		return commit, false, nil
	}
	request, err := packRequest(advertised.Capabilities, commit, have)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	response, err := c.request(ctx, session, request)
	if err != nil {
		return plumbing.ZeroHash, false, c.failed("cloning", err)
	}
	c.allowance.pass(maxPackResponse)
	if err := into.Add(ctx, packOf(request.Capabilities, response)); err != nil {
		return plumbing.ZeroHash, true, c.failed("cloning", err)
	}
	return commit, true, nil
}

// fetchCommits stores that many generations of commits of a branch, and nothing else. The error is errNoFilter if the
// host does not send commits without files.
func (c *connection) fetchCommits(ctx context.Context, name plumbing.ReferenceName, generations int, into *objects.Store) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, advertised, err := c.uploadPack(ctx)
	if err != nil {
		return err
	}
	tip, ok := advertised.References[name.String()]
	switch {
	case !ok:
		return fmt.Errorf("branch %q of %s: %w", name.Short(), c.url, ErrBranchNotFound)
	case !advertised.Capabilities.Supports(capability.Filter):
		return errNoFilter
	}
	request, err := packRequest(advertised.Capabilities, tip, nil)
	if err != nil {
		return err
	}
	request.Depth, request.Filter = packp.DepthCommits(generations), packp.FilterTreeDepth(0)
	c.allowance.hold(maxNegotiation)
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return c.failed("reading the history of", err)
	}
	c.allowance.pass(2 * historyLimits.Pack)
	if err := into.Add(ctx, packOf(request.Capabilities, response)); err != nil {
		return c.failed("reading the history of", err)
	}
	return nil
}

// request requests a pack from the host.
func (c *connection) request(ctx context.Context, session transport.UploadPackSession, request *packp.UploadPackRequest) (io.ReadCloser, error) {
	c.allowance.hold(maxNegotiation)
	response, err := session.UploadPack(ctx, request)
	if err == nil || request.Filter == "" || ctx.Err() != nil {
		return response, err
	}
	// Some hosts advertise filters but reject those by size.
	if session, _, err = c.uploadPack(ctx); err != nil {
		return nil, err
	}
	request.Filter = ""
	return c.request(ctx, session, request)
}

// packRequest requests a commit with all its files, without those of the commits that exist already.
func packRequest(offered *capability.List, commit plumbing.Hash, have []plumbing.Hash) (*packp.UploadPackRequest, error) {
	request := packp.NewUploadPackRequestFromCapabilities(offered)
	request.Wants = []plumbing.Hash{commit}
	request.Shallows, request.Haves = have, have
	request.Depth = packp.DepthCommits(1)
	capabilities := []capability.Capability{capability.Shallow}
	if offered.Supports(capability.NoProgress) {
		capabilities = append(capabilities, capability.NoProgress)
	}
	// Unless the pack may refer to existing objects, the host sends all files of a commit without existing parents.
	if len(have) > 0 && offered.Supports(capability.ThinPack) {
		capabilities = append(capabilities, capability.ThinPack)
	}
	// Objects that are too large to be kept need not be sent.
	if offered.Supports(capability.Filter) {
		capabilities = append(capabilities, capability.Filter)
		request.Filter = packp.FilterBlobLimit(MaxFile+1, packp.BlobLimitPrefixNone)
	}
	for _, wanted := range capabilities {
		if err := request.Capabilities.Set(wanted); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// packOf returns the pack in a response.
func packOf(agreed *capability.List, response io.ReadCloser) io.ReadCloser {
	switch {
	case agreed.Supports(capability.Sideband64k):
		return pack{sideband.NewDemuxer(sideband.Sideband64k, response), response}
	case agreed.Supports(capability.Sideband):
		return pack{sideband.NewDemuxer(sideband.Sideband, response), response}
	default:
		return response
	}
}

type pack struct {
	io.Reader
	io.Closer
}
