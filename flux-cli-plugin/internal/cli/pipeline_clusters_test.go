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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// inCluster returns a Pipeline with a single environment, which has these targets.
func inCluster(namespace string, targets ...pipelinesv1.TargetStatus) *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "clustered"}}
	pipeline.Spec.Environments = []pipelinesv1.Environment{{Name: "prod"}}
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": {Targets: targets}}
	return pipeline
}

// targetIn returns a target in a cluster, and the reason why it cannot be read.
func targetIn(namespace, cluster, reason string, since *metav1.Time) pipelinesv1.TargetStatus {
	target := pipelinesv1.TargetStatus{Reason: reason, Since: since}
	target.ClusterAppRef.ClusterRef = &pipelinesv1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Namespace: namespace, Name: cluster}
	if reason != "" {
		target.Error = "why it is " + reason
	}
	return target
}

func TestPipelineClusters(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "clusters shows for each cluster that a pipeline names whether it responds",
			command: "flux-pipeline clusters -A",
			objects: []client.Object{
				newPipeline(),
				inCluster("flux-system", targetIn("", "well", "", nil), targetIn("", "well", pipelinesv1.ObjectNotFoundReason, at(-time.Hour)),
					targetIn("", "dead", pipelinesv1.UnreachableReason, at(-time.Hour)), targetIn("", "new", pipelinesv1.ConnectingReason, at(0))),
				inCluster("team", targetIn("flux-system", "dead", pipelinesv1.UnreachableReason, at(-2*time.Hour)),
					targetIn("", "dead", pipelinesv1.SecretNotFoundReason, at(0)), targetIn("", "dead", pipelinesv1.ConnectingReason, at(-time.Hour))),
			},
			wantOut: `
CLUSTER                          REACHABLE   REASON           SINCE                  TARGETS   MESSAGE
GitopsCluster/flux-system/dead   False       Unreachable      ` + describe.Timestamp(at(-2*time.Hour)) + `   2         why it is Unreachable
GitopsCluster/flux-system/new    Unknown     Connecting       ` + describe.Timestamp(at(0)) + `   1         why it is Connecting
GitopsCluster/flux-system/well   True        -                -                      2         -
GitopsCluster/team/dead          False       SecretNotFound   ` + describe.Timestamp(at(0)) + `   2         why it is SecretNotFound
`,
		},
		{
			name:    "clusters says so where no pipeline of the namespace names one",
			command: "flux-pipeline clusters",
			objects: []client.Object{newPipeline(), inCluster("team", targetIn("", "well", "", nil))},
			wantErr: "no clusters found in flux-system namespace",
		},
	})
}
