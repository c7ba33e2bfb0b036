//go:build soak && linux

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

package soak

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

var (
	// tenants are namespaces with healthy Pipelines.
	tenants = []string{"team-a", "team-b"}
	// doomedTenants are namespaces with Pipelines on hostile hosts and clusters.
	doomedTenants = []string{"mallory-a", "mallory-b"}
)

const (
	// leaves is the number of leaf clusters that fail and recover.
	leaves = 3
	// held is the number of sources of the gate, in addition to the source of the playground.
	held = 8
)

// world extends the playground: two replicas of each controller, many Pipelines of several tenants, hostile hosts and
// leaf clusters.
type world struct {
	*playground.Playground
	*journal

	// github is a healthy Git host.
	github *githost.Server
	// hostile are the hostile hosts, by the name of their behaviour.
	hostile map[string]*githost.Server
	leaves  []*leaf
	// nowhere is a leaf cluster that never responds.
	nowhere *leafserver.Line
	// controllers are the replicas of Sluice's controllers.
	controllers []*replica
	// flux are Flux's controllers and other processes that are restarted.
	flux      []*replica
	pipelines []*pipeline
	accepted  *acceptances
	sources   []string
}

// leaf is a leaf cluster behind a line that can fail.
type leaf struct {
	server *leafserver.Server
	line   *leafserver.Line
}

// start starts the world and returns when all Pipelines exist.
func start(ctx context.Context, t *testing.T, journal *journal) *world {
	g := NewWithT(t)
	ctrl.SetLogger(logr.Discard())
	w := &world{journal: journal, hostile: map[string]*githost.Server{}}
	var err error
	w.Playground, err = playground.Start(ctx, playground.Options{
		Flux: []localcluster.FluxController{localcluster.NotificationController}, Progress: func(step string) { w.say("%s", step) },
		KeepDir: true,
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(w.Stop()).To(Succeed())
		if t.Failed() {
			w.say("the logs are in %s", w.Cluster.Dir)
			return
		}
		g.Expect(os.RemoveAll(w.Cluster.Dir)).To(Succeed())
	})
	g.Expect(w.Seed(ctx)).To(Succeed())
	w.startHosts(t)
	w.startLeaves(t)
	w.startReplicas(ctx, t)
	w.makePipelines(ctx, t)
	w.makeSources(ctx, t)
	return w
}

// startHosts starts the Git hosts. They stop before the world does.
func (w *world) startHosts(t *testing.T) {
	g := NewWithT(t)
	var err error
	w.github, err = githost.New()
	g.Expect(err).NotTo(HaveOccurred())
	w.github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
	t.Cleanup(func() { g.Expect(w.github.Close()).To(Succeed()) })
	for _, h := range hostilities() {
		w.hostile[h.name], err = h.start()
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(w.hostile[h.name].Close()).To(Succeed()) })
	}
}

func (w *world) startLeaves(t *testing.T) {
	g := NewWithT(t)
	for range leaves {
		server, err := leafserver.Start(leafserver.Kustomization)
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
		line, err := leafserver.NewLine(server.URL())
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(line.Close()).To(Succeed()) })
		w.leaves = append(w.leaves, &leaf{server: server, line: line})
	}
	var err error
	w.nowhere, err = leafserver.Blackhole()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(w.nowhere.Close()).To(Succeed()) })
}

// startReplicas replaces each controller of the playground with two replicas, with leader election as in config/.
func (w *world) startReplicas(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	g.Expect(w.GateController.Stop()).To(Succeed())
	g.Expect(w.PipelineController.Stop()).To(Succeed())
	w.accepted = &acceptances{journal: w.journal, world: w, counts: map[promotionToken]int{}}
	events := httptest.NewServer(w.accepted.before(w.Cluster.EventsAddr))
	t.Cleanup(events.Close)
	for _, controller := range []string{"gate-controller", "pipeline-controller"} {
		args := []string{"--enable-leader-election", "--events-addr=" + events.URL}
		if controller == "pipeline-controller" {
			args = append(args, "--approval-addr=127.0.0.1:0")
		}
		for i := range 2 {
			process, err := w.Cluster.StartController(ctx, localcluster.ControllerProcess{
				Name: fmt.Sprintf("%s-%d", controller, i), Binary: controller, ServiceAccount: controller, Args: args,
			})
			g.Expect(err).NotTo(HaveOccurred())
			w.controllers = append(w.controllers, &replica{Process: process, controller: controller})
		}
	}
}

