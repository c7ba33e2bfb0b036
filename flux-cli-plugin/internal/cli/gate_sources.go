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
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/source"
)

// gateSourcesCommand lists sources with their gates.
type gateSourcesCommand struct {
	listCommand
}

func newGateSourcesCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateSourcesCommand{listCommand{cluster: cluster, noun: "gated source"}}
	command.read = command.readSources
	cmd := &cobra.Command{
		Use:   "sources [NAME | KIND/NAME]",
		Short: "List sources with their gates",
		Long: `List the sources that have gates, with their gates, state, published artifact and a message.

The list includes gates of other namespaces, even if you are not allowed to read those.`,
		Example: `  # List the sources of the flux-system namespace that have gates
  flux gate sources

  # List the sources of all namespaces that are held
  flux gate sources -A --status-selector gatesopen=false

  # List the sources of all namespaces whose artifact is lost, so their drift is not corrected
  flux gate sources -A --status-selector artifactlost=true

  # List one source
  flux gate sources GitRepository/app-prod`,
		Args: maybeOneName("gated source"),
		RunE: command.run,
	}
	command.bindObjects(cmd)
	return cmd
}

func (c *gateSourcesCommand) readSources(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	kind, name, found := strings.Cut(selected.name, "/")
	if !found {
		kind, name = "", selected.name
	}
	lister := &lister{kube: kube, everywhere: selected.everywhere, namespace: selected.namespace, labels: selected.labels, name: name}
	sources, err := lister.sources(ctx)
	if err != nil {
		return nil, err
	}
	shown := c.tableOf(kind, sources)
	if limits := lister.limits(); limits != "" {
		shown.warnings = append(shown.warnings, limits)
	}
	switch denial := lister.denial(); {
	case denial != "" && len(lister.denied)+lister.unserved == len(gatingv1.HeldKinds()):
		return nil, errors.New(denial)
	case denial != "":
		shown.warnings = append(shown.warnings, denial)
	}
	return shown, nil
}

// tableOf returns the sources that have gates, or that had gates when gate-controller last reconciled them.
func (c *gateSourcesCommand) tableOf(kind string, sources []gatedSource) *table {
	shown := &table{
		headings: prefixed(c.all, "NAMESPACE", "NAME", "GATES", "STATE", "SUSPENDED", "PUBLISHED", "MESSAGE"),
		states:   []string{"STATE"},
	}
	for i := range sources {
		found := &sources[i]
		own, inherited := found.References()
		condition := found.GatesOpen()
		if own == nil && inherited == nil && condition == nil || kind != "" && !strings.EqualFold(kind, found.Kind) {
			continue
		}
		message := source.NotSeen
		if condition != nil {
			message = condition.Message
		}
		state := gatedState(condition)
		if loss := gatingv1.DescribeLoss(found.Status.Conditions); loss != "" {
			state, message = lost, loss+"; "+message
		}
		shown.add(found.object, found.Status.Conditions, prefixed(c.all, found.Namespace, found.Kind+"/"+found.Name, describeGates(own, inherited),
			state, strconv.FormatBool(found.Spec.Suspend), revision.Short(found.Status.Artifact.Revision), message)...)
	}
	return shown
}

// describeGates returns the gates of a source, and marks those inherited from its HelmRepository.
func describeGates(own, inherited *gatingv1.GateReferences) string {
	var parts []string
	if text := source.DescribeReferences(own); text != "" {
		parts = append(parts, text)
	}
	if text := source.DescribeReferences(inherited); text != "" {
		parts = append(parts, "inherited "+text)
	}
	return strings.Join(parts, " and ")
}

// lost is the state of a source whose artifact source-controller has lost.
const lost = "lost"

// gatedState returns the effect of the gates on a source in one word. A failure of gate-controller is shown as refused.
func gatedState(condition *metav1.Condition) string {
	switch {
	case condition == nil:
		return unknown
	case condition.Status == metav1.ConditionTrue:
		return "released"
	case condition.Reason == gatingv1.HoldFailedReason || condition.Reason == gatingv1.ReleaseFailedReason:
		return "refused"
	}
	return "held"
}
