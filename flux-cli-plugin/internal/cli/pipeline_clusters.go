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
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// pipelineClustersCommand lists the clusters that pipelines refer to.
type pipelineClustersCommand struct {
	cluster *clusterFlags
	all     bool
}

func newPipelineClustersCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineClustersCommand{cluster: cluster}
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
	bindAllNamespaces(cmd, &command.all)
	return cmd
}

func (c *pipelineClustersCommand) run(cmd *cobra.Command, _ []string) error {
	pipelines := &pipelinesv1.PipelineList{}
	namespace, err := c.cluster.listAll(cmd, "pipeline", pipelines, c.all)
	if err != nil {
		return err
	}
	rows := rowsOfClusters(pipelines.Items)
	if len(rows) == 0 {
		loggerFor(cmd).nothingf("cluster", namespace, c.all)
		return nil
	}
	return printTable(cmd.OutOrStdout(), []string{"CLUSTER", "REACHABLE", "REASON", "SINCE", "TARGETS", "MESSAGE"}, rows)
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
			row[2], row[3], row[5] = of.worst.Reason, timeOf(of.worst.Since), of.worst.Error
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
