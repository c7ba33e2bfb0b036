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

package e2e

import (
	"context"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

// tries is the number of times that each bypass is tried. Some have two variants, which alternate.
var tries = []struct {
	rounds int
	labels Labels
}{{2, nil}, {10, slow}}

// way is a bypass of a closed gate.
type way struct {
	name, group string
	// fresh ways create their own sources. The others use sources that published something before the gate closed.
	fresh bool
	// try tries the bypass once, after a version was published upstream, and returns the sources afterwards.
	try func(ctx context.Context, g *group, round int) []*unstructured.Unstructured
}

var _ = Describe("Nothing gets past a closed gate", Ordered, func() {
	var up *upstream.Server

	BeforeAll(func(ctx SpecContext) { up = startUpstream(ctx) })

	ways := []way{
		{name: "by creating the source", group: "by-creation", fresh: true, try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			var sources []*unstructured.Unstructured
			for _, line := range g.lines {
				name := fmt.Sprintf("%s-%d", g.upstreamOf(line), round)
				apply(ctx, "%s", g.manifest(line, name, ""))
				sources = append(sources, object(sourceAPI, line.kind, flux, name))
			}
			return now(ctx, sources)
		}},
		{name: "by asking for another ref, prefix, URL or version", group: "by-edit", try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			sources := now(ctx, g.sources())
			for i, line := range g.lines {
				before := sources[i].GetGeneration()
				edit := line.edits(g.upstreamOf(line), version(round))[round%2]
				Expect(world.Client.Patch(ctx, sources[i], client.RawPatch(types.MergePatchType, []byte(`{"spec":`+edit+`}`)))).To(Succeed())
				Expect(sources[i].GetGeneration()).To(BeNumerically(">", before), edit)
			}
			return sources
		}},
		{name: "by flux resume", group: "by-resume", try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			before := g.sentinel.resumptions()
			for i, line := range g.lines {
				// It accepts a source that is held again, and returns what that had published before.
				wait := round == 1 && i == 0
				_, err := run(ctx, "flux", "resume", "source", line.cli, g.sources()[i].GetName(), fmt.Sprintf("--wait=%t", wait), "--timeout=1m")
				Expect(err).NotTo(HaveOccurred())
			}
			sources := now(ctx, g.sources())
			g.resumed(ctx, before)
			return sources
		}},
		{name: "by flux reconcile, or by the annotation that it sets", group: "by-request", try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			sources := g.sources()
			for i, line := range g.lines {
				_, err := run(ctx, "flux", "reconcile", "source", line.cli, sources[i].GetName())
				Expect(err).To(MatchError(ContainSubstring("resource is suspended")))
				annotate(ctx, sources[i], meta.ReconcileRequestAnnotation, version(round))
			}
			return now(ctx, sources)
		}},
		{name: "by 'suspend: false' in Git", group: "by-git", try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			if round == 1 {
				g.fromGit(ctx)
			}
			before := g.sentinel.resumptions()
			request(ctx, object(kustomizeAPI, kustomizev1.KustomizationKind, flux, g.name))
			sources := now(ctx, g.sources())
			g.resumed(ctx, before)
			return sources
		}},
		{name: "by deleting the source and creating it again", group: "by-recreation", try: func(ctx context.Context, g *group, round int) []*unstructured.Unstructured {
			sources := now(ctx, g.sources())
			for _, source := range sources {
				Expect(world.Client.Delete(ctx, source)).To(Succeed())
			}
			var again []*unstructured.Unstructured
			for i, line := range g.lines {
				Eventually(ctx, func(ctx context.Context) error {
					return world.Client.Get(ctx, client.ObjectKeyFromObject(sources[i]), sources[i].DeepCopy())
				}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
				apply(ctx, "%s", g.manifest(line, sources[i].GetName(), ""))
				recreated := now(ctx, []*unstructured.Unstructured{sources[i].DeepCopy()})[0]
				Expect(recreated.GetUID()).NotTo(Equal(sources[i].GetUID()))
				again = append(again, recreated)
			}
			return again
		}},
		{name: "by a write of the status that says the gates are open", group: "by-status", try: byStatusWrite},
	}

	pass := func(way way, rounds int) func(SpecContext) {
		return func(ctx SpecContext) {
			g := newGroup(ctx, fmt.Sprintf("%s-%d", way.group, rounds), lines(up))
			g.publish(ctx, 0)
			if way.fresh {
				turnGate(ctx, g.name, true)
				for _, line := range g.lines {
					apply(ctx, "%s", line.repositoryManifest(g.upstreamOf(line), g.name))
				}
			} else {
				g.establish(ctx)
				g.hold(ctx)
			}
			g.sentinel.close()

			for round := 1; round <= rounds; round++ {
				g.publish(ctx, round)
				g.expectHeld(ctx, way.try(ctx, g, round)...)
				Expect(g.sentinel.leaks()).To(BeEmpty(), "round %d", round)
			}

			sources := g.sentinel.sources()
			if way.fresh {
				Expect(sources).To(HaveLen(rounds * len(g.lines)))
			} else {
				Expect(sources).To(HaveLen(len(g.lines)))
			}
			for _, source := range sources {
				if published(source) != "" {
					Expect(content(source)(ctx)).To(And(ContainSubstring(version(0)), Not(ContainSubstring(version(rounds)))), "what was published before has to stay: %s", key(source))
				}
			}

			By("opening the gate")
			g.sentinel.open()
			turnGate(ctx, g.name, false)
			for _, source := range sources {
				Eventually(ctx, content(source)).Should(ContainSubstring(version(rounds)), key(source))
			}
			Expect(g.sentinel.leaks()).To(BeEmpty())
		}
	}
	for _, way := range ways {
		for _, try := range tries {
			It(fmt.Sprintf("%s, %d times", way.name, try.rounds), try.labels, pass(way, try.rounds))
		}
	}

	It("by flux resume after a commit that leaves the content as it is, whose revision stays back too", func(ctx SpecContext) {
		g := newGroup(ctx, "by-revision", lines(up)[:1])
		g.publish(ctx, 0)
		g.establish(ctx)
		g.hold(ctx)
		g.sentinel.close()
		// source-controller ignores such files.
		Expect(world.Commit(g.upstreamOf(g.lines[0]), "Run checks", map[string]string{".github/workflows/checks.yaml": "on: push"})).To(Succeed())

		before := g.sentinel.resumptions()
		_, err := run(ctx, "flux", "resume", "source", "git", g.sources()[0].GetName(), "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		g.resumed(ctx, before)
		g.expectHeld(ctx, now(ctx, g.sources())...)
		Expect(g.sentinel.leaks()).To(BeEmpty())
	})

	passByHelmRelease := func(ctx SpecContext, rounds int) {
		helm, err := world.Cluster.StartFlux(ctx, localcluster.HelmController)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(helm.Stop)

		g := newGroup(ctx, fmt.Sprintf("by-helmrelease-%d", rounds), nil)
		publish := func(version string) {
			GinkgoHelper()
			Expect(up.PublishChart(g.name, "app", version)).To(Succeed())
		}
		publish(version(0))
		turnGate(ctx, g.name, false)
		release := object(helmAPI, helmv2.HelmReleaseKind, flux, g.name)
		chart := object(sourceAPI, sourcev1.HelmChartKind, flux, flux+"-"+g.name)
		repository := object(sourceAPI, sourcev1.HelmRepositoryKind, flux, g.name)
		// asksFor makes the HelmRelease request a version of the chart.
		asksFor := func(version string) {
			GinkgoHelper()
			apply(ctx, `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %[1]s, namespace: flux-system, labels: {%[2]s: %[1]s}}
spec:
  interval: 24h
  chart:
    metadata: {annotations: {gating.toolkit.fluxcd.io/gates: %[1]s}, labels: {%[2]s: %[1]s}}
    spec: {chart: app, version: '%[3]s', interval: 24h, sourceRef: {kind: HelmRepository, name: %[1]s}}
`, g.name, groupLabel, version)
		}
		apply(ctx, "{apiVersion: %s, kind: HelmRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 24h, url: '%s'}}",
			sourceAPI, g.name, up.HelmURL(g.name))
		asksFor("*")
		DeferCleanup(func(ctx SpecContext) {
			Expect(world.Client.Delete(ctx, release)).To(Succeed())
			Eventually(ctx, field(release, "metadata", "uid")).Should(BeNil())
			Expect(world.Client.Delete(ctx, repository)).To(Succeed())
		})
		released := field(object("v1", "ConfigMap", flux, g.name), "data", "version")
		Eventually(ctx, released).Should(Equal(version(0)))
		turnGate(ctx, g.name, true)
		g.expectHeld(ctx, now(ctx, []*unstructured.Unstructured{chart})...)
		g.sentinel.close()

		for round := 1; round <= rounds; round++ {
			publish(version(round))
			request(ctx, repository)
			asksFor([]string{"*", version(round)}[round%2])
			request(ctx, release)
			_, err := run(ctx, "flux", "resume", "source", "chart", chart.GetName(), "--wait=false")
			Expect(err).NotTo(HaveOccurred())
			g.expectHeld(ctx, now(ctx, []*unstructured.Unstructured{chart})...)
			request(ctx, release)
			Expect(g.sentinel.leaks()).To(BeEmpty(), "round %d", round)
			Expect(released(ctx)).To(Equal(version(0)))
		}

		By("opening the gate")
		g.sentinel.open()
		turnGate(ctx, g.name, false)
		Eventually(ctx, released).Should(Equal(version(rounds)))
	}
	for _, try := range tries {
		It(fmt.Sprintf("by a HelmRelease that makes the HelmChart, %d times", try.rounds), try.labels, func(ctx SpecContext) {
			passByHelmRelease(ctx, try.rounds)
		})
	}
})
