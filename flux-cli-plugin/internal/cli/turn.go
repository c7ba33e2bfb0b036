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
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

const pollInterval = 500 * time.Millisecond

// direction is which way a gate is turned, with the words to tell of it.
type direction struct {
	closed                    bool
	title, doing, done, state string
	effect                    string
}

// turnCommand opens or closes one gate.
type turnCommand struct {
	direction
	// words are those that the command is called by.
	words   string
	cluster *clusterFlags
	reason  string
	wait    bool
	// until is of an override; nil to turn the switch.
	until    *metav1.Time
	forTime  time.Duration
	untilArg string
}

func newTurnCommand(direction direction, use, words string, cluster *clusterFlags) *cobra.Command {
	turn := &turnCommand{direction: direction, words: words, cluster: cluster}
	cmd := &cobra.Command{
		Use:   use,
		Short: direction.title + " a gate",
		Long: fmt.Sprintf(`%[1]s a gate, and wait until what names it has followed. %[2]s

With --for or --until, the gate is %[4]s until then, whatever its switch and its windows say: that is kept in spec.override
of the gate. Without them, the switch is turned, and an override is removed.

The reason is kept in the annotation %[3]s of the gate, or in its override, and every message
about the gate carries it. A gate that changes its state without --reason loses the reason that it had, which spoke of
the other state. A gate that is %[4]s already keeps its reason, unless --reason gives a new one.`,
			direction.title, direction.effect, gatingv1.ReasonAnnotation, direction.state),
		Example: fmt.Sprintf(`  # %[2]s the gate 'change-freeze' in the flux-system namespace
  %[1]s change-freeze

  # Say why, for everyone who looks at what the gate holds
  %[1]s change-freeze --reason "release week, ask in #releases"

  # %[2]s the gate for two hours
  %[1]s change-freeze --for 2h --reason "INC-4711"

  # %[2]s the gate until a time of this machine's time zone
  %[1]s change-freeze --until 2026-12-24T06:00

  # %[2]s a gate in another namespace, and don't wait for gate-controller
  %[1]s change-freeze --namespace apps --wait=false`, words, direction.title),
		Args:              oneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              turn.run,
	}
	cmd.Flags().StringVar(&turn.reason, "reason", "", "why the gate is "+direction.state+", on one line")
	cmd.Flags().DurationVar(&turn.forTime, "for", 0, "keep the gate "+direction.state+" for this time, such as 2h")
	cmd.Flags().StringVar(&turn.untilArg, "until", "", "keep the gate "+direction.state+" until this time, such as 2026-12-24T06:00 or 2026-12-24T06:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]cobra.Completion{"30m", "1h", "2h", "4h", "8h", "24h"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("until", cobra.NoFileCompletions)
	cmd.Flags().BoolVar(&turn.wait, "wait", true, "wait until all sources and promotions have followed the gate")
	return cmd
}

func (c *turnCommand) run(cmd *cobra.Command, args []string) error {
	log := loggerFor(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()

	if err := c.parseUntil(cmd); err != nil {
		return err
	}
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	gate, err := getGate(ctx, kube, client.ObjectKey{Namespace: namespace, Name: args[0]})
	if err != nil {
		return err
	}

	reason := plaintext.Line(c.reason)
	turned := c.until != nil || gate.Spec.Closed != c.closed || gate.Spec.Override != nil
	explained := cmd.Flags().Changed("reason") && reason != gate.Annotations[gatingv1.ReasonAnnotation]
	if !turned && !explained {
		if !c.warnOfWindows(log, gate) {
			log.successf("gate %s in %s namespace is %s already%s", gate.Name, namespace, c.state, c.counts(gate))
		}
		return nil
	}

	if err := c.turn(ctx, kube, log, gate, reason); err != nil {
		return err
	}
	if turned {
		log.successf("gate %s", c.done)
	} else {
		log.successf("gate is %s already, its reason is changed", c.state)
	}
	c.warnOfWindows(log, gate)
	if c.until == nil {
		warnOfGit(log, gate)
	}

	if !c.wait {
		return nil
	}
	log.waitingf("waiting for gate reconciliation")
	if err := c.waitFollowed(ctx, kube, gate); err != nil {
		return fmt.Errorf("gate %s is %s, but %w", args[0], stateOf(gate, c.cluster.now()), err)
	}
	log.successf("gate %s is %s%s", gate.Name, gate.StateAt(c.cluster.now()), c.counts(gate))
	return nil
}

// parseUntil reads the end of an override from --for and --until.
func (c *turnCommand) parseUntil(cmd *cobra.Command) error {
	now := c.cluster.now()
	switch {
	case cmd.Flags().Changed("for"):
		if c.forTime < time.Second {
			return errors.New("--for must be a second or more, such as 2h")
		}
		c.until = new(metav1.NewTime(now.Add(c.forTime).Truncate(time.Second)))
	case cmd.Flags().Changed("until"):
		until, err := parseTime(c.untilArg, now.Location())
		if err != nil {
			return fmt.Errorf("--until %w", err)
		}
		if !until.After(now) {
			return fmt.Errorf("--until must be in the future: it is %s now", now.Format(time.RFC3339))
		}
		c.until = new(metav1.NewTime(until))
	}
	return nil
}

// warnOfWindows says so where the gate is not what its switch was turned to, and reports whether it did.
func (c *turnCommand) warnOfWindows(log logger, gate *gatingv1.Gate) bool {
	state := gate.StateAt(c.cluster.now())
	if state.Closed == c.closed {
		return false
	}
	log.warningf("gate %s is %s all the same: '%s %s -n %s --for 2h' overrides that", gate.Name, state, c.words, gate.Name, gate.Namespace)
	return true
}

// turn sets the gate's switch and reason.
func (c *turnCommand) turn(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, reason string) error {
	name := gate.Name // what is refused leaves nothing of the gate
	log.actionf("%s gate %s in %s namespace", c.doing, name, gate.Namespace)
	var err error
	switch {
	case c.until != nil:
		err = c.patch(ctx, kube, log, gate, map[string]any{"spec": map[string]any{"override": c.override(reason)}})
	case reason == "":
		err = c.turnWithout(ctx, kube, log, gate)
	default:
		err = c.turnFor(ctx, kube, log, gate, reason)
	}
	if err != nil {
		return fmt.Errorf("%s gate %s failed: %w", c.doing, name, err)
	}
	return nil
}

// turnWithout sets the switch, and removes the reason that is there, whoever gave it. It says nothing of any other field, so that it needs no
// lock.
func (c *turnCommand) turnWithout(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate) error {
	patch := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{gatingv1.ReasonAnnotation: nil}},
		"spec":     map[string]any{"closed": c.closed},
	}
	if gate.Spec.Override != nil {
		patch["spec"] = map[string]any{"closed": c.closed, "override": nil}
	}
	return c.patch(ctx, kube, log, gate, patch)
}

