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
	"sync"
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
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

const pollInterval = 500 * time.Millisecond

// direction is opening or closing, with the words for messages.
type direction struct {
	closed                    bool
	title, doing, done, state string
	effect                    string
}

// turnCommand opens or closes gates.
type turnCommand struct {
	direction
	// words are the words that call the command, such as "flux open gate".
	words   string
	cluster *clusterFlags
	reason  string
	wait    bool
	// forTime and untilArg are the flags --for and --until.
	forTime  time.Duration
	untilArg string
	// until is the end of the override. It is nil if the command turns the switch.
	until *metav1.Time
	// by returns the name of the user, which is looked up once for all gates.
	by func() string
}

func newTurnCommand(direction direction, use, words string, cluster *clusterFlags) *cobra.Command {
	turn := &turnCommand{direction: direction, words: words, cluster: cluster}
	cmd := &cobra.Command{
		Use:   use,
		Short: direction.title + " gates",
		Long: fmt.Sprintf(`%[1]s gates, and wait until their sources and promotions have followed.
%[2]s

With --for or --until, the command sets spec.override, which has precedence over the switch and the
windows, and ends by itself. Without them, it sets the switch and removes an override.

The reason is stored in the annotation %[3]s, or in the override, and
your name in the annotation %[5]s. Messages about the gate include
both. Without --reason, a change removes the previous reason. If the gate is already %[4]s, the
reason is kept.`,
			direction.title, direction.effect, gatingv1.ReasonAnnotation, direction.state, gatingv1.TurnedByAnnotation),
		Example: fmt.Sprintf(`  # %[2]s the gate 'change-freeze' in the flux-system namespace
  %[1]s change-freeze

  # %[2]s several gates, or none if one of them does not exist
  %[1]s change-freeze sign-off

  # %[2]s the gate with a reason
  %[1]s change-freeze --reason "release week, ask in #releases"

  # %[2]s the gate for two hours
  %[1]s change-freeze --for 2h --reason "INC-4711"

  # %[2]s the gate until a local time
  %[1]s change-freeze --until 2026-12-24T06:00

  # %[2]s a gate in another namespace, without waiting for gate-controller
  %[1]s change-freeze --namespace apps --wait=false`, words, direction.title),
		Args:              someNames("gate"),
		ValidArgsFunction: cluster.completeMoreGates,
		RunE:              turn.run,
	}
	cmd.Flags().StringVar(&turn.reason, "reason", "", "the reason why the gate is "+direction.state+", on one line")
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
	// A name that does not exist fails before any gate is turned: it may be a word of a reason without quotes.
	kube, gates, err := c.cluster.readGates(ctx, cmd, args)
	if err != nil {
		return err
	}
	c.by = sync.OnceValue(func() string { return turnerName(ctx, kube, log) })
	failed := &failures{log: log, noun: "gate", of: len(gates)}
	explained := cmd.Flags().Changed("reason")
	var turned []*gatingv1.Gate
	for _, gate := range gates {
		changed, err := c.turnIfNeeded(ctx, kube, log, gate, explained)
		failed.add(err)
		if err == nil && changed {
			turned = append(turned, gate)
		}
	}
	if c.wait && len(turned) > 0 {
		log.waitingf("waiting for gate reconciliation")
		for _, gate := range turned {
			failed.add(c.follow(ctx, kube, log, gate))
		}
	}
	return failed.err()
}

// turnIfNeeded turns a gate that is not yet as it should be, and reports whether it did.
func (c *turnCommand) turnIfNeeded(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, explained bool) (changed bool, _ error) {
	reason := plaintext.Line(c.reason)
	turned := c.until != nil || gate.Spec.Closed != c.closed || gate.Spec.Override != nil
	explained = explained && reason != gate.Annotations[gatingv1.ReasonAnnotation]
	if !turned && !explained {
		if !c.warnOfWindows(log, gate) {
			log.successf("gate %s in %s namespace is already %s%s", gate.Name, gate.Namespace, c.state, c.counts(gate))
		}
		return false, nil
	}
	if err := c.turn(ctx, kube, log, gate, reason); err != nil {
		return false, err
	}
	if turned {
		log.successf("gate %s", c.done)
	} else {
		log.successf("gate is already %s; reason changed", c.state)
	}
	c.warnOfWindows(log, gate)
	if c.until == nil {
		warnOfGit(log, gate)
	}
	return true, nil
}

// follow waits until everything has followed a gate.
func (c *turnCommand) follow(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate) error {
	name := gate.Name // a request that fails may clear the object
	if err := c.waitFollowed(ctx, kube, gate); err != nil {
		return fmt.Errorf("gate %s is %s, but %w", name, describe.GateState(gate, c.cluster.now()), err)
	}
	state := gate.StateAt(c.cluster.now())
	state.By = gatingv1.Turner{} // the reader
	log.successf("gate %s is %s%s", gate.Name, state, c.counts(gate))
	return nil
}

