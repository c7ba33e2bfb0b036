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
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

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
		Long: `List gates with their state, its age, end and reason, and the number of sources and promotions that
they hold.

The list for a namespace includes gates of other namespaces that its sources and promotions refer
to.`,
		Example: `  # List the gates of the flux-system namespace
  flux gate list

  # List the gates of all namespaces
  flux gate list -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func (c *gateListCommand) run(cmd *cobra.Command, _ []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	gates := &gatingv1.GateList{}
	if err := list(ctx, kube, "gate", gates, within(namespace, c.all)); err != nil {
		return err
	}
	var rows [][]string
	for i := range gates.Items {
		rows = append(rows, prefixed(c.all, gates.Items[i].Namespace, c.row(gates.Items[i].Name, &gates.Items[i])...))
	}
	if !c.all {
		foreign, err := c.foreign(ctx, kube, namespace)
		if err != nil {
			return err
		}
		rows = append(rows, foreign...)
	}
	if len(rows) == 0 {
		loggerFor(cmd).nothingf("gate", namespace, c.all)
		return nil
	}
	return printTable(cmd.OutOrStdout(), prefixed(c.all, "NAMESPACE", "NAME", "STATE", "SINCE", "UNTIL", "HELD", "REASON"), rows)
}

func (c *gateListCommand) row(name string, gate *gatingv1.Gate) []string {
	now := c.cluster.now()
	since, until, held := unknown, "", unknown
	if upToDate(gate, now) {
		since = duration.HumanDuration(now.Sub(gate.Status.LastTransitionTime.Time))
		held = fmt.Sprint(gate.Status.Held)
	}
	state := gate.StateAt(now)
	if !state.Until.IsZero() {
		until = shortTime(state.Until.In(now.Location()))
	}
	return []string{name, stateOf(gate, now), since, until, held, state.Reason}
}

// foreign returns the gates of other namespaces that sources and promotions of the namespace refer to, as far as the
// user can read them.
func (c *gateListCommand) foreign(ctx context.Context, kube client.Client, namespace string) ([][]string, error) {
	keys, err := foreignGates(ctx, &lister{kube: kube, namespace: namespace})
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, key := range keys {
		gate := &gatingv1.Gate{}
		switch err := kube.Get(ctx, key, gate); {
		case err == nil:
			rows = append(rows, c.row(key.String(), gate))
		case apierrors.IsNotFound(err):
			rows = append(rows, []string{key.String(), "missing", "", "", "", ""})
		case apierrors.IsForbidden(err):
			rows = append(rows, []string{key.String(), unknown, unknown, unknown, unknown, "you may not get it: 'flux gate sources' shows what it holds"})
		default:
			return nil, fmt.Errorf("reading gate %s failed: %w", key, err)
		}
	}
	return rows, nil
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
		own, inherited := sources[i].references()
		refs = slices.Concat(refs, refsOf(own), refsOf(inherited))
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
