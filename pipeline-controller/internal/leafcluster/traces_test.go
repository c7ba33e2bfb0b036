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

package leafcluster_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/leafcluster"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

// traces are what remains of clusters.
type traces struct {
	Goroutines, Connections int
	Heap                    uint64
}

func tracesOf(leafs []*leafserver.Server) traces {
	var now traces
	for _, leaf := range leafs {
		leaf.Requests() // they are kept until they were asked for
		open, _ := leaf.Connections()
		now.Connections += open
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	now.Heap, now.Goroutines = memory.HeapAlloc, runtime.NumGoroutine()
	return now
}

func TestClustersThatComeAndGoLeaveNoTraces(t *testing.T) {
	const rounds, atOnce = 20, 50
	g := NewWithT(t)
	w := newWorld(t)
	leafs := make([]*leafserver.Server, atOnce)
	for i := range leafs {
		leafs[i] = newAppLeaf(t)
	}
	// round adds clusters, rotates the tokens in their kubeconfigs, and removes them.
	round := func(n int) {
		pipelines := make([]*pipelinesv1.Pipeline, atOnce)
		token := fmt.Sprint("rotated-", n)
		// known has the applications change and waits until that is known.
		known := func(revision string) {
			for _, leaf := range leafs {
				leaf.Put(app(revision))
			}
			for _, p := range pipelines {
				g.Eventually(w.state(p)).Should(haveRevision(revision))
			}
		}
		for i, leaf := range leafs {
			leaf.Accept(leafserver.Token, token)
			name := fmt.Sprint("leaf-", i)
			w.connect(name, leaf)
			pipelines[i] = pipeline(name, inCluster(name))
			w.Want(context.Background(), pipelines[i])
		}
		known(fmt.Sprint("added-", n))
		for i, leaf := range leafs {
			w.update(secret(fmt.Sprint("leaf-", i), "value", leaf.Kubeconfig(token)))
		}
		for _, leaf := range leafs {
			g.Eventually(func() bool {
				for _, request := range leaf.Requests() {
					if request.Watch && request.User == token {
						return true
					}
				}
				return false
			}).Should(BeTrue())
		}
		known(token)
		for i, p := range pipelines {
			w.Forget(client.ObjectKeyFromObject(p))
			name := fmt.Sprint("leaf-", i)
			w.delete(gitopsCluster(name))
			w.delete(secret(name, "value", nil))
			leafs[i].Compact()
		}
		w.queue.take()
	}
	// idle returns the traces once they are the same twice: what ends is given the time to.
	idle := func() traces {
		last := tracesOf(leafs)
		g.Eventually(func() bool {
			before := last
			last = tracesOf(leafs)
			return last.Connections == 0 && last.Goroutines == before.Goroutines && last.Heap <= before.Heap
		}).WithPolling(200 * time.Millisecond).Should(BeTrue())
		return last
	}
	// What is allocated once is there after the first rounds.
	for n := range 3 {
		round(n)
	}
	before := idle()
	for n := range rounds {
		round(3 + n)
	}
	// Half a KB for each cluster that came and went would not hold even one of its watches.
	const tolerated = rounds * atOnce * 512
	g.Eventually(func() traces { return tracesOf(leafs) }).Should(And(HaveField("Connections", 0),
		HaveField("Goroutines", BeNumerically("<=", before.Goroutines)), HaveField("Heap", BeNumerically("<", before.Heap+tolerated))))
	after := tracesOf(leafs)
	t.Logf("goroutines: %d before, %d after; heap: %d KB before, %d KB after", before.Goroutines, after.Goroutines, before.Heap>>10, after.Heap>>10)
	g.Expect(testutil.CollectAndCount(w.Clusters)).To(BeZero())
}

// forever makes nothing that waits for an API server end by itself.
func forever(o *leafcluster.Options) { o.Timing.ProbeTimeout, o.Timing.Connects = time.Hour, 4 }

func TestNotAllClustersAreConnectedAtOnce(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, forever)
	leafs := make([]*leafserver.Server, 20)
	for i := range leafs {
		leafs[i] = newAppLeaf(t)
		leafs[i].Hang()
		name := fmt.Sprint("leaf-", i)
		w.connect(name, leafs[i])
		w.Want(context.Background(), pipeline(name, inCluster(name)))
	}
	asked := func() int {
		asked := 0
		for _, leaf := range leafs {
			_, ever := leaf.Connections()
			asked += ever
		}
		return asked
	}
	g.Eventually(asked).Should(Equal(4))
	g.Consistently(asked).Should(Equal(4))
	for i, leaf := range leafs {
		leaf.Unhang()
		name := fmt.Sprint("leaf-", i)
		defer func() { g.Eventually(w.state(pipeline(name, inCluster(name)))).Should(haveRevision("v1")) }()
	}
}

