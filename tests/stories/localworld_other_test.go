//go:build e2e_node && !linux

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

package stories

import (
	"context"
	"errors"
)

// localWorld requires Linux.
type localWorld struct{ someCluster }

func startLocalWorld(context.Context) (*localWorld, error) {
	return nil, errors.New("a node of this machine takes Linux: set " + kubeconfigVariable + " to use a cluster")
}

func (*localWorld) stop() error { return nil }
