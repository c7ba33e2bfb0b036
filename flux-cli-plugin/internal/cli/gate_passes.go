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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// gatePassesCommand lists passes.
type gatePassesCommand struct {
	listCommand
}

func newGatePassesCommand(cluster *clusterFlags) *cobra.Command {
	command := &gatePassesCommand{listCommand{cluster: cluster, noun: "pass", mayBeEmpty: true}}
	command.read = command.readPasses
	cmd := &cobra.Command{
		Use:   "passes [NAME]",
		Short: "List the passes of gates",
		Long: `List the passes of one gate, or of all gates: the revision, when the pass expires, who granted it
and why.

A pass is in force once as many people as the gate requires have granted it, and gate-controller has
put it into the gate's status. With --output wide, the list has whole revisions and the names of the
GatePasses.`,
		Example: `  # List the passes of the flux-system namespace
  flux gate passes

  # List the passes of the gate 'change-freeze', with the names to delete
  flux gate passes change-freeze -o wide`,
		Args:              maybeOneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              command.run,
	}
	command.bind(cmd)
	command.output.bind(cmd)
	return cmd
}

func (c *gatePassesCommand) readPasses(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	gateName := selected.name
	selected.name = ""
	passes := &gatingv1.GatePassList{}
	if err := list(ctx, kube, "pass", passes, selected.options()...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(passes.Items, func(a, b gatingv1.GatePass) int {
		return strings.Compare(a.Namespace+"/"+a.Spec.GateRef.Name, b.Namespace+"/"+b.Spec.GateRef.Name)
	})
	headings := []string{"GATE", "REVISION", "EXPIRES", "BY", "REASON", "STATE"}
	if c.output == wide {
		headings = []string{"GATE", "NAME", "REVISION", "EXPIRES", "BY", "REASON", "STATE"}
	}
	found := &table{headings: prefixed(c.all, "NAMESPACE", headings...), states: []string{"STATE"}}
	gates := map[client.ObjectKey]*gatingv1.Gate{}
	for i := range passes.Items {
		pass := &passes.Items[i]
		if gateName != "" && pass.Spec.GateRef.Name != gateName {
			continue
		}
		key := client.ObjectKey{Namespace: pass.Namespace, Name: pass.Spec.GateRef.Name}
		if _, known := gates[key]; !known {
			gate := &gatingv1.Gate{}
			switch err := kube.Get(ctx, key, gate); {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				gate = nil
			case err != nil:
				return nil, fmt.Errorf("reading gate %s failed: %w", key, err)
			}
			gates[key] = gate
		}
		c.add(found, pass, describe.PassState(pass, gates[key], passes.Items, c.cluster.now()))
	}
	return found, nil
}

// add adds a line for a pass.
func (c *gatePassesCommand) add(found *table, pass *gatingv1.GatePass, state string) {
	spec, expires := &pass.Spec, describe.Time(pass.Spec.Expires.In(c.cluster.now().Location()))
	cells := []string{spec.GateRef.Name, revision.Short(spec.Revision), expires, spec.GrantedBy, spec.Reason, state}
	if c.output == wide {
		cells = []string{spec.GateRef.Name, pass.Name, spec.Revision, expires, spec.GrantedBy, spec.Reason, state}
	}
	found.add(pass, nil, prefixed(c.all, pass.Namespace, cells...)...)
}

// passesInForce shows the passes in force of the gate. Who granted them is only shown to users who may list passes.
func passesInForce(ctx context.Context, kube client.Client, gate *gatingv1.Gate, now time.Time) (*tree, error) {
	shown := &tree{line: "passes in force"}
	inForce := gate.Passing(now)
	if len(inForce) == 0 {
		return shown, nil
	}
	passes, err := (&lister{kube: kube, namespace: gate.Namespace}).passesOf(ctx, gate)
	if err != nil {
		return nil, err
	}
	for _, pass := range inForce {
		line := fmt.Sprintf("%s until %s", revision.Short(pass.Revision), describe.Time(pass.Expires.In(now.Location())))
		for i := range passes {
			if granted := &passes[i]; granted.Spec.Revision == pass.Revision && granted.IsInForce(now) {
				line += fmt.Sprintf(", by %s (%s)", granted.Spec.GrantedBy, granted.Spec.Reason)
			}
		}
		shown.add(leaf("%s", line))
	}
	return shown, nil
}
