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
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git/objects"
)

// eachEntry calls fn for the entries of the directory dir while it reads the tree, because a tree and its parents may
// be large. An error of fn ends it and is returned unchanged.
func eachEntry(tree objects.Object, dir string, fn func(object.TreeEntry) error) (err error) {
	content, err := tree.Open()
	if err != nil {
		return fmt.Errorf("reading directory %s: %w", path.Join("/", dir), err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	in := bufio.NewReader(content)
	for {
		entry, err := readEntry(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading directory %s: %w", path.Join("/", dir), err)
		}
		if err := fn(entry); err != nil {
			return err
		}
	}
}

// readEntry reads an entry of a tree: a mode, a space, a name, a zero byte, a hash. The error is io.EOF at the end of
// the tree. It rejects the same names as Git's own checks, which hosts need not apply.
func readEntry(in *bufio.Reader) (entry object.TreeEntry, err error) {
	mode, err := in.ReadSlice(' ')
	if err != nil {
		if err == io.EOF && len(mode) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return entry, err
	}
	if entry.Mode, err = filemode.New(string(mode[:len(mode)-1])); err != nil {
		return entry, err
	}
	// A name is never longer than the buffer.
	name, err := in.ReadSlice(0)
	if err != nil {
		return entry, fmt.Errorf("an entry has no name: %w", unexpected(err))
	}
	entry.Name = string(name[:len(name)-1])
	if entry.Name == "." || entry.Name == ".." || strings.Contains(entry.Name, "/") {
		return entry, fmt.Errorf("it has an entry named %q", entry.Name)
	}
	_, err = io.ReadFull(in, entry.Hash[:])
	return entry, unexpected(err)
}

// rootOf returns the tree of a commit, which is in its first line.
func rootOf(store *objects.Store, commit plumbing.Hash) (plumbing.Hash, error) {
	const begin = "tree "
	found, err := store.Find(plumbing.CommitObject, commit)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	content, err := found.Open()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	line := make([]byte, len(begin)+2*len(plumbing.ZeroHash))
	_, err = io.ReadFull(content, line)
	if err := errors.Join(err, content.Close()); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("reading commit %s: %w", commit, err)
	}
	root := strings.TrimPrefix(string(line), begin)
	if !plumbing.IsHash(root) {
		return plumbing.ZeroHash, fmt.Errorf("commit %s names no tree", commit)
	}
	return plumbing.NewHash(root), nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
