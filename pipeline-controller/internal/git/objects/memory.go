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
	// maxEntries and maxContents are how many bytes of memory all packs that are unpacked at the same time take: to know what is in
	// them, and to make whole what they have as deltas.
	maxEntries  = 64 << 20
	maxContents = 96 << 20
	// littleMemory is what is not counted, so that an ordinary repository waits for no other.
	littleMemory = 1 << 20
)

// Memory is shared by stores, which take turns where they need much of it.
type Memory struct {
	// Nobody waits for entries who has contents: so nobody waits for ever.
	entries, contents *semaphore.Weighted
}

// NewMemory returns the memory for all stores of a process.
func NewMemory() *Memory {
	return &Memory{entries: semaphore.NewWeighted(maxEntries), contents: semaphore.NewWeighted(maxContents)}
}

// take waits until there are as many bytes. What it returns gives them back.
func take(ctx context.Context, from *semaphore.Weighted, bytes int64) (giveBack func(), err error) {
	if bytes <= littleMemory {
		return func() {}, nil
	}
	if err := from.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { from.Release(bytes) }, nil
}