// parseUntil reads the end of an override from --for and --until.
func (c *turnCommand) parseUntil(cmd *cobra.Command) error {
	now := c.cluster.now()
	switch {
	case cmd.Flags().Changed("for"):
		if c.forTime < time.Second {
			return errors.New("--for must be at least 1s, such as 2h")
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

// warnOfWindows prints a warning if the gate is not in the state that was asked for, and reports whether it did.
func (c *turnCommand) warnOfWindows(log logger, gate *gatingv1.Gate) bool {
	state := gate.StateAt(c.cluster.now())
	if state.Closed == c.closed {
		return false
	}
	log.warningf("gate %s is still %s: to override this, run '%s %s -n %s --for 2h'", gate.Name, state, c.words, gate.Name, gate.Namespace)
	return true
}

// turn sets the override, or the switch with its reason, and records who did.
func (c *turnCommand) turn(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, reason string) error {
	name := gate.Name // a request that fails may clear the object
	log.actionf("%s gate %s in %s namespace", c.doing, name, gate.Namespace)
	annotations := map[string]any{}
	if by := c.by(); by != "" {
		annotations[gatingv1.TurnedByAnnotation] = by
	}
	manager, spec := gatingv1.TurningManager, map[string]any{"closed": c.closed}
	switch {
	case c.until != nil:
		manager, spec = gatingv1.OverridingManager, map[string]any{"override": c.override(reason)}
	case reason != "":
		annotations[gatingv1.ReasonAnnotation] = reason
	}
	err := c.apply(ctx, kube, log, gate, manager, annotations, spec)
	if err == nil && c.until == nil {
		err = c.removeOthers(ctx, kube, log, gate, reason)
	}
	if err != nil {
		return fmt.Errorf("%s gate %s failed: %w", c.doing, name, err)
	}
	return nil
}

// turnerName returns the name of the user. If the API server does not return it, gates are turned without a name.
func turnerName(ctx context.Context, kube client.Client, log logger) string {
	name, err := ownName(ctx, kube)
	if err != nil {
		log.warningf("the gate does not record who turned it: %s", err)
	}
	return name
}

// override returns the override to set. A previous reason is removed.
func (c *turnCommand) override(reason string) map[string]any {
	override := map[string]any{"closed": c.closed, "until": c.until.UTC().Format(time.RFC3339)}
	if reason != "" {
		override["reason"] = reason
	}
	return override
}

// apply applies all fields of a turn together, so that one field manager owns them. When someone else turns the gate,
// the name and the reason no longer count.
func (c *turnCommand) apply(
	ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, manager string, annotations, spec map[string]any,
) error {
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gatingv1.GroupVersion.String(),
		"kind":       gatingv1.GateKind,
		// With the UID, Apply fails if the gate was deleted in the meantime. Without it, it would create the gate
		// again.
		"metadata": map[string]any{
			"name": gate.Name, "namespace": gate.Namespace, "uid": string(gate.UID), "annotations": annotations,
		},
		"spec": spec,
	}}
	if _, err := c.show(log, wanted.Object); err != nil {
		return err
	}
	if err := kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.ForceOwnership, client.FieldOwner(manager)); err != nil {
		return err
	}
	*gate = gatingv1.Gate{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, gate)
}

// removeOthers removes an override, and the reason if none is given. Other field managers may own them, so applying
// without them does not remove them.
func (c *turnCommand) removeOthers(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate, reason string) error {
	patch := map[string]any{}
	if _, ok := gate.Annotations[gatingv1.ReasonAnnotation]; ok && reason == "" {
		patch["metadata"] = map[string]any{"annotations": map[string]any{gatingv1.ReasonAnnotation: nil}}
	}
	if gate.Spec.Override != nil {
		patch["spec"] = map[string]any{"override": nil}
	}
	if len(patch) == 0 {
		return nil
	}
	text, err := c.show(log, patch)
	if err != nil {
		return err
	}
	return kube.Patch(ctx, gate, client.RawPatch(types.MergePatchType, text))
}

// show returns the request as JSON. With --verbose, it prints it.
func (c *turnCommand) show(log logger, sent map[string]any) ([]byte, error) {
	text, err := json.Marshal(sent)
	if err == nil && c.cluster.verbose {
		log.generatef("%s", text)
	}
	return text, err
}

// counts returns how many objects have followed the gate. It is empty until gate-controller has observed the current
// generation.
func (c *turnCommand) counts(gate *gatingv1.Gate) string {
	status := &gate.Status
	if status.ObservedGeneration < gate.Generation {
		return ""
	}
	held := status.HeldSources()
	text := fmt.Sprintf(": held %d of %s", held, describe.Many(status.Sources, "source"))
	if !gate.StateAt(c.cluster.now()).Closed {
		text = fmt.Sprintf(": released %d of %s", status.Sources-held, describe.Many(status.Sources, "source"))
	}
	if status.HeldPromotions > 0 {
		text += fmt.Sprintf(", %s held", describe.Many(status.HeldPromotions, "promotion"))
	}
	return text
}

// waitFollowed waits until gate-controller reports that all sources and promotions have followed the gate in its
// current generation, or in a later one. It returns an error if sources could not be held.
func (c *turnCommand) waitFollowed(ctx context.Context, kube client.Client, gate *gatingv1.Gate) error {
	generation, status := gate.Generation, &gate.Status
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKeyFromObject(gate), gate)
		return status.ObservedGeneration >= generation && status.Pending == 0, err
	})
	look := fmt.Sprintf("run 'flux gate get %s -n %s' to list them", gate.Name, gate.Namespace)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("waiting for gate-controller failed: %w", err)
	case err != nil && status.ObservedGeneration < generation:
		return errors.New("gate-controller has not reconciled it yet: check that it is running " +
			"(kubectl get deployments --all-namespaces --field-selector metadata.name=gate-controller)")
	case err != nil:
		return fmt.Errorf("some sources or promotions have not followed yet%s; %s", c.counts(gate), look)
	case c.closed && status.Refused > 0:
		return fmt.Errorf("holding failed for %d of %s: %s", status.Refused, describe.Many(status.Sources, "source"), look)
	}
	return nil
}
