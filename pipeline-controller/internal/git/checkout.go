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
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
)

// Checkout is one commit of a remote branch, with all its files, in a clone. It is not safe for concurrent use.
type Checkout struct {
	connection *connection
	// release lets others use the clone.
	release func()
	// objects of the clone. They are not modified.
	objects *objects.Store
	base    plumbing.Hash
	root    plumbing.Hash

	// written contains the objects of new commits. commits maps each commit to its objects.
	written *memory.Storage
	commits map[plumbing.Hash][]plumbing.Hash
}

// Close lets others use the clone. It can be called twice.
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

// File is a regular file of the base. It can be read until the checkout is closed.
type File struct {
	Path string
	// Size is the size in bytes, known without reading the file. It is more than MaxFile if the file cannot be read:
	// either it is larger than that, or the host has packed it as a delta of a larger one.
	Size int64

	blob    objects.Object
	wasRead bool
}

// Open returns the content of the file as a stream.
func (f *File) Open() (io.ReadCloser, error) {
	if f.Size > MaxFile {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes, or its delta base is", f.Path, MaxFile)
	}
	f.wasRead = true
	content, err := f.blob.Open()
	return content, f.unreadable(err)
}

// Read returns the content of the file.
func (f *File) Read() (_ []byte, err error) {
	reader, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	content := make([]byte, f.Size)
	_, err = io.ReadFull(reader, content)
	return content, f.unreadable(err)
}

func (f *File) unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: reading the file: %w", f.Path, err)
}

// FileFunc is called by EachFile. It returns whether the file is of interest, which must only depend on the file's name
// and content.
type FileFunc func(file *File) (interesting bool, err error)

// EachFile calls fn for the regular files of the base, executable or not, sorted by path. It skips symlinks,
// submodules, and unchanged files that were not of interest in an earlier checkout of the clone. So all checkouts must
// agree on what is of interest. An error of fn ends the walk and is returned unchanged.
//
// It only reads files below path and the directories that lead there. An empty path selects all files. The error is
// ErrPathNotFound if the base has neither a directory nor a regular file of that path.
func (c *Checkout) EachFile(ctx context.Context, below string, fn FileFunc) (err error) {
	defer recovered(ctx, &err)
	at, err := c.entry(below)
	left := maxFiles
	switch {
	case err != nil:
	case at.Mode == filemode.Dir:
		_, err = c.walk(ctx, at.Hash, below, strings.Count(below, "/"), &left, fn)
	case isRegular(at.Mode):
		_, err = c.visit(at.Hash, below, fn)
	default:
		err = fmt.Errorf("%q: %w", below, ErrPathNotFound)
	}
	return err
}

// entry returns the tree entry of a path, which is empty for the root.
func (c *Checkout) entry(name string) (object.TreeEntry, error) {
	at, dir := object.TreeEntry{Mode: filemode.Dir, Hash: c.root}, ""
	if name == "" {
		return at, nil
	}
	for _, step := range strings.Split(name, "/") {
		if at.Mode != filemode.Dir {
			return at, fmt.Errorf("%q: %w", name, ErrPathNotFound)
		}
		tree, err := c.tree(at.Hash, dir)
		if err != nil {
			return at, err
		}
		at = object.TreeEntry{}
		err = eachEntry(tree, dir, func(entry object.TreeEntry) error {
			if entry.Name == step {
				at = entry
			}
			return nil
		})
		if err != nil {
			return at, err
		}
		dir = path.Join(dir, step)
	}
	return at, nil
}

// walk calls fn for the files of the directory dir, whose tree is hash. It reports whether any of them is of interest.
// left is the number of files that may still be walked.
func (c *Checkout) walk(ctx context.Context, hash plumbing.Hash, dir string, depth int, left *int, fn FileFunc) (interesting bool, err error) {
	if depth > maxDepth {
		return false, fmt.Errorf("%s: more than %d directories deep", dir, maxDepth)
	}
	tree, err := c.tree(hash, dir)
	if err != nil || tree.Marked() {
		return false, err
	}
	err = eachEntry(tree, dir, func(entry object.TreeEntry) error {
		if *left--; *left < 0 {
			return fmt.Errorf("the repository has more than %d files", maxFiles)
		}
		name, found, err := path.Join(dir, entry.Name), false, ctx.Err()
		switch {
		case err != nil:
		case entry.Mode == filemode.Dir:
			found, err = c.walk(ctx, entry.Hash, name, depth+1, left, fn)
		case isRegular(entry.Mode):
			found, err = c.visit(entry.Hash, name, fn)
		}
		interesting = interesting || found
		return err
	})
	if err == nil && !interesting {
		err = tree.Mark()
	}
	return interesting, err
}