// makePipelines creates the tenants with their Secrets, gates, applications and Pipelines.
func (w *world) makePipelines(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	for _, namespace := range environments {
		g.Expect(w.apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)).To(Succeed())
	}
	for _, tenant := range tenants {
		g.Expect(w.makeTenant(ctx, tenant)).To(Succeed())
		w.pipelines = append(w.pipelines, w.healthyPipelines(tenant)...)
	}
	for _, tenant := range doomedTenants {
		g.Expect(w.makeTenant(ctx, tenant)).To(Succeed())
		w.pipelines = append(w.pipelines, w.doomedPipelines(tenant)...)
	}
	g.Expect(w.seedRepositories()).To(Succeed())
	group := sync.WaitGroup{}
	for _, p := range w.pipelines {
		group.Go(func() { g.Expect(w.makePipeline(ctx, p)).To(Succeed(), p.String()) })
	}
	group.Wait()
}

// makeTenant creates a namespace with a gate and the Secrets of all hosts and clusters.
func (w *world) makeTenant(ctx context.Context, tenant string) error {
	var manifests strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&manifests, "---\n"+format+"\n", args...) }
	add("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", tenant)
	add("{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: freeze, namespace: %s}, spec: {closed: false}}", tenant)
	secret := func(name, key string, content []byte) {
		add("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, stringData: {token: %s, %s: %q}}", name, tenant, token, key, content)
	}
	secret("github", "ca.crt", w.github.CA())
	for name, host := range w.hostile {
		secret(name, "ca.crt", host.CA())
	}
	for i, leaf := range w.leaves {
		secret(fmt.Sprintf("leaf-%d", i), "value", leafserver.Kubeconfig(leaf.line.URL(), leaf.server.CA(), leafserver.Token))
	}
	secret("leaf-refused", "value", leafserver.Kubeconfig("https://127.0.0.1:1", w.leaves[0].server.CA(), leafserver.Token))
	secret("leaf-nowhere", "value", leafserver.Kubeconfig(w.nowhere.URL(), w.leaves[0].server.CA(), leafserver.Token))
	return w.Cluster.Apply(ctx, []byte(manifests.String()))
}

// seedRepositories creates the repositories of all Pipelines, with the current versions of their applications.
func (w *world) seedRepositories() error {
	files := map[*githost.Server]map[string]map[string]string{} // by host, repository and path
	for _, p := range w.pipelines {
		if p.host == nil {
			continue
		}
		if files[p.host] == nil {
			files[p.host] = map[string]map[string]string{}
		}
		if files[p.host][p.repository] == nil {
			files[p.host][p.repository] = map[string]string{}
		}
		for _, env := range environments[1:] {
			if p.host == w.hostile[bulky] {
				files[p.host][p.repository][p.file(env)] = bulk
			}
			files[p.host][p.repository][p.file(env)] += p.line(env, "v0")
		}
	}
	for host, repositories := range files {
		for name, content := range repositories {
			if err := host.AddRepository(repositoryOwner, name); err != nil {
				return err
			}
			if _, err := host.CommitFiles(repositoryOwner, name, "main", content, "Begin"); err != nil {
				return err
			}
			if host == w.hostile[restless] {
				neverRest(host, name, content)
			}
		}
	}
	return nil
}

// makePipeline creates a Pipeline with its applications, which all run the same revision.
func (w *world) makePipeline(ctx context.Context, p *pipeline) error {
	for _, env := range environments {
		t := &target{namespace: env, name: p.name}
		if ref := p.clusterRefs[env]; ref != "" {
			for i, leaf := range w.leaves {
				if strings.Contains(ref, fmt.Sprintf("leaf-%d}", i)) {
					t.leaf = leaf.server
				}
			}
		}
		p.targets = append(p.targets, t)
		if err := t.deploy(ctx, w.Client, "v0"); err != nil {
			return err
		}
	}
	return w.apply(ctx, "%s", p.manifest())
}

// makeSources creates sources that all refer to one gate.
func (w *world) makeSources(ctx context.Context, t *testing.T) {
	g := NewWithT(t)
	g.Expect(w.github.AddRepository(repositoryOwner, "held")).To(Succeed())
	_, err := w.github.CommitFiles(repositoryOwner, "held", "main", map[string]string{"version": "0"}, "Begin")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.apply(ctx, `
{apiVersion: gating.toolkit.fluxcd.io/v1alpha1, kind: Gate, metadata: {name: held, namespace: flux-system}, spec: {closed: false}}
---
{apiVersion: v1, kind: Secret, metadata: {name: held, namespace: flux-system}, stringData: {username: git, password: %s, ca.crt: %q}}
`, token, w.github.CA())).To(Succeed())
	for i := range held {
		name := fmt.Sprintf("held-%d", i)
		w.sources = append(w.sources, name)
		g.Expect(w.apply(ctx, `{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: {name: %s, namespace: flux-system},
spec: {interval: 10s, url: '%s', ref: {branch: main}, secretRef: {name: held}, gates: {refs: [held]}}}`, name, w.github.RepositoryURL(repositoryOwner, "held"))).To(Succeed())
	}
}

func (w *world) apply(ctx context.Context, manifests string, args ...any) error {
	return w.Cluster.Apply(ctx, fmt.Appendf(nil, manifests, args...))
}
