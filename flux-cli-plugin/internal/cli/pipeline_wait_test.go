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
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// standing returns a Pipeline whose current revision has reached an environment.
func standing(at string, state pipelinesv1.EnvironmentState, message string) *pipelinesv1.Pipeline {
	pipeline := newPipeline()
	stand(pipeline, at, state, "True", message)
	return pipeline
}

func TestPipelineWait(t *testing.T) {
	const waits = "v1.2.3@sha1:cccccccc waits: gate freeze is closed"
	for _, tt := range []struct {
		name     string
		command  string
		pipeline *pipelinesv1.Pipeline
		wantLog  string
		wantErr  string
		wantExit int
	}{
		{
			name:     "it ends once every environment runs the revision",
			command:  "flux-pipeline wait app",
			pipeline: standing("prod", "Current", "runs v1.2.3@sha1:cccccccc"),
			wantLog:  "◎ prod: runs v1.2.3@sha1:cccccccc\n✔ prod: runs v1.2.3@sha1:cccccccc\n",
		},
		{
			name:     "it ends once the environment that is named does",
			command:  "flux-pipeline wait app --env staging",
			pipeline: standing("prod", "Failed", "promoting v1.2.3@sha1:cccccccc failed"),
			wantLog:  "◎ staging: runs v1.2.3@sha1:cccccccc\n✔ staging: runs v1.2.3@sha1:cccccccc\n",
		},
		{
			name:     "a tag names the revision",
			command:  "flux-pipeline wait app --env staging --revision v1.2.3",
			pipeline: standing("prod", "Waiting", waits),
			wantLog:  "◎ staging: runs v1.2.3@sha1:cccccccc\n✔ staging: runs v1.2.3@sha1:cccccccc\n",
		},
		{
			name:     "what waits is waited for, up to the timeout",
			command:  "flux-pipeline wait app --env prod --timeout 10ms",
			pipeline: standing("prod", "Waiting", waits),
			wantLog:  "◎ prod: " + waits + "\n",
			wantErr:  "timed out after 10ms: prod: " + waits,
			wantExit: 3,
		},
		{
			name:     "the environment that the revision has reached is named, even if the command waits for another one",
			command:  "flux-pipeline wait app --env prod --timeout 10ms",
			pipeline: standing("staging", "RollingOut", "v1.2.3@sha1:cccccccc is rolling out"),
			wantLog:  "◎ staging: v1.2.3@sha1:cccccccc is rolling out\n",
			wantErr:  "timed out after 10ms: staging: v1.2.3@sha1:cccccccc is rolling out",
			wantExit: 3,
		},
		{
			name:     "the command waits for a revision that has not started yet, regardless of others",
			command:  "flux-pipeline wait app --revision v1.2.4 --timeout 10ms",
			pipeline: standing("prod", "Failed", "promoting v1.2.3@sha1:cccccccc failed"),
			wantLog:  "◎ waiting for v1.2.4: v1.2.3@sha1:cccccccc is being promoted\n",
			wantErr:  "timed out after 10ms: waiting for v1.2.4: v1.2.3@sha1:cccccccc is being promoted",
			wantExit: 3,
		},
		{
			name:    "what pipeline-controller said of another spec does not count",
			command: "flux-pipeline wait app --timeout 10ms",
			pipeline: func() *pipelinesv1.Pipeline {
				pipeline := standing("prod", "Current", "runs v1.2.3@sha1:cccccccc")
				pipeline.Generation = 2
				return pipeline
			}(),
			wantLog:  "◎ waiting for pipeline-controller to see the last change of the pipeline\n",
			wantErr:  "timed out after 10ms: waiting for pipeline-controller to see the last change of the pipeline",
			wantExit: 3,
		},
		{
			name:     "a promotion that fails is not waited for",
			command:  "flux-pipeline wait app",
			pipeline: standing("prod", "Failed", "promoting v1.2.3@sha1:cccccccc failed, next attempt at 2026-05-04T12:00:10Z: no such host"),
			wantLog:  "◎ prod: promoting v1.2.3@sha1:cccccccc failed, next attempt at 2026-05-04T12:00:10Z: no such host\n",
			wantErr:  "prod: promoting v1.2.3@sha1:cccccccc failed, next attempt at 2026-05-04T12:00:10Z: no such host",
			wantExit: 2,
		},
		{
			name:     "nor is one that was abandoned",
			command:  "flux-pipeline wait app --env prod",
			pipeline: standing("staging", "Abandoned", "v1.2.3@sha1:cccccccc is not promoted: closed"),
			wantLog:  "◎ staging: v1.2.3@sha1:cccccccc is not promoted: closed\n",
			wantErr:  "staging: v1.2.3@sha1:cccccccc is not promoted: closed",
			wantExit: 2,
		},
		{
			name:     "an environment that does not exist is an error like any other",
			command:  "flux-pipeline wait app --env production",
			pipeline: newPipeline(),
			wantErr:  "pipeline app has no environment production: its environments are dev, staging, prod",
			wantExit: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			stdout, stderr, err := cluster{objects: []client.Object{tt.pipeline}}.run(t, strings.Fields(tt.command)...)
			g.Expect(stdout).To(BeEmpty())
			g.Expect(stderr).To(Equal(tt.wantLog))
			if tt.wantErr == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tt.wantErr))
			g.Expect(ExitCode(err)).To(Equal(tt.wantExit))
		})
	}
}

func TestARevisionThatIsSupersededDoesNotArrive(t *testing.T) {
	g := NewWithT(t)
	pipeline := standing("prod", "Waiting", "v1.2.3@sha1:cccccccc waits")
	waits := arrival{revision: "v1.2.3"}
	_, _, err := waits.look(pipeline)
	g.Expect(err).NotTo(HaveOccurred())

	pipeline.Status.Revision = ""
	_, _, err = waits.look(pipeline)
	g.Expect(err).NotTo(HaveOccurred(), "the first environment is being reconciled")

	pipeline.Status.Revision = next
	_, _, err = waits.look(pipeline)
	g.Expect(err).To(MatchError("v1.2.4@sha1:dddddddd replaced v1.2.3"))
	g.Expect(ExitCode(err)).To(Equal(2))
}