// visit calls fn for a file, unless it is marked as not of interest.
func (c *Checkout) visit(hash plumbing.Hash, name string, fn FileFunc) (bool, error) {
	blob, err := c.objects.Find(plumbing.BlobObject, hash)
	if errors.Is(err, objects.ErrNotFound) {
		return fn(&File{Path: name, Size: MaxFile + 1})
	}
	if err != nil || blob.Marked() {
		return false, err
	}
	file := &File{Path: name, Size: blob.Size(), blob: blob}
	interesting, err := fn(file)
	// A file that was not read is not of interest because of its name.
	if err == nil && !interesting && file.wasRead {
		err = blob.Mark()
	}
	return interesting, err
}

func isRegular(mode filemode.FileMode) bool {
	return mode == filemode.Regular || mode == filemode.Executable
}

// tree returns the tree of the directory dir.
func (c *Checkout) tree(hash plumbing.Hash, dir string) (objects.Object, error) {
	tree, err := c.objects.Find(plumbing.TreeObject, hash)
	if err != nil {
		return objects.Object{}, fmt.Errorf("reading directory %s: %w", path.Join("/", dir), err)
	}
	return tree, nil
}

// Commit creates a commit on top of the base, with new contents of the files at the paths of changes. Everything else,
// including file modes, is unchanged. Each path must be a regular file of the base. The author is author, and the time
// is when, recorded in UTC: the same arguments result in the same hash. The error is ErrNoChange if every file has its
// new content already. The commit reaches the remote with Push.
func (c *Checkout) Commit(changes map[string][]byte, message string, author Author, when time.Time, signer Signer) (hash string, err error) {
	defer recovered(context.Background(), &err)
	if strings.ContainsAny(author.Name+author.Email, "<>\n\x00") || strings.Contains(message, "\x00") {
		return "", errors.New("the author or the message of the commit holds characters that Git does not allow")
	}
	var made made
	root, err := c.change(c.root, "", changes, &made)
	if err != nil {
		return "", err
	}
	if root == c.root {
		return "", ErrNoChange
	}
	signature := object.Signature{Name: author.Name, Email: author.Email, When: when.UTC()}
	object := &object.Commit{
		Author:       signature,
		Committer:    signature,
		Message:      message,
		TreeHash:     root,
		ParentHashes: []plumbing.Hash{c.base},
	}
	if err := signer.signCommit(object); err != nil {
		return "", err
	}
	commit, err := c.write(object)
	if err != nil {
		return "", err
	}
	c.commits[commit] = append(made.objects, commit)
	return commit.String(), nil
}

// made counts the resources for a commit.
type made struct {
	objects []plumbing.Hash
	// read is the size in bytes of the changed trees, which are held in memory.
	read int64
}

// change returns the tree of the directory dir with the changes below it, whose paths are relative to dir, and counts
// the resources.
func (c *Checkout) change(hash plumbing.Hash, dir string, changes map[string][]byte, made *made) (plumbing.Hash, error) {
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

	entries, err := c.entries(hash, dir, made)
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
			becomes, err = c.changeFile(entry.Hash, content, made)
			delete(files, entry.Name)
		case isDirectory && entry.Mode == filemode.Dir:
			becomes, err = c.change(entry.Hash, name, below, made)
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
	made.objects = append(made.objects, tree)
	return tree, err
}

// entries returns the entries of the directory dir.
func (c *Checkout) entries(hash plumbing.Hash, dir string, made *made) (entries []object.TreeEntry, err error) {
	tree, err := c.tree(hash, dir)
	if err != nil {
		return nil, err
	}
	if made.read += tree.Size(); made.read > maxChanged {
		return nil, fmt.Errorf("%s: the directories that the commit changes have more than %d bytes", path.Join("/", dir), maxChanged)
	}
	err = eachEntry(tree, dir, func(entry object.TreeEntry) error {
		entries = append(entries, entry)
		return nil
	})
	return entries, err
}

func (c *Checkout) changeFile(hash plumbing.Hash, content []byte, made *made) (plumbing.Hash, error) {
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
	made.objects = append(made.objects, blob.Hash())
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
