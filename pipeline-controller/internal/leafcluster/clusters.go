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
	"maps"
	"net/http"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// gatherTime is how long Pipelines wait for further news of a cluster: when one is connected, there is news of all targets in it at once.
const gatherTime = 100 * time.Millisecond

// Timing says how long things take. The zero value of each is the default.
type Timing struct {
	// ProbeInterval is how often an API server is asked for a sign of life. Default: 10s.
	ProbeInterval time.Duration
	// ProbeTimeout is how long it may take to answer. Default: 5s.
	ProbeTimeout time.Duration
	// Grace is for how long what was last seen of a target holds while nothing more is heard of it. Default: 30s.
	Grace time.Duration
	// ResolveInterval is how often the object that stands for a cluster, and its Secret, are looked at. Default: 30s.
	ResolveInterval time.Duration
	// BackoffMin and BackoffMax bound the wait after a failure. Default: 1s and 30s.
	BackoffMin, BackoffMax time.Duration
	// Connects is how many first attempts to connect are made at once, and how many repeated ones. Default: 16.
	Connects int
}

func (t Timing) withDefaults() Timing {
	orElse := func(value *time.Duration, other time.Duration) {
		if *value == 0 {
			*value = other
		}
	}
	orElse(&t.ProbeInterval, 10*time.Second)
	orElse(&t.ProbeTimeout, 5*time.Second)
	orElse(&t.Grace, 30*time.Second)
	orElse(&t.ResolveInterval, 30*time.Second)
	orElse(&t.BackoffMin, time.Second)
	orElse(&t.BackoffMax, 30*time.Second)
	if t.Connects == 0 {
		t.Connects = 16
	}
	return t
}

// Options say where Clusters finds things.
type Options struct {
	// Config and Client reach the API server of the management cluster.
	Config *rest.Config
	Client *http.Client
	// Objects reads objects of the management cluster past any cache, and makes tokens for its ServiceAccounts. It knows GitopsClusters
	// and the core group.
	Objects client.Client
	// Mapper knows which kinds the management cluster has.
	Mapper apimeta.RESTMapper
	// Namespace confines what is looked at in the management cluster to one namespace. Default: all.
	Namespace string
	// NoCrossNamespaceRefs denies clusters that are named in other namespaces than the Pipeline's.
	NoCrossNamespaceRefs bool
	// Timing is how long things take.
	Timing Timing
}

// Clusters reads targets in all clusters. Its methods may be called from several goroutines at once.
type Clusters struct {
	resolver             *resolver
	namespace            string
	noCrossNamespaceRefs bool
	timing               Timing
	// firsts and retries hold one value for each attempt to connect that is under way.
	firsts, retries chan struct{}

	// ctx and queue are those of the controller. They are set by Start.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// goroutines counts those of clusters and connections.
	goroutines sync.WaitGroup

	// mu guards what follows, and what clusters, connections and watches say it does. It is never held while something is waited for. It
	// may be taken while a watch's own lock is held, and not the other way round.
	mu sync.Mutex
	// wanted has the targets that each Pipeline has declared.
	wanted      map[types.NamespacedName]map[targetKey]struct{}
	clusters    map[clusterKey]*cluster
	connections map[fingerprint]*connection
	management  *connection
}

// New returns Clusters that watch nothing yet.
func New(options Options) (*Clusters, error) {
	timing := options.Timing.withDefaults()
	c := &Clusters{
		resolver:             &resolver{client: options.Objects, mapper: options.Mapper},
		namespace:            options.Namespace,
		noCrossNamespaceRefs: options.NoCrossNamespaceRefs,
		timing:               timing,
		firsts:               make(chan struct{}, timing.Connects),
		retries:              make(chan struct{}, timing.Connects),
		wanted:               map[types.NamespacedName]map[targetKey]struct{}{},
		clusters:             map[clusterKey]*cluster{},
		connections:          map[fingerprint]*connection{},
	}
	var err error
	c.management, err = newManagementConnection(c, options.Config, options.Client)
	return c, err
}

// Start makes it a source of the controller of Pipelines: a change of a target queues the Pipelines that want it. Everything ends with
// the context.
func (c *Clusters) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.queue = ctx, queue
	c.startConnectionLocked(c.management)
	return nil
}

// Wait returns when everything has ended after the context of Start.
func (c *Clusters) Wait() { c.goroutines.Wait() }

// Want declares all targets that the Pipeline has. What it wanted before and no longer does is let go of, and ends unless others want it.
func (c *Clusters) Want(pipeline *pipelinesv1.Pipeline) {
	targets := map[targetKey]struct{}{}
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			if key, refused := c.locate(pipeline, t); refused == nil {
				targets[key] = struct{}{}
			}
		}
	}
	c.want(client.ObjectKeyFromObject(pipeline), targets)
}

// Forget declares that the Pipeline of that name has no targets any more.
func (c *Clusters) Forget(pipeline types.NamespacedName) { c.want(pipeline, nil) }

func (c *Clusters) want(pipeline types.NamespacedName, targets map[targetKey]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.wanted[pipeline]
	if maps.Equal(before, targets) {
		return
	}
	// What is wanted still, and by this Pipeline alone, must not end in between.
	for key := range targets {
		if _, had := before[key]; !had {
			c.addLocked(pipeline, key)
		}
	}
	for key := range before {
		if _, has := targets[key]; !has {
			c.dropLocked(pipeline, key)
		}
	}
	c.wanted[pipeline] = targets
	if len(targets) == 0 {
		delete(c.wanted, pipeline)
	}
}

