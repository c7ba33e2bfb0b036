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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// unknown is shown for what gate-controller has yet to look at.
const unknown = "<unknown>"

// stateOf tells by the switch itself whether the gate is open.
func stateOf(gate *gatingv1alpha1.Gate) string {
	if gate.Spec.Closed {
		return closing.state
	}
	return opening.state
}

// observed tells whether gate-controller has seen the gate as it is now.
func observed(gate *gatingv1alpha1.Gate) bool {
	return gate.Status.ObservedGeneration >= gate.Generation && gate.Status.LastTransitionTime != nil
}

// gateListCommand lists gates.
type gateListCommand struct {
	cluster *clusterFlags
	all     bool
}

func newGateListCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateListCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List gates",
		Long:  "List gates: whether each is open, since when, how many sources are held, and why.",
		Example: `  # List the gates of the flux-system namespace
  flux gate list

  # List those of all namespaces
  flux gate list -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func bindAllNamespaces(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVarP(all, "all-namespaces", "A", false, "list those of all namespaces")
}

func (c *gateListCommand) run(cmd *cobra.Command, _ []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	gates := &gatingv1alpha1.GateList{}
	if err := list(ctx, kube, "gate", gates, within(namespace, c.all)); err != nil {
		return err
	}
	if len(gates.Items) == 0 {
		loggerFor(cmd).nothingf("gate", namespace, c.all)
		return nil
	}
	headings := []string{"NAME", "STATE", "SINCE", "HELD", "REASON"}
	var rows [][]string
	for i := range gates.Items {
		gate := &gates.Items[i]
		since, held := unknown, unknown
		if observed(gate) {
			since = duration.HumanDuration(c.cluster.now().Sub(gate.Status.LastTransitionTime.Time))
			held = fmt.Sprint(gate.Status.Held)
		}
		rows = append(rows, prefixed(c.all, gate.Namespace, gate.Name, stateOf(gate), since, held, gate.Reason()))
	}
	return printTable(cmd.OutOrStdout(), prefixed(c.all, "NAMESPACE", headings...), rows)
}

// within limits a list to the namespace, unless all are asked for.
func within(namespace string, all bool) client.ListOption {
	if all {
		return client.InNamespace("")
	}
	return client.InNamespace(namespace)
}

// prefixed puts the namespace before the other columns if all namespaces are listed.
func prefixed(all bool, namespace string, columns ...string) []string {
	if all {
		return append([]string{namespace}, columns...)
	}
	return columns
}

func newGateGetCommand(cluster *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a gate and what it holds",
		Long: `Show a gate, the sources that name it and whether they are held, and the pipelines that name it and what of them waits.

A source or a promotion may name several gates. It is shown as held or waiting whichever of them keeps it.`,
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

// treeOf shows a gate with those who name it below.
func treeOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1alpha1.Gate, now time.Time) (*tree, error) {
	shown := leaf("Gate/%s/%s: %s", gate.Namespace, gate.Name, stateOf(gate))
	if observed(gate) {
		since := gate.Status.LastTransitionTime
		shown.line += fmt.Sprintf(" since %s (%s)", since.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(since.Time)))
	}
	if reason := gate.Reason(); reason != "" {
		shown.line += ": " + reason
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

// gateCreateCommand creates one gate.
type gateCreateCommand struct {
	cluster *clusterFlags
	closed  bool
	reason  string
}

func newGateCreateCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateCreateCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a gate",
		Long: fmt.Sprintf(`Create a gate. It is open unless --closed is given, and holds back whatever names it while it is closed.

The reason is kept in the annotation %s of the gate, and every message about the gate carries it.`, gatingv1alpha1.ReasonAnnotation),
		Example: `  # Create the gate 'change-freeze', open
  flux gate create change-freeze

  # Create one that is closed, and say why
  flux gate create change-freeze --closed --reason "release week, ask in #releases"`,
		Args: oneName("gate"),
		RunE: command.run,
	}
	cmd.Flags().BoolVar(&command.closed, "closed", false, "create the gate closed")
	cmd.Flags().StringVar(&command.reason, "reason", "", "why the gate is open or closed, on one line")
	return cmd
}

func (c *gateCreateCommand) run(cmd *cobra.Command, args []string) error {
	log := loggerFor(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	gate := &gatingv1alpha1.Gate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: args[0]},
		Spec:       gatingv1alpha1.GateSpec{Closed: c.closed},
	}
	if reason := why.OneLine(c.reason); reason != "" {
		gate.Annotations = map[string]string{gatingv1alpha1.ReasonAnnotation: reason}
	}
	log.actionf("creating gate %s in %s namespace", gate.Name, namespace)
	switch err := create(ctx, kube, log, c.cluster.verbose, gate); {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("gate %s exists already in %s namespace, turn it with 'flux open gate' and 'flux close gate'", gate.Name, namespace)
	case err != nil:
		return fmt.Errorf("creating gate %s failed: %w", args[0], err)
	}
	log.successf("gate created, it is %s", stateOf(gate))
	return nil
}
