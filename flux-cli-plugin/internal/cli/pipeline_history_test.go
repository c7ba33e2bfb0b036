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

func TestPipelineHistory(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "history shows the promotions of all environments, the newest of each first",
			command: "flux-pipeline history app",
			objects: []client.Object{promoted()},
			wantOut: `
ENVIRONMENT   REVISION               STATE       STARTED                ENDED                  APPROVED BY   PULL REQUEST                           MESSAGE
prod          v1.2.3@sha1:cccccccc   created     2026-05-04T11:00:00Z   -                      ada           https://github.com/acme/fleet/pull/7   pull request waits to be merged
prod          v1.2.2@sha1:bbbbbbbb   succeeded   2026-05-02T12:00:00Z   2026-05-02T13:00:00Z   ada, bob      https://github.com/acme/fleet/pull/5   pull request was merged
prod          1.0.0                  abandoned   2026-05-01T12:00:00Z   2026-05-01T13:00:00Z   -             -                                      superseded by v1.2.2@sha1:bbbbbbbb
old           v1.2.2@sha1:bbbbbbbb   failed      2026-05-04T11:00:00Z   -                      -             -                                      the last attempt failed: no such host
`,
		},
		{
			name:    "history shows those of one environment on request, also if it is no longer in the spec",
			command: "flux-pipeline history app --env old",
			objects: []client.Object{promoted()},
			wantOut: `
ENVIRONMENT   REVISION               STATE    STARTED                ENDED   APPROVED BY   PULL REQUEST   MESSAGE
old           v1.2.2@sha1:bbbbbbbb   failed   2026-05-04T11:00:00Z   -       -             -              the last attempt failed: no such host
`,
		},
		{
			name:    "history says if there is none",
			command: "flux-pipeline history shop -n team",
			objects: []client.Object{elsewhere()},
			wantLog: "✗ pipeline shop has not promoted anything yet\n",
		},
		{
			name:    "history names the existing environments",
			command: "flux-pipeline history app --env production",
			objects: []client.Object{promoted()},
			wantErr: "pipeline app has no environment production: its environments are dev, staging, prod",
		},
	})
}
