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

package promote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-toolkit/sluice/api/marker"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/git"
)

// Limits of the memory for setting markers. Otherwise anyone who can push to a repository decides how much is used.
const (
	// maxMarked is the maximum size in bytes of all files with markers for one promotion.
	maxMarked = 2 * marker.MaxSize
	// maxMemory is the maximum memory in bytes of all promotions together: enough for the largest file and for some
	// changed files of other promotions.
	maxMemory = marker.MaxMemory + 2*keptPerByte*maxMarked
	// smallMemory is the memory that a promotion may use without being counted, so ordinary promotions never wait for
	// large ones.
	smallMemory = 4 << 20
	// keptPerByte is the number of copies of a changed file in memory until it is pushed.
	keptPerByte = 2
	// memoryPatience is how long a promotion waits for memory.
	memoryPatience = time.Minute
)

// candidate is a file that may contain markers for a promotion.
type candidate struct {
	*git.File
	// memory in bytes for setting its markers.
	memory int64
}

type candidates []candidate

// kept returns the memory in bytes of the changed files.
func (f candidates) kept() (bytes int64) {
	for _, file := range f {
		bytes += keptPerByte * file.Size
	}
	return bytes
}

// memory returns the memory in bytes for setting the markers in one file after the other.
func (f candidates) memory() int64 {
	largest := int64(0)
	for _, file := range f {
		largest = max(largest, file.memory)
	}
	return largest + f.kept()
}

// findMarked returns the files at a path that may contain markers for key. It does not read whole files into memory.
func findMarked(ctx context.Context, checkout *git.Checkout, below string, key marker.Key) (candidates, error) {
	var files candidates
	size := int64(0)
	err := checkout.EachFile(ctx, below, func(file *git.File) (bool, error) {
		if !marker.MayHold(file.Path) {
			return false, nil
		}
		var line int
		var mentions bool
		err := stream(ctx, file, func(content io.Reader) (err error) {
			line, mentions, err = marker.Search(content, key)
			return err
		})
		if err != nil || line == 0 {
			return mentions, err
		}
		marked, err := measure(ctx, file)
		if err != nil {
			return true, fmt.Errorf("%s:%d: %w", file.Path, line, err)
		}
		if size += file.Size; size > maxMarked {
			return true, fmt.Errorf("the files with markers for %s, %s among them, have %d bytes, more than the limit of %d", key, file.Path, size, maxMarked)
		}
		files = append(files, marked)
		return true, nil
	})
	return files, err
}

// measure returns an error if a file is too large for setting its markers.
func measure(ctx context.Context, file *git.File) (candidate, error) {
	marked := candidate{File: file}
	if err := marker.CheckSize(file.Size); err != nil {
		return marked, err
	}
	err := stream(ctx, file, func(content io.Reader) (err error) {
		marked.memory, err = marker.Memory(content)
		return err
	})
	if err != nil {
		return marked, err
	}
	return marked, marker.CheckMemory(marked.memory)
}

// stream calls read with the content of a file, until ctx is cancelled.
func stream(ctx context.Context, file *git.File, read func(io.Reader) error) error {
	content, err := file.Open()
	if err != nil {
		return err
	}
	return errors.Join(read(contextReader{ctx, content}), content.Close())
}

type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// memory is shared by all promotions.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{free: semaphore.NewWeighted(maxMemory)} }

// take waits for memory.
func (m memory) take(ctx context.Context, bytes int64) (*share, error) {
	if bytes <= smallMemory {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, memoryPatience, errors.New("timed out waiting for other promotions that change large files"))
	defer cancel()
	if err := m.free.Acquire(ctx, bytes); err != nil {
		return nil, context.Cause(ctx)
	}
	return &share{of: m, bytes: bytes}, nil
}

// share is the memory of one promotion. It is nil if it is not counted.
type share struct {
	of    memory
	bytes int64
}

// keep releases all but the given number of bytes.
func (s *share) keep(bytes int64) {
	if s != nil && bytes < s.bytes {
		s.of.free.Release(s.bytes - bytes)
		s.bytes = bytes
	}
}
