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
	"github.com/spf13/cobra"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// pipelineListCommand lists pipelines.
type pipelineListCommand struct {
	cluster *clusterFlags
	all     bool
}

func newPipelineListCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineListCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List pipelines",
		Long:  "List pipelines with their current revision and its progress.",
		Example: `  # List the pipelines of the flux-system namespace
  flux pipeline list

  # List the pipelines of all namespaces
  flux pipeline list -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func (c *pipelineListCommand) run(cmd *cobra.Command, _ []string) error {
	pipelines := &pipelinesv1.PipelineList{}
	namespace, err := c.cluster.listAll(cmd, "pipeline", pipelines, c.all)
	if err != nil {
		return err
	}
	if len(pipelines.Items) == 0 {
		loggerFor(cmd).nothingf("pipeline", namespace, c.all)
		return nil
	}
	headings := []string{"NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"}
	var rows [][]string
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		ready, message := readiness(pipeline)
		suspended := "False"
		if pipeline.Spec.Suspend {
			suspended = "True"
		}
		rows = append(rows, prefixed(c.all, pipeline.Namespace,
			pipeline.Name, revision.Short(pipeline.Status.Revision), suspended, ready, message))
	}
	return printTable(cmd.OutOrStdout(), prefixed(c.all, "NAMESPACE", headings...), rows)
}
