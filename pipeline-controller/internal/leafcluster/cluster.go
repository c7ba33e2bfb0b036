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
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/apireader"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// want is the subscription of a Pipeline to an object of a cluster.
type want struct {
	pipeline types.NamespacedName
	watch    watchKey
	object   types.NamespacedName
}

// cluster is an object that represents a cluster and that some Pipeline refers to. It resolves the kubeconfig, follows
// its changes, and manages the connection. The management cluster is one too, with a given connection.
type cluster struct {
	ref         kubeconfig.Reference
	connections *connections
	enqueue     enqueue
	// lookup triggers a lookup of the object.
	lookup chan struct{}
	// stop stops run; nil for the management cluster. Guarded by Clusters.mu.
	stop context.CancelFunc
	// started is the time of the first reference to the object.
	started time.Time

	mu sync.Mutex
	// wants contains the subscriptions to the cluster. Guarded by mu.
	wants map[want]struct{}
	// ended is true once there are no subscriptions left. Guarded by mu.
	ended bool
	// connection is nil while there is no kubeconfig. Guarded by mu.
	connection *connection
	// failure is the reason why there is none; nil before the first lookup. Guarded by mu.
	failure *failure
	// sessions counts the sessions of earlier connections. Guarded by mu.
	sessions int
}

func newCluster(ref kubeconfig.Reference, connections *connections, enqueue enqueue) *cluster {
	return &cluster{
		ref: ref, connections: connections, enqueue: enqueue,
		lookup: make(chan struct{}, 1), started: time.Now(), wants: map[want]struct{}{},
	}
}

// run looks up the object at intervals, and when triggered.
func (c *cluster) run(ctx context.Context, resolver *kubeconfig.Resolver, lookups *lookups, timing Timing) {
	var known kubeconfig.Version
	for lookups.wait(ctx, c.namespaces()) == nil {
		known = c.resolve(ctx, resolver, known)
		interval := timing.ResolveInterval
		if known == (kubeconfig.Version{}) {
			// Someone is probably fixing it.
			interval /= 4
		}
		// Triggers may be frequent.
		pause(ctx, timing.BackoffMin, nil)
		pause(ctx, wait.Jitter(interval, 0.2), c.lookup)
	}
}

// resolve looks up the object and updates the connection.
func (c *cluster) resolve(ctx context.Context, resolver *kubeconfig.Resolver, known kubeconfig.Version) kubeconfig.Version {
	ctx, cancel := context.WithTimeout(ctx, apireader.RequestTimeout)
	defer cancel()
	config, now, err := resolver.Resolve(ctx, c.ref, known)
	var refusal *kubeconfig.Refusal
	switch {
	case errors.As(err, &refusal):
		c.disconnect(failed(refusal.Reason, "%s", refusal.Message))
		return now
	case err != nil:
		// Nothing is known to have changed.
		ctrl.LoggerFrom(ctx).Error(err, "looking up the kubeconfig failed", "cluster", c.ref.String())
		return known
	case config == nil:
		return now
	}
	connection, err := c.connections.prepare(config)
	if err != nil {
		c.disconnect(failed(pipelinesv1.InvalidKubeconfigReason, "the kubeconfig of %s is invalid", c.ref))
		return now
	}
	c.connect(connection)
	return now
}

// connect uses the existing connection of the same kubeconfig, or a new one.
func (c *cluster) connect(connection *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.connection != nil && c.connection.madeFrom() == connection.madeFrom() {
		return
	}
	connection = c.connections.acquire(connection, c)
	c.releaseLocked()
	// Sessions from before the connection was shared do not count.
	c.sessions -= max(connection.countSessions()-1, 0)
	c.connection, c.failure = connection, nil
	for w := range c.wants {
		connection.subscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
	c.notifyLocked()
}

// disconnect releases the connection: there is no kubeconfig for one, or it must not be used.
func (c *cluster) disconnect(why *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked()
	before := c.failure
	c.failure = why.at(before, time.Now())
	if !why.sameAs(before) {
		c.notifyLocked()
	}
}

// releaseLocked releases the connection.
func (c *cluster) releaseLocked() {
	connection := c.connection
	if connection == nil {
		return
	}
	c.connection = nil
	c.sessions += connection.countSessions()
	for w := range c.wants {
		connection.unsubscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
	c.connections.release(connection, c)
}

// notifyLocked queues the Pipelines that are subscribed to the cluster.
func (c *cluster) notifyLocked() {
	for w := range c.wants {
		c.enqueue(w.pipeline, gatherTime)
	}
}

// add adds a subscription.
func (c *cluster) add(w want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wants[w] = struct{}{}
	if c.connection != nil {
		c.connection.subscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
}

// remove removes a subscription, and ends the cluster if none is left. It reports whether it did.
func (c *cluster) remove(w want) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wants, w)
	if c.connection != nil {
		c.connection.unsubscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
	if len(c.wants) > 0 {
		return false
	}
	c.ended = true
	if c.stop != nil {
		c.stop()
	}
	c.releaseLocked()
	return true
}

// find returns the watch of a key. If there is none, it returns the state of all its targets.
func (c *cluster) find(key watchKey) (*watch, application.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return nil, c.failure.state()
	case c.connection == nil:
		return nil, application.UnknownBecause(pipelinesv1.ConnectingReason, "looking up the kubeconfig of "+c.ref.String(), c.started)
	}
	return c.connection.find(key)
}

// refresh triggers a lookup of the object and an immediate attempt to connect.
func (c *cluster) refresh() {
	c.lookUpSoon()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection != nil {
		c.connection.retryNow()
	}
}

// lookUpSoon triggers a lookup of the object. It may be called while any lock is held.
func (c *cluster) lookUpSoon() {
	select {
	case c.lookup <- struct{}{}:
	default:
	}
}

// namespaces returns the namespaces of the subscribed Pipelines.
func (c *cluster) namespaces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	namespaces := map[string]struct{}{}
	for w := range c.wants {
		namespaces[w.pipeline.Namespace] = struct{}{}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

func (c *cluster) figures() figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection == nil {
		return figures{sessions: c.sessions}
	}
	keys := map[watchKey]struct{}{}
	for w := range c.wants {
		keys[w.watch] = struct{}{}
	}
	of := c.connection.figures(keys)
	of.sessions += c.sessions
	return of
}
