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

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

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
		Long: fmt.Sprintf(`Create a gate. It is open unless --closed is set. A closed gate holds the sources and promotions
that refer to it.

The reason is stored in the annotation %s. Every message about the
gate includes it.`, gatingv1.ReasonAnnotation),
		Example: `  # Create the open gate 'change-freeze'
  flux gate create change-freeze

  # Create a closed gate with a reason
  flux gate create change-freeze --closed --reason "release week, ask in #releases"`,
		Args: oneName("gate"),
		RunE: command.run,
	}
	cmd.Flags().BoolVar(&command.closed, "closed", false, "create the gate closed")
	cmd.Flags().StringVar(&command.reason, "reason", "", "the reason why the gate is open or closed, on one line")
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
	gate := &gatingv1.Gate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: args[0]},
		Spec:       gatingv1.GateSpec{Closed: c.closed},
	}
	if reason := plaintext.Line(c.reason); reason != "" {
		gate.Annotations = map[string]string{gatingv1.ReasonAnnotation: reason}
	}
	log.actionf("creating gate %s in %s namespace", gate.Name, namespace)
	if by := turnerName(ctx, kube, log); by != "" {
		metav1.SetMetaDataAnnotation(&gate.ObjectMeta, gatingv1.TurnedByAnnotation, by)
	}
	switch err := create(ctx, kube, log, c.cluster.verbose, gate); {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("gate %s already exists in %s namespace; use 'flux open gate' and 'flux close gate'", gate.Name, namespace)
	case err != nil:
		return fmt.Errorf("creating gate %s failed: %w", args[0], err)
	}
	log.successf("gate created; it is %s", describe.GateState(gate, c.cluster.now()))
	return nil
}
