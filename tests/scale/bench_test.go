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
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/release/program"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

var (
	sources   = flag.Int("sources", 500, "benchmarks of one gate: how many sources name it")
	pipelines = flag.String("pipelines", "100,1000,5000", "BenchmarkBudgets: numbers of Pipelines, or empty")
	gated     = flag.String("gated", "100,1000,5000", "BenchmarkBudgets: numbers of sources on one gate, or empty")
	quietFor  = flag.Duration("quiet-for", 150*time.Second, "BenchmarkBudgets: how long requests are counted in a cluster in which nothing changes. Go's garbage collector runs within two minutes")
	output    = flag.String("report", filepath.Join("..", "..", "bin", "bench.json"), "BenchmarkBudgets: the file for the report as JSON. The table is in a file with the suffix .md, and the plot in one with .svg")
	before    = flag.String("before", "", "BenchmarkBudgets: the JSON of an earlier run to compare with")
)

// reconciledApplications is the number of Pipelines while Flux reconciles. They have about a hundred Kustomizations.
const reconciledApplications = 34

// BenchmarkBudgets measures all that has a budget, and writes a report. It asserts nothing.
func BenchmarkBudgets(b *testing.B) {
	r := newReport()
	part := func(name string, measure func(b *testing.B) error) {
		b.Run(name, func(b *testing.B) {
			// What was measured before a failure is reported too.
			if err := errors.Join(measure(b), r.publish()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	part("programs", r.programs)
	part("planner", r.planner)
	part("Git", r.git)
	for _, n := range numbers(b, *pipelines) {
		part(thousands(n, "pipelines"), func(b *testing.B) error { return r.pipelines(b, n) })
	}
	part("Flux reconciles", r.reconciling)
	part("one of two shards", r.shard)
	part("fairness", r.fairness)
	for _, n := range numbers(b, *gated) {
		part(thousands(n, "sources"), func(b *testing.B) error { return r.gate(b, n) })
	}
}

func numbers(b *testing.B, list string) []int {
	var all []int
	for _, text := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// publish writes the report to the file of the flag, as a plot, and as a table that compares it with an earlier one, if
// there is any.
func (r *report) publish() error {
	var earlier *report
	if *before != "" {
		var err error
		if earlier, err = readReport(*before); err != nil {
			return err
		}
	}
	base := strings.TrimSuffix(*output, ".json")
	return errors.Join(r.write(*output), os.WriteFile(base+".md", []byte(r.table(earlier)), 0o600), os.WriteFile(base+".svg", []byte(r.plot()), 0o600))
}

// programs measures the size of the controllers as they are released.
func (r *report) programs(b *testing.B) error {
	for _, name := range []string{gateControllerName, pipelineControllerName} {
		path := filepath.Join(b.TempDir(), name)
		if err := program.Compile(b.Context(), filepath.Join("..", ".."), name, "v0.0.0", program.Platform{OS: "linux", Arch: runtime.GOARCH}, path); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		r.within("", name+" on disk, MB", float64(info.Size())/1e6, 70)
	}
	return nil
}

var planned = regexp.MustCompile(`BenchmarkNext/arrived\S*\s+\d+\s+(\S+) ns/op.*\s(\d+) allocs/op`)

// planner runs the planner's own benchmark.
func (r *report) planner(b *testing.B) error {
	out, err := exec.CommandContext(b.Context(), "go", "test", "-run", "^$", "-bench", "Next/arrived", "../../pipeline-controller/internal/plan").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	match := planned.FindSubmatch(out)
	if match == nil {
		return fmt.Errorf("no result of the planner: %s", out)
	}
	took, err := strconv.ParseFloat(string(match[1]), 64)
	allocations, err2 := strconv.ParseFloat(string(match[2]), 64)
	r.within("3 environments", "a plan that changes nothing, µs", took/1000, 2)
	r.within("3 environments", "a plan that changes nothing, allocations", allocations, 10)
	return errors.Join(err, err2)
}

var fetched = regexp.MustCompile(`(\S+) (first|merged|unmoved)-(s|peak-MB)`)

// git runs the benchmark of a large Git repository.
func (r *report) git(b *testing.B) error {
	out, err := exec.CommandContext(b.Context(), "go", "test", "-run", "^$", "-bench", "LargeRepository", "-benchtime", "1x", "-timeout", "30m",
		"../../pipeline-controller/internal/promote").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	names := map[string]string{"first": "the first promotion", "merged": "the next promotion, after a merge", "unmoved": "the next promotion, with an unchanged base branch"}
	for _, match := range fetched.FindAllStringSubmatch(string(out), -1) {
		value, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return err
		}
		name, budget := names[match[2]]+", s", 1.0
		switch {
		case match[3] != "s":
			name, budget = names[match[2]]+": memory at most, MB", 256
		case match[2] == "first":
			budget = 60
		}
		r.within("a repository of 2 GB, 41,000 tags", name, value, budget)
	}
	return nil
}

// pipelines measures pipeline-controller with n Pipelines.
func (r *report) pipelines(b *testing.B, n int) error {
	ctx, size := b.Context(), thousands(n, "pipelines")
	f, err := startFleet(ctx, b, n)
	if err != nil {
		return err
	}
	if err := errors.Join(f.addApplications(ctx, f.names, revisionOf(0)), f.watch(ctx)); err != nil {
		return err
	}
	receiver, sent := f.receive(b)
	started := time.Now()
	if err := f.startController(ctx, receiver); err != nil {
		return err
	}
	if err := errors.Join(f.known(ctx), f.settled(ctx)); err != nil {
		return err
	}
	r.add(size, "first start until all are known, s", time.Since(started).Seconds())
	samples, err := f.metrics(ctx)
	if err != nil {
		return err
	}
	r.perItem(size, "first start", "pipeline", nil, samples, n, nil)

	if err := f.controller.Stop(); err != nil {
		return err
	}
	started = time.Now()
	if err := errors.Join(f.controller.Start(ctx), f.known(ctx)); err != nil {
		return err
	}
	if samples, err = f.metrics(ctx); err != nil {
		return err
	}
	if n == 1000 {
		r.within(size, "start until all are known, unchanged, s", time.Since(started).Seconds(), 3)
	} else {
		r.add(size, "start until all are known, unchanged, s", time.Since(started).Seconds())
	}
	r.within(size, "writes at that start", samples.writes(), 0)
	r.add(size, "resident memory after the start, MB", samples.resident())

	mostMemory := 50 + 0.015*float64(n)
	idle, err := r.idle(b, size, "idle", f)
	if err != nil {
		return err
	}
	r.within(size, "resident memory, idle, MB", idle.resident(), mostMemory)

	times, bare, err := f.promoteOneByOne(ctx)
	if err != nil {
		return err
	}
	r.ranks(size, "promotion, one at a time, more than the bare watch", times, map[string]float64{"p50": 6, "p99": 15})
	r.ranks(size, "the bare watch", bare, nil)
	one, err := f.metrics(ctx)
	if err != nil {
		return err
	}
	most := map[string]float64{"PUT": 2, "POST": 1, "GET": 1, "PATCH": 0}
	r.perItem(size, "promotion, one at a time", "promotion", idle, one, len(times), most)

	already := sent.Load()
	times, last, err := f.promoteAll(ctx)
	if err != nil {
		return err
	}
	r.ranks(size, "promotion, all at once, more than the bare watch", times, nil)
	switch n {
	case 1000:
		r.within(size, "all promotions at once, s", last.Seconds(), 15)
	case 5000:
		r.within(size, "all promotions at once, s", last.Seconds(), 80)
	default:
		r.add(size, "all promotions at once, s", last.Seconds())
	}
	all, err := f.metrics(ctx)
	if err != nil {
		return err
	}
	r.perItem(size, "promotion, all at once", "promotion", one, all, n, most)
	r.within(size, "promotions sent for each that was needed", float64(sent.Load()-already)/float64(n), 1)
	r.add(size, "CPU time for each promotion, ms", 1000*(all.processorTime()-one.processorTime())/float64(n))
	r.within(size, "resident memory after the load, MB", all.resident(), mostMemory)
	return nil
}

// reconciling counts requests while kustomize-controller reconciles the applications every ten seconds, and nothing
// changes.
func (r *report) reconciling(b *testing.B) error {
	ctx, size := b.Context(), fmt.Sprintf("%d Kustomizations", reconciledApplications*len(environments))
	f, err := startFleet(ctx, b, reconciledApplications, localcluster.SourceController, localcluster.KustomizeController)
	if err != nil {
		return err
	}
	if err := f.addReconciledApplications(ctx, b); err != nil {
		return err
	}
	receiver, _ := f.receive(b)
	if err := errors.Join(f.startController(ctx, receiver), f.settled(ctx)); err != nil {
		return err
	}
	_, err = r.idle(b, size, "while Flux reconciles every 10 s", f)
	return err
}

// idle counts the requests of pipeline-controller while nothing changes, and returns its metrics after that.
func (r *report) idle(b *testing.B, size, when string, f *fleet) (metrics, error) {
	before, err := f.metrics(b.Context())
	if err != nil {
		return nil, err
	}
	if err := wait(b.Context(), *quietFor); err != nil {
		return nil, err
	}
	after, err := f.metrics(b.Context())
	if err != nil {
		return nil, err
	}
	r.add(size, "requests per minute, "+when, (after.requests()-before.requests())/quietFor.Minutes())
	r.within(size, "writes, "+when, after.writes()-before.writes(), 0)
	return after, nil
}

// shard measures one of two shards, which has half of 1,000 Pipelines.
func (r *report) shard(b *testing.B) error {
	ctx, size := b.Context(), "500 of 1,000 pipelines"
	f, err := startFleet(ctx, b, 1000)
	if err != nil {
		return err
	}
	if err := f.addApplications(ctx, f.names, revisionOf(0)); err != nil {
		return err
	}
	f.names = f.names[:len(f.names)/2]
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"sharding.fluxcd.io/key":"shard1"}}}`))
	if err := each(ctx, f.names, func(ctx context.Context, name string) error {
		return f.client.Patch(ctx, &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: localcluster.FluxNamespace, Name: name}}, label)
	}); err != nil {
		return err
	}
	receiver, _ := f.receive(b)
	if err := errors.Join(f.startController(ctx, receiver, "--watch-label-selector=sharding.fluxcd.io/key=shard1"), f.known(ctx)); err != nil {
		return err
	}
	if err := f.controller.Stop(); err != nil {
		return err
	}
	started := time.Now()
	if err := errors.Join(f.controller.Start(ctx), f.known(ctx)); err != nil {
		return err
	}
	r.add(size, "one of two shards: start until all are known, unchanged, s", time.Since(started).Seconds())
	idle, err := r.idle(b, size, "one of two shards", f)
	if err != nil {
		return err
	}
	r.add(size, "one of two shards: resident memory, idle, MB", idle.resident())
	return nil
}

// fairness measures the promotions of one namespace while another one has a thousand Pipelines that wait for a gate, and
// a hundred whose Git host does not answer. Then the gate opens.
func (r *report) fairness(b *testing.B) error {
	const measured, waiting, slow = 50, 1000, 100
	ctx, size := b.Context(), thousands(waiting, "pipelines of another tenant")
	f, err := startFleet(ctx, b, measured)
	if err != nil {
		return err
	}
	receiver, _ := f.receive(b)
	host, err := newSilentHost(b)
	if err != nil {
		return err
	}
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "closed"}, Spec: gatingv1.GateSpec{Closed: true}}
	if err := errors.Join(
		f.addTenant(ctx, gate, host, waiting, slow),
		f.addApplications(ctx, f.names, revisionOf(0)),
		f.watch(ctx), f.startController(ctx, receiver), f.known(ctx), f.settled(ctx), host.connected(ctx),
	); err != nil {
		return err
	}
	most := map[string]float64{"last": 1000}
	times, _, err := f.promoteOneByOne(ctx)
	if err != nil {
		return err
	}
	r.ranks(size, "promotion while others wait, and a Git host does not answer, more than the bare watch", times, most)
	gate.Spec.Closed = false
	if err := f.client.Update(ctx, gate); err != nil {
		return err
	}
	if times, _, err = f.promoteOneByOne(ctx); err != nil {
		return err
	}
	r.ranks(size, "promotion while all others are promoted, more than the bare watch", times, most)
	return nil
}

// gate measures gate-controller with n sources on one gate. The real source-controller and notification-controller run.
func (r *report) gate(b *testing.B, n int) error {
	ctx, size := b.Context(), thousands(n, "sources")
	args, err := localcluster.DeploymentArgs(filepath.Join(configDir, gateControllerName, "deployment.yaml"))
	if err != nil {
		return err
	}
	args = slices.DeleteFunc(args, func(arg string) bool {
		return arg == "--enable-leader-election" || strings.HasPrefix(arg, "--events-addr=")
	})
	w := start(ctx, b, options{sources: n, args: args, flux: []localcluster.FluxController{localcluster.SourceController, localcluster.NotificationController}})
	if err := w.gateController.Stop(); err != nil {
		return err
	}
	started := time.Now()
	if err := errors.Join(w.gateController.Start(ctx), w.reconciled(ctx)); err != nil {
		return err
	}
	r.add(size, "start until all are known, unchanged, s", time.Since(started).Seconds())
	last, err := w.gateControllerMetrics(ctx)
	if err != nil {
		return err
	}
	r.within(size, "writes at that start", last.writes(), 0)
	r.add(size, "resident memory after the start, MB", last.resident())
	for _, turn := range []struct {
		closed                  bool
		name, condition, source string
	}{
		{true, "closing", "`GatesOpen` is `False`", "held"},
		{false, "opening", "`GatesOpen` is `True`", "released"},
	} {
		result, err := w.measure(ctx, turn.closed)
		if err != nil {
			return err
		}
		if err := w.fluxDone(ctx); err != nil {
			return err
		}
		samples, err := w.gateControllerMetrics(ctx)
		if err != nil {
			return err
		}
		if turn.closed {
			r.ranks(size, "closing: the first condition is `False`", result.backstop, nil)
		}
		r.ranks(size, turn.name+": "+turn.condition, result.conditions, nil)
		r.ranks(size, turn.name+": "+turn.source, result.suspensions, nil)
		requests, most := result.aboutSources()
		r.add(size, turn.name+": requests for each source, with the event", float64(requests)/float64(n))
		r.add(size, turn.name+": requests for each source, at most", float64(most))
		r.add(size, turn.name+": requests for the Gate", float64(len(result.others)))
		r.add(size, turn.name+": CPU time for each source, ms", 1000*(samples.processorTime()-last.processorTime())/float64(n))
		r.add(size, turn.name+": resident memory after that, MB", samples.resident())
		if turn.closed {
			if err := wait(ctx, *quietFor); err != nil {
				return err
			}
			quiet, err := w.gateControllerMetrics(ctx)
			if err != nil {
				return err
			}
			r.within(size, "writes, while all are held", quiet.writes()-samples.writes(), 0)
			samples = quiet
		}
		last = samples
	}
	return nil
}

// perItem adds the requests for each of n items, by method, between two times. Most maps a method to its budget.
func (r *report) perItem(size, what, item string, before, after metrics, n int, most map[string]float64) {
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		label := `method="` + method + `"`
		value := (after.sum(requestsMetric, label) - before.sum(requestsMetric, label)) / float64(n)
		name := fmt.Sprintf("%s: %s requests for each %s", what, method, item)
		if budget, ok := most[method]; ok {
			r.within(size, name, math.Round(100*value)/100, budget)
		} else if value > 0 {
			r.add(size, name, value)
		}
	}
	const conflict = `code="409"`
	if conflicts := after.sum(requestsMetric, conflict) - before.sum(requestsMetric, conflict); conflicts > 0 {
		r.add(size, what+": requests refused as conflicts for each "+item, conflicts/float64(n))
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reportTimes reports the median, the 99th percentile and the maximum.
func reportTimes(b *testing.B, what string, times []time.Duration) {
	times = slices.Sorted(slices.Values(times))
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "last": 1} {
		b.ReportMetric(rank(times, part).Seconds(), "s-"+what+"-"+name)
	}
}

// rank returns the time that a part of sorted times does not exceed.
func rank(times []time.Duration, part float64) time.Duration {
	return times[int(math.Ceil(part*float64(len(times))))-1]
}

func (w *world) gateControllerMetrics(ctx context.Context) (metrics, error) {
	return scrape(ctx, http.DefaultClient, "http://"+w.gateController.MetricsAddr)
}

// requestsMetric counts the requests of a controller to the API server, with the label method.
const requestsMetric = "rest_client_requests_total"

// requests returns the number of requests to the API server.
func (m metrics) requests() float64 { return m.sum(requestsMetric) }

// writes returns the number of requests that change objects. POST is not one of them: it also creates access reviews.
func (m metrics) writes() float64 {
	return m.requests() - m.sum(requestsMetric, `method="GET"`) - m.sum(requestsMetric, `method="POST"`)
}

// resident returns the resident memory in MB.
func (m metrics) resident() float64 { return m.sum("process_resident_memory_bytes") / 1e6 }

// processorTime returns the CPU seconds that the process has used.
func (m metrics) processorTime() float64 { return m.sum("process_cpu_seconds_total") }
