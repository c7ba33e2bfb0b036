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
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// connection is the tie to one API server with the credentials of one kubeconfig. Clusters whose kubeconfigs are the same to the byte
// share it, and with it the watches.
type connection struct {
	clusters *Clusters
	api      *api
	kinds    *kinds
	// kubeconfig that it was made from; nil for the management cluster.
	kubeconfig *kubeconfig
	// server is its address and who the name of whom it is asked as, for messages.
	server, who string
	// lists holds one value for each list that is under way.
	lists chan struct{}
	// hurry ends a wait for the next attempt.
	hurry chan struct{}
	// stop ends run.
	stop context.CancelFunc

	// What follows is guarded by Clusters.mu.

	users   map[*cluster]struct{}
	watches map[watchKey]*watch
	// session is done when the connection is lost; nil while there is none.
	session context.Context
	// running counts the watches of the session.
	running *sync.WaitGroup
	// failure is why there is no session; nil before the first attempt has ended.
	failure *failure
	// started is when the first attempt was to begin.
	started time.Time
	// sessions counts how often it was connected.
	sessions int
}

func newConnection(clusters *Clusters, config *kubeconfig) (*connection, error) {
	api, err := newAPI(config.config)
	if err != nil {
		return nil, err
	}
	c := connectionTo(clusters, api)
	c.kubeconfig, c.server, c.who = config, config.server, "the kubeconfig's user"
	return c, nil
}

func newManagementConnection(clusters *Clusters, config *rest.Config, client *http.Client) (*connection, error) {
	api, err := managementAPI(config, client)
	if err != nil {
		return nil, err
	}
	c := connectionTo(clusters, api)
	c.server, c.who = "the API server of this cluster", "the controller"
	return c, nil
}

func connectionTo(clusters *Clusters, api *api) *connection {
	return &connection{
		clusters: clusters,
		api:      api,
		kinds:    &kinds{api: api},
		lists:    make(chan struct{}, listsAtOnce),
		hurry:    make(chan struct{}, 1),
		users:    map[*cluster]struct{}{},
		watches:  map[watchKey]*watch{},
		started:  time.Now(),
	}
}

func (c *connection) isLeaf() bool { return c.kubeconfig != nil }

func (c *connection) timing() Timing { return c.clusters.timing }

// run connects, keeps the watches running while the server answers, and connects again when it no longer does.
func (c *connection) run(ctx context.Context) {
	defer c.api.close()
	timing := c.timing()
	for failures := 0; ctx.Err() == nil; {
		if err := c.connect(ctx, failures == 0); err != nil {
			c.api.hangUp()
			c.fail(ctx, err, time.Now())
			pause(ctx, backoff(timing, failures), c.hurry)
			failures++
			continue
		}
		failures = 0
		c.serve(ctx)
	}
}

// connect waits for its turn and asks the server for a sign of life. First attempts don't wait for repeated ones, so that any number of
// clusters that don't answer delays no others.
func (c *connection) connect(ctx context.Context, first bool) error {
	if !c.isLeaf() {
		return nil
	}
	turns := c.clusters.retries
	if first {
		turns = c.clusters.firsts
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.probe(ctx)
}

// probe asks for the version, which everybody may do by default, and which needs nothing of the server but itself.
func (c *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timing().ProbeTimeout)
	defer cancel()
	_, err := c.api.read(ctx, []string{"version"}, nil, maxDocument)
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) {
		// It is the server that says so.
		c.api.touch()
		return nil
	}
	return err
}

// serve runs the watches until the server has not been heard of for too long.
func (c *connection) serve(ctx context.Context) {
	session, end := context.WithCancel(ctx)
	running := c.begin(session)
	defer running.Wait()
	defer c.endSession()
	defer end()
	timing := c.timing()
	for {
		pause(ctx, wait.Jitter(timing.ProbeInterval, 0.2), nil)
		if ctx.Err() != nil {
			return
		}
		if err := c.stillThere(ctx); err != nil {
			c.fail(ctx, err, c.api.lastContact())
			return
		}
		for _, w := range c.clusters.watchesOf(c) {
			w.check(time.Now())
		}
	}
}

// stillThere returns an error once the server has not been heard of for too long. Each sign of life counts, such as an event of a watch.
func (c *connection) stillThere(ctx context.Context) error {
	if !c.isLeaf() {
		return nil
	}
	asked := time.Now()
	err := c.probe(ctx)
	if err == nil || ctx.Err() != nil || c.api.lastContact().After(asked) {
		return nil
	}
	if time.Since(c.api.lastContact()) >= c.timing().Grace {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// It may be that only the connections have gone silent, which requests and watches share: something on the way has forgotten them.
		c.api.hangUp()
	}
	return nil
}

