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

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/source"
)

// gateListCommand lists gates.
type gateListCommand struct {
	listCommand
}

func newGateListCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateListCommand{listCommand{cluster: cluster, noun: "gate"}}
	command.read = command.readGates
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List gates",
		Long: `List gates with their state, when it began and when it ends, the number of sources and promotions
that they hold, and the reason.

The list for a namespace includes gates of other namespaces that its sources and promotions refer
to.`,
		Example: `  # List the gates of the flux-system namespace
  flux gate list

  # List the gates of all namespaces that are not open
  flux gate list -A --status-selector open!=true

  # List a gate, and every change of it
  flux gate list change-freeze --watch`,
		Args:              maybeOneName("gate"),
		ValidArgsFunction: cluster.completeGates,
		RunE:              command.run,
	}
	command.bindObjects(cmd)
	return cmd
}

func (c *gateListCommand) readGates(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	gates := &gatingv1.GateList{}
	if err := list(ctx, kube, "gate", gates, selected.options()...); err != nil {
		return nil, err
	}
	found := c.tableOf()
	for i := range gates.Items {
		c.add(found, gates.Items[i].Name, &gates.Items[i])
	}
	if c.all {
		return found, nil
	}
	return found, c.addForeign(ctx, kube, selected, found)
}

// tableOf returns a table of gates without lines.
func (c *gateListCommand) tableOf() *table {
	headings := []string{"NAME", "STATE", "SINCE", "UNTIL", "HELD", "REASON"}
	if c.output == wide {
		headings = []string{"NAME", "STATE", "SINCE", "UNTIL", "HELD", "SOURCES", "PIPELINES", "TURNED BY", "REASON"}
	}
	return &table{headings: prefixed(c.all, "NAMESPACE", headings...), states: []string{"STATE"}}
}

// add adds a line for a gate.
func (c *gateListCommand) add(found *table, name string, gate *gatingv1.Gate) {
	now := c.cluster.now()
	since, until, held, sources, pipelines := unknown, "", unknown, unknown, unknown
	if describe.UpToDate(gate, now) {
		since = duration.HumanDuration(now.Sub(gate.Status.LastTransitionTime.Time))
		held, sources, pipelines = fmt.Sprint(gate.Status.Held), fmt.Sprint(gate.Status.Sources), fmt.Sprint(gate.Status.Pipelines)
	}
	state := gate.StateAt(now)
	if !state.Until.IsZero() {
		until = describe.Time(state.Until.In(now.Location()))
	}
	cells := []string{name, describe.GateState(gate, now), since, until, held, state.Reason}
	if c.output == wide {
		cells = slices.Insert(cells, len(cells)-1, sources, pipelines, state.By.String())
	}
	found.add(gate, gate.Status.Conditions, prefixed(c.all, gate.Namespace, cells...)...)
}

// addForeign adds the gates of other namespaces that sources and promotions of the namespace refer to, as far as the
// user can read them.
func (c *gateListCommand) addForeign(ctx context.Context, kube client.Client, selected selection, found *table) error {
	keys, err := foreignGates(ctx, &lister{kube: kube, namespace: selected.namespace})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if selected.name != "" && selected.name != key.Name && selected.name != key.String() {
			continue
		}
		gate := &gatingv1.Gate{}
		switch err := kube.Get(ctx, key, gate); {
		case err == nil:
			if selected.labels == nil || selected.labels.Matches(labels.Set(gate.Labels)) {
				c.add(found, key.String(), gate)
			}
		case selected.labels != nil && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)):
			// It has no labels that are known.
		case apierrors.IsNotFound(err):
			found.addUnreadable(key.String(), "missing", "", "")
		case apierrors.IsForbidden(err):
			found.addUnreadable(key.String(), unknown, unknown, "you may not get it: 'flux gate sources' shows what it holds")
		default:
			return fmt.Errorf("reading gate %s failed: %w", key, err)
		}
	}
	return nil
}

// addUnreadable adds a line with a name, a state and a message. Its other cells are alike.
func (t *table) addUnreadable(name, state, other, message string) {
	cells := slices.Repeat([]string{other}, len(t.headings))
	cells[0], cells[1], cells[len(cells)-1] = name, state, message
	t.add(nil, nil, cells...)
}

// foreignGates returns the sorted names of the gates of other namespaces that sources and promotions refer to.
func foreignGates(ctx context.Context, lister *lister) ([]client.ObjectKey, error) {
	sources, err := lister.sources(ctx)
	if err != nil {
		return nil, err
	}
	pipelines := &pipelinesv1.PipelineList{}
	if err := lister.list(ctx, pipelinesv1.PipelineKind, pipelines); err != nil {
		return nil, err
	}
	var refs []gatingv1.GateReference
	for i := range sources {
		own, inherited := sources[i].References()
		refs = slices.Concat(refs, source.Refs(own), source.Refs(inherited))
	}
	for i := range pipelines.Items {
		refs = append(refs, pipelines.Items[i].GateReferences()...)
	}
	var keys []client.ObjectKey
	for _, ref := range refs {
		if key := ref.NamespacedName(lister.namespace); key.Namespace != lister.namespace {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(keys), nil
}
