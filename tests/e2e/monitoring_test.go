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

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/monitoring"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

// Both controllers run as elected leaders. A gate holds a source and a promotion into another cluster, which is this
// one by a kubeconfig.
var _ = Describe("Monitoring", Ordered, func() {
	const (
		root     = "../.."
		name     = "monitored"
		interval = time.Minute
	)
	var (
		prometheus *monitoring.Prometheus
		scraped    time.Time
		// controllers are the processes, by the names of the pods that they replace.
		controllers = map[string]*localcluster.Process{}
	)
	runs := func(ctx context.Context, namespace, revision string) {
		GinkgoHelper()
		key := client.ObjectKey{Namespace: namespace, Name: name}
		Expect(standin.Application{Key: key, Revision: revision, Ready: metav1.ConditionTrue}.Put(ctx, world.Client)).To(Succeed())
	}
	// scrape stores the current metrics of the controllers and of kube-state-metrics, one interval after the previous
	// call.
	scrape := func(ctx context.Context) {
		GinkgoHelper()
		scraped = scraped.Add(interval)
		for pod, controller := range controllers {
			Expect(prometheus.Scrape(metrics(ctx, controller), scraped, map[string]string{"pod": pod})).To(Succeed())
		}
		infos, err := monitoring.ResourceInfos(root)
		Expect(err).NotTo(HaveOccurred())
		exposed := ""
		for _, info := range infos {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(info.GroupVersionKind)
			Expect(world.Client.List(ctx, list)).To(Succeed())
			for i := range list.Items {
				exposed += info.Expose(&list.Items[i])
			}
		}
		Expect(prometheus.Scrape(exposed, scraped, map[string]string{"pod": "kube-state-metrics-0"})).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		prometheus, scraped = monitoring.NewPrometheus(), time.Now()
		DeferCleanup(func() { Expect(prometheus.Close()).To(Succeed()) })
		for _, controller := range []struct {
			name    string
			process *localcluster.Process
			args    []string
		}{
			{name: "gate-controller", process: world.GateController},
			{name: "pipeline-controller", process: world.PipelineController, args: []string{"--approval-addr=127.0.0.1:0", "--events-addr=" + world.Cluster.EventsAddr}},
		} {
			Expect(controller.process.Stop()).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(controller.process.Start(ctx)).To(Succeed()) })
			elected, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
				Name: controller.name + "-monitored", Binary: controller.name, ServiceAccount: controller.name,
				Args: append(controller.args, "--enable-leader-election"),
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(elected.Stop) // which releases the lease
			controllers[controller.name+"-0"] = elected
			Eventually(ctx, metricsOf(elected)).Should(ContainSubstring(`leader_election_master_status{name="` + controller.name + `-leader-election"} 1`))
		}

		turnGate(ctx, name, true)
		gate := object(gatingAPI, gatingv1.GateKind, flux, name)
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, gate) })
		annotate(ctx, ungatedSource(ctx, name), gatingv1.GatesAnnotation, name)
		Eventually(ctx, field(gate, "status", "held")).Should(BeEquivalentTo(1))
		secretOf(ctx, name, leafserver.Kubeconfig(world.Cluster.Config.Host, world.Cluster.Config.CAData, world.Cluster.Config.BearerToken))
		for _, namespace := range []string{"monitored-dev", "monitored-prod"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
			runs(ctx, namespace, "v1")
		}
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: monitored, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: monitored}
  environments:
  - {name: dev, targets: [{namespace: monitored-dev}]}
  - {name: prod, targets: [{namespace: monitored-prod, clusterRef: {kind: Secret, name: monitored}}]}
  promotion: {gates: {refs: [monitored]}, strategy: {notification: {}}}
