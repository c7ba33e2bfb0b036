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

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func TestAPromotionDuringWhichTheWallClockWasPutBackTookNoTime(t *testing.T) {
	g := NewWithT(t)
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "clock", Name: "put-back"}}
	at := func(hour int) *metav1.Time { return &metav1.Time{Time: time.Date(2026, 5, 4, hour, 0, 0, 0, time.UTC)} }
	precondition := func(met bool, since *metav1.Time) []pipelinesv1.PreconditionStatus {
		return []pipelinesv1.PreconditionStatus{{Type: "Gates", Met: met, LastTransitionTime: since}}
	}
	began := pipelinesv1.PromotionRecord{StartTime: *at(12), State: pipelinesv1.PromotionUnapproved, Preconditions: precondition(false, at(12))}
	ended := pipelinesv1.PromotionRecord{
		StartTime: *at(12), State: pipelinesv1.PromotionSucceeded, Preconditions: precondition(true, at(11)), CompletionTime: at(11), ArrivalTime: at(11),
	}

	for _, histogram := range []*prometheus.HistogramVec{promoted, arrived, waited} {
		histogram.Reset()
	}
	measure(pipeline, "prod", &pipelinesv1.EnvironmentStatus{Promotion: &began}, &ended)
	registry := prometheus.NewRegistry()
	registry.MustRegister(promoted, arrived, waited)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(3))
	for _, family := range families {
		g.Expect(family.GetMetric()).To(HaveLen(1))
		g.Expect(family.GetMetric()[0].GetLabel()).To(ContainElement(And(HaveField("GetName()", "environment"), HaveField("GetValue()", "prod"))))
		g.Expect(family.GetMetric()[0].GetHistogram().GetSampleCount()).To(BeEquivalentTo(1), family.GetName())
		g.Expect(family.GetMetric()[0].GetHistogram().GetSampleSum()).To(BeZero(), family.GetName())
	}
}

func TestAnEnvironmentThatIsRenamedLeavesNoMetrics(t *testing.T) {
	g := NewWithT(t)
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "renamed", Name: "app"}}
	arrived.Reset()
	for _, env := range []string{"prod", "production"} {
		arrived.WithLabelValues(pipeline.Namespace, pipeline.Name, env).Observe(1)
	}
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"production": {}}
	before := pipelinesv1.PipelineStatus{Environments: map[string]*pipelinesv1.EnvironmentStatus{"prod": {}}}

	(&PipelineReconciler{}).announce(t.Context(), pipeline, before)

	registry := prometheus.NewRegistry()
	registry.MustRegister(arrived)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(1))
	g.Expect(families[0].GetMetric()).To(ConsistOf(HaveField("GetLabel()", ContainElement(HaveField("GetValue()", "production")))))
}
