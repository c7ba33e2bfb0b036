//go:build e2e_node && linux

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

package leafnet

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

const (
	// well is the number of leaf clusters that always respond. There are two more.
	well = 8
	// patience is the timeout of a promotion.
	patience = time.Minute
)

// BenchmarkPromotions measures the time from a new revision in a leaf cluster to its promotion, for eight Pipelines at
// the same time. It does so while two other leaf clusters respond, while one refuses connections and the packets of the
// other are dropped, and after both have recovered.
func BenchmarkPromotions(b *testing.B) {
	ctx := b.Context()
	g := NewWithT(b)
	w := start(ctx, b)
	var leafs []*leafserver.Server
	for i := range well + 1 {
		leaf, err := leafserver.Start(leafserver.Kustomization)
		g.Expect(err).NotTo(HaveOccurred())
		b.Cleanup(func() { g.Expect(leaf.Stop()).To(Succeed()) })
		leafs = append(leafs, leaf)
		w.addPipeline(ctx, b, fmt.Sprint("leaf-", i), leaf.Kubeconfig(leafserver.Token))
	}
	cut, run := leafInNamespace(b)
	w.addPipeline(ctx, b, "cut", cut)
	dead := leafs[well]
	dead.Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: "v0"})
	run("v0")
	others := func(reason string) {
		for _, name := range []string{fmt.Sprint("leaf-", well), "cut"} {
			g.Eventually(w.target(name)).Should(And(HaveField("Reason", reason), HaveField("ReadyRevision", "v0")))
		}
	}
	others("")
	revision := 0
	promote := func(b *testing.B) []time.Duration {
		revision++
		return w.promote(ctx, b, leafs[:well], fmt.Sprint("v", revision))
	}
	measure := func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			times = append(times, promote(b)...)
		}
		report(b, times)
	}
	// The first promotions fill the histories in the status, which makes the Pipelines larger.
	for range 11 {
		promote(b)
	}

	b.Run("all-answer", measure)
	g.Expect(dead.Stop()).To(Succeed())
	drop(b)
	others("Unreachable")
	b.Run("one-dead-one-dropped", measure)
	g.Expect(dead.Resume()).To(Succeed())
	undrop(b)
	others("")
	b.Run("all-answer-again", measure)
}

// promote sets a new revision in each leaf cluster, and returns the time to each promotion.
func (w *world) promote(ctx context.Context, b *testing.B, leafs []*leafserver.Server, revision string) []time.Duration {
	began := map[string]time.Time{}
	for i, leaf := range leafs {
		began[fmt.Sprintf("leaf-%d@%s", i, revision)] = time.Now()
		leaf.Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: revision})
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var times []time.Duration
	for len(began) > 0 {
		select {
		case promoted := <-w.events:
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

func report(b *testing.B, times []time.Duration) {
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
