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
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// pipelineGetCommand shows one pipeline.
type pipelineGetCommand struct {
	pipelineCommand
	output output
}

func newPipelineGetCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineGetCommand{pipelineCommand: pipelineCommand{cluster: cluster}}
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a pipeline",
		Long: `Show a pipeline with its environments, the revision of each target, and the last promotion into
each environment. With --output, the command prints what 'flux pipeline list' prints.`,
		Example: `  # Show the pipeline 'app'
  flux pipeline get app

  # Print the pipeline as YAML
  flux pipeline get app -o yaml`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.withPipeline(command.get),
	}
	command.output.bind(cmd)
	return cmd
}

func (c *pipelineGetCommand) get(cmd *cobra.Command, kube client.Client, pipeline *pipelinesv1.Pipeline) error {
	if c.output != "" {
		list := &pipelineListCommand{listCommand{cluster: c.cluster, output: c.output}}
		return list.showOne(cmd, kube, list.tableOf([]pipelinesv1.Pipeline{*pipeline}))
	}
	return c.cluster.printer(cmd).tree(treeOfPipeline(pipeline))
}

// treeOfPipeline returns a tree of the pipeline and its environments.
func treeOfPipeline(pipeline *pipelinesv1.Pipeline) *tree {
	_, message := describe.Ready(pipeline)
	shown := leaf("Pipeline/%s/%s: %s", pipeline.Namespace, pipeline.Name, message)
	for _, env := range pipeline.Spec.Environments {
		status := pipeline.Status.Environments[env.Name]
		if status == nil {
			status = &pipelinesv1.EnvironmentStatus{}
		}
		branch := leaf("%s", describeEnvironment(env.Name, status))
		branch.state = string(status.State)
		for i := range status.Targets {
			branch.add(leaf("%s", describe.Target(&status.Targets[i])))
		}
		if status.Promotion != nil {
			last := leaf("promotion of %s: %s", revision.Short(status.Promotion.Revision), describe.Promotion(status.Promotion))
			last.state = string(status.Promotion.State)
			branch.add(last)
		}
		shown.add(branch)
	}
	return &shown
}

func describeEnvironment(name string, status *pipelinesv1.EnvironmentStatus) string {
	if status.State == "" {
		return name
	}
	return fmt.Sprintf("%s: %s: %s", name, status.State, status.Message)
}
