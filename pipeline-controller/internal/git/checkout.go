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
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Checkout is one commit of a remote branch, with all its files, as objects of
// a clone. It is not safe for concurrent use.
type Checkout struct {
	connection *connection
	clone      *clone
	// release lets others have the clone.
	release func()
	// objects are the clone's. Nothing is added to them.
	objects *filesystem.Storage
	base    plumbing.Hash
	root    plumbing.Hash

	// written holds the objects of the commits made here; commits tells which are whose.
	written *memory.Storage
	commits map[plumbing.Hash][]plumbing.Hash
}

// fetch stores the newest commit of a branch, less the objects of the commits
// that are there already, and returns its hash. It fetches nothing if it is
// one of these. wrote tells whether anything was stored, be it a part.
func (c *connection) fetch(ctx context.Context, name plumbing.ReferenceName, into *filesystem.Storage, have []plumbing.Hash) (_ plumbing.Hash, wrote bool, err error) {
	// go-git leaves a response open that it cannot make sense of: ending the request frees its connection.
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

	request := packp.NewUploadPackRequestFromCapabilities(advertised.Capabilities)
	request.Wants = []plumbing.Hash{commit}
	request.Shallows, request.Haves = have, have
	request.Depth = packp.DepthCommits(1)
	capabilities := []capability.Capability{capability.Shallow}
	if advertised.Capabilities.Supports(capability.NoProgress) {
		capabilities = append(capabilities, capability.NoProgress)
	}
	// Without the right to refer to objects that are here, a host sends all files of a commit that has no parents here.
	thin := len(have) > 0 && advertised.Capabilities.Supports(capability.ThinPack)
	if thin {
		capabilities = append(capabilities, capability.ThinPack)
	}
	for _, wanted := range capabilities {
		if err := request.Capabilities.Set(wanted); err != nil {
			return plumbing.ZeroHash, false, err
		}
	}
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return plumbing.ZeroHash, false, c.failed("cloning", err)
	}
	err = store(into, packReader(request.Capabilities, io.LimitReader(response, maxPack)), thin)
	if err := errors.Join(err, response.Close()); err != nil {
		return plumbing.ZeroHash, true, c.failed("cloning", err)
	}
	return commit, true, nil
}

// store keeps the objects of a pack. Those of a thin one, few as a rule, are kept one by one, as they may build upon others.
func store(into *filesystem.Storage, pack io.Reader, thin bool) error {
	checked := bounded(pack)
	defer checked.Close()
	if !thin {
		return packfile.UpdateObjectStorage(into, checked)
	}
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(checked), into)
	if err != nil {
		return err
	}
	_, err = parser.Parse()
	return err
}

func packReader(agreed *capability.List, response io.Reader) io.Reader {
	switch {
	case agreed.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, response)
	case agreed.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, response)
	default:
		return response
	}
}

// Close lets others have the clone. Closing twice does nothing.
func (c *Checkout) Close() (err error) {
	if c.release == nil {
		return nil
	}
	c.connection.close()
	if c.objects != nil {
		err = c.objects.Close()
	}
	c.release()
	c.release = nil
	return err
}

// Base returns the hash of the commit that was cloned.
func (c *Checkout) Base() string { return c.base.String() }

// FileFunc is what EachFile calls. read returns the file's bytes; size is
// their number, known without reading any. It returns whether the file is of
// interest, which must depend on nothing but its name and its bytes.
type FileFunc func(path string, size int64, read func() ([]byte, error)) (interesting bool, err error)

// EachFile calls fn for the regular files of the base, executable or not, in
// the order of their paths. Symlinks and submodules are passed over, and so is
// what was not of interest in an earlier checkout of the clone and has not
// changed: there must be one idea of what is of interest for all of them. An
// error of fn ends the walk and is returned as it is.
func (c *Checkout) EachFile(ctx context.Context, fn FileFunc) error {
	left := maxFiles
	_, err := c.walk(ctx, c.root, "", 0, &left, fn)
	return err
}

// walk calls fn for the files of the directory dir, whose tree is hash, and tells whether any of them is of interest; left counts
// down what may yet be walked.
func (c *Checkout) walk(ctx context.Context, hash plumbing.Hash, dir string, depth int, left *int, fn FileFunc) (bool, error) {
	if depth > maxDepth {
		return false, fmt.Errorf("%s: more than %d directories deep", dir, maxDepth)
	}
	if _, dull := c.clone.dull[hash]; dull {
		return false, nil
	}
	entries, err := c.tree(hash, dir)
	if err != nil {
		return false, err
	}
	interesting := false
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if *left--; *left < 0 {
			return false, fmt.Errorf("the repository has more than %d files", maxFiles)
		}
		name, found := path.Join(dir, entry.Name), false
		switch {
		case entry.Mode == filemode.Dir:
			found, err = c.walk(ctx, entry.Hash, name, depth+1, left, fn)
		case isRegular(entry.Mode):
			found, err = c.visit(entry.Hash, name, fn)
		}
		if err != nil {
			return false, err
		}
		interesting = interesting || found
	}
	if !interesting {
		c.clone.dull[hash] = struct{}{}
	}
	return interesting, nil
}

