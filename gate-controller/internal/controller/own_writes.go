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

package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longestLag is how far the cache is thought to be behind at most. A cache that is behind for longer isn't waited for: the API
// server may have been set back to a backup, with versions that start over.
const longestLag = 10 * time.Second

// ownWrites remembers what objects have become by the controller's own writes, until its cache has come that far. What is done for an
// object from a cache that has not would be done, and told, a second time. Its zero value remembers nothing.
type ownWrites struct {
	// writes are the last ones by the objects' names.
	writes sync.Map
}

type ownWrite struct {
	version string
	at      time.Time
}

// remember takes note of an object as the API server has returned it from a write, or as it was read and left alone.
func (o *ownWrites) remember(obj client.Object) {
	o.writes.Store(client.ObjectKeyFromObject(obj), ownWrite{version: obj.GetResourceVersion(), at: time.Now()})
}

// forget is for an object that is gone.
func (o *ownWrites) forget(name types.NamespacedName) { o.writes.Delete(name) }

// isAheadOf reports whether an object from the cache is older than the controller's own last write of it. The event of that write is
// still to come.
func (o *ownWrites) isAheadOf(obj client.Object) bool {
	last, ok := o.writes.Load(client.ObjectKeyFromObject(obj))
	if !ok {
		return false
	}
	write := last.(ownWrite)
	// Versions that can't be compared are no reason to wait.
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), write.version)
	return err == nil && order < 0 && time.Since(write.at) < longestLag
}
