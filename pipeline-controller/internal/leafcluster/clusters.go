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

	"golang.org/x/time/rate"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// Timing contains intervals and timeouts. Zero values are replaced by the defaults.
type Timing struct {
	// ProbeInterval is the interval of probes of an API server. Default: 10s.
	ProbeInterval time.Duration
	// ProbeTimeout is the timeout of a probe. Default: 5s.
	ProbeTimeout time.Duration
	// Grace is how long the last observed state of a target remains valid without contact. Default: 30s.
	Grace time.Duration
	// ResolveInterval is the interval of lookups of the object that represents a cluster, and its Secret. Default: 30s.
	ResolveInterval time.Duration
	// BackoffMin and BackoffMax limit the wait after a failure. Default: 1s and 30s.
	BackoffMin, BackoffMax time.Duration
	// Connects is the maximum number of concurrent first attempts to connect, and that of repeated attempts. Default:
	// 16.
	Connects int
	// Lookups is the maximum number of lookups per second of objects that represent clusters, with their Secrets.
	// Default: 50.
	Lookups float64
	// LookupBurst is the maximum number of lookups at once after a pause. Default: the maximum number of targets of a
	// Pipeline.
	LookupBurst int
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
	if t.Lookups == 0 {
		t.Lookups = 50
	}
	if t.LookupBurst == 0 {
		t.LookupBurst = pipelinesv1.MaxTargets
	}
	return t
}

// Options are the settings of Clusters.
type Options struct {
	// Config and Client for the API server of the management cluster.
	Config *rest.Config
	Client *http.Client
	// Objects reads objects of the management cluster without a cache, and creates tokens for its ServiceAccounts. Its
	// scheme has GitopsClusters and the core group.
	Objects client.Client
	// Mapper returns the kinds of the management cluster.
	Mapper apimeta.RESTMapper
	// Namespace is the only namespace of the management cluster that is read. Default: all.
	Namespace string
	// NoCrossNamespaceRefs denies references to clusters in other namespaces than the Pipeline's, and targets in
	// namespaces that do not allow them with pipelinesv1.AllowFromLabel.
	NoCrossNamespaceRefs bool
	// NamespaceLabels reads the labels of a namespace in the management cluster from a cache. It is only called if
	// NoCrossNamespaceRefs is true.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// Timing contains intervals and timeouts.
	Timing Timing
}

// managementCluster is the cluster of targets without a clusterRef.
var managementCluster = kubeconfig.Reference{}

// Clusters reads targets in all clusters. It is safe for concurrent use.
type Clusters struct {
	locator     *locator
	resolver    *kubeconfig.Resolver
	lookups     *lookups
	connections *connections
	management  *connection
	timing      Timing

	// ctx and queue of the controller. They are set by Start, before everything else.
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// goroutines counts the goroutines of clusters and connections.
	goroutines sync.WaitGroup

	mu sync.Mutex
	// wanted contains the declarations of each Pipeline. Guarded by mu.
	wanted map[types.NamespacedName]wanted
	// clusters that targets are in. Guarded by mu.
	clusters map[kubeconfig.Reference]*cluster
}

// wanted is the declaration of a Pipeline.
type wanted struct {
	targets, sources map[targetKey]struct{}
}

func (w wanted) all() map[targetKey]struct{} {
	all := map[targetKey]struct{}{}
	maps.Copy(all, w.targets)
	maps.Copy(all, w.sources)
	return all
}

// New returns Clusters without any watches.
func New(options Options) (*Clusters, error) {
	timing := options.Timing.withDefaults()
	c := &Clusters{
		locator: &locator{
			namespace: options.Namespace, noCrossNamespaceRefs: options.NoCrossNamespaceRefs, namespaceLabels: options.NamespaceLabels,
		},
		resolver: &kubeconfig.Resolver{Client: options.Objects, Mapper: options.Mapper},
		lookups:  newLookups(rate.NewLimiter(rate.Limit(timing.Lookups), timing.LookupBurst).Wait),
		timing:   timing,
		wanted:   map[types.NamespacedName]wanted{},
		clusters: map[kubeconfig.Reference]*cluster{},
	}
	c.connections = newConnections(c.enqueue, c.begin, timing)
	var err error
	c.management, err = managementConnection(options.Config, options.Client, c.enqueue, timing)
	return c, err
}

// Start implements source.Source for the controller of Pipelines: a change of a target queues the Pipelines that want
// it. Everything stops when the context is cancelled.
func (c *Clusters) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.queue = ctx, queue
	c.begin(c.management.run)
	return nil
}

// begin runs a function in a goroutine until the returned function is called, or the context of Start is cancelled.
func (c *Clusters) begin(run func(context.Context)) (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(c.ctx)
	c.goroutines.Go(func() { run(ctx) })
	return stop
}

