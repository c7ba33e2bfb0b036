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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// withQA is a Pipeline with an environment that newPipeline has not.
func withQA() *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "site"}}
	for _, name := range []string{"dev", "qa", "prod"} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{Name: name})
	}
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{
		"qa": {State: pipelinesv1.EnvironmentRollingOut, Targets: []pipelinesv1.TargetStatus{{}, {}}},
	}
	return pipeline
}

func TestPipelineList(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "list shows the pipelines of the namespace, each on a line",
			command: "flux-pipeline list",
			objects: []client.Object{outOfReach(), elsewhere()},
			wantOut: `
NAME   REVISION               SUSPENDED   READY   MESSAGE
app    v1.2.3@sha1:cccccccc   False       False   prod: Kustomization prod/app in cluster eu can't be read: no route to host
`,
		},
		{
			name:    "list shows those of all namespaces on demand",
			command: "flux-pipeline list -A",
			objects: []client.Object{waiting(), elsewhere()},
			wantOut: `
NAMESPACE     NAME   REVISION               SUSPENDED   READY     MESSAGE
flux-system   app    v1.2.3@sha1:cccccccc   False       True      prod: v1.2.3@sha1:cccccccc waits: waiting for approval
team          shop   -                      True        Unknown   pipeline-controller has not reconciled it yet
`,
		},
		{
			name:    "list shows what runs where",
			command: "flux-pipeline list -A -o wide",
			objects: []client.Object{waiting(), elsewhere(), withQA()},
			wantOut: `
NAMESPACE     NAME   dev                            qa                   staging                        prod
flux-system   app    v1.2.3@sha1:cccccccc Current   -                    v1.2.3@sha1:cccccccc Current   v1.2.2@sha1:bbbbbbbb Waiting
team          shop   -                              -                    -                              -
team          site   <unknown>                      nothing RollingOut   -                              <unknown>
`,
		},
		{
			name:    "list says if there are none",
			command: "flux-pipeline list",
			objects: []client.Object{elsewhere()},
			wantErr: "no pipelines found in flux-system namespace",
		},
		{
			name:    "list says if there are none in any namespace",
			command: "flux-pipeline list --all-namespaces",
			wantErr: "no pipelines found in any namespace",
		},
		{
			name:    "list prints the API server's error for a user without the right",
			command: "flux-pipeline list -A",
			refuse: func(verb string, _ any) error {
				if verb == "list all" {
					return forbidden("pipelines", "", `User "ada" cannot list resource`)
				}
				return nil
			},
			wantErr: `listing pipelines failed: pipelines.pipelines.weave.works is forbidden: User "ada" cannot list resource`,
		},
	})
}
