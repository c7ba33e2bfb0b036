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

package objects

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// maxEntries and maxContents limit the memory in bytes of all packs that are unpacked at the same time: for their
	// entries, and for resolving deltas.
	maxEntries  = 64 << 20
	maxContents = 96 << 20
	// littleMemory is not counted, so ordinary repositories do not wait for others.
	littleMemory = 1 << 20
)

// Memory is shared by stores. They take turns if they need much of it.
type Memory struct {
	// Nobody who holds contents waits for entries, so there is no deadlock.
	entries, contents *semaphore.Weighted
}

// NewMemory returns the memory for all stores of a process.
func NewMemory() *Memory {
	return &Memory{entries: semaphore.NewWeighted(maxEntries), contents: semaphore.NewWeighted(maxContents)}
}

// take waits until the memory is available. It returns a function that releases it.
func take(ctx context.Context, from *semaphore.Weighted, bytes int64) (giveBack func(), err error) {
	if bytes <= littleMemory {
		return func() {}, nil
	}
	if err := from.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { from.Release(bytes) }, nil
}
