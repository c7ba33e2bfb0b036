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
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/standin"
)

// promotions is the number of Pipelines whose promotion waits for the gate.
const promotions = 20

// BenchmarkEdge measures how long after the edges of a gate's window sources are held, sources are released, and
// promotions complete. It does so with running controllers, and with controllers that were killed and restarted before
// each edge.
func BenchmarkEdge(b *testing.B) {
	arrivals := make(chan string, promotions)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			Reason         string
			InvolvedObject struct{ Name string }
		}
		if json.NewDecoder(r.Body).Decode(&event) == nil && event.Reason == "Promote" {
			arrivals <- event.InvolvedObject.Name
		}
	}))
	b.Cleanup(receiver.Close)
	w := start(b.Context(), b, options{sources: 5 * block, args: []string{"--events-addr=" + receiver.URL}})
	pipelineController, err := w.addPipelines(b.Context(), receiver.URL)
	if err != nil {
		b.Fatal(err)
	}
	restart := func() error {
		processes := []*localcluster.Process{w.gateController, pipelineController}
		for _, process := range processes {
			if err := errors.Join(process.Kill(), process.Start(b.Context())); err != nil {
				return err
			}
		}
		return nil
	}
	revision := 1
	for name, before := range map[string]func() error{"waiting": func() error { return nil }, "restarted": restart} {
		b.Run(name, func(b *testing.B) {
			var all edges
			for b.Loop() {
				revision++
				e, err := w.passWindow(b.Context(), revision, before, arrivals)
				if err != nil {
					b.Fatal(err)
				}
				all.held, all.released, all.promoted = append(all.held, e.held...), append(all.released, e.released...), append(all.promoted, e.promoted...)
			}
			b.ReportMetric(0, "ns/op")
			reportTimes(b, "held", all.held)
			reportTimes(b, "released", all.released)
			reportTimes(b, "promoted", all.promoted)
		})
	}
}

// edges holds the delay of each source and promotion after its edge.
type edges struct{ held, released, promoted []time.Duration }

// addPipelines creates Pipelines whose promotion waits for the gate, and starts pipeline-controller.
func (w *world) addPipelines(ctx context.Context, eventsAddr string) (*localcluster.Process, error) {
	if err := w.run(ctx, "v1", "one", "two"); err != nil {
		return nil, err
	}
	var manifests strings.Builder
	for i := range promotions {
		fmt.Fprintf(&manifests, `
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: %[1]s}
  environments: [{name: one, targets: [{namespace: one}]}, {name: two, targets: [{namespace: two}]}]
  promotion: {gates: {refs: [%[2]s]}, strategy: {notification: {}}}
`, appName(i), gateName)
	}
	if err := w.cluster.Apply(ctx, []byte(manifests.String())); err != nil {
		return nil, err
	}
	return w.cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: "pipeline-controller", ServiceAccount: "pipeline-controller", Args: []string{"--events-addr=" + eventsAddr, "--approval-addr="},
	})
}

func appName(i int) string { return fmt.Sprintf("app-%02d", i) }

// run sets the revision of all applications in namespaces.
func (w *world) run(ctx context.Context, revision string, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := w.cluster.Apply(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")); err != nil {
			return err
		}
		for i := range promotions {
			app := standin.Application{Key: client.ObjectKey{Namespace: namespace, Name: appName(i)}, Revision: revision, Ready: metav1.ConditionTrue}
			if err := app.Put(ctx, w.client); err != nil {
				return err
			}
		}
	}
	return nil
}

// passWindow closes the gate by a window, has a new revision wait for promotion, and measures the delays at both edges.
// It calls before when everything waits for an edge.
func (w *world) passWindow(ctx context.Context, revision int, before func() error, arrivals <-chan string) (*edges, error) {
	from := time.Now().Add(10 * time.Second).Truncate(time.Second)
	to := from.Add(20 * time.Second)
	if err := w.closeDuring(ctx, from, to); err != nil {
		return nil, err
	}
	held, err := w.watchSources(ctx, func(s sourceState) bool { return s.suspended })
	if err != nil {
		return nil, err
	}
	if err := before(); err != nil {
		return nil, err
	}
	e := &edges{}
	if e.held, err = held[0].times(len(w.sources), from); err != nil {
		return nil, err
	}
	released, err := w.watchSources(ctx, func(s sourceState) bool { return !s.suspended && s.open && s.told })
	if err != nil {
		return nil, err
	}
	if err := w.run(ctx, fmt.Sprintf("v%d", revision), "one"); err != nil {
		return nil, err
	}
	if err := w.waiting(ctx); err != nil {
		return nil, err
	}
	if err := before(); err != nil {
		return nil, err
	}
	if late := time.Since(to); late > 0 {
		return nil, fmt.Errorf("the window ended %s before all waited for that", late)
	}
	arrived := map[string]bool{}
	for len(arrived) < promotions {
		select {
		case name := <-arrivals:
			if !arrived[name] {
				e.promoted = append(e.promoted, time.Since(to))
			}
			arrived[name] = true
		case <-time.After(patience):
			return nil, fmt.Errorf("%d promotions of %d have arrived", len(arrived), promotions)
		}
	}
	e.released, err = released[0].times(len(w.sources), to)
	return e, err
}

func (w *world) closeDuring(ctx context.Context, from, to time.Time) error {
	const clock = "2006-01-02T15:04:05"
	patch := fmt.Appendf(nil, `{"spec":{"closedDuring":[{"name":"window","from":%q,"to":%q}]}}`, from.UTC().Format(clock), to.UTC().Format(clock))
	gate := &gatingv1.Gate{}
	gate.Namespace, gate.Name = localcluster.FluxNamespace, gateName
	return w.client.Patch(ctx, gate, client.RawPatch(types.MergePatchType, patch))
}

// waiting waits until all promotions wait for the gate.
func (w *world) waiting(ctx context.Context) error {
	return poll(ctx, "all promotions to wait", func(ctx context.Context) error {
		var pipelines pipelinesv1.PipelineList
		if err := w.client.List(ctx, &pipelines); err != nil {
			return err
		}
		for _, pipeline := range pipelines.Items {
			if pipeline.WaitsForGates("two") == nil {
				return fmt.Errorf("%s does not", pipeline.Name)
			}
		}
		return nil
	})
}
