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
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

const pollInterval = 500 * time.Millisecond

// direction is which way a gate is turned, with the words to tell of it.
type direction struct {
	closed                          bool
	verb, title, doing, done, state string
	effect                          string
	held                            string
}

var (
	opening = direction{
		closed: false, verb: "open", title: "Open", doing: "opening", done: "opened", state: "open",
		effect: "What it held back goes on by itself, unless another gate holds it too.",
		held:   "still held",
	}
	closing = direction{
		closed: true, verb: "close", title: "Close", doing: "closing", done: "closed", state: "closed",
		effect: "Sources that name it publish nothing new and promotions that name it wait, until it is opened again.",
		held:   "held so far",
	}
)

// turnCommand opens or closes one gate.
type turnCommand struct {
	direction
	cluster *clusterFlags
	reason  string
	wait    bool
}

func newTurnCommand(direction direction, cluster *clusterFlags) *cobra.Command {
	turn := &turnCommand{direction: direction, cluster: cluster}
	cmd := &cobra.Command{
		Use:   "gate NAME",
		Short: direction.title + " a gate",
		Long: fmt.Sprintf(`%s a gate, and wait until gate-controller has seen it. %s

The reason is kept in the annotation %s of the gate, and every message
about the gate carries it. A gate that changes its state without --reason loses the reason that it had, which spoke of
the other state. A gate that is %s already keeps its reason, unless --reason gives a new one.`,
			direction.title, direction.effect, gatingv1alpha1.ReasonAnnotation, direction.state),
		Example: fmt.Sprintf(`  # %[2]s the gate 'change-freeze' in the flux-system namespace
  flux %[1]s gate change-freeze

  # Say why, for everyone who looks at what the gate holds
  flux %[1]s gate change-freeze --reason "release week, ask in #releases"

  # %[2]s a gate in another namespace, and don't wait for gate-controller
  flux %[1]s gate change-freeze --namespace apps --wait=false`, direction.verb, direction.title),
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              turn.run,
	}
	cmd.Flags().StringVar(&turn.reason, "reason", "", "why the gate is "+direction.state+", on one line")
	cmd.Flags().BoolVar(&turn.wait, "wait", true, "wait until gate-controller has seen the change")
	return cmd
}

func oneName(kind string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return fmt.Errorf("%s name is required", kind)
		case len(args) > 1:
			return fmt.Errorf("one %s name is expected, got %d arguments: %s", kind, len(args), strings.Join(args, " "))
		}
		return nil
	}
}

func (c *turnCommand) run(cmd *cobra.Command, args []string) error {
	log := loggerFor(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()

	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	gate, err := getGate(ctx, kube, client.ObjectKey{Namespace: namespace, Name: args[0]})
	if err != nil {
		return err
	}

	reason := why.OneLine(c.reason)
	turned := gate.Spec.Closed != c.closed
	explained := cmd.Flags().Changed("reason") && reason != gate.Annotations[gatingv1alpha1.ReasonAnnotation]
	if !turned && !explained {
		log.successf("gate %s in %s namespace is %s already%s", gate.Name, namespace, c.state, c.counts(gate))
		return nil
	}

	log.actionf("%s gate %s in %s namespace", c.doing, gate.Name, namespace)
	patch, err := c.patch(reason)
	if err != nil {
		return err
	}
	if c.cluster.verbose {
		log.generatef("%s", patch)
	}
	if err := kube.Patch(ctx, gate, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("%s gate %s failed: %w", c.doing, args[0], err)
	}
	if turned {
		log.successf("gate %s", c.done)
	} else {
		log.successf("gate is %s already, its reason is changed", c.state)
	}
	warnOfGit(log, gate)

	if !c.wait {
		return nil
	}
	log.waitingf("waiting for gate reconciliation")
	if err := waitObserved(ctx, kube, gate); err != nil {
		return fmt.Errorf("gate %s is %s, but %w", args[0], c.state, err)
	}
	log.successf("gate %s is %s%s", gate.Name, c.state, c.counts(gate))
	return nil
}

// patch sets the switch and the reason, and says nothing of any other field, so that it needs no lock. An empty reason
// removes the one that is there.
func (c *turnCommand) patch(reason string) ([]byte, error) {
	annotations := map[string]any{gatingv1alpha1.ReasonAnnotation: nil}
	if reason != "" {
		annotations[gatingv1alpha1.ReasonAnnotation] = reason
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"spec":     map[string]any{"closed": c.closed},
	})
}

// counts tells whom the gate matters to, once gate-controller has looked at the gate as it is now. Its sources follow one by
// one, so that the number of those held may be on its way.
func (c *turnCommand) counts(gate *gatingv1alpha1.Gate) string {
	if gate.Status.ObservedGeneration < gate.Generation {
		return ""
	}
	return fmt.Sprintf(" (sources: %d, %s: %d, pipelines: %d)",
		gate.Status.Sources, c.held, gate.Status.Held, gate.Status.Pipelines)
}

func getGate(ctx context.Context, kube client.Client, key client.ObjectKey) (*gatingv1alpha1.Gate, error) {
	gate := &gatingv1alpha1.Gate{}
	return gate, get(ctx, kube, "gate", key, gate, &gatingv1alpha1.GateList{})
}

// waitObserved reads the gate until gate-controller's status describes the generation that the gate has now, or a later one.
func waitObserved(ctx context.Context, kube client.Client, gate *gatingv1alpha1.Gate) error {
	generation := gate.Generation
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(gate), gate)
		return gate.Status.ObservedGeneration >= generation, err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("gate-controller has not seen it yet: does it run? " +
			"(kubectl get deployments --all-namespaces --field-selector metadata.name=gate-controller)")
	default:
		return fmt.Errorf("waiting for gate-controller failed: %w", err)
	}
}
