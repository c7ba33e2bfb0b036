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
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// TestFreezeWithoutGateController closes a gate while gate-controller is down and the sources publish a new revision.
func TestFreezeWithoutGateController(t *testing.T) {
	g := NewWithT(t)
	w := start(t.Context(), t, options{sources: 2 * block, flux: []localcluster.FluxController{localcluster.SourceController}})
	f, err := w.freeze(t.Context(), block/4)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.refused).NotTo(BeEmpty())
	g.Expect(f.late).To(BeEmpty(), "published after the first refusal")
	g.Expect(f.changed).To(Equal(len(f.published)), "those that were accepted are those that were published")
}

// BenchmarkFreeze does so with many sources. It measures for how long new revisions are still published.
func BenchmarkFreeze(b *testing.B) {
	w := start(b.Context(), b, options{sources: *sources, flux: []localcluster.FluxController{localcluster.SourceController}})
	f, err := w.freeze(b.Context(), *sources/10)
	if err != nil {
		b.Fatal(err)
	}
	if len(f.late) > 0 || f.changed != len(f.published) {
		b.Fatalf("%d were published after the first refusal; %d have changed, and %d were accepted", len(f.late), f.changed, len(f.published))
	}
	first, last := f.refused[0], f.published[len(f.published)-1]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(f.published)), "published")
	b.ReportMetric(float64(len(f.refused)), "writes-refused")
	b.ReportMetric(f.after(first), "ms-to-first-refusal")
	b.ReportMetric(f.after(last), "ms-to-last-published")
}

// frozen is the result of closing a gate while gate-controller is down.
type frozen struct {
	// closed is the time at which the API server confirmed that the gate is closed.
	closed time.Time
	// published and refused are source-controller's writes of new artifacts, ordered by the time of the response.
	published, refused []request
	// late are writes that the API server received after its first refusal and accepted.
	late []request
	// changed is the number of sources with a new artifact.
	changed int
}

// after returns the milliseconds between the closing and the response.
func (f *frozen) after(r request) float64 { return float64(r.At.Sub(f.closed).Microseconds()) / 1000 }

// freeze stops gate-controller, pushes new revisions, and requests all sources. It closes the gate once some sources
// have published theirs, and waits until source-controller has tried to publish all others.
func (w *world) freeze(ctx context.Context, some int) (*frozen, error) {
	if err := w.gateController.Stop(); err != nil {
		return nil, err
	}
	before, err := w.states(ctx)
	if err != nil {
		return nil, err
	}
	position, err := w.audit.end()
	if err != nil {
		return nil, err
	}
	if err := w.upstreams.push("2.0.0"); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.request(groupCtx) })
	if err := w.tried(ctx, position, some); err != nil {
		return nil, err
	}
	f := &frozen{}
	if err := w.turn(ctx, true); err != nil {
		return nil, err
	}
	f.closed = time.Now()
	if err := group.Wait(); err != nil {
		return nil, err
	}
	charts := slices.DeleteFunc(slices.Clone(w.sources), func(name string) bool { return kindOfName(name) != sourcev1.HelmChartKind })
	if err := w.tried(ctx, position, len(w.sources)-len(charts)); err != nil {
		return nil, err
	}
	if err := w.cluster.Process(string(localcluster.SourceController)).Stop(); err != nil {
		return nil, err
	}
	requests, err := w.audit.since(ctx, position)
	if err != nil {
		return nil, err
	}
	f.sort(requests)
	after, err := w.states(ctx)
	for name, state := range after {
		if state.revision != before[name].revision {
			f.changed++
		}
	}
	return f, err
}

// sort selects the writes of artifacts.
func (f *frozen) sort(requests []request) {
	slices.SortFunc(requests, func(a, b request) int { return a.At.Compare(b.At) })
	for _, r := range requests {
		switch {
		case !r.publishes():
		case r.ResponseStatus.Code == http.StatusOK:
			f.published = append(f.published, r)
			if len(f.refused) > 0 && r.Received.After(f.refused[0].At) {
				f.late = append(f.late, r)
			}
		default:
			f.refused = append(f.refused, r)
		}
	}
}

// publishes reports whether the request writes a new artifact.
func (r request) publishes() bool {
	return r.User.Username == sourceControllerUser && r.RequestObject.Status.Artifact != nil
}

// request requests all sources from source-controller.
func (w *world) request(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, meta.ReconcileRequestAnnotation)
	for _, name := range w.sources {
		source := &unstructured.Unstructured{}
		source.SetGroupVersionKind(sourcev1.GroupVersion.WithKind(kindOfName(name)))
		source.SetNamespace(localcluster.FluxNamespace)
		source.SetName(name)
		if err := w.client.Patch(ctx, source, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	return nil
}

// kindOfName returns the kind of a source, which is the prefix of its name.
func kindOfName(name string) string {
	lower, _, _ := strings.Cut(name, "-")
	return gatingv1.SourceKinds[slices.IndexFunc(gatingv1.SourceKinds, func(kind string) bool { return strings.ToLower(kind) == lower })]
}

// tried waits until source-controller has tried to publish n sources since a position in the log, with any outcome.
// HelmCharts don't count: they have nothing new before their HelmRepository.
func (w *world) tried(ctx context.Context, position int64, n int) error {
	return poll(ctx, fmt.Sprintf("source-controller to publish %d sources", n), func(context.Context) error {
		requests, _, err := w.audit.soFar(position)
		if err != nil {
			return err
		}
		tried := map[string]bool{}
		for _, r := range requests {
			if r.publishes() && kindOfName(r.ObjectRef.Name) != sourcev1.HelmChartKind {
				tried[r.ObjectRef.Name] = true
			}
		}
		if len(tried) < n {
			return fmt.Errorf("it has tried %d", len(tried))
		}
		return nil
	})
}
