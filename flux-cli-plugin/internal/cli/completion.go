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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1alpha1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

// A shell waits for completion with the person's cursor stuck, so that a cluster which can't be reached must not take long.
const completionTimeout = 5 * time.Second

// complete offers the gates of the namespace, each with its state.
func (c *gateCommand) complete(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	gates, err := c.list(cmd)
	if err != nil {
		cobra.CompError(err.Error())
		return nil, cobra.ShellCompDirectiveError
	}
	var completions []cobra.Completion
	for _, gate := range gates {
		if !strings.HasPrefix(gate.Name, toComplete) {
			continue
		}
		state := opening.state
		if gate.Spec.Closed {
			state = closing.state
		}
		completions = append(completions, cobra.CompletionWithDesc(gate.Name, state))
	}
	return completions, cobra.ShellCompDirectiveNoFileComp
}

func (c *gateCommand) list(cmd *cobra.Command) ([]gatingv1alpha1.Gate, error) {
	c.cluster.timeout = completionTimeout
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()

	namespace, err := c.cluster.namespace(cmd)
	if err != nil {
		return nil, err
	}
	kube, err := c.cluster.client(cmd)
	if err != nil {
		return nil, err
	}
	gates := &gatingv1alpha1.GateList{}
	err = kube.List(ctx, gates, client.InNamespace(namespace))
	return gates.Items, err
}
