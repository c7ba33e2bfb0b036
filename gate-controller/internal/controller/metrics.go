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
	"reflect"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	fluxmetrics "github.com/fluxcd/pkg/runtime/metrics"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/hold"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

// durations has gotk_reconcile_duration_seconds, which Flux's dashboards show for each kind.
var durations = fluxmetrics.MustMakeRecorder()

func referTo(gate types.NamespacedName) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: gatingv1.GateKind, Namespace: gate.Namespace, Name: gate.Name}
}

// scrapeTimeout limits how long a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

var (
	closedMetric = prometheus.NewDesc("sluice_gate_closed",
		"Whether the gate is closed: 1 if it is closed, 0 if it is open.", []string{"namespace", "name"}, nil)
	closedDurationMetric = prometheus.NewDesc("sluice_gate_closed_duration_seconds",
		"Seconds since the gate closed, or 0 if it is open.", []string{"namespace", "name"}, nil)
	heldMetric = prometheus.NewDesc("sluice_gate_sources_held",
		"Number of held sources that refer to the gate. Another gate may hold them too.", []string{"namespace", "name", "kind"}, nil)

	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gate_decisions_total",
		Help: "Total number of times that a source was held or released, or that the reason changed.",
	}, []string{"kind", "decision", "reason"})
)

// Metrics collects the metrics of Gates and of the sources that they hold. Gauges are read from the cache at each
// scrape, so deleted gates disappear. Only the leader has them.
type Metrics struct {
	client.Reader
	// Kinds are the kinds that gates can hold.
	Kinds []source.Kind
	// Now is the clock.
	Now func() time.Time
	// Elected is closed when the replica becomes the leader.
	Elected <-chan struct{}
}

// Describe lists the metrics.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- closedMetric
	descriptions <- closedDurationMetric
	descriptions <- heldMetric
	decisions.Describe(descriptions)
}

// Collect reads the metrics.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-m.Elected:
	default:
		return
	}
	decisions.Collect(metrics)

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := m.collectGates(ctx, metrics); err != nil {
		ctrl.Log.WithName("metrics").Error(err, "reading the gates failed")
	}
}

func (m *Metrics) collectGates(ctx context.Context, metrics chan<- prometheus.Metric) error {
	var gates gatingv1.GateList
	if err := m.List(ctx, &gates); err != nil {
		return err
	}
	for i := range gates.Items {
		gate := &gates.Items[i]
		held, err := m.heldBy(ctx, gate)
		if err != nil {
			return err
		}
		closed, seconds, now := 0.0, 0.0, m.Now()
		isClosed := gate.StateAt(now).Closed
		if isClosed {
			closed = 1
		}
		if since := gate.Status.LastTransitionTime; since != nil && isClosed && conditions.IsFalse(gate, gatingv1.OpenCondition) {
			seconds = max(now.Sub(since.Time).Seconds(), 0)
		}
		gauge := func(metric *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(metric, prometheus.GaugeValue, value, append([]string{gate.Namespace, gate.Name}, labels...)...)
		}
		gauge(closedMetric, closed)
		gauge(closedDurationMetric, seconds)
		for _, kind := range m.Kinds {
			gauge(heldMetric, held[reflect.TypeOf(kind.New())], kind.Name)
		}
	}
	return nil
}

// heldBy counts the held sources of a gate by type.
func (m *Metrics) heldBy(ctx context.Context, gate *gatingv1.Gate) (map[reflect.Type]float64, error) {
	sources, err := referrers(ctx, m.Reader, m.Kinds, client.ObjectKeyFromObject(gate))
	if err != nil {
		return nil, err
	}
	held := map[reflect.Type]float64{}
	for _, obj := range sources {
		if hold.On(obj).Suspend {
			held[reflect.TypeOf(obj)]++
		}
	}
	return held, nil
}
