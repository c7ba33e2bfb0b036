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
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/graph"
)

// pipelineGraphCommand draws one pipeline.
type pipelineGraphCommand struct {
	pipelineCommand
	format string
}

// Formats of drawings.
const (
	textFormat    = "text"
	mermaidFormat = "mermaid"
	svgFormat     = "svg"
)

func newPipelineGraphCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineGraphCommand{pipelineCommand: pipelineCommand{cluster: cluster}}
	cmd := &cobra.Command{
		Use:   "graph NAME",
		Short: "Draw a pipeline",
		Long: `Draw a pipeline: its environments in order, the state and the revision of each, and what the
promotion into it waits for.`,
		Example: `  # Draw the pipeline 'app' in the terminal
  flux pipeline graph app

  # Write an image
  flux pipeline graph app --output svg > app.svg

  # Write a diagram for a Markdown page
  flux pipeline graph app --output mermaid`,
		Args:              oneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		PreRunE:           func(*cobra.Command, []string) error { return command.check() },
		RunE:              command.withPipeline(command.draw),
	}
	cmd.Flags().StringVarP(&command.format, "output", "o", textFormat, "the format: mermaid, svg or text")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{mermaidFormat, svgFormat, textFormat}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check checks the format before the cluster is read.
func (c *pipelineGraphCommand) check() error {
	switch c.format {
	case textFormat, mermaidFormat, svgFormat:
		return nil
	}
	return errors.New("--output must be mermaid, svg or text")
}

func (c *pipelineGraphCommand) draw(cmd *cobra.Command, _ client.Client, pipeline *pipelinesv1.Pipeline) error {
	drawn := graph.Of(pipeline)
	switch c.format {
	case mermaidFormat:
		return drawn.Mermaid(cmd.OutOrStdout())
	case svgFormat:
		return drawn.SVG(cmd.OutOrStdout())
	}
	printer := c.cluster.printer(cmd)
	return drawn.Text(cmd.OutOrStdout(), func(text string, stage *graph.Stage) string { return printer.paint(text, colourOfKind[stage.Kind]) })
}

// colourOfKind agrees with colourOf.
var colourOfKind = map[describe.Kind]colour{
	describe.Current: green, describe.Behind: yellow, describe.Waiting: yellow, describe.UnknownKind: yellow,
	describe.Failed: red, describe.RolledBack: red,
}
