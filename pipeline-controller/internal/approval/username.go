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

package approval

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// OwnName returns a function that asks the API server for the controller's user name, and caches the first answer.
func OwnName(creator Creator) func(context.Context) (string, error) {
	var known atomic.Pointer[string]
	return func(ctx context.Context) (string, error) {
		if name := known.Load(); name != nil {
			return *name, nil
		}
		review := &authenticationv1.SelfSubjectReview{}
		if err := creator.Create(ctx, review); err != nil {
			return "", fmt.Errorf("reviewing oneself: %w", err)
		}
		name := review.Status.UserInfo.Username
		if name == "" {
			return "", errors.New("the API server returned no name for the controller")
		}
		known.Store(&name)
		return name, nil
	}
}
