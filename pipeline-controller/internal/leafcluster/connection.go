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
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// lookupPending is the message of a target that was just declared.
const lookupPending = "lookup pending"

// attempts limits the concurrent attempts to connect. First attempts do not wait for repeated ones, so clusters that do
// not respond never delay others.
type attempts struct {
	firsts, repeated chan struct{}
}

func newAttempts(atOnce int) *attempts {
	return &attempts{firsts: make(chan struct{}, atOnce), repeated: make(chan struct{}, atOnce)}
}

// connection is the connection to one API server with the credentials of one kubeconfig. Clusters with byte-identical
// kubeconfigs share it and its watches.
type connection struct {
	server   *server
	attempts *attempts
	enqueue  enqueue
	// retry ends the wait for the next attempt.
	retry chan struct{}
	// started is the start of the first attempt.
	started time.Time

	mu sync.Mutex
	// users are the clusters that use it. Guarded by mu.
	users map[*cluster]struct{}
	// watches that are wanted. Guarded by mu.
	watches map[watchKey]*watched
	// session is done when the connection is lost; nil while there is none. Guarded by mu.
	session context.Context
	// running counts the watches of the session. Guarded by mu.
	running *sync.WaitGroup
	// failure is the reason why there is no session; nil before the first attempt has finished. Guarded by mu.
	failure *failure
	// sessions counts successful connects. Guarded by mu.
	sessions int
}

// watched is a watch that the connection runs.
type watched struct {
	*watch
	// stop stops the watch; nil while it is not running. Guarded by connection.mu.
	stop context.CancelFunc
}

func newConnection(server *server, attempts *attempts, enqueue enqueue) *connection {
	return &connection{
		server:   server,
		attempts: attempts,
		enqueue:  enqueue,
		retry:    make(chan struct{}, 1),
		started:  time.Now(),
		users:    map[*cluster]struct{}{},
		watches:  map[watchKey]*watched{},
	}
}

// managementConnection returns the connection to the cluster of the controller, which does not take turns.
func managementConnection(config *rest.Config, client *http.Client, enqueue enqueue, timing Timing) (*connection, error) {
	server, err := managementServer(config, client, timing)
	if err != nil {
		return nil, err
	}
	return newConnection(server, nil, enqueue), nil
}

// leafConnection returns a connection to a leaf cluster.
func leafConnection(config *kubeconfig.Kubeconfig, attempts *attempts, enqueue enqueue, timing Timing) (*connection, error) {
	server, err := leafServer(config, timing)
	if err != nil {
		return nil, err
	}
	return newConnection(server, attempts, enqueue), nil
}

// madeFrom returns the fingerprint of the kubeconfig, or zero for the management cluster.
func (c *connection) madeFrom() kubeconfig.Fingerprint {
	if c.server.isLeaf() {
		return c.server.kubeconfig.Fingerprint
	}
	return kubeconfig.Fingerprint{}
}

// run connects, runs the watches while the server responds, and reconnects when it no longer does.
func (c *connection) run(ctx context.Context) {
	defer c.server.Close()
	for failures := 0; ctx.Err() == nil; {
		if err := c.connect(ctx, failures == 0); err != nil {
			c.server.Disconnect()
			c.fail(ctx, err, time.Now())
			pause(ctx, c.backoff(failures), c.retry)
			failures++
			continue
		}
		failures = 0
		c.serve(ctx)
	}
}

// retryNow ends the wait for the next attempt.
func (c *connection) retryNow() {
	select {
	case c.retry <- struct{}{}:
	default:
	}
}

