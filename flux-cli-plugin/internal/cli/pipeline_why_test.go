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

package cli

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPipelineWhy(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "why answers for the first environment that lags",
			command: "flux-pipeline why app",
			objects: []client.Object{promoted()},
			wantOut: "\nprod: v1.2.3@sha1:cccccccc waits for pull request https://github.com/acme/fleet/pull/7 to be merged\n",
		},
		{
			name:    "why answers for the environment that is named",
			command: "flux-pipeline why app --env staging",
			objects: []client.Object{promoted()},
			wantOut: "\nstaging: runs v1.2.3@sha1:cccccccc\n",
		},
		{
			name:    "why names the existing environments",
			command: "flux-pipeline why app --env production",
			objects: []client.Object{promoted()},
			wantErr: "pipeline app has no environment production: its environments are dev, staging, prod",
		},
		{
			name:    "why has nothing to answer for without environments",
			command: "flux-pipeline why shop -n team",
			objects: []client.Object{elsewhere()},
			wantErr: "pipeline shop has no environments",
		},
		{
			name:    "a name is asked for",
			command: "flux-pipeline why",
			wantErr: "pipeline name is required",
		},
	})
}