// enqueue queues a Pipeline after a delay. It may be called while any lock is held.
func (c *Clusters) enqueue(pipeline types.NamespacedName, after time.Duration) {
	c.queue.AddAfter(reconcile.Request{NamespacedName: pipeline}, after)
}

// Wait waits until everything has stopped after the context of Start was cancelled.
func (c *Clusters) Wait() { c.goroutines.Wait() }

// Want declares all targets of the Pipeline that it is allowed to refer to. Watches and connections that no Pipeline
// needs any longer end.
func (c *Clusters) Want(ctx context.Context, pipeline *pipelinesv1.Pipeline) {
	targets := map[targetKey]struct{}{}
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			if key, refused := c.locator.locate(ctx, pipeline, t); refused == nil {
				targets[key] = struct{}{}
			}
		}
	}
	c.update(client.ObjectKeyFromObject(pipeline), func(w *wanted) { w.targets = targets })
}

// ReadSources declares all sources that are read for the Pipeline, and returns their states like Read.
func (c *Clusters) ReadSources(ctx context.Context, pipeline *pipelinesv1.Pipeline, of []application.SourceOf) []application.State {
	keys, refused, sources := make([]targetKey, len(of)), make([]*failure, len(of)), map[targetKey]struct{}{}
	for i, one := range of {
		if keys[i], refused[i] = c.locator.locateSource(ctx, pipeline, one); refused[i] == nil {
			sources[keys[i]] = struct{}{}
		}
	}
	c.update(client.ObjectKeyFromObject(pipeline), func(w *wanted) { w.sources = sources })
	states := make([]application.State, len(of))
	for i := range of {
		states[i] = c.read(ctx, keys[i], refused[i])
	}
	return states
}

// Forget declares that the Pipeline has no targets any longer.
func (c *Clusters) Forget(pipeline types.NamespacedName) {
	c.update(pipeline, func(w *wanted) { *w = wanted{} })
}

// update replaces the declarations of a Pipeline.
func (c *Clusters) update(pipeline types.NamespacedName, change func(*wanted)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.wanted[pipeline]
	now := before
	change(&now)
	if maps.Equal(before.targets, now.targets) && maps.Equal(before.sources, now.sources) {
		return
	}
	c.exchangeLocked(pipeline, before.all(), now.all())
	c.wanted[pipeline] = now
	if len(now.targets)+len(now.sources) == 0 {
		delete(c.wanted, pipeline)
	}
}

func (c *Clusters) exchangeLocked(pipeline types.NamespacedName, before, now map[targetKey]struct{}) {
	// A target that remains, and that only this Pipeline wants, must not end in between.
	for key := range now {
		if _, had := before[key]; !had {
			c.addLocked(key.cluster, want{pipeline, key.watch, key.object})
		}
	}
	for key := range before {
		if _, has := now[key]; !has && c.clusters[key.cluster].remove(want{pipeline, key.watch, key.object}) {
			delete(c.clusters, key.cluster)
		}
	}
}

// addLocked adds a subscription to a cluster. A new cluster is looked up.
func (c *Clusters) addLocked(ref kubeconfig.Reference, w want) {
	if known := c.clusters[ref]; known != nil {
		known.add(w)
		return
	}
	added := newCluster(ref, c.connections, c.enqueue)
	c.clusters[ref] = added
	if ref == managementCluster {
		added.connection = c.management
		added.add(w)
		return
	}
	added.add(w)
	added.stop = c.begin(func(ctx context.Context) { added.run(ctx, c.resolver, c.lookups, c.timing) })
}

// Refresh triggers a lookup of the clusters of the Pipeline's targets and an attempt to connect, because a person waits
// for it.
func (c *Clusters) Refresh(pipeline types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.wanted[pipeline].all() {
		c.clusters[key.cluster].refresh()
	}
}

// Read returns the state of a target that was declared with Want. It never waits for a connection or for the start of a
// watch. Only in the management cluster, whose API server must respond anyway, it reads the object itself until the
// watch has started.
func (c *Clusters) Read(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) application.State {
	key, refused := c.locator.locate(ctx, pipeline, t)
	return c.read(ctx, key, refused)
}

func (c *Clusters) read(ctx context.Context, key targetKey, refused *failure) application.State {
	if refused != nil {
		return refused.state()
	}
	w, state := c.find(key)
	if key.cluster == managementCluster && (w == nil || !w.begun()) {
		return c.management.readObject(ctx, key.watch, key.object)
	}
	if w != nil {
		return w.read(key.object)
	}
	return state
}

// find returns the watch that includes a target. If there is none, it returns the state of the target.
func (c *Clusters) find(key targetKey) (*watch, application.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cluster := c.clusters[key.cluster]; cluster != nil {
		return cluster.find(key.watch)
	}
	return nil, application.UnknownBecause(pipelinesv1.ConnectingReason, lookupPending, time.Now())
}