func (c *Clusters) addLocked(pipeline types.NamespacedName, key targetKey) {
	c.clusterLocked(key.cluster).wishLocked(pipeline, c.watchKey(key), key.object)
}

func (c *Clusters) dropLocked(pipeline types.NamespacedName, key targetKey) {
	cluster := c.clusters[key.cluster]
	cluster.unwishLocked(pipeline, c.watchKey(key), key.object)
	if len(cluster.wishes) > 0 {
		return
	}
	delete(c.clusters, key.cluster)
	if cluster.stop != nil {
		cluster.stop()
	}
	cluster.releaseLocked()
}

// clusterLocked returns the cluster, and begins to look at it if it is new.
func (c *Clusters) clusterLocked(key clusterKey) *cluster {
	if known := c.clusters[key]; known != nil {
		return known
	}
	added := &cluster{clusters: c, key: key, again: make(chan struct{}, 1), wishes: map[watchKey]wishes{}, started: time.Now()}
	c.clusters[key] = added
	if key == (clusterKey{}) {
		added.connection = c.management
		return added
	}
	ctx, stop := context.WithCancel(c.ctx)
	added.stop = stop
	c.goroutines.Go(func() { added.run(ctx) })
	return added
}

func (c *Clusters) startConnectionLocked(connection *connection) {
	if connection.isLeaf() {
		c.connections[connection.kubeconfig.fingerprint] = connection
	}
	ctx, stop := context.WithCancel(c.ctx)
	connection.stop = stop
	c.goroutines.Go(func() { connection.run(ctx) })
}

func (c *Clusters) stopConnectionLocked(connection *connection) {
	delete(c.connections, connection.kubeconfig.fingerprint)
	connection.stop()
}

// Hurry has the clusters of the Pipeline's targets be looked at, and be connected, at once. Somebody waits for it.
func (c *Clusters) Hurry(pipeline types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.wanted[pipeline] {
		cluster := c.clusters[key.cluster]
		cluster.look()
		if cluster.connection != nil {
			select {
			case cluster.connection.hurry <- struct{}{}:
			default:
			}
		}
	}
}

// Read returns the state of a target that was declared with Want. It never waits for a connection, nor for a watch to begin. Only in the
// management cluster, whose API server has to answer anyway, the object is read one by one until the watch has begun.
func (c *Clusters) Read(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) target.State {
	key, refused := c.locate(pipeline, t)
	if refused != nil {
		return refused.state()
	}
	w, state := c.find(key)
	if key.cluster == (clusterKey{}) && (w == nil || !w.begun()) {
		return c.management.live(ctx, c.watchKey(key), key.object)
	}
	if w != nil {
		return w.read(key.object)
	}
	return state
}

// find returns the watch that a target is seen by, or the state of the target if there is none.
func (c *Clusters) find(key targetKey) (*watch, target.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cluster := c.clusters[key.cluster]
	switch {
	case cluster == nil:
		return nil, target.UnknownBecause(pipelinesv1.ConnectingReason, "it is about to be looked for", time.Now())
	case cluster.failure != nil:
		return nil, cluster.failure.state()
	case cluster.connection == nil:
		return nil, target.UnknownBecause(pipelinesv1.ConnectingReason, "looking for the kubeconfig of "+key.cluster.String(), cluster.started)
	case cluster.connection.failure != nil:
		return nil, cluster.connection.failure.state()
	case cluster.connection.session == nil:
		return nil, target.UnknownBecause(pipelinesv1.ConnectingReason, "connecting to "+cluster.connection.server, cluster.connection.started)
	}
	if w := cluster.connection.watches[c.watchKey(key)]; w != nil {
		return w, target.State{}
	}
	return nil, target.UnknownBecause(pipelinesv1.ConnectingReason, "it is about to be looked for", time.Now())
}

// watchesOf returns the watches of a connection.
func (c *Clusters) watchesOf(connection *connection) []*watch {
	c.mu.Lock()
	defer c.mu.Unlock()
	watches := make([]*watch, 0, len(connection.watches))
	for _, w := range connection.watches {
		watches = append(watches, w)
	}
	return watches
}

// tellObject queues the Pipelines that want an object.
func (c *Clusters) tellObject(w *watch, object types.NamespacedName, patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for user := range w.users {
		c.queueLocked(user.wishes[w.key][object], patience)
	}
}

// tellWatch queues the Pipelines that want any object that a watch is for.
func (c *Clusters) tellWatch(w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for user := range w.users {
		for _, pipelines := range user.wishes[w.key] {
			c.queueLocked(pipelines, gatherTime)
		}
	}
}

// tellConnectionLocked queues the Pipelines that want anything in the clusters of a connection.
func (c *Clusters) tellConnectionLocked(connection *connection) {
	for user := range connection.users {
		c.tellClusterLocked(user)
	}
}

// tellClusterLocked queues the Pipelines that want anything in a cluster.
func (c *Clusters) tellClusterLocked(of *cluster) {
	for _, objects := range of.wishes {
		for _, pipelines := range objects {
			c.queueLocked(pipelines, gatherTime)
		}
	}
}

func (c *Clusters) queueLocked(pipelines map[types.NamespacedName]struct{}, wait time.Duration) {
	for pipeline := range pipelines {
		c.queue.AddAfter(reconcile.Request{NamespacedName: pipeline}, wait)
	}
}
