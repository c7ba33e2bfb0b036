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
	"slices"
	"sync"
)

// lookups limits the rate of lookups of the objects that represent clusters, since anyone who can create a Pipeline can
// name many. The namespaces of Pipelines take turns, so each one with many clusters delays the others by a single
// lookup.
type lookups struct {
	// next waits until the rate allows another lookup. Callers are served in order.
	next func(context.Context) error

	mu sync.Mutex
	// lines contains the waiting lookups by namespace. Guarded by mu.
	lines map[string]*line
}

// line contains the waiting lookups of a namespace.
type line struct {
	// waiting is their number. Guarded by lookups.mu.
	waiting int
	// head is held by the first one. The others receive it in order.
	head chan struct{}
}

func newLookups(next func(context.Context) error) *lookups {
	return &lookups{next: next, lines: map[string]*line{}}
}

// wait waits for the turn of a cluster that Pipelines in these namespaces refer to. It returns immediately if the
// context is cancelled.
func (l *lookups) wait(ctx context.Context, namespaces []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	namespace, line := l.join(namespaces)
	defer l.leave(namespace, line)
	select {
	case line.head <- struct{}{}:
		defer func() { <-line.head }()
		return l.next(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join joins the shortest line: Pipelines of other namespaces that name the cluster must not delay it.
func (l *lookups) join(namespaces []string) (string, *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := func(namespace string) int {
		if line := l.lines[namespace]; line != nil {
			return line.waiting
		}
		return 0
	}
	namespace := slices.MinFunc(namespaces, func(a, b string) int { return waiting(a) - waiting(b) })
	if l.lines[namespace] == nil {
		l.lines[namespace] = &line{head: make(chan struct{}, 1)}
	}
	l.lines[namespace].waiting++
	return namespace, l.lines[namespace]
}

func (l *lookups) leave(namespace string, line *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.waiting--; line.waiting == 0 {
		delete(l.lines, namespace)
	}
}
