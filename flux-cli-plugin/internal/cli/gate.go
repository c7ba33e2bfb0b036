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

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// unknown is shown for what gate-controller has not observed yet.
const unknown = describe.Unknown

// readGates connects to the cluster, and returns the gates of these names. It fails if one of them does not exist.
func (f *clusterFlags) readGates(ctx context.Context, cmd *cobra.Command, names []string) (client.Client, []*gatingv1.Gate, error) {
	kube, namespace, err := f.connect(cmd)
	if err != nil {
		return nil, nil, err
	}
	var gates []*gatingv1.Gate
	for _, name := range unique(names) {
		gate := &gatingv1.Gate{}
		if err := get(ctx, kube, "gate", client.ObjectKey{Namespace: namespace, Name: name}, gate, &gatingv1.GateList{}); err != nil {
			return nil, nil, err
		}
		gates = append(gates, gate)
	}
	return kube, gates, nil
}

// readGate is readGates for one name.
func (f *clusterFlags) readGate(ctx context.Context, cmd *cobra.Command, name string) (client.Client, *gatingv1.Gate, error) {
	kube, gates, err := f.readGates(ctx, cmd, []string{name})
	if err != nil {
		return nil, nil, err
	}
	return kube, gates[0], nil
}
