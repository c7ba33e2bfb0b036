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

package scale

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var (
	sources  = flag.Int("sources", 500, "benchmarks: how many sources name the gate")
	quietFor = flag.Duration("quiet-for", 5*time.Minute, "benchmarks: how long a settled cluster is watched for writes")
	args     = flag.String("gate-controller-args", "", "benchmarks: more flags of gate-controller, separated by spaces")
)

// BenchmarkGate turns one gate of many sources. The real source-controller and notification-controller run. Each part
// can be run alone.
func BenchmarkGate(b *testing.B) {
	started := time.Now()
	w := start(b.Context(), b, options{
		sources: *sources,
		flux:    []localcluster.FluxController{localcluster.SourceController, localcluster.NotificationController},
		// These are the flags of the Deployment.
		args: append([]string{"--watch-all-namespaces=true", "--enable-leader-election"}, strings.Fields(*args)...),
	})
	b.Logf("%d sources are fetched %s after the start", *sources, time.Since(started).Round(time.Second))
	b.Run("closing", func(b *testing.B) { benchmarkTurn(b, w, true) })
	b.Run("held", func(b *testing.B) { benchmarkHeld(b, w) })
	b.Run("opening", func(b *testing.B) { benchmarkTurn(b, w, false) })
}

// benchmarkTurn measures how sources follow a gate that closes or opens.
func benchmarkTurn(b *testing.B, w *world, closed bool) {
	var all turned
	requests, most := 0, 0
	outcomes := map[string]int{}
	turns := 0
	apiServer, gateController := 0.0, 0.0
	for b.Loop() {
		b.StopTimer()
		if err := w.restore(b.Context(), !closed); err != nil {
			b.Fatal(err)
		}
		apiServerBefore, gateControllerBefore := w.apiServerMetrics(b).processorTime(), w.gateControllerMetrics(b).processorTime()
		b.StartTimer()
		result, err := w.measure(b.Context(), closed)
		if err != nil {
			b.Fatal(err)
		}
		turns++
		apiServer += w.apiServerMetrics(b).processorTime() - apiServerBefore
		gateController += w.gateControllerMetrics(b).processorTime() - gateControllerBefore
		all.backstop = append(all.backstop, result.backstop...)
		all.suspensions = append(all.suspensions, result.suspensions...)
		all.conditions = append(all.conditions, result.conditions...)
		all.others = append(all.others, result.others...)
		sum, mostOfOne := result.aboutSources()
		requests, most = requests+sum, max(most, mostOfOne)
		for _, ofSource := range result.bySource {
			count(outcomes, ofSource)
		}
		count(outcomes, result.others)
	}
	b.ReportMetric(0, "ns/op")
	reportTimes(b, "backstop", all.backstop)
	reportTimes(b, "suspend", all.suspensions)
	reportTimes(b, "GatesOpen", all.conditions)
	b.ReportMetric(float64(requests)/float64(turns*len(w.sources)), "requests/source")
	b.ReportMetric(float64(most), "requests/source-most")
	b.ReportMetric(float64(len(all.others))/float64(turns), "requests/gate")
	b.ReportMetric(apiServer/float64(turns), "cpu-s-kube-apiserver")
	b.ReportMetric(gateController/float64(turns), "cpu-s-gate-controller")
	reportMemory(b, w)
	b.Logf("in %d turns: %s", turns, inOneLine(outcomes))
}

// restore sets the gate back, and waits until all controllers are idle.
func (w *world) restore(ctx context.Context, closed bool) error {
	if w.closed != closed {
		if _, err := w.measure(ctx, closed); err != nil {
			return err
		}
	}
	return w.fluxDone(ctx)
}

// reportTimes reports the median, the 99th percentile and the maximum.
func reportTimes(b *testing.B, what string, times []time.Duration) {
	times = slices.Sorted(slices.Values(times))
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "last": 1} {
		rank := int(math.Ceil(part * float64(len(times))))
		b.ReportMetric(times[rank-1].Seconds(), "s-"+what+"-"+name)
	}
}

// benchmarkHeld counts the writes while the gate stays closed.
func benchmarkHeld(b *testing.B, w *world) {
	if err := w.restore(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	var writes []request
	served := 0.0
	for b.Loop() {
		position, err := w.audit.end()
		if err != nil {
			b.Fatal(err)
		}
		before := w.writesServed(b)
		select {
		case <-time.After(*quietFor):
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
		served += w.writesServed(b) - before
		requests, err := w.audit.since(b.Context(), position)
		if err != nil {
			b.Fatal(err)
		}
		writes = append(writes, slices.DeleteFunc(requests, func(r request) bool { return !r.writes() })...)
	}
	ours := 0
	byUser := map[string]int{}
	for _, r := range writes {
		if r.User.Username == gateControllerUser {
			ours++
		}
		byUser[r.User.Username+": "+r.String()]++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours), "writes-gate-controller")
	b.ReportMetric(float64(len(writes)-ours), "writes-others")
	b.ReportMetric(served, "writes-served")
	reportMemory(b, w)
	b.Logf("in %s: %s", *quietFor, inOneLine(byUser))
}

// writesServed returns the API server's count of writes to sources, Gates and events.
func (w *world) writesServed(b *testing.B) float64 {
	samples := w.apiServerMetrics(b)
	resources := []string{"gitrepositories", "ocirepositories", "buckets", "helmrepositories", "helmcharts", "gates", "events"}
	var sum float64
	for _, resource := range resources {
		for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"} {
			sum += samples.sum("apiserver_request_total", `resource="`+resource+`"`, `verb="`+verb+`"`)
		}
	}
	return sum
}

// reportMemory reports gate-controller's memory use.
func reportMemory(b *testing.B, w *world) {
	samples := w.gateControllerMetrics(b)
	b.ReportMetric(samples.sum("process_resident_memory_bytes")/1e6, "MB-resident")
	b.ReportMetric(samples.sum("go_memstats_heap_inuse_bytes")/1e6, "MB-heap")
}

func (w *world) apiServerMetrics(b *testing.B) metrics {
	httpClient, err := rest.HTTPClientFor(w.cluster.Config)
	if err != nil {
		b.Fatal(err)
	}
	samples, err := scrape(b.Context(), httpClient, w.cluster.Config.Host)
	if err != nil {
		b.Fatal(err)
	}
	return samples
}

func (w *world) gateControllerMetrics(b *testing.B) metrics {
	samples, err := scrape(b.Context(), http.DefaultClient, "http://"+w.gateController.MetricsAddr)
	if err != nil {
		b.Fatal(err)
	}
	return samples
}

// processorTime returns the CPU seconds that the process has used.
func (m metrics) processorTime() float64 { return m.sum("process_cpu_seconds_total") }

func count(outcomes map[string]int, requests []request) {
	for _, r := range requests {
		outcomes[r.String()]++
	}
}

// inOneLine formats counts as one line, because only the first lines of a benchmark are printed.
func inOneLine(outcomes map[string]int) string {
	var text []string
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		text = append(text, fmt.Sprintf("%d %s", outcomes[outcome], outcome))
	}
	return strings.Join(text, ", ")
}
