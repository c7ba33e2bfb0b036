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
	"context"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// pipelineListCommand lists pipelines.
type pipelineListCommand struct {
	listCommand
}

func newPipelineListCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineListCommand{listCommand{cluster: cluster, noun: "pipeline"}}
	command.read = command.readPipelines
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List pipelines",
		Long: `List pipelines with their current revision and its progress.

With '--output wide', the list shows what runs where: each environment has a column with its
revision and its state.`,
		Example: `  # List the pipelines of the flux-system namespace
  flux pipeline list

  # List the pipelines of all namespaces that are not ready
  flux pipeline list -A --status-selector ready!=true

  # Show which revision runs in which environment
  flux pipeline list -A -o wide`,
		Args:              maybeOneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.run,
	}
	command.bindObjects(cmd)
	return cmd
}

func (c *pipelineListCommand) readPipelines(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	pipelines := &pipelinesv1.PipelineList{}
	if err := list(ctx, kube, "pipeline", pipelines, selected.options()...); err != nil {
		return nil, err
	}
	return c.tableOf(pipelines.Items), nil
}

func (c *pipelineListCommand) tableOf(pipelines []pipelinesv1.Pipeline) *table {
	if c.output == wide {
		return c.matrixOf(pipelines)
	}
	found := &table{headings: prefixed(c.all, "NAMESPACE", "NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"), states: []string{"READY"}}
	for i := range pipelines {
		pipeline := &pipelines[i]
		ready, message := describe.Ready(pipeline)
		suspended := "False"
		if pipeline.Spec.Suspend {
			suspended = "True"
		}
		found.add(pipeline, pipeline.Status.Conditions, prefixed(c.all, pipeline.Namespace,
			pipeline.Name, revision.Short(pipeline.Status.Revision), suspended, ready, message)...)
	}
	return found
}

// matrixOf returns a table with a column for each environment.
func (c *pipelineListCommand) matrixOf(pipelines []pipelinesv1.Pipeline) *table {
	environments := allEnvironments(pipelines)
	found := &table{headings: append(prefixed(c.all, "NAMESPACE", "NAME"), environments...), states: environments}
	for i := range pipelines {
		pipeline := &pipelines[i]
		cells := prefixed(c.all, pipeline.Namespace, pipeline.Name)
		for _, name := range environments {
			cell := ""
			if pipeline.Environment(name) != nil {
				cell = describe.Running(pipeline, name)
				if status := pipeline.Status.Environments[name]; status != nil && status.State != "" {
					cell += " " + string(status.State)
				}
			}
			cells = append(cells, cell)
		}
		found.add(pipeline, pipeline.Status.Conditions, cells...)
	}
	return found
}

// allEnvironments returns the environments of all pipelines, each once. One that only some pipelines have is placed
// after the environment that precedes it there.
func allEnvironments(pipelines []pipelinesv1.Pipeline) []string {
	var names []string
	for i := range pipelines {
		next := 0
		for _, env := range pipelines[i].Spec.Environments {
			at := slices.Index(names, env.Name)
			if at < 0 {
				at = next
				names = slices.Insert(names, at, env.Name)
			}
			next = at + 1
		}
	}
	return names
}
