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

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// gateSourcesCommand lists sources with their gates.
type gateSourcesCommand struct {
	cluster *clusterFlags
	all     bool
}

func newGateSourcesCommand(cluster *clusterFlags) *cobra.Command {
	command := &gateSourcesCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "List sources with their gates",
		Long: `List the sources that have gates: which gates, whether these hold them, what is published, and why.

Gates of other namespaces are among them, also those that you may not look at.`,
		Example: `  # List the sources of the flux-system namespace that have gates
  flux gate sources

  # List those of all namespaces
  flux gate sources -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func (c *gateSourcesCommand) run(cmd *cobra.Command, _ []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), c.cluster.timeout)
	defer cancel()
	kube, namespace, err := c.cluster.connect(cmd)
	if err != nil {
		return err
	}
	log, lister := loggerFor(cmd), &lister{kube: kube, everywhere: c.all, namespace: namespace}
	sources, err := lister.sources(ctx)
	if err != nil {
		return err
	}
	lister.warn(log)
	rows := c.rows(sources)
	switch denial := lister.denial(); {
	case denial != "" && len(lister.denied) == len(gatingv1.SourceKinds):
		return errors.New(denial)
	case denial != "":
		log.warningf("%s", denial)
	}
	if len(rows) == 0 {
		log.nothingf("gated source", namespace, c.all)
		return nil
	}
	headings := prefixed(c.all, "NAMESPACE", "NAME", "GATES", "STATE", "SUSPENDED", "PUBLISHED", "MESSAGE")
	return printTable(cmd.OutOrStdout(), headings, rows)
}

// rows shows those of the sources that have gates, or had them when gate-controller looked.
func (c *gateSourcesCommand) rows(sources []source) [][]string {
	var rows [][]string
	for i := range sources {
		found := &sources[i]
		own, inherited := found.references()
		condition := found.gatesOpen()
		if own == nil && inherited == nil && condition == nil {
			continue
		}
		message := notSeen
		if condition != nil {
			message = condition.Message
		}
		rows = append(rows, prefixed(c.all, found.Namespace, found.Kind+"/"+found.Name, describeGates(own, inherited),
			gatedState(condition), strconv.FormatBool(found.Spec.Suspend), revision.Short(found.Status.Artifact.Revision), message))
	}
	return rows
}

// describeGates names the gates of a source, and which of them it inherits from its HelmRepository.
func describeGates(own, inherited *gatingv1.GateReferences) string {
	var parts []string
	if text := describeReferences(own); text != "" {
		parts = append(parts, text)
	}
	if text := describeReferences(inherited); text != "" {
		parts = append(parts, "inherited "+text)
	}
	return strings.Join(parts, " and ")
}

func describeReferences(refs *gatingv1.GateReferences) string {
	var names []string
	for _, ref := range refsOf(refs) {
		names = append(names, string(ref))
	}
	list := strings.Join(names, ",")
	if len(names) > 1 && refs.Require == gatingv1.RequireOneOf {
		return "oneOf " + list
	}
	return list
}

// gatedState says in a word what the gates do to a source. What gate-controller has failed to do is refused.
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