func TestClustersThatDoNotAnswerDelayNoOthers(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, forever)
	for i := range 20 {
		leaf := newLeaf(t)
		g.Expect(leaf.Stop()).To(Succeed())
		name := fmt.Sprint("hung-", i)
		w.connect(name, leaf)
		p := pipeline(name, inCluster(name))
		w.Want(context.Background(), p)
		g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.UnreachableReason))
		leaf.Hang()
		g.Expect(leaf.Resume()).To(Succeed())
	}
	leaf := newAppLeaf(t)
	w.connect("well", leaf)
	p := pipeline("well", inCluster("well"))
	w.watch(p)
}

func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	leaf.Put(leafserver.Object{Namespace: "prod", Name: "other", Revision: "v1"})
	_, s := w.connect("eu", leaf)
	p := pipeline("p", inCluster("eu"), pipelinesv1.Target{Namespace: "prod"})
	w.watch(p)
	registry := prometheus.NewPedanticRegistry()
	g.Expect(registry.Register(w.Clusters)).To(Succeed())
	const labels = `{kind="GitopsCluster",name="eu",namespace="default"}`
	told := func() error {
		return testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP sluice_leaf_cluster_connected Whether the API server of the cluster responds: 1 or 0.
# TYPE sluice_leaf_cluster_connected gauge
sluice_leaf_cluster_connected`+labels+` 1
# HELP sluice_leaf_cluster_objects The number of objects in the cluster whose state is in memory.
# TYPE sluice_leaf_cluster_objects gauge
sluice_leaf_cluster_objects`+labels+` 2
# HELP sluice_leaf_cluster_restarts_total The number of reconnects, because the connection was lost or the kubeconfig changed.
# TYPE sluice_leaf_cluster_restarts_total counter
sluice_leaf_cluster_restarts_total`+labels+` 0
# HELP sluice_leaf_cluster_watches The number of watches that Pipelines require in the cluster.
# TYPE sluice_leaf_cluster_watches gauge
sluice_leaf_cluster_watches`+labels+` 1
`), "sluice_leaf_cluster_connected", "sluice_leaf_cluster_objects", "sluice_leaf_cluster_restarts_total", "sluice_leaf_cluster_watches")
	}
	g.Expect(told()).To(Succeed())
	g.Expect(valueOf(t, registry, "sluice_leaf_cluster_last_contact_timestamp_seconds")).To(BeNumerically("~", time.Now().Unix(), 30))

	s.Data["value"] = leaf.Kubeconfig("b-token")
	leaf.Accept("b-token")
	w.update(s)
	g.Eventually(func() float64 { return valueOf(t, registry, "sluice_leaf_cluster_restarts_total") }).Should(BeEquivalentTo(1))

	g.Expect(leaf.Stop()).To(Succeed())
	g.Eventually(func() float64 { return valueOf(t, registry, "sluice_leaf_cluster_connected") }).Should(BeZero())

	w.Forget(client.ObjectKeyFromObject(p))
	g.Expect(testutil.GatherAndCount(registry)).To(BeZero())
}

// valueOf returns the value of a metric that has one series.
func valueOf(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			metric := family.GetMetric()[0]
			return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return -1
}
