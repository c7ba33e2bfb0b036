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

// Package soak runs Sluice for an hour with hostile Git hosts, leaf clusters that fail and recover, and processes that
// are killed at random. At the end, nothing was promoted twice, nothing was lost, and the controllers use no more
// resources than at the beginning. Run it with `make soak`. Set its duration and seed with DURATION and SEED.
package soak

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestSoak has three parts. In the first and the last one, controllers are killed. In the middle one, which is the
// longest, they are not, so their resource use can be compared. All other failures happen in all parts.
func TestSoak(t *testing.T) {
	duration, seed := settings(t)
	j := newJournal(seed)
	j.say("DURATION=%s SEED=%d", duration, seed)
	w := start(t.Context(), t, j)
	always, storm := newCrew(t.Context(), j), duration/6
	w.keepAll(always)
	gauge := w.measure(always, min(time.Minute, duration/10))
	w.work(always)
	t.Cleanup(always.dismiss)

	unrest := newCrew(t.Context(), j)
	w.hurry(unrest)
	w.trouble(unrest)
	w.storm(unrest, "first storm", storm)
	w.replaceControllers()
	steady := time.Now()
	w.say("steady part, for %s", duration-2*storm)
	pause(unrest, w.random("steady part"), duration-2*storm, duration-2*storm)
	calm := time.Now()
	w.storm(unrest, "last storm", storm)
	unrest.dismiss()

	w.expectEnd(t.Context())
	always.dismiss()
	gauge.compare(steady, calm)
	w.summarize()
	for _, violation := range w.violated() {
		t.Error(violation)
	}
}

// storm kills and freezes controllers for a while.
func (w *world) storm(ctx context.Context, name string, duration time.Duration) {
	w.say("%s, for %s", name, duration)
	storm := newCrew(ctx, w.journal)
	defer storm.dismiss()
	w.harm(storm)
	pause(storm, w.random(name), duration, duration)
}

// replaceControllers replaces all replicas in order, so they have the same age.
func (w *world) replaceControllers() {
	for _, r := range w.controllers {
		r.killed.Store(true)
		if err := r.Stop(); err != nil {
			w.violation("%s", err)
		}
	}
}

// expectEnd expects that everything settles once the failures stop, and that a last revision is promoted everywhere.
func (w *world) expectEnd(ctx context.Context) {
	w.say("no more trouble")
	for _, tenant := range tenants {
		if err := within(ctx, patience, func(ctx context.Context) error { return w.turn(ctx, tenant, "freeze", false) }); err != nil {
			w.violation("%s", err)
		}
	}
	for _, gate := range []string{"held", "change-freeze"} {
		if err := within(ctx, patience, func(ctx context.Context) error { return w.turn(ctx, "flux-system", gate, false) }); err != nil {
			w.violation("%s", err)
		}
	}
	w.expectSettled(ctx, "what was under way")
	for _, p := range w.pipelines {
		if err := w.release(ctx, p); err != nil {
			w.violation("%s", err)
		}
	}
	w.expectSettled(ctx, "a last revision")
	w.expectPlaygroundSettled(ctx)
	w.expectReleased(ctx)
	w.expectNoDoubles()
	w.expectNoPanics()
}

// settings reads the duration, without start and end, and the seed from the environment.
func settings(t *testing.T) (time.Duration, uint64) {
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("DURATION"), "1h"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), fmt.Sprint(time.Now().UnixNano())), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return duration, seed
}
