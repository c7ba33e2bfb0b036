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
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

func newPipelineWhyCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Explain why an environment does not run the revision",
		Long: `Explain in one line why an environment of a pipeline does not run the current revision.

Without --env, the first environment that does not run the revision is explained, or the last one if
all do.`,
		Example: `  # Why is the promotion not complete?
  flux pipeline why app

  # Why does prod not run the revision?
  flux pipeline why app --env prod`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE: command.withPipeline(func(cmd *cobra.Command, _ client.Client, pipeline *pipelinesv1.Pipeline) error {
			env := command.env
			if env == "" {
				env = why.Lagging(pipeline)
			}
			if err := checkEnvironment(pipeline, env); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), why.Line(pipeline, env, cluster.now()))
			return err
		}),
	}
	command.bindEnv(cmd, "the environment to ask about")
	return cmd
}
