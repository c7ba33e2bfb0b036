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

package leafcluster

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
)

// turns are lookups that the test allows one by one.
type turns struct {
	*lookups
	goOn     chan struct{}
	inTurn   chan struct{}
	lookedUp chan string
}

func newTurns(t *testing.T) *turns {
	turns := &turns{goOn: make(chan struct{}), inTurn: make(chan struct{}, 1000), lookedUp: make(chan string, 1000)}
	turns.lookups = newLookups(func(ctx context.Context) error {
		turns.inTurn <- struct{}{}
		select {
		case <-turns.goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.Cleanup(func() {
		NewWithT(t).Eventually(turns.waiting).Should(BeEmpty(), "nothing is kept of those who have left")
	})
	return turns
}

// lookUp triggers the lookup of a cluster that is named in some namespaces.
func (t *turns) lookUp(ctx context.Context, name string, namespaces ...string) {
	go func() {
		if t.wait(ctx, namespaces) == nil {
			t.lookedUp <- name
		}
	}()
}

func (t *turns) waiting() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := map[string]int{}
	for namespace, line := range t.lines {
		waiting[namespace] = line.waiting
	}
	return waiting
}

func TestANamespaceWithManyClustersDelaysOthersByOneLookup(t *testing.T) {
	g := NewWithT(t)
	turns := newTurns(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 500 {
		turns.lookUp(ctx, "one of many", "hostile")
	}
	g.Eventually(turns.waiting).Should(HaveKeyWithValue("hostile", 500))
	g.Eventually(turns.inTurn).Should(Receive())
	turns.lookUp(ctx, "the only one", "other")
	g.Eventually(turns.inTurn).Should(Receive())

	turns.goOn <- struct{}{}
	g.Eventually(turns.lookedUp).Should(Receive(Equal("one of many")))
	turns.goOn <- struct{}{}
	g.Eventually(turns.lookedUp).Should(Receive(Equal("the only one")))
}

// WaitingLookups returns the number of queued lookups.
func (c *Clusters) WaitingLookups() int {
	turns, all := turns{lookups: c.lookups}, 0
	for _, waiting := range turns.waiting() {
		all += waiting
	}
	return all
}

func TestAClusterThatANamespaceWithManyNamesTooIsNotDelayedByIt(t *testing.T) {
	g := NewWithT(t)
	turns := newTurns(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 500 {
		turns.lookUp(ctx, "one of many", "hostile")
	}
	g.Eventually(turns.waiting).Should(HaveKeyWithValue("hostile", 500))
	turns.lookUp(ctx, "shared", "hostile", "other")
	g.Eventually(turns.waiting).Should(Equal(map[string]int{"hostile": 500, "other": 1}))
}
