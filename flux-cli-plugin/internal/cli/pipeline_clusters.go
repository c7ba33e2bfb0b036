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
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

func newPipelineClustersCommand(cluster *clusterFlags) *cobra.Command {
	command := &listCommand{cluster: cluster, noun: "cluster", read: readClusters}
	cmd := &cobra.Command{
		Use:   "clusters",
		Short: "List the clusters of pipelines",
		Long: `List the clusters of the targets of pipelines, and whether pipeline-controller can connect to them.

The information is read from the status of the pipelines. The clusters are not contacted.`,
		Example: `  # List the clusters of the pipelines of all namespaces
  flux pipeline clusters -A`,
		Args: cobra.NoArgs,
		RunE: command.run,
	}
	command.bind(cmd)
	return cmd
}

func readClusters(ctx context.Context, kube client.Client, selected selection) (*table, error) {
	pipelines := &pipelinesv1.PipelineList{}
	if err := list(ctx, kube, "pipeline", pipelines, selected.options()...); err != nil {
		return nil, err
	}
	found := &table{headings: []string{"CLUSTER", "REACHABLE", "REASON", "SINCE", "TARGETS", "MESSAGE"}, states: []string{"REACHABLE"}}
	for _, cells := range rowsOfClusters(pipelines.Items) {
		found.add(nil, nil, cells...)
	}
	return found, nil
}

// clusterTargets are the targets in one cluster.
type clusterTargets struct {
	count int
	// worst is the target with the most relevant error of the cluster.
	worst pipelinesv1.TargetStatus
}

func rowsOfClusters(pipelines []pipelinesv1.Pipeline) [][]string {
	clusters := map[string]*clusterTargets{}
	for i := range pipelines {
		for _, env := range pipelines[i].Spec.Environments {
			if status := pipelines[i].Status.Environments[env.Name]; status != nil {
				addTargets(clusters, pipelines[i].Namespace, status.Targets)
			}
		}
	}
	var rows [][]string
	for name, of := range clusters {
		row := []string{name, string(of.worst.ClusterReachable()), "", "", fmt.Sprint(of.count), ""}
		if of.worst.ClusterReachable() != metav1.ConditionTrue {
			row[2], row[3], row[5] = of.worst.Reason, describe.Timestamp(of.worst.Since), of.worst.Error
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return rows
}

func addTargets(clusters map[string]*clusterTargets, namespace string, targets []pipelinesv1.TargetStatus) {
	for _, target := range targets {
		ref := target.ClusterAppRef.ClusterRef
		if ref == nil {
			continue
		}
		name := fmt.Sprintf("%s/%s/%s", ref.Kind, cmp.Or(ref.Namespace, namespace), ref.Name)
		of := clusters[name]
		if of == nil {
			of = &clusterTargets{worst: target}
			clusters[name] = of
		}
		of.count++
		if isWorse(target, of.worst) {
			of.worst = target
		}
	}
}

// isWorse reports whether the error of target says more about the connection to its cluster than that of other.
func isWorse(target, other pipelinesv1.TargetStatus) bool {
	rank := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionUnknown: 1, metav1.ConditionFalse: 2}
	mine, others := rank[target.ClusterReachable()], rank[other.ClusterReachable()]
	return mine > others || mine == others && target.Since.Before(other.Since)
}
