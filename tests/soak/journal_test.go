//go:build soak && linux

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

package soak

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// journal logs events and collects the data of the summary.
type journal struct {
	began time.Time
	seed  uint64

	mu         sync.Mutex
	counts     map[string]int
	times      map[string][]time.Duration
	violations []string
}

func newJournal(seed uint64) *journal {
	return &journal{began: time.Now(), seed: seed, counts: map[string]int{}, times: map[string][]time.Duration{}}
}

func (j *journal) say(format string, args ...any) {
	fmt.Printf("%8s  %s\n", time.Since(j.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// count counts frequent events.
func (j *journal) count(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[fmt.Sprintf(format, args...)]++
}

// took records a duration.
func (j *journal) took(what string, duration time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.times[what] = append(j.times[what], duration)
}

// violation fails the test at its end.
func (j *journal) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.say("VIOLATION: %s", text)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, text)
}

func (j *journal) violated() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations)
}

// summarize prints the counts and durations.
func (j *journal) summarize() {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Println("\nHow often:")
	for _, what := range slices.Sorted(maps.Keys(j.counts)) {
		fmt.Printf("  %6d  %s\n", j.counts[what], what)
	}
	fmt.Println("\nHow long:                                                               times   median      95 %   longest")
	for _, what := range slices.Sorted(maps.Keys(j.times)) {
		all := slices.Sorted(slices.Values(j.times[what]))
		at := func(part int) time.Duration { return all[(len(all)-1)*part/100].Round(100 * time.Millisecond) }
		fmt.Printf("  %-69s %6d %8s  %8s  %8s\n", what, len(all), at(50), at(95), at(100))
	}
}

// crew is a group of goroutines that work until they are dismissed.
type crew struct {
	context.Context
	*journal
	dismissed context.CancelFunc
	all       sync.WaitGroup
}

func newCrew(ctx context.Context, j *journal) *crew {
	ctx, cancel := context.WithCancel(ctx)
	return &crew{Context: ctx, journal: j, dismissed: cancel}
}

// dismiss stops the crew and waits for it.
func (c *crew) dismiss() {
	c.dismissed()
	c.all.Wait()
}

// send runs do once in a new goroutine.
func (c *crew) send(do func(context.Context)) { c.all.Go(func() { do(c) }) }

// every runs do repeatedly in a new goroutine, with pauses of random length. It counts errors, because many calls fail
// while the API server is down.
func (c *crew) every(what string, least, most time.Duration, do func(context.Context, *rand.Rand) error) {
	r := c.random(what)
	c.send(func(ctx context.Context) {
		for pause(ctx, r, least, most) {
			if err := do(ctx, r); err != nil && ctx.Err() == nil {
				c.count("failed: %s", what)
			}
		}
	})
}

// random returns a generator for a purpose, derived from the seed.
func (j *journal) random(purpose string) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprint(hash, purpose)
	return rand.New(rand.NewPCG(j.seed, hash.Sum64()))
}

// pause waits, and reports whether ctx is still active.
func pause(ctx context.Context, r *rand.Rand, least, most time.Duration) bool {
	timer := time.NewTimer(least + time.Duration(r.Int64N(int64(most-least)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// insist retries until do succeeds or ctx ends.
func insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// within waits until so returns nil. On timeout, it returns the last error.
func within(ctx context.Context, most time.Duration, so func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return insist(ctx, func() error { return so(ctx) })
}
