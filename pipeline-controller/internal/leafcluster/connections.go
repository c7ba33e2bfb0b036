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
	"sync"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

// connections contains the connections to leaf clusters. Clusters with byte-identical kubeconfigs share one.
type connections struct {
	attempts *attempts
	enqueue  enqueue
	timing   Timing
	// begin runs a function in a goroutine until stop is called.
	begin func(run func(context.Context)) (stop context.CancelFunc)

	mu sync.Mutex
	// inUse maps fingerprints to connections. Guarded by mu.
	inUse map[kubeconfig.Fingerprint]inUse
}

type inUse struct {
	*connection
	stop context.CancelFunc
}

func newConnections(enqueue enqueue, begin func(func(context.Context)) context.CancelFunc, timing Timing) *connections {
	return &connections{
		attempts: newAttempts(timing.Connects), enqueue: enqueue, timing: timing, begin: begin,
		inUse: map[kubeconfig.Fingerprint]inUse{},
	}
}

// prepare returns a connection that is not started.
func (c *connections) prepare(config *kubeconfig.Kubeconfig) (*connection, error) {
	return leafConnection(config, c.attempts, c.enqueue, c.timing)
}

// acquire returns the connection for a cluster: the existing one for the same kubeconfig, or the prepared one, which is
// started.
func (c *connections) acquire(prepared *connection, user *cluster) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	used, ok := c.inUse[prepared.madeFrom()]
	if !ok {
		used = inUse{prepared, c.begin(prepared.run)}
		c.inUse[prepared.madeFrom()] = used
	}
	used.addUser(user)
	return used.connection
}

// release removes a cluster from a connection. If no other cluster uses it, the connection ends, unless it is that of
// the management cluster.
func (c *connections) release(connection *connection, user *cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used, ok := c.inUse[connection.madeFrom()]; connection.removeUser(user) == 0 && ok {
		used.stop()
		delete(c.inUse, connection.madeFrom())
	}
}
