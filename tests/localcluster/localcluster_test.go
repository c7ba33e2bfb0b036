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

package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	eventually     = time.Minute
	serviceAccount = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: pretender, namespace: flux-system}\n"
)

// TestCluster runs its parts one after another on one cluster, whose start takes longer than all of them.
func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	started := time.Now()
	cluster, err := Start(ctx, Options{Flux: []FluxController{SourceController, KustomizeController}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Logf("started in %s", time.Since(started).Round(time.Millisecond))
	// Again at the end, for a test that fails before it stops the cluster.
	t.Cleanup(func() { NewWithT(t).Expect(cluster.Stop()).To(Succeed()) })

	t.Run("Flux applies what is pushed to Gitea", func(t *testing.T) { testFlux(t, cluster) })
	t.Run("a controller has the identity of its ServiceAccount, after a crash too", func(t *testing.T) { testController(t, cluster) })
	t.Run("a controller that does not start is an error that says why", func(t *testing.T) { testControllerFailing(t, cluster) })
	t.Run("a kustomization is applied without the kinds named, CRDs before their objects", func(t *testing.T) { testApplyKustomization(t, cluster) })
	t.Run("stopped, it leaves neither processes nor files", func(t *testing.T) { testStop(t, cluster) })
}

func testFlux(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	ctx := t.Context()
	host, err := StartGitea(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(host.Stop()).To(Succeed()) })

	_, err = host.CreateRepository("fleet")
	g.Expect(err).NotTo(HaveOccurred())
	pushManifest(t, host, "fleet", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: arrived, namespace: default}\ndata: {from: git}\n")

	g.Expect(cluster.Apply(ctx, fmt.Appendf(nil, `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: flux-system}
spec: {url: "%s/%s/fleet.git", interval: 1h, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: fleet, namespace: flux-system}
spec: {sourceRef: {kind: GitRepository, name: fleet}, path: ./, interval: 1h, prune: true}
`, host.URL, host.Username))).To(Succeed())

	admin, err := client.New(cluster.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	arrived := &corev1.ConfigMap{}
	g.Eventually(func() error {
		return admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "arrived"}, arrived)
	}, eventually).Should(Succeed())
	g.Expect(arrived.Data).To(HaveKeyWithValue("from", "git"))
}

func testController(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	ctx := t.Context()
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cluster.Apply(ctx, []byte(serviceAccount))).To(Succeed())

	controller, err := cluster.StartController(ctx, ControllerProcess{
		Name: "pretender", Binary: self, ServiceAccount: "pretender", Args: []string{"--pretend"},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(controller.Kill()).To(Succeed())
	g.Expect(controller.Start(ctx)).To(Succeed())
	g.Expect(controller.Stop()).To(Succeed())

	log, err := os.ReadFile(controller.LogPath)
	g.Expect(err).NotTo(HaveOccurred())
	const seen = "system:serviceaccount:flux-system:pretender in flux-system\n"
	g.Expect(string(log)).To(Equal(seen + seen + "stopped\n"))
}

func testControllerFailing(t *testing.T, cluster *Cluster) {
	self, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(cluster.Apply(t.Context(), []byte(serviceAccount))).To(Succeed())

	for name, test := range map[string]struct {
		controller ControllerProcess
		problems   []string
	}{
		"an early end quotes the log": {
			ControllerProcess{Name: "quitter", Binary: self, ServiceAccount: "pretender", Args: []string{"--quit"}},
			[]string{"quitter ended early: exit status 3", "this is no use"},
		},
		"a ServiceAccount that does not exist is named": {
			ControllerProcess{Name: "nobody", Binary: self, ServiceAccount: "nobody"},
			[]string{"ServiceAccount flux-system/nobody"},
		},
		"a program that does not exist is named": {
			ControllerProcess{Name: "unbuilt", ServiceAccount: "pretender"},
			[]string{filepath.Join(cluster.programs.dir, "unbuilt")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := cluster.StartController(t.Context(), test.controller)
			g.Expect(err).To(HaveOccurred())
			for _, problem := range test.problems {
				g.Expect(err.Error()).To(ContainSubstring(problem))
			}
		})
	}
}

func testApplyKustomization(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	ctx := t.Context()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kustomization.yaml"), "resources: [all.yaml]\nnamespace: flux-system\nlabels: [{pairs: {of: test}}]\n")
	write(t, filepath.Join(dir, "all.yaml"), `
apiVersion: v1
kind: ConfigMap
metadata: {name: kept}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: left-out}
spec:
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x, image: x}]}}
---
apiVersion: example.org/v1
kind: Thing
metadata: {name: thing}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)

	g.Expect(cluster.ApplyKustomization(ctx, dir, "Deployment")).To(Succeed())

	kubectl, err := cluster.programs.path("kubectl")
	g.Expect(err).NotTo(HaveOccurred())
	names, err := exec.CommandContext(ctx, kubectl, "--kubeconfig="+cluster.Kubeconfig, "--namespace="+FluxNamespace,
		"--selector=of=test", "get", "configmaps,deployments,things", "--output=name").Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Fields(string(names))).To(ConsistOf("configmap/kept", "thing.example.org/thing"))
}

func testStop(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	groups := map[string]int{}
	for _, p := range cluster.processes {
		if p.cmd != nil {
			groups[p.Name] = p.cmd.Process.Pid
		}
	}
	g.Expect(groups).To(And(HaveKey("etcd"), HaveKey("kube-apiserver"), HaveKey("kube-controller-manager"), HaveKey("source-controller")))

	g.Expect(cluster.Stop()).To(Succeed())

	for name, group := range groups {
		g.Expect(syscall.Kill(-group, 0)).To(MatchError(syscall.ESRCH), name+" and what it started are gone")
	}
	g.Expect(cluster.Dir).NotTo(BeADirectory())
	g.Expect(cluster.Stop()).To(Succeed(), "stopping again does nothing")
}

// pushManifest makes a first commit of one file and pushes it to the branch main.
func pushManifest(t *testing.T, host *Gitea, repository, manifest string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), manifest)
	url := fmt.Sprintf("http://%s:%s@%s/%s/%s.git", host.Username, host.Password, host.URL[len("http://"):], host.Username, repository)
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=Test", "-c", "user.email=test@example.org", "commit", "--quiet", "--message=Add manifest"},
		{"push", "--quiet", url, "main"},
	} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = dir
		command.Env = environment(dir)
		out, err := command.CombinedOutput()
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}