// connect waits for its turn and probes the server.
func (c *connection) connect(ctx context.Context, first bool) error {
	if !c.server.isLeaf() {
		return nil
	}
	turns := c.attempts.repeated
	if first {
		turns = c.attempts.firsts
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.server.probe(ctx)
}

// serve runs the watches until nothing was received from the server for too long.
func (c *connection) serve(ctx context.Context) {
	session, end := context.WithCancel(ctx)
	running := c.begin(session)
	defer running.Wait()
	defer c.endSession()
	defer end()
	for {
		pause(ctx, wait.Jitter(c.server.timing.ProbeInterval, 0.2), nil)
		if ctx.Err() != nil {
			return
		}
		if err := c.server.stillThere(ctx); err != nil {
			c.fail(ctx, err, c.server.LastContact())
			return
		}
		c.check(time.Now())
	}
}

// begin starts a session with its watches. The watches notify Pipelines once the states of their targets are known.
func (c *connection) begin(session context.Context) *sync.WaitGroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.running, c.failure = session, &sync.WaitGroup{}, nil
	c.sessions++
	for _, w := range c.watches {
		// States from the previous session do not count in this one.
		w.restart()
		c.startLocked(w)
	}
	return c.running
}

func (c *connection) endSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
	for _, w := range c.watches {
		w.stop = nil
	}
}

// check makes the watches check whether their states have become too old.
func (c *connection) check(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watches {
		w.check(now)
	}
}

// fail records why there is no session, and notifies Pipelines if the reason is new.
func (c *connection) fail(ctx context.Context, err error, since time.Time) {
	if ctx.Err() != nil {
		return
	}
	why := c.server.failureOf(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.failure
	c.failure = why.at(before, since)
	if !why.sameAs(before) {
		for _, w := range c.watches {
			w.notify()
		}
	}
	// The kubeconfig may have been replaced for this reason.
	for user := range c.users {
		user.lookUpSoon()
	}
}

// addUser adds a cluster that uses the connection.
func (c *connection) addUser(user *cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users[user] = struct{}{}
}

// removeUser removes a cluster, and returns the number of remaining ones.
func (c *connection) removeUser(user *cluster) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, user)
	return len(c.users)
}

// subscribe subscribes a Pipeline to an object, and starts its watch if necessary.
func (c *connection) subscribe(key watchKey, object types.NamespacedName, s subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[key]
	if w == nil {
		w = &watched{watch: newWatch(key, c.server, c.enqueue)}
		c.watches[key] = w
		if c.session != nil {
			c.startLocked(w)
		}
	}
	w.subscribe(object, s)
}

// unsubscribe removes a subscription, and stops its watch if it was the last one.
func (c *connection) unsubscribe(key watchKey, object types.NamespacedName, s subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[key]
	if w == nil || w.unsubscribe(object, s) > 0 {
		return
	}
	delete(c.watches, key)
	if w.stop != nil {
		w.stop()
	}
}

func (c *connection) startLocked(w *watched) {
	ctx, stop := context.WithCancel(c.session)
	w.stop = stop
	c.running.Go(func() {
		defer stop()
		w.run(ctx)
	})
}

// find returns the watch of a key. If there is none, it returns the state of all its targets.
func (c *connection) find(key watchKey) (*watch, application.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return nil, c.failure.state()
	case c.session == nil:
		return nil, application.UnknownBecause(pipelinesv1.ConnectingReason, "connecting to "+c.server.address, c.started)
	}
	if w := c.watches[key]; w != nil {
		return w.watch, application.State{}
	}
	return nil, application.UnknownBecause(pipelinesv1.ConnectingReason, lookupPending, time.Now())
}

// readObject reads an object without the watch.
func (c *connection) readObject(ctx context.Context, key watchKey, name types.NamespacedName) application.State {
	return c.server.readObject(ctx, key, name)
}

// countSessions returns the number of successful connects.
func (c *connection) countSessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions
}

// figures counts only the given watches: a cluster that shares the connection may have others.
func (c *connection) figures(keys map[watchKey]struct{}) figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := figures{connected: c.session != nil, contact: c.server.LastContact(), watches: len(keys), sessions: c.sessions}
	for key := range keys {
		of.objects += c.watches[key].objects()
	}
	return of
}

// backoff doubles with each failure and varies by half of itself, so clusters that were disconnected together are not
// retried together.
func (c *connection) backoff(failures int) time.Duration {
	base := c.server.timing.BackoffMin << min(failures, 16)
	return wait.Jitter(min(base, c.server.timing.BackoffMax), 0.5)
}

// pause waits for a duration, unless it is interrupted.
func pause(ctx context.Context, wait time.Duration, interrupt <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-interrupt:
	}
}
