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

package leafcluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/kubeconfig"
)

var (
	clusterLabels = []string{"namespace", "name", "kind"}

	connectedMetric = prometheus.NewDesc("sluice_leaf_cluster_connected",
		"Whether the API server of the cluster responds: 1 or 0.", clusterLabels, nil)
	contactMetric = prometheus.NewDesc("sluice_leaf_cluster_last_contact_timestamp_seconds",
		"The Unix timestamp in seconds of the last response from the API server of the cluster. Absent if there was none.", clusterLabels, nil)
	watchesMetric = prometheus.NewDesc("sluice_leaf_cluster_watches",
		"The number of watches that Pipelines require in the cluster.", clusterLabels, nil)
	objectsMetric = prometheus.NewDesc("sluice_leaf_cluster_objects",
		"The number of objects in the cluster whose state is in memory.", clusterLabels, nil)
	restartsMetric = prometheus.NewDesc("sluice_leaf_cluster_restarts_total",
		"The number of reconnects, because the connection was lost or the kubeconfig changed.", clusterLabels, nil)
)

// Describe lists the metrics.
func (c *Clusters) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{connectedMetric, contactMetric, watchesMetric, objectsMetric, restartsMetric} {
		descriptions <- description
	}
}

// Collect reports each cluster that a Pipeline refers to.
func (c *Clusters) Collect(metrics chan<- prometheus.Metric) {
	for ref, figures := range c.figures() {
		labels := []string{ref.Namespace, ref.Name, ref.Kind}
		gauge := func(description *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
		}
		connected := 0.0
		if figures.connected {
			connected = 1
		}
		gauge(connectedMetric, connected)
		if !figures.contact.IsZero() {
			gauge(contactMetric, float64(figures.contact.UnixMilli())/1000)
		}
		gauge(watchesMetric, float64(figures.watches))
		gauge(objectsMetric, float64(figures.objects))
		metrics <- prometheus.MustNewConstMetric(restartsMetric, prometheus.CounterValue, float64(max(figures.sessions-1, 0)), labels...)
	}
}

// figures are the metrics of a cluster.
type figures struct {
	connected        bool
	contact          time.Time
	watches, objects int
	// sessions includes the sessions of earlier connections.
	sessions int
}

func (c *Clusters) figures() map[kubeconfig.Reference]figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[kubeconfig.Reference]figures{}
	for ref, cluster := range c.clusters {
		if ref != managementCluster {
			all[ref] = cluster.figures()
		}
	}
	return all
}
