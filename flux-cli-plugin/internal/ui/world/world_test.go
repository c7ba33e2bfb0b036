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

package world_test

import (
	"context"
	"testing"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/uitest"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/world"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func everything() []client.Object {
	return []client.Object{
		&pipelinesv1.Pipeline{ObjectMeta: named("team-a", "app")}, &pipelinesv1.Pipeline{ObjectMeta: named("flux-system", "app")},
		&gatingv1.Gate{ObjectMeta: named("flux-system", "freeze")}, &gatingv1.Gate{ObjectMeta: named("team-a", "freeze")},
		&sourcev1.GitRepository{ObjectMeta: named("flux-system", "app")}, &sourcev1.Bucket{ObjectMeta: named("flux-system", "app")},
		&corev1.Event{ObjectMeta: named("flux-system", "app.1"), InvolvedObject: corev1.ObjectReference{Kind: "Pipeline"}},
		&corev1.Event{ObjectMeta: named("flux-system", "freeze.1"), InvolvedObject: corev1.ObjectReference{Kind: "Gate"}},
		&corev1.Secret{ObjectMeta: named("flux-system", "token")},
	}
}

func start(t *testing.T, cluster *uitest.Cluster, namespaces ...string) *world.World {
	t.Helper()
	starting, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	started, err := world.Start(t.Context(), starting, world.Options{Kube: cluster, Namespaces: namespaces, Now: time.Now})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return started
}

func TestTheWorldHasEverythingThatMayBeListed(t *testing.T) {
	g := NewWithT(t)
	seen := start(t, uitest.New(t, everything()...), "flux-system").Snapshot()
	g.Expect(seen.Limits).To(BeEmpty())
	g.Expect(seen.Away).To(BeNil())
	g.Expect(seen.Pipelines).To(HaveLen(2))
	g.Expect(seen.Pipelines[0].Namespace).To(Equal("flux-system"))
	g.Expect(seen.Gates).To(HaveLen(2))
	g.Expect(seen.Events).To(HaveLen(2))
	g.Expect(seen.Sources).To(HaveLen(2), "two sources of the same name are of different kinds")
	g.Expect(seen.Pipeline(client.ObjectKey{Namespace: "team-a", Name: "app"})).NotTo(BeNil())
	g.Expect(seen.Pipeline(client.ObjectKey{Namespace: "team-b", Name: "app"})).To(BeNil())
}

func TestChangesArrive(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, everything()...)
	started := start(t, cluster, "flux-system")
	changes, stop := started.Listen()
	defer stop()
	gate := &gatingv1.Gate{}
	g.Expect(cluster.Get(t.Context(), client.ObjectKey{Namespace: "flux-system", Name: "freeze"}, gate)).To(Succeed())
	gate.Spec.Closed = true
	g.Expect(cluster.Update(t.Context(), gate)).To(Succeed())
	g.Eventually(changes).Should(Receive())
	g.Eventually(func() bool { return started.Snapshot().Gates[0].Spec.Closed }).Should(BeTrue())

	g.Expect(cluster.Delete(t.Context(), gate)).To(Succeed())
	g.Eventually(func() int { return len(started.Snapshot().Gates) }).Should(Equal(1))
}

// kinds are all kinds of the cluster.
const kinds = "Pipelines, Gates, GatePasses, events of Pipelines, events of Gates, GitRepositories, OCIRepositories, Buckets, HelmRepositories, HelmCharts, ExternalArtifacts, ImageUpdateAutomations"

func TestWhatMayNotBeListedIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name       string
		allowed    []string
		namespaces []string
		pipelines  int
		limit      string
	}{
		{
			name: "some namespaces", allowed: []string{"team-a"}, namespaces: []string{"team-a"}, pipelines: 1,
			limit: "you may not list and watch " + kinds + " in all namespaces: showing namespace team-a only",
		},
		{
			name: "not all of the namespaces asked for", allowed: []string{"team-a"}, namespaces: []string{"flux-system", "team-a"}, pipelines: 1,
			limit: "you may not list and watch " + kinds + " in namespace flux-system, nor in all namespaces: showing namespace team-a only",
		},
		{
			name: "none", allowed: []string{}, namespaces: []string{"flux-system", "team-a"},
			limit: "you may not list and watch " + kinds + " in namespaces flux-system, team-a",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := uitest.New(t, everything()...)
			cluster.AllowOnly(tt.allowed...)
			seen := start(t, cluster, tt.namespaces...).Snapshot()
			g.Expect(seen.Pipelines).To(HaveLen(tt.pipelines))
			g.Expect(seen.Limits).To(Equal([]string{tt.limit}))
		})
	}
}

func TestRightsThatAreTakenAwayTakeObjectsAway(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, everything()...)
	cluster.AllowOnly("team-a", "flux-system")
	started := start(t, cluster, "team-a", "flux-system")
	g.Expect(started.Snapshot().Pipelines).To(HaveLen(2))

	cluster.AllowOnly("team-a")
	cluster.Leave(true)
	cluster.Leave(false)
	g.Eventually(func() []*pipelinesv1.Pipeline { return started.Snapshot().Pipelines }, "10s").Should(HaveLen(1))
	g.Expect(started.Snapshot().Limits).To(ContainElement(ContainSubstring("in namespace flux-system")))
}

func TestTheWorldSaysThatTheAPIServerIsAwayAndRecovers(t *testing.T) {
	g := NewWithT(t)
	cluster := uitest.New(t, everything()...)
	started := start(t, cluster)

	cluster.Leave(true)
	g.Eventually(func() *world.Away { return started.Snapshot().Away }, "10s").Should(HaveField("Error", "connection refused"))
	g.Expect(started.Snapshot().Pipelines).To(HaveLen(2), "what was known stays")

	cluster.Leave(false)
	g.Expect(cluster.Create(t.Context(), &gatingv1.Gate{ObjectMeta: named("team-b", "new")})).To(Succeed())
	g.Eventually(func() *world.Away { return started.Snapshot().Away }, "10s").Should(BeNil())
	g.Eventually(func() []*gatingv1.Gate { return started.Snapshot().Gates }, "10s").Should(HaveLen(3))
}

func TestAClusterThatDoesNotAnswerIsAnError(t *testing.T) {
	cluster := uitest.New(t)
	cluster.Leave(true)
	_, err := world.Start(t.Context(), t.Context(), world.Options{Kube: cluster, Now: time.Now})
	NewWithT(t).Expect(err).To(MatchError("listing Pipelines failed: connection refused"))
}