`)
		pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, pipeline) })
		Eventually(ctx, condition(pipeline, meta.ReadyCondition)).Should(HaveField("Reason", "UpToDate"))

		runs(ctx, "monitored-dev", "v2")
		Eventually(ctx, record(name, "prod")).Should(haveState(pipelinesv1.PromotionUnapproved))
		for _, path := range []string{"/approval/flux-system/monitored/prod/v2", "/webhook/flux-system/monitored"} {
			log, err := logOf("pipeline-controller-monitored")
			Expect(err).NotTo(HaveOccurred())
			address := servingApprovals.FindStringSubmatch(log)
			Expect(address).NotTo(BeNil())
			response, err := http.Post("http://"+address[1]+path, "application/json", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
		}
		scrape(ctx)

		turnGate(ctx, name, false)
		Eventually(ctx, record(name, "prod")).Should(haveState(pipelinesv1.PromotionSucceeded))
		runs(ctx, "monitored-prod", "v2")
		Eventually(ctx, record(name, "prod")).Should(HaveField("ArrivalTime", Not(BeNil())))
		for of, conditionTypes := range map[*unstructured.Unstructured][]string{
			gate: {meta.ReadyCondition, gatingv1.OpenCondition}, pipeline: {meta.ReadyCondition, pipelinesv1.SettledCondition},
		} {
			for _, conditionType := range conditionTypes {
				Eventually(ctx, condition(of, conditionType)).Should(HaveField("Status", metav1.ConditionTrue))
			}
		}
		scrape(ctx)
	})

	It("has series in every panel of the dashboard", func(ctx SpecContext) {
		panels, err := monitoring.Panels(root, 4*interval)
		Expect(err).NotTo(HaveOccurred())
		Expect(panels).NotTo(BeEmpty())
		for title, queries := range panels {
			for _, query := range queries {
				Expect(prometheus.Query(ctx, query, scraped)).NotTo(BeEmpty(), "%s: %s", title, query)
			}
		}
	})

	It("has all metrics, and their labels, that alerts ask for", func(ctx SpecContext) {
		alerts, err := monitoring.Alerts(root)
		Expect(err).NotTo(HaveOccurred())
		Expect(alerts).NotTo(BeEmpty())
		for alert, rule := range alerts {
			selectors, err := monitoring.Selectors(rule.Expr)
			Expect(err).NotTo(HaveOccurred())
			for metric, labels := range selectors {
				query := metric
				for _, label := range labels {
					query += fmt.Sprintf(` and %s{%s!=""}`, metric, label)
				}
				Expect(prometheus.Query(ctx, query, scraped)).NotTo(BeEmpty(), "%s: %s", alert, query)
			}
		}
	})

	It("fires no alert while nothing is wrong", func(ctx SpecContext) {
		alerts, err := monitoring.Alerts(root)
		Expect(err).NotTo(HaveOccurred())
		for alert, rule := range alerts {
			firing, err := prometheus.Query(ctx, rule.Expr, scraped)
			Expect(err).NotTo(HaveOccurred())
			for _, series := range firing {
				Expect(series.Metric.Get("name")).NotTo(Equal(name), "%s: %s", alert, series.Metric)
			}
		}
	})

	It("reports whether Gates and Pipelines are ready", func(ctx SpecContext) {
		Expect(prometheus.Query(ctx, `gotk_resource_info{exported_namespace="flux-system",name="monitored"}`, scraped)).To(ConsistOf(
			HaveField("Metric.Map()", And(HaveKeyWithValue("customresource_kind", gatingv1.GateKind), HaveKeyWithValue("ready", "True"), HaveKeyWithValue("open", "True"))),
			HaveField("Metric.Map()", And(HaveKeyWithValue("customresource_kind", pipelinesv1.PipelineKind), HaveKeyWithValue("ready", "True"), HaveKeyWithValue("settled", "True")))))
	})

	It("has the durations of reconciliations as Flux's dashboards expect them", func(ctx SpecContext) {
		Expect(prometheus.Query(ctx, `gotk_reconcile_duration_seconds_count{exported_namespace="flux-system",name="monitored"} or gotk_reconcile_duration_seconds_count{namespace="flux-system",name="monitored"}`, scraped)).To(ConsistOf(
			HaveField("Metric.Map()", HaveKeyWithValue("kind", gatingv1.GateKind)),
			HaveField("Metric.Map()", HaveKeyWithValue("kind", pipelinesv1.PipelineKind))))
	})
})
