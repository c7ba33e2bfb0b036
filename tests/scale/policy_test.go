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
	"slices"
	"strings"
	"testing"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// gatesOfPolicy is the number of Gates in the source's namespace. The policy reads all of them for each new artifact.
const gatesOfPolicy = 50

// policyWorld is an API server with Sluice's policies, Gates, and a source whose gates are open. No controller runs.
type policyWorld struct {
	cluster *localcluster.Cluster
	client  client.Client
	writes  int
}

func newPolicyWorld(b *testing.B) *policyWorld {
	b.Helper()
	cluster, err := localcluster.Start(b.Context(), localcluster.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cluster.Stop() })
	w := &policyWorld{cluster: cluster}
	if w.client, err = client.New(cluster.Config, client.Options{}); err != nil {
		b.Fatal(err)
	}
	if err := cluster.ApplyKustomization(b.Context(), "../../config/default", "Deployment"); err != nil {
		b.Fatal(err)
	}
	var manifests strings.Builder
	for i := range gatesOfPolicy {
		fmt.Fprintf(&manifests, "---\n{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: gate-%d, namespace: flux-system}, spec: {closed: false}}\n", i)
	}
	manifests.WriteString(`---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: app, namespace: flux-system, annotations: {gating.toolkit.fluxcd.io/gates: "gate-0,gate-1"}}
spec: {interval: 1h, url: "https://example.com/app"}
`)
	if err := cluster.Apply(b.Context(), []byte(manifests.String())); err != nil {
		b.Fatal(err)
	}
	return w
}

// publish writes a new artifact to the status of the source, as source-controller does.
func (w *policyWorld) publish(ctx context.Context) error {
	w.writes++
	source := &unstructured.Unstructured{}
	source.SetAPIVersion(sourcev1.GroupVersion.String())
	source.SetKind(sourcev1.GitRepositoryKind)
	source.SetNamespace(localcluster.FluxNamespace)
	source.SetName("app")
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"GatesOpen","status":"True","reason":"AllGatesOpen","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}],
		"artifact":{"digest":"sha256:%064d","lastUpdateTime":"2026-01-01T00:00:00Z","path":"p","revision":"r","url":"u"}}}`, w.writes)
	return w.client.Status().Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (w *policyWorld) turn(ctx context.Context, closed bool) error {
	gate := &unstructured.Unstructured{}
	gate.SetAPIVersion("gating.toolkit.fluxcd.io/v1alpha1")
	gate.SetKind("Gate")
	gate.SetNamespace(localcluster.FluxNamespace)
	gate.SetName("gate-1")
	return w.client.Patch(ctx, gate, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"closed":%t}}`, closed)))
}

// until publishes until the API server refuses it, or accepts it.
func (w *policyWorld) until(ctx context.Context, refused bool) error {
	for {
		err := w.publish(ctx)
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		if (err != nil) == refused {
			return ctx.Err()
		}
	}
}

// BenchmarkPolicy measures the write of a new artifact with 50 Gates, with and without the policy.
func BenchmarkPolicy(b *testing.B) {
	w := newPolicyWorld(b)
	if err := w.until(b.Context(), false); err != nil {
		b.Fatal(err)
	}
	write := func(b *testing.B) {
		for b.Loop() {
			if err := w.publish(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("with 50 gates", write)
	for _, name := range []string{"sluice-closed-gates", "sluice-closed-gates-of-flux-system"} {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("admissionregistration.k8s.io/v1")
		binding.SetKind("ValidatingAdmissionPolicyBinding")
		binding.SetName(name)
		if err := w.client.Delete(b.Context(), binding); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.turn(b.Context(), true); err != nil {
		b.Fatal(err)
	}
	if err := w.until(b.Context(), false); err != nil { // until the API server no longer uses the binding
		b.Fatal(err)
	}
	b.Run("without", write)
}

// BenchmarkRefusal measures the time from the closing of a gate to the first refusal. No artifact is published after
// that.
func BenchmarkRefusal(b *testing.B) {
	w := newPolicyWorld(b)
	var lags []time.Duration
	for b.Loop() {
		if err := w.turn(b.Context(), false); err != nil {
			b.Fatal(err)
		}
		if err := w.until(b.Context(), false); err != nil {
			b.Fatal(err)
		}
		if err := w.turn(b.Context(), true); err != nil {
			b.Fatal(err)
		}
		closed := time.Now()
		if err := w.until(b.Context(), true); err != nil {
			b.Fatal(err)
		}
		lags = append(lags, time.Since(closed))
		for range 50 {
			if err := w.publish(b.Context()); !apierrors.IsForbidden(err) {
				b.Fatalf("published after the first refusal: %v", err)
			}
		}
	}
	slices.Sort(lags)
	b.ReportMetric(lags[len(lags)/2].Seconds()*1000, "ms-median")
	b.ReportMetric(lags[len(lags)-1].Seconds()*1000, "ms-longest")
}
