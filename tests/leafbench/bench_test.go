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

// Package leafbench measures what leaf clusters that don't answer cost the promotions that don't concern them.
package leafbench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

const (
	// root is the repository's, from this directory.
	root = "../.."
	// leafs are so many, of which the last two can be cut off.
	leafs = 10
	well  = leafs - 2
	// patience is how long a promotion may take before something must be wrong.
	patience = time.Minute
	name     = "pipeline-controller"
)

// world is a real control plane with pipeline-controller, ten leaf clusters, and a Pipeline from each of them to the control plane. Promotions
// are notified to the benchmark.
type world struct {
	cluster *localcluster.Cluster
	admin   client.Client
	leafs   []*leafserver.Server
	// silent is the line to the last leaf.
	silent *leafserver.Line
	// notified takes "name@revision" of each promotion.
	notified chan string
	revision int
}

// BenchmarkPromotions measures the time from a new revision in a leaf cluster to its promotion, of eight Pipelines at once: first while two
// other leaf clusters answer too, then while one refuses connections and one takes them and never answers.
func BenchmarkPromotions(b *testing.B) {
	ctx := b.Context()
	w := start(ctx, b)
	b.Run("all-answer", func(b *testing.B) { w.measure(ctx, b) })
	w.cutOff(ctx, b)
	b.Run("one-dead-one-silent", func(b *testing.B) { w.measure(ctx, b) })
}

func (w *world) measure(ctx context.Context, b *testing.B) {
	var times []time.Duration
	for b.Loop() {
		times = append(times, w.promote(ctx, b)...)
	}
	slices.Sort(times)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(times)), "promotions")
	for _, of := range []struct {
		unit  string
		share float64
	}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"max-ms", 1}} {
		b.ReportMetric(float64(times[int(of.share*float64(len(times)-1))].Microseconds())/1000, of.unit)
	}
}

// promote makes a new revision in each leaf that is never cut off, and returns how long each took to be promoted.
func (w *world) promote(ctx context.Context, b *testing.B) []time.Duration {
	w.revision++
	revision := fmt.Sprint("v", w.revision)
	began := map[string]time.Time{}
	for i := range well {
		began[fmt.Sprintf("leaf-%d@%s", i, revision)] = time.Now()
		w.leafs[i].Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: revision})
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var times []time.Duration
	for len(times) < well {
		select {
		case promoted := <-w.notified:
			if since, ours := began[promoted]; ours {
				times = append(times, time.Since(since))
				delete(began, promoted)
			}
		case <-ctx.Done():
			b.Fatalf("not promoted: %v", began)
		}
	}
	return times
}

// cutOff cuts the last two leafs off, and waits until the Pipelines concerned say so.
func (w *world) cutOff(ctx context.Context, b *testing.B) {
	must(b, w.leafs[well].Stop())
	w.silent.Silence()
	for i := well; i < leafs; i++ {
		poll(ctx, b, func() bool { return strings.Contains(w.ready(ctx, b, i), "unreachable since") })
	}
}

func start(ctx context.Context, b *testing.B) *world {
	w := &world{notified: make(chan string, 1000)}
	events := httptest.NewServer(http.HandlerFunc(w.notify))
	b.Cleanup(events.Close)
	var err error
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{})
	must(b, err)
	b.Cleanup(func() { must(b, w.cluster.Stop()) })
	w.admin, err = client.New(w.cluster.Config, client.Options{})
	must(b, err)
	must(b, w.cluster.ApplyKustomization(ctx, filepath.Join(root, "config", "default"), "Deployment"))
	for i := range leafs {
		leaf, err := leafserver.Start(leafserver.Kustomization)
		must(b, err)
		b.Cleanup(func() { must(b, leaf.Stop()) })
		leaf.Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: "v0"})
		w.leafs = append(w.leafs, leaf)
		url := leaf.URL()
		if i == leafs-1 {
			w.silent, err = leafserver.NewLine(url)
			must(b, err)
			b.Cleanup(func() { must(b, w.silent.Close()) })
			url = w.silent.URL()
		}
		w.addPipeline(ctx, b, i, leafserver.Kubeconfig(url, leaf.CA(), leafserver.Token))
	}
	_, err = w.cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: name, ServiceAccount: name, Args: []string{"--events-addr=" + events.URL, "--concurrent=4"},
	})
	must(b, err)
	for i := range leafs {
		poll(ctx, b, func() bool { return strings.HasPrefix(w.ready(ctx, b, i), "every environment runs") })
	}
	return w
}

// addPipeline makes a Pipeline from a leaf to the control plane, where the application runs v0 for ever.
func (w *world) addPipeline(ctx context.Context, b *testing.B, i int, kubeconfig []byte) {
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": localcluster.FluxNamespace, "name": fmt.Sprint("leaf-", i)},
		"data": map[string]any{"value": kubeconfig},
	})
	must(b, err)
	must(b, w.cluster.Apply(ctx, secret))
	must(b, w.cluster.Apply(ctx, fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata: {name: prod-%[1]d}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: prod-%[1]d}
spec: {suspend: true, interval: 1h, prune: true, path: ., sourceRef: {kind: GitRepository, name: none}}
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: leaf-%[1]d, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments:
  - {name: dev, targets: [{namespace: dev, clusterRef: {kind: Secret, name: leaf-%[1]d}}]}
  - {name: prod, targets: [{namespace: prod-%[1]d}]}
  promotion: {strategy: {notification: {}}}
`, i)))
	app := &unstructured.Unstructured{}
	app.SetAPIVersion("kustomize.toolkit.fluxcd.io/v1")
	app.SetKind("Kustomization")
	app.SetNamespace(fmt.Sprint("prod-", i))
	app.SetName("app")
	must(b, w.admin.Status().Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1,"lastAppliedRevision":"v0",
"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
}

// notify takes the events that pipeline-controller posts.
func (w *world) notify(_ http.ResponseWriter, r *http.Request) {
	var event struct {
		Message        string            `json:"message"`
		InvolvedObject map[string]string `json:"involvedObject"`
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(content, &event) != nil {
		return
	}
	if _, revision, ok := strings.Cut(event.Message, " to prod with version "); ok {
		w.notified <- event.InvolvedObject["name"] + "@" + revision
	}
}

// ready returns the message of a Pipeline's condition Ready.
func (w *world) ready(ctx context.Context, b *testing.B, i int) string {
	pipeline := &unstructured.Unstructured{}
	pipeline.SetAPIVersion("pipelines.weave.works/v1alpha1")
	pipeline.SetKind("Pipeline")
	must(b, w.admin.Get(ctx, client.ObjectKey{Namespace: localcluster.FluxNamespace, Name: fmt.Sprint("leaf-", i)}, pipeline))
	conditions, _, _ := unstructured.NestedSlice(pipeline.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == "Ready" {
			message, _ := condition["message"].(string)
			return message
		}
	}
	return ""
}

func poll(ctx context.Context, b *testing.B, done func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			b.Fatal(ctx.Err())
		}
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