// override is until a moment. It has the reason that is given, and no earlier one.
func (c *turnCommand) override(reason string) map[string]any {
	override := map[string]any{"closed": c.closed, "until": c.until.UTC().Format(time.RFC3339), "reason": nil}
	if reason != "" {
		override["reason"] = reason
	}
	return override
}

func (c *turnCommand) patch(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, patch map[string]any) error {
	text, err := c.show(log, patch)
	if err != nil {
		return err
	}
	return kube.Patch(ctx, gate, client.RawPatch(types.MergePatchType, text))
}

// turnFor applies the switch and the reason, and so owns both of them: when somebody else turns the gate, the reason counts no longer.
func (c *turnCommand) turnFor(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, reason string) error {
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gatingv1.GroupVersion.String(),
		"kind":       gatingv1.GateKind,
		// Apply would create a gate that was deleted a moment ago; with the UID it fails instead.
		"metadata": map[string]any{
			"name": gate.Name, "namespace": gate.Namespace, "uid": string(gate.UID),
			"annotations": map[string]any{gatingv1.ReasonAnnotation: reason},
		},
		"spec": map[string]any{"closed": c.closed},
	}}
	if _, err := c.show(log, wanted.Object); err != nil {
		return err
	}
	overridden := gate.Spec.Override != nil
	if err := kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.ForceOwnership); err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, gate); err != nil || !overridden {
		return err
	}
	// What is applied says nothing of the override, whose owner is another one.
	return c.patch(ctx, kube, log, gate, map[string]any{"spec": map[string]any{"override": nil}})
}

// show returns what is sent, and shows it if that is asked for.
func (c *turnCommand) show(log logger, sent map[string]any) ([]byte, error) {
	text, err := json.Marshal(sent)
	if err == nil && c.cluster.verbose {
		log.generatef("%s", text)
	}
	return text, err
}

// counts tells what has followed the gate, once gate-controller has looked at the gate as it is now.
func (c *turnCommand) counts(gate *gatingv1.Gate) string {
	status := &gate.Status
	if status.ObservedGeneration < gate.Generation {
		return ""
	}
	held := status.Held - status.HeldPromotions
	text := fmt.Sprintf(": held %d of %s", held, many(status.Sources, "source"))
	if !gate.StateAt(c.cluster.now()).Closed {
		text = fmt.Sprintf(": released %d of %s", status.Sources-held, many(status.Sources, "source"))
	}
	if status.HeldPromotions > 0 {
		text += fmt.Sprintf(", %s held", many(status.HeldPromotions, "promotion"))
	}
	return text
}

func many(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// waitFollowed reads the gate until all sources and promotions have followed it, by gate-controller's status of the generation that the gate has
// now, or of a later one. Those that could not be held are an error.
func (c *turnCommand) waitFollowed(ctx context.Context, kube client.Client, gate *gatingv1.Gate) error {
	generation, status := gate.Generation, &gate.Status
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(gate), gate)
		return status.ObservedGeneration >= generation && status.Pending == 0, err
	})
	look := fmt.Sprintf("'flux gate get %s -n %s' shows which", gate.Name, gate.Namespace)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("waiting for gate-controller failed: %w", err)
	case err != nil && status.ObservedGeneration < generation:
		return errors.New("gate-controller has not seen it yet: does it run? " +
			"(kubectl get deployments --all-namespaces --field-selector metadata.name=gate-controller)")
	case err != nil:
		return fmt.Errorf("some have yet to follow%s; %s", c.counts(gate), look)
	case c.closed && status.Refused > 0:
		return fmt.Errorf("holding failed for %d of %s: %s", status.Refused, many(status.Sources, "source"), look)
	}
	return nil
}
