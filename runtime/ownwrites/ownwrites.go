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

// Package ownwrites tells whether a cache shows what a controller has written itself.
package ownwrites

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longestLag limits how long to wait for the cache. If it takes longer, the API server may have been restored from a
// backup, with lower resource versions.
const longestLag = 10 * time.Second

// Log remembers the resource versions of a controller's own writes. A reconcile from an older cache would repeat its
// actions and events, or make a write that is refused as a conflict. The zero value is empty.
type Log struct {
	// writes maps the name of an object to the last write.
	writes sync.Map
}

type write struct {
	version string
	at      time.Time
}

// Remember stores the version of an object that was written, or that was read and left unchanged.
func (l *Log) Remember(obj client.Object) {
	l.writes.Store(client.ObjectKeyFromObject(obj), write{version: obj.GetResourceVersion(), at: time.Now()})
}

// Forget removes a deleted object.
func (l *Log) Forget(name types.NamespacedName) { l.writes.Delete(name) }

// IsAheadOf reports whether an object from the cache is older than the controller's own last write of it. The event of
// that write is still to come.
func (l *Log) IsAheadOf(obj client.Object) bool {
	last, ok := l.writes.Load(client.ObjectKeyFromObject(obj))
	if !ok {
		return false
	}
	own := last.(write)
	// Don't wait if the versions cannot be compared.
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), own.version)
	return err == nil && order < 0 && time.Since(own.at) < longestLag
}
