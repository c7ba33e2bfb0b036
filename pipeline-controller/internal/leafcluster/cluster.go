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

// want is that a Pipeline wants to know of an object of a cluster.
type want struct {
	pipeline types.NamespacedName
	watch    watchKey
	object   types.NamespacedName
}

// cluster is an object that stands for a cluster and that some Pipeline names. It looks after the kubeconfig: from where it is, through
// every change, to the connection that is made from it. The management cluster is one too, whose connection is given.
type cluster struct {
	ref         kubeconfig.Reference
	connections *connections
	enqueue     enqueue
	// lookup has the object be looked up again soon.
	lookup chan struct{}
	// stop ends run; nil for the management cluster. Guarded by Clusters.mu.
	stop context.CancelFunc
	// started is when the object was first named.
	started time.Time

	mu sync.Mutex
	// wants has what is wanted of the cluster. Guarded by mu.
	wants map[want]struct{}
	// ended is true once nothing is wanted any more. Guarded by mu.
	ended bool
	// connection is nil while there is no kubeconfig. Guarded by mu.
	connection *connection
	// failure is why there is none; nil before the object was first looked up. Guarded by mu.
	failure *failure
	// sessions counts those of former connections. Guarded by mu.
	sessions int
}

func newCluster(ref kubeconfig.Reference, connections *connections, enqueue enqueue) *cluster {
	return &cluster{
		ref: ref, connections: connections, enqueue: enqueue,
		lookup: make(chan struct{}, 1), started: time.Now(), wants: map[want]struct{}{},
	}
}

// run looks the object up from time to time, and when there is reason to.
func (c *cluster) run(ctx context.Context, resolver *kubeconfig.Resolver, lookups *lookups, timing Timing) {
	var known kubeconfig.Version
	for lookups.wait(ctx, c.namespaces()) == nil {
		known = c.resolve(ctx, resolver, known)
		interval := timing.ResolveInterval
		if known == (kubeconfig.Version{}) {
			// Somebody is likely to be at work on it.
			interval /= 4
		}
		// Reasons to look it up may come thick and fast.
		pause(ctx, timing.BackoffMin, nil)
		pause(ctx, wait.Jitter(interval, 0.2), c.lookup)
	}
}

// resolve looks the object up and sees to the connection.
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
		c.disconnect(failed(pipelinesv1.InvalidKubeconfigReason, "the kubeconfig of %s can't be used", c.ref))
		return now
	}
	c.connect(connection)
	return now
}

// connect takes the connection in use, or another one that was made from the same kubeconfig.
func (c *cluster) connect(connection *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.connection != nil && c.connection.madeFrom() == connection.madeFrom() {
		return
	}
	connection = c.connections.acquire(connection, c)
	c.releaseLocked()
	// What became of a connection before it was shared is not counted.
	c.sessions -= max(connection.countSessions()-1, 0)
	c.connection, c.failure = connection, nil
	for w := range c.wants {
		connection.subscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
	c.notifyLocked()
}

// disconnect does without a connection: there is no kubeconfig to make one from, or it must not be used.
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

// releaseLocked lets go of the connection.
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

// notifyLocked queues the Pipelines that want anything in the cluster.
func (c *cluster) notifyLocked() {
	for w := range c.wants {
		c.enqueue(w.pipeline, gatherTime)
	}
}

// add notes what a Pipeline wants.
func (c *cluster) add(w want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wants[w] = struct{}{}
	if c.connection != nil {
		c.connection.subscribe(w.watch, w.object, subscriber{c.ref, w.pipeline})
	}
}

// remove notes that it no longer does. The cluster ends if nothing is wanted any more: it reports whether it has.
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

// find returns the watch of a key, or the state of all that it would see if there is none.
func (c *cluster) find(key watchKey) (*watch, application.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return nil, c.failure.state()
	case c.connection == nil:
		return nil, application.UnknownBecause(pipelinesv1.ConnectingReason, "looking for the kubeconfig of "+c.ref.String(), c.started)
	}
	return c.connection.find(key)
}

// refresh has the object be looked up soon, and the API server be connected at once.
func (c *cluster) refresh() {
	c.lookUpSoon()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connection != nil {
		c.connection.retryNow()
	}
}

// lookUpSoon has the object be looked up again soon. It may be called while any lock is held.
func (c *cluster) lookUpSoon() {
	select {
	case c.lookup <- struct{}{}:
	default:
	}
}

// namespaces returns those of the Pipelines that want anything of the cluster.
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