// begin starts a session with its watches. Pipelines are told by these, when something is known of their targets.
func (c *connection) begin(session context.Context) *sync.WaitGroup {
	// Before there is a session: what was seen in the one before must not be taken for seen in this one.
	for _, w := range c.clusters.watchesOf(c) {
		w.restart()
	}
	c.clusters.mu.Lock()
	defer c.clusters.mu.Unlock()
	c.session, c.running, c.failure = session, &sync.WaitGroup{}, nil
	c.sessions++
	for _, w := range c.watches {
		c.startLocked(w)
	}
	return c.running
}

func (c *connection) endSession() {
	c.clusters.mu.Lock()
	defer c.clusters.mu.Unlock()
	c.session = nil
	for _, w := range c.watches {
		w.stop = nil
	}
}

// fail notes why there is no session. Pipelines are told when that is news.
func (c *connection) fail(ctx context.Context, err error, since time.Time) {
	if ctx.Err() != nil {
		return
	}
	why := c.expired()
	if why == nil {
		why = failureOf(c.server, err)
	}
	c.clusters.mu.Lock()
	defer c.clusters.mu.Unlock()
	before := c.failure
	c.failure = why.at(before, since)
	if before == nil || before.reason != why.reason || before.message != why.message {
		c.clusters.tellConnectionLocked(c)
	}
	// The kubeconfig may have been replaced, for this very reason.
	for user := range c.users {
		user.look()
	}
}

// expired returns that the kubeconfig's certificate has expired, if it has. Servers say so in different ways, if at all: one that does
// not know who issued the certificate takes the user for nobody, who may not look.
func (c *connection) expired() *failure {
	if !c.isLeaf() || c.kubeconfig.expires.IsZero() || time.Now().Before(c.kubeconfig.expires) {
		return nil
	}
	return failed(pipelinesv1.CertificateExpiredReason, "the kubeconfig's certificate expired at %s", c.kubeconfig.expires.UTC().Format(time.RFC3339))
}

// useLocked has a watch run for a cluster.
func (c *connection) useLocked(user *cluster, key watchKey) {
	c.users[user] = struct{}{}
	w := c.watches[key]
	if w == nil {
		w = newWatch(key, c)
		c.watches[key] = w
	}
	w.users[user] = struct{}{}
	if w.stop == nil && c.session != nil {
		c.startLocked(w)
	}
}

// leaveLocked ends what runs for a cluster alone.
func (c *connection) leaveLocked(user *cluster, key watchKey) {
	w := c.watches[key]
	if w == nil {
		return
	}
	delete(w.users, user)
	if len(w.users) > 0 {
		return
	}
	delete(c.watches, key)
	if w.stop != nil {
		w.stop()
	}
}

func (c *connection) startLocked(w *watch) {
	ctx, stop := context.WithCancel(c.session)
	w.stop = stop
	c.running.Go(func() {
		defer stop()
		w.run(ctx)
	})
}

// liveTimeout bounds a read past the watch.
const liveTimeout = 5 * time.Second

// live reads an object past the watch.
func (c *connection) live(ctx context.Context, key watchKey, name types.NamespacedName) target.State {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	found, err := c.kinds.resource(ctx, key.kind)
	if err == nil {
		var content []byte
		if content, err = c.api.read(ctx, append(found.path(name.Namespace), name.Name), nil, maxEvent); err == nil {
			var object *observed
			if object, err = observe(content, found.kind); err == nil {
				return object.state
			}
		}
	}
	now := time.Now()
	if found.name != "" && apierrors.IsNotFound(err) {
		return target.UnknownBecause(pipelinesv1.ObjectNotFoundReason, "it does not exist", now)
	}
	w := watch{key: key, connection: c}
	return w.failureOf("get", err).at(nil, now).state()
}

// pause waits, unless it is interrupted.
func pause(ctx context.Context, wait time.Duration, interrupt <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-interrupt:
	}
}

// backoff doubles with each failure, and is spread by half of itself, so that clusters that were cut off together aren't tried together.
func backoff(timing Timing, failures int) time.Duration {
	base := timing.BackoffMin << min(failures, 16)
	return wait.Jitter(min(base, timing.BackoffMax), 0.5)
}
