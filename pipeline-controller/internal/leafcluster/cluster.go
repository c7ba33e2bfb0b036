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
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// wishes has, by the object, the Pipelines that want it: the index by which a change of an object finds them.
type wishes map[types.NamespacedName]map[types.NamespacedName]struct{}

// cluster is an object that stands for a cluster and that some Pipeline names. It looks after the kubeconfig: from where it is, through
// every change, to the connection that is made from it. The management cluster is one too, whose connection is given.
type cluster struct {
	clusters *Clusters
	key      clusterKey
	// again has the object be looked at again soon.
	again chan struct{}
	// stop ends run; nil for the management cluster.
	stop context.CancelFunc

	// What follows is guarded by Clusters.mu.

	// wishes has what is wanted of the cluster, by the watch that serves it.
	wishes map[watchKey]wishes
	// connection is nil while there is no kubeconfig.
	connection *connection
	// failure is why there is none; nil before the object was first looked at.
	failure *failure
	// started is when the object was first named.
	started time.Time
	// sessions counts those of former connections.
	sessions int
}

// look has the object be looked at again soon.
func (c *cluster) look() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// run looks at the object from time to time, and when there is reason to.
func (c *cluster) run(ctx context.Context) {
	timing := c.clusters.timing
	var known resolved
	for ctx.Err() == nil {
		known = c.resolve(ctx, known)
		interval := timing.ResolveInterval
		if known == (resolved{}) {
			// Somebody is likely to be at work on it.
			interval /= 4
		}
		// Reasons to look may come thick and fast.
		pause(ctx, timing.BackoffMin, nil)
		pause(ctx, wait.Jitter(interval, 0.2), c.again)
	}
}

// resolve looks at the object and sees to the connection.
func (c *cluster) resolve(ctx context.Context, known resolved) resolved {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	config, now, refused, err := c.clusters.resolver.resolve(ctx, c.key, known)
	switch {
	case err != nil:
		// Nothing is known to have changed.
		ctrl.LoggerFrom(ctx).Error(err, "looking up the kubeconfig failed", "cluster", c.key.String())
		return known
	case refused != nil:
		c.disconnect(refused)
		return now
	case config == nil:
		return now
	}
	connection, err := newConnection(c.clusters, config)
	if err != nil {
		c.disconnect(failed(pipelinesv1.InvalidKubeconfigReason, "the kubeconfig of %s can't be used", c.key))
		return now
	}
	c.connect(connection)
	return now
}

// connect takes the connection in use, or another one that was made from the same kubeconfig.
func (c *cluster) connect(connection *connection) {
	c.clusters.mu.Lock()
	defer c.clusters.mu.Unlock()
	if c.clusters.clusters[c.key] != c {
		return // it is no longer wanted
	}
	content := connection.kubeconfig.fingerprint
	if c.connection != nil && c.connection.kubeconfig.fingerprint == content {
		return
	}
	if shared := c.clusters.connections[content]; shared != nil {
		connection = shared
	} else {
		c.clusters.startConnectionLocked(connection)
	}
	c.releaseLocked()
	// What became of a connection before it was shared is not counted.
	c.sessions -= max(connection.sessions-1, 0)
	c.connection, c.failure = connection, nil
	for key := range c.wishes {
		connection.useLocked(c, key)
	}
	c.clusters.tellClusterLocked(c)
}

// disconnect does without a connection: there is no kubeconfig to make one from, or it must not be used.
func (c *cluster) disconnect(why *failure) {
	c.clusters.mu.Lock()
	defer c.clusters.mu.Unlock()
	c.releaseLocked()
	before := c.failure
	c.failure = why.at(before, time.Now())
	if before == nil || before.reason != why.reason || before.message != why.message {
		c.clusters.tellClusterLocked(c)
	}
}

// releaseLocked lets go of the connection. It ends if nobody else uses it.
func (c *cluster) releaseLocked() {
	connection := c.connection
	if connection == nil {
		return
	}
	c.connection = nil
	c.sessions += connection.sessions
	for key := range c.wishes {
		connection.leaveLocked(c, key)
	}
	delete(connection.users, c)
	if len(connection.users) == 0 && connection.isLeaf() {
		c.clusters.stopConnectionLocked(connection)
	}
}

// wishLocked notes that a Pipeline wants an object.
func (c *cluster) wishLocked(pipeline types.NamespacedName, key watchKey, object types.NamespacedName) {
	objects := c.wishes[key]
	if objects == nil {
		objects = wishes{}
		c.wishes[key] = objects
		if c.connection != nil {
			c.connection.useLocked(c, key)
		}
	}
	if objects[object] == nil {
		objects[object] = map[types.NamespacedName]struct{}{}
	}
	objects[object][pipeline] = struct{}{}
}

// unwishLocked notes that it no longer does.
func (c *cluster) unwishLocked(pipeline types.NamespacedName, key watchKey, object types.NamespacedName) {
	objects := c.wishes[key]
	delete(objects[object], pipeline)
	if len(objects[object]) > 0 {
		return
	}
	delete(objects, object)
	if len(objects) > 0 {
		return
	}
	delete(c.wishes, key)
	if c.connection != nil {
		c.connection.leaveLocked(c, key)
	}
}
