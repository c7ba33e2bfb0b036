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
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// gateGetCommand shows one gate.
type gateGetCommand struct {
	cluster *clusterFlags
	output  output
}

func newGateGetCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateGetCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a gate, its next changes and what it holds",
		Long: `Show a gate, its next five changes, the passes in force, and the sources and pipelines that refer to
it. It shows which sources are held and which promotions wait. With --output, it prints what
'flux gate list' prints.

A source or a promotion can refer to several gates, so another gate may hold it.`,
		Example: `  # Show what the gate 'change-freeze' holds
  flux gate get change-freeze

  # Print the gate as YAML
  flux gate get change-freeze -o yaml`,
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              command.run,
	}
	command.output.bind(cmd)
	return cmd
}

func (c *gateGetCommand) run(cmd *cobra.Command, args []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, gate, err := c.cluster.readGate(ctx, cmd, args[0])
	if err != nil {
		return err
	}
	if c.output != "" {
		list := &gateListCommand{listCommand{cluster: c.cluster, output: c.output}}
		found := list.tableOf()
		list.add(found, gate.Name, gate)
		return list.showOne(cmd, kube, found)
	}
	shown, err := treeOf(ctx, kube, loggerFor(cmd), gate, c.cluster.now())
	if err != nil {
		return err
	}
	return c.cluster.printer(cmd).tree(shown)
}

// treeOf returns a tree of the gate and the objects that refer to it.
func treeOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, now time.Time) (*tree, error) {
	state := gate.StateAt(now)
	shown := leaf("Gate/%s/%s: %s", gate.Namespace, gate.Name, describe.Gate(gate, now))
	shown.state = describe.GateState(gate, now)
	if by := state.By.String(); by != "" {
		shown.add(leaf("turned by %s", by))
	}
	if lost := gate.Status.Lost; lost > 0 && describe.Observed(gate) {
		shown.add(leaf("drift is not corrected: source-controller has lost %s", describe.Many(lost, "artifact")))
	}
	if changes := gate.ChangesAfter(now, changesShown); len(changes) > 0 {
		shown.add(changesOf(gate, changes, now.Location()))
	}
	passes, err := passesInForce(ctx, kube, gate, now)
	if err != nil {
		return nil, err
	}
	if len(passes.branches) > 0 {
		shown.add(*passes)
	}
	sources, err := sourcesOf(ctx, kube, log, gate)
	if err != nil {
		return nil, err
	}
	shown.add(*sources)
	pipelines, err := pipelinesOf(ctx, kube, log, gate)
	if err != nil {
		return nil, err
	}
	shown.add(*pipelines)
	return &shown, nil
}
