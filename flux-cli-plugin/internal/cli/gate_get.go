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
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

func newGateGetCommand(cluster *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a gate, its next changes and what it holds",
		Long: `Show a gate, its next five changes, and the sources and pipelines that refer to it. It shows which
sources are held and which promotions wait.

A source or a promotion can refer to several gates. It is shown as held or waiting if any of them is
closed.`,
		Example: `  # Show what the gate 'change-freeze' holds
  flux gate get change-freeze`,
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), cluster.timeout)
			defer cancel()
			kube, namespace, err := cluster.connect(cmd)
			if err != nil {
				return err
			}
			gate, err := getGate(ctx, kube, client.ObjectKey{Namespace: namespace, Name: args[0]})
			if err != nil {
				return err
			}
			shown, err := treeOf(ctx, kube, loggerFor(cmd), gate, cluster.now())
			if err != nil {
				return err
			}
			return shown.print(cmd.OutOrStdout())
		},
	}
}

// treeOf returns a tree of the gate and the objects that refer to it.
func treeOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, now time.Time) (*tree, error) {
	state := gate.StateAt(now)
	shown := leaf("Gate/%s/%s: %s", gate.Namespace, gate.Name, state)
	if upToDate(gate, now) {
		since := gate.Status.LastTransitionTime
		shown.line += fmt.Sprintf(" since %s (%s)", since.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(since.Time)))
	}
	if state.Reason != "" {
		shown.line += ": " + state.Reason
	}
	if changes := gate.ChangesAfter(now, changesShown); len(changes) > 0 {
		shown.add(changesOf(gate, changes, now.Location()))
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
