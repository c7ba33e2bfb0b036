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
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// pipelineHistoryCommand lists the promotions of one pipeline.
type pipelineHistoryCommand struct {
	pipelineCommand
	noHeader bool
}

func newPipelineHistoryCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineHistoryCommand{pipelineCommand: pipelineCommand{cluster: cluster}}
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the promotions of a pipeline",
		Long:  "List the recorded promotions of a pipeline: up to eleven for each environment, newest first.",
		Example: `  # List the promotions of the pipeline 'app'
  flux pipeline history app

  # List the promotions into prod
  flux pipeline history app --env prod`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.withPipeline(command.history),
	}
	command.bindEnv(cmd, "list the promotions into this environment only")
	cmd.Flags().BoolVar(&command.noHeader, "no-header", false, "print no headings")
	return cmd
}

func (c *pipelineHistoryCommand) history(cmd *cobra.Command, _ client.Client, pipeline *pipelinesv1.Pipeline) error {
	environments := describe.Environments(pipeline)
	if c.env != "" {
		if !slices.Contains(environments, c.env) {
			return checkEnvironment(pipeline, c.env)
		}
		environments = []string{c.env}
	}
	found := &table{
		headings: []string{"ENVIRONMENT", "REVISION", "STATE", "STARTED", "ENDED", "APPROVED BY", "PULL REQUEST", "MESSAGE"},
		states:   []string{"STATE"},
	}
	for _, env := range environments {
		for _, record := range describe.Records(pipeline.Status.Environments[env]) {
			found.add(nil, nil, historyRow(env, record)...)
		}
	}
	if len(found.rows) == 0 {
		loggerFor(cmd).failuref("pipeline %s has not promoted anything yet", pipeline.Name)
		return nil
	}
	return c.cluster.printer(cmd).tables(c.noHeader).print(found)
}

func historyRow(env string, record pipelinesv1.PromotionRecord) []string {
	return []string{
		env, revision.Short(record.Revision), string(record.State), describe.Timestamp(&record.StartTime), describe.Timestamp(record.CompletionTime),
		strings.Join(record.Approvers, ", "), why.PullRequestURL(&record), describe.RecordMessage(&record),
	}
}
