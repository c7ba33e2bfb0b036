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

package git

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/hosthttp"
)

// recovered must be deferred. It turns a panic into an error. go-git reads data from untrusted hosts, and a panic in
// one promotion must not end the others.
func recovered(ctx context.Context, err *error) {
	if panicked := recover(); panicked != nil {
		*err = hosthttp.NewError(nil, fmt.Sprintf("the Git library failed: %v", panicked))
		logr.FromContextOrDiscard(ctx).Error(*err, "recovered from a panic", "stack", string(debug.Stack()))
	}
}
