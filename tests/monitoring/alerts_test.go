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

package monitoring

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

const root = "../.."

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestAlerts(t *testing.T) {
	const (
		leads  = `leader_election_master_status{name="%s-controller-leader-election"} %d` + "\n"
		reject = `sluice_gate_decisions_total{kind="GitRepository",decision="refused",reason="HoldFailed"} %d` + "\n"
		cycles = `controller_runtime_reconcile_%s{controller="gate"} %d` + "\n"
	)
	environment := func(state pipelinesv1.EnvironmentState) string {
		return fmt.Sprintf(`sluice_pipeline_environment{namespace="apps",name="shop",environment="prod",state=%q} 1`+"\n", state)
	}
	prod := map[string]string{"namespace": "apps", "name": "shop", "environment": "prod"}

	for _, test := range []struct {
		alert, name string
		// before are the metrics of a minute ago, and metrics the current ones.
		before, metrics string
		// fires are the labels of the alert; nil means that it does not fire.
		fires map[string]string
	}{
		{alert: "SluiceGateClosedForLong", name: "a gate that has been closed for eight days",
			metrics: `sluice_gate_closed_duration_seconds{namespace="apps",name="freeze"} 691200` + "\n",
			fires:   map[string]string{"namespace": "apps", "name": "freeze"}},
		{alert: "SluiceGateClosedForLong", name: "a gate that has been closed for a day",
			metrics: `sluice_gate_closed_duration_seconds{namespace="apps",name="freeze"} 86400` + "\n"},
		{alert: "SluiceHoldRefused", name: "the first refusal", before: "", metrics: fmt.Sprintf(reject, 1),
			fires: map[string]string{"kind": "GitRepository", "reason": "HoldFailed"}},
		{alert: "SluiceHoldRefused", name: "another refusal", before: fmt.Sprintf(reject, 1), metrics: fmt.Sprintf(reject, 2),
			fires: map[string]string{"kind": "GitRepository", "reason": "HoldFailed"}},
		{alert: "SluiceHoldRefused", name: "a source that is held",
			metrics: `sluice_gate_decisions_total{kind="GitRepository",decision="held",reason="GateClosed"} 1` + "\n"},
		{alert: "SluicePromotionFailed", name: "a failed promotion", metrics: environment(pipelinesv1.EnvironmentFailed), fires: prod},
		{alert: "SluicePromotionFailed", name: "a promotion that waits", metrics: environment(pipelinesv1.EnvironmentWaiting)},
		{alert: "SluiceTargetUnreadable", name: "a target that can't be read", metrics: environment(pipelinesv1.EnvironmentUnknown), fires: prod},
		{alert: "SluiceTargetUnreadable", name: "a target that runs the revision", metrics: environment(pipelinesv1.EnvironmentCurrent)},
		{alert: "SluiceRolloutStuck", name: "a promoted revision that doesn't run", metrics: environment(pipelinesv1.EnvironmentPromoted), fires: prod},
		{alert: "SluiceRolloutStuck", name: "a revision that isn't ready", metrics: environment(pipelinesv1.EnvironmentRollingOut), fires: prod},
		{alert: "SluiceRolloutStuck", name: "an open pull request", metrics: environment(pipelinesv1.EnvironmentPullRequestOpen)},
		{alert: "SluiceRolledBack", name: "a rollback", metrics: environment(pipelinesv1.EnvironmentRolledBack), fires: prod},
		{alert: "SluiceRolledBack", name: "a settled environment", metrics: environment(pipelinesv1.EnvironmentCurrent)},
		{alert: "SluicePipelineInvalid", name: "an invalid Pipeline", metrics: environment(pipelinesv1.EnvironmentInvalid), fires: prod},
		{alert: "SluicePipelineInvalid", name: "a suspended Pipeline", metrics: environment(pipelinesv1.EnvironmentSuspended)},
		{alert: "SluiceClusterUnreachable", name: "a cluster that doesn't respond",
			metrics: `sluice_leaf_cluster_connected{namespace="apps",name="leaf",kind="GitopsCluster"} 0` + "\n",
			fires:   map[string]string{"namespace": "apps", "name": "leaf", "kind": "GitopsCluster"}},
		{alert: "SluiceClusterUnreachable", name: "a cluster that responds",
			metrics: `sluice_leaf_cluster_connected{namespace="apps",name="leaf",kind="GitopsCluster"} 1` + "\n"},
		{alert: "SluiceGateControllerAbsent", name: "replicas without a leader", metrics: fmt.Sprintf(leads, "gate", 0),
			fires: map[string]string{"name": "gate-controller-leader-election"}},
		{alert: "SluiceGateControllerAbsent", name: "a replica that does not lead beside one that does",
			metrics: fmt.Sprintf(leads, "gate", 0) + `leader_election_master_status{name="gate-controller-leader-election",pod="gate-controller-1"} 1` + "\n"},
		{alert: "SluiceGateControllerAbsent", name: "a shard without Pods beside one with a leader",
			before:  fmt.Sprintf(leads, "gate", 1) + `leader_election_master_status{name="gate-controller-leader-election-42da7484"} 1` + "\n",
			metrics: fmt.Sprintf(leads, "gate", 1),
			fires:   map[string]string{"name": "gate-controller-leader-election-42da7484"}},
		{alert: "SluiceGateControllerAbsent", name: "another controller alone", metrics: fmt.Sprintf(leads, "pipeline", 1), fires: map[string]string{}},
		{alert: "SluiceGateControllerAbsent", name: "a leader", metrics: fmt.Sprintf(leads, "gate", 1)},
		{alert: "SluicePipelineControllerAbsent", name: "another controller alone", metrics: fmt.Sprintf(leads, "gate", 1), fires: map[string]string{}},
		{alert: "SluicePipelineControllerAbsent", name: "a shard without a leader beside one with one",
			metrics: fmt.Sprintf(leads, "pipeline", 1) + `leader_election_master_status{name="pipeline-controller-leader-election-42da7484"} 0` + "\n",
			fires:   map[string]string{"name": "pipeline-controller-leader-election-42da7484"}},
		{alert: "SluicePipelineControllerAbsent", name: "a shard without Pods beside one with a leader",
			before:  fmt.Sprintf(leads, "pipeline", 1) + `leader_election_master_status{name="pipeline-controller-leader-election-42da7484"} 1` + "\n",
			metrics: fmt.Sprintf(leads, "pipeline", 1),
			fires:   map[string]string{"name": "pipeline-controller-leader-election-42da7484"}},
		{alert: "SluicePipelineControllerAbsent", name: "a leader", metrics: fmt.Sprintf(leads, "pipeline", 1)},
		{alert: "SluiceReconcileErrors", name: "more failures than successes",
			before:  fmt.Sprintf(cycles, "errors_total", 0) + fmt.Sprintf(cycles, "total", 0),
			metrics: fmt.Sprintf(cycles, "errors_total", 9) + fmt.Sprintf(cycles, "total", 10),
			fires:   map[string]string{"pod": "gate-controller-0", "controller": "gate"}},
		{alert: "SluiceReconcileErrors", name: "a failure among successes",
			before:  fmt.Sprintf(cycles, "errors_total", 0) + fmt.Sprintf(cycles, "total", 0),
			metrics: fmt.Sprintf(cycles, "errors_total", 1) + fmt.Sprintf(cycles, "total", 10)},
		{alert: "SluiceObjectNotReady", name: "a Pipeline that is not ready",
			metrics: `gotk_resource_info{exported_namespace="apps",name="shop",customresource_kind="Pipeline",ready="False"} 1` + "\n",
			fires:   map[string]string{"exported_namespace": "apps", "name": "shop", "customresource_kind": "Pipeline"}},
		{alert: "SluiceObjectNotReady", name: "a Kustomization that is not ready, which other alerts are for",
			metrics: `gotk_resource_info{exported_namespace="apps",name="shop",customresource_kind="Kustomization",ready="False"} 1` + "\n"},
	} {
		t.Run(test.alert+": "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			alerts, err := Alerts(root)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(alerts).To(HaveKey(test.alert))
			prometheus := NewPrometheus()
			t.Cleanup(func() { NewWithT(t).Expect(prometheus.Close()).To(Succeed()) })
			target := map[string]string{"pod": "gate-controller-0", "namespace": "flux-system"}
			g.Expect(prometheus.Scrape(test.before, now.Add(-time.Minute), target)).To(Succeed())
			g.Expect(prometheus.Scrape(test.metrics, now, target)).To(Succeed())

			firing, err := prometheus.Query(t.Context(), alerts[test.alert].Expr, now)
			g.Expect(err).NotTo(HaveOccurred())
			if test.fires == nil {
				g.Expect(firing).To(BeEmpty())
				return
			}
			g.Expect(firing).To(HaveLen(1))
			g.Expect(firing[0].Metric.Map()).To(Equal(test.fires))
		})
	}
}

// An alert that nobody has seen firing may never do so.
func TestEveryAlertIsTested(t *testing.T) {
	g := NewWithT(t)
	alerts, err := Alerts(root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(slices.Sorted(maps.Keys(alerts))).To(Equal([]string{
		"SluiceClusterUnreachable", "SluiceGateClosedForLong", "SluiceGateControllerAbsent", "SluiceHoldRefused", "SluiceObjectNotReady",
		"SluicePipelineControllerAbsent", "SluicePipelineInvalid", "SluicePromotionFailed", "SluiceReconcileErrors", "SluiceRolledBack",
		"SluiceRolloutStuck", "SluiceTargetUnreadable",
	}), "add a case to TestAlerts")
}
