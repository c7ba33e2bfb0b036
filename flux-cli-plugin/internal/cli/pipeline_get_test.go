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

func TestPipelineGet(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "get shows environments, targets and promotions",
			command: "flux-pipeline get app",
			objects: []client.Object{promoted()},
			wantOut: `
Pipeline/flux-system/app: prod: v1.2.3@sha1:cccccccc waits for pull request https://github.com/acme/fleet/pull/7 to be merged
├── dev: Current: runs v1.2.3@sha1:cccccccc
│   └── Kustomization/dev/app: v1.2.3@sha1:cccccccc, ready
├── staging: Current: runs v1.2.3@sha1:cccccccc
│   └── Kustomization/staging/app: v1.2.3@sha1:cccccccc, ready
└── prod: PullRequestOpen: v1.2.3@sha1:cccccccc waits for pull request https://github.com/acme/fleet/pull/7 to be merged
    ├── Kustomization/prod/app: v1.2.2@sha1:bbbbbbbb, ready
    └── promotion of v1.2.3@sha1:cccccccc: created, pull request https://github.com/acme/fleet/pull/7 waits to be merged, approved by ada
`,
		},
		{
			name:    "get shows what is wrong with a target in another cluster",
			command: "flux-pipeline get app",
			objects: []client.Object{outOfReach()},
			wantOut: `
Pipeline/flux-system/app: prod: Kustomization prod/app in cluster eu can't be read: no route to host
├── dev: Current: runs v1.2.3@sha1:cccccccc
│   └── Kustomization/dev/app: v1.2.3@sha1:cccccccc, ready
├── staging: Current: runs v1.2.3@sha1:cccccccc
│   └── Kustomization/staging/app: v1.2.3@sha1:cccccccc, ready
└── prod: Unknown: Kustomization prod/app in cluster eu can't be read: no route to host
    ├── Kustomization/prod/app: v1.2.2@sha1:bbbbbbbb, ready
    └── Kustomization/prod/app in cluster eu: no revision, not ready: no route to host
`,
		},
		{
			name:    "get shows a pipeline that pipeline-controller has not seen",
			command: "flux-pipeline get shop -n team",
			objects: []client.Object{elsewhere()},
			wantOut: "\nPipeline/team/shop: pipeline-controller has not reconciled it yet\n",
		},
		{
			name:    "get names the existing ones instead",
			command: "flux-pipeline get shop",
			objects: []client.Object{waiting()},
			wantErr: "pipeline shop not found in flux-system namespace, which has: app",
		},
	})
}
