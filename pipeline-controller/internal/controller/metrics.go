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
	"context"
	"time"

	fluxmetrics "github.com/fluxcd/pkg/runtime/metrics"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// durations has gotk_reconcile_duration_seconds, which Flux's dashboards show for each kind.
var durations = fluxmetrics.MustMakeRecorder()

func referTo(pipeline types.NamespacedName) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: pipelinesv1.PipelineKind, Namespace: pipeline.Namespace, Name: pipeline.Name}
}

// scrapeTimeout is how long a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

// waits are the buckets of histograms: a minute to a week, the time that people and clusters take.
var waits = []float64{60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}

var (
	environmentMetric = prometheus.NewDesc("sluice_pipeline_environment",
		"The current state of the environment. The value is always 1.", []string{"namespace", "name", "environment", "state"}, nil)
	promotionMetric = prometheus.NewDesc("sluice_pipeline_promotion",
		"The state of the last promotion into the environment. The value is always 1.", []string{"namespace", "name", "environment", "state"}, nil)

	promoted = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_promotion_promoted_duration_seconds", Buckets: waits,
		Help: "The duration in seconds from the arrival of a revision in the previous environment to its promotion by merge or notification.",
	}, []string{"namespace", "name", "environment"})
	arrived = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_promotion_arrived_duration_seconds", Buckets: waits,
		Help: "The duration in seconds from the arrival of a revision in the previous environment to its arrival in this one.",
	}, []string{"namespace", "name", "environment"})
	waited = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_promotion_precondition_wait_duration_seconds", Buckets: waits,
		Help: "The duration in seconds that promotions waited for a precondition until it was met.",
	}, []string{"namespace", "name", "environment", "type"})
)

// measure observes what has ended between two states of a promotion into an environment. Either state may be missing.
// The histograms of an environment exist from the start of its first promotion, so that the rate of the first
// observation is not lost.
func measure(pipeline *pipelinesv1.Pipeline, env string, before *pipelinesv1.EnvironmentStatus, record *pipelinesv1.PromotionRecord) {
	if record == nil {
		return
	}
	old := &pipelinesv1.PromotionRecord{}
	if before != nil && before.Promotion != nil && before.Promotion.StartTime.Equal(&record.StartTime) {
		old = before.Promotion
	}
	observe := func(histogram prometheus.Observer, before, now *metav1.Time) {
		if before == nil && now != nil {
			histogram.Observe(between(record.StartTime, *now))
		}
	}
	promoted := promoted.WithLabelValues(pipeline.Namespace, pipeline.Name, env)
	if record.State == pipelinesv1.PromotionSucceeded {
		observe(promoted, old.CompletionTime, record.CompletionTime)
	}
	observe(arrived.WithLabelValues(pipeline.Namespace, pipeline.Name, env), old.ArrivalTime, record.ArrivalTime)
	for _, is := range record.Preconditions {
		waited := waited.WithLabelValues(pipeline.Namespace, pipeline.Name, env, is.Type)
		for _, was := range old.Preconditions {
			if was.Type == is.Type && !was.Met && is.Met && was.LastTransitionTime != nil && is.LastTransitionTime != nil {
				waited.Observe(between(*was.LastTransitionTime, *is.LastTransitionTime))
			}
		}
	}
}

// between returns the seconds between two times. It is zero if the wall clock was set back.
func between(before, now metav1.Time) float64 { return max(now.Sub(before.Time).Seconds(), 0) }

// forgetMeasures removes the metrics of a deleted Pipeline.
func forgetMeasures(pipeline types.NamespacedName) {
	durations.DeleteDuration(referTo(pipeline))
	forget(prometheus.Labels{"namespace": pipeline.Namespace, "name": pipeline.Name})
}

// forgetEnvironment removes the metrics of an environment that its Pipeline no longer has, so that renaming
// environments adds no metrics forever.
func forgetEnvironment(pipeline *pipelinesv1.Pipeline, env string) {
	forget(prometheus.Labels{"namespace": pipeline.Namespace, "name": pipeline.Name, "environment": env})
}

func forget(labels prometheus.Labels) {
	for _, histogram := range []*prometheus.HistogramVec{promoted, arrived, waited} {
		histogram.DeletePartialMatch(labels)
	}
}

// Metrics collects metrics about promotions. The current states are read from the cache at each scrape, so there are
// none for deleted Pipelines. Only the leader reports metrics.
type Metrics struct {
	client.Reader
	// Elected is closed when the replica becomes the leader.
	Elected <-chan struct{}
}

// Describe lists the metrics.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- environmentMetric
	descriptions <- promotionMetric
	promoted.Describe(descriptions)
	arrived.Describe(descriptions)
	waited.Describe(descriptions)
}

// Collect collects the metrics.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-m.Elected:
	default:
		return
	}
	promoted.Collect(metrics)
	arrived.Collect(metrics)
	waited.Collect(metrics)

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var pipelines pipelinesv1.PipelineList
	if err := m.List(ctx, &pipelines); err != nil {
		ctrl.Log.WithName("metrics").Error(err, "reading the Pipelines failed")
		return
	}
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		for env, status := range pipeline.Status.Environments {
			if status.State != "" {
				metrics <- prometheus.MustNewConstMetric(environmentMetric, prometheus.GaugeValue, 1,
					pipeline.Namespace, pipeline.Name, env, string(status.State))
			}
			if status.Promotion != nil {
				metrics <- prometheus.MustNewConstMetric(promotionMetric, prometheus.GaugeValue, 1,
					pipeline.Namespace, pipeline.Name, env, string(status.Promotion.State))
			}
		}
	}
}
