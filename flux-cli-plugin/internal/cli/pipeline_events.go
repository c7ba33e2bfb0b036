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
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// pipelineEventsCommand lists the events of pipelines.
type pipelineEventsCommand struct {
	listCommand
	types []string
}

func newPipelineEventsCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineEventsCommand{listCommand: listCommand{cluster: cluster, noun: "event", mayBeEmpty: true}}
	command.read = command.readEvents
	cmd := &cobra.Command{
		Use:   "events [NAME]",
		Short: "List the events of pipelines",
		Long:  "List the events of pipelines, oldest first. The API server keeps events for an hour by default.",
		Example: `  # List the events of the pipelines of the flux-system namespace
  flux pipeline events

  # Follow the events of the pipeline 'app'
  flux pipeline events app --watch

  # List the warnings of all namespaces
  flux pipeline events -A --types Warning`,
		Args:              maybeOneName("pipeline"),
		ValidArgsFunction: cluster.completePipelines,
		RunE:              command.run,
	}
	command.bind(cmd)
	cmd.Flags().StringSliceVar(&command.types, "types", nil, "list only events of these types: Normal, Warning")
	_ = cmd.RegisterFlagCompletionFunc("types", cobra.FixedCompletions([]cobra.Completion{corev1.EventTypeNormal, corev1.EventTypeWarning}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *pipelineEventsCommand) readEvents(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	for _, name := range c.types {
		if !strings.EqualFold(name, corev1.EventTypeNormal) && !strings.EqualFold(name, corev1.EventTypeWarning) {
			return nil, errors.New("--types must be Normal or Warning")
		}
	}
	fields := client.MatchingFields{"involvedObject.kind": pipelinesv1.PipelineKind}
	if selected.name != "" {
		fields["involvedObject.name"] = selected.name
	}
	events := &corev1.EventList{}
	if err := list(ctx, kube, "event", events, within(selected.namespace, selected.everywhere), fields); err != nil {
		return nil, err
	}
	// A Pipeline without events looks like one that does not exist.
	if len(events.Items) == 0 && selected.name != "" && !selected.everywhere {
		if _, err := getPipeline(ctx, kube, client.ObjectKey{Namespace: selected.namespace, Name: selected.name}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return describe.LastSeen(&a).Compare(describe.LastSeen(&b)) })

	found := &table{headings: prefixed(c.all, "NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), states: []string{"TYPE"}}
	for i := range events.Items {
		if event := &events.Items[i]; c.selects(event) {
			found.add(event, nil, prefixed(c.all, event.Namespace, describe.EventAge(event, c.cluster.now()), event.Type, event.Reason,
				event.InvolvedObject.Kind+"/"+event.InvolvedObject.Name, event.Message)...)
		}
	}
	return found, nil
}

// selects reports whether an event is listed. Other projects have a kind Pipeline, too.
func (c *pipelineEventsCommand) selects(event *corev1.Event) bool {
	group, _ := schema.ParseGroupVersion(event.InvolvedObject.APIVersion)
	return group.Group == pipelinesv1.GroupVersion.Group &&
		(len(c.types) == 0 || slices.ContainsFunc(c.types, func(name string) bool { return strings.EqualFold(name, event.Type) }))
}
