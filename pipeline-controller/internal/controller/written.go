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

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// written contains the version of the last write of each Pipeline, until the cache shows it. A plan from an older
// version would only cost a request that is refused as a conflict.
type written struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]string
}

func (w *written) remember(pipeline *pipelinesv1.Pipeline) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]string{}
	}
	w.versions[client.ObjectKeyFromObject(pipeline)] = pipeline.ResourceVersion
}

func (w *written) forget(pipeline types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, pipeline)
}

// isNewerThan reports whether a Pipeline from the cache is older than the last write of it.
func (w *written) isNewerThan(cached *pipelinesv1.Pipeline) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := client.ObjectKeyFromObject(cached)
	version, ok := w.versions[name]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, version)
	if err == nil && order < 0 {
		return true
	}
	delete(w.versions, name)
	return false
}