func (c *Checkout) visit(hash plumbing.Hash, name string, fn FileFunc) (bool, error) {
	if _, dull := c.clone.dull[hash]; dull {
		return false, nil
	}
	size, err := c.objects.EncodedObjectSize(hash)
	if err != nil {
		return false, fmt.Errorf("%s: reading its size: %w", name, err)
	}
	wasRead := false
	interesting, err := fn(name, size, func() ([]byte, error) {
		wasRead = true
		content, err := c.blob(hash, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return content, nil
	})
	// Unread, it was its name that was not of interest.
	if err == nil && !interesting && wasRead {
		c.clone.dull[hash] = struct{}{}
	}
	return interesting, err
}

func (c *Checkout) blob(hash plumbing.Hash, size int64) (_ []byte, err error) {
	blob, err := object.GetBlob(c.objects, hash)
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", hash, err)
	}
	reader, err := blob.Reader()
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", hash, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	content, err := io.ReadAll(io.LimitReader(reader, size+1))
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", hash, err)
	}
	if int64(len(content)) != size {
		return nil, fmt.Errorf("blob %s is not of the %d bytes it says", hash, size)
	}
	return content, nil
}

func isRegular(mode filemode.FileMode) bool {
	return mode == filemode.Regular || mode == filemode.Executable
}

// tree returns the entries of the directory dir, whose tree is hash. Git's own
// checks refuse the names it refuses; a host need not have made them.
func (c *Checkout) tree(hash plumbing.Hash, dir string) ([]object.TreeEntry, error) {
	if size, err := c.objects.EncodedObjectSize(hash); err == nil && size > maxTree {
		return nil, fmt.Errorf("%s: the directory has more than %d bytes", path.Join("/", dir), maxTree)
	}
	tree, err := object.GetTree(c.objects, hash)
	if err != nil {
		return nil, fmt.Errorf("%s: reading tree %s: %w", path.Join("/", dir), hash, err)
	}
	for _, entry := range tree.Entries {
		if entry.Name == "." || entry.Name == ".." || strings.Contains(entry.Name, "/") {
			return nil, fmt.Errorf("%s: tree %s has an entry named %q", path.Join("/", dir), hash, entry.Name)
		}
	}
	return tree.Entries, nil
}

// Commit makes a commit on top of the base in which the files at the paths of
// changes have these new contents; everything else, their modes included, is
// the base's. Each path must be a regular file of the base. It is by author,
// at the time when, which is recorded in UTC: the same arguments make the same
// hash. The error is ErrNoChange when every file has its new content already.
// The commit is on the remote once Push has brought it there.
func (c *Checkout) Commit(changes map[string][]byte, message string, author Author, when time.Time, signer Signer) (hash string, err error) {
	if strings.ContainsAny(author.Name+author.Email, "<>\n\x00") || strings.Contains(message, "\x00") {
		return "", errors.New("the author or the message of the commit holds characters that Git does not allow")
	}
	var added []plumbing.Hash
	root, err := c.change(c.root, "", changes, &added)
	if err != nil {
		return "", err
	}
	if root == c.root {
		return "", ErrNoChange
	}
	signature := object.Signature{Name: author.Name, Email: author.Email, When: when.UTC()}
	made := &object.Commit{
		Author:       signature,
		Committer:    signature,
		Message:      message,
		TreeHash:     root,
		ParentHashes: []plumbing.Hash{c.base},
	}
	if err := signer.signCommit(made); err != nil {
		return "", err
	}
	commit, err := c.write(made)
	if err != nil {
		return "", err
	}
	c.commits[commit] = append(added, commit)
	return commit.String(), nil
}

// change returns the tree of the directory dir with the changes below it, whose
// paths are relative to it, and appends to added what objects that took.
func (c *Checkout) change(hash plumbing.Hash, dir string, changes map[string][]byte, added *[]plumbing.Hash) (plumbing.Hash, error) {
	files := map[string][]byte{}
	directories := map[string]map[string][]byte{}
	for name, content := range changes {
		first, rest, below := strings.Cut(name, "/")
		if !below {
			files[name] = content
			continue
		}
		if directories[first] == nil {
			directories[first] = map[string][]byte{}
		}
		directories[first][rest] = content
	}

	entries, err := c.tree(hash, dir)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	changed := false
	for i, entry := range entries {
		name := path.Join(dir, entry.Name)
		becomes := entry.Hash
		content, isFile := files[entry.Name]
		below, isDirectory := directories[entry.Name]
		switch {
		case isFile && isRegular(entry.Mode):
			becomes, err = c.changeFile(entry.Hash, content, added)
			delete(files, entry.Name)
		case isDirectory && entry.Mode == filemode.Dir:
			becomes, err = c.change(entry.Hash, name, below, added)
			delete(directories, entry.Name)
		}
		if err != nil {
			return plumbing.ZeroHash, err
		}
		changed = changed || becomes != entry.Hash
		entries[i].Hash = becomes
	}
	for name := range files {
		return plumbing.ZeroHash, fmt.Errorf("%s: not a regular file of commit %s", path.Join(dir, name), c.base)
	}
	for name := range directories {
		return plumbing.ZeroHash, fmt.Errorf("%s: not a directory of commit %s", path.Join(dir, name), c.base)
	}
	if !changed {
		return hash, nil
	}
	tree, err := c.write(&object.Tree{Entries: entries})
	*added = append(*added, tree)
	return tree, err
}

func (c *Checkout) changeFile(hash plumbing.Hash, content []byte, added *[]plumbing.Hash) (plumbing.Hash, error) {
	blob := c.written.NewEncodedObject()
	blob.SetType(plumbing.BlobObject)
	writer, err := blob.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := writer.Write(content); err != nil {
		return plumbing.ZeroHash, err
	}
	if blob.Hash() == hash {
		return hash, nil
	}
	*added = append(*added, blob.Hash())
	return c.written.SetEncodedObject(blob)
}

func (c *Checkout) write(encoder interface {
	Encode(plumbing.EncodedObject) error
}) (plumbing.Hash, error) {
	encoded := c.written.NewEncodedObject()
	if err := encoder.Encode(encoded); err != nil {
		return plumbing.ZeroHash, err
	}
	return c.written.SetEncodedObject(encoded)
}
