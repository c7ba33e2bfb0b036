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

// Package leafnet drops the packets between a leaf cluster and the controller. The API server of the leaf cluster is in
// its own network namespace. The package needs root and the build tag e2e_node, so `make test` runs without it.
package leafnet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

const (
	// root is the root of the repository, relative to this directory.
	root = "../.."
	flux = localcluster.FluxNamespace
	name = "pipeline-controller"
	// serveVariable makes the test binary serve a leaf cluster at the address in this variable.
	serveVariable = "SLUICE_TEST_LEAF"
	// The addresses are from a range that is reserved for network tests.
	here, there = "198.18.77.1", "198.18.77.2"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(serveVariable); address != "" {
		if err := serve(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(10 * time.Second)
	SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	os.Exit(m.Run())
}

// serve serves the leaf cluster. It prints its kubeconfig, and sets the revision of the application to each line that
// it reads.
func serve(address string) error {
	leaf, err := leafserver.StartAt(address, leafserver.Kustomization)
	if err != nil {
		return err
	}
	kubeconfig, err := json.Marshal(string(leaf.Kubeconfig(leafserver.Token)))
	if err != nil {
		return err
	}
	fmt.Println(string(kubeconfig))
	revisions := bufio.NewScanner(os.Stdin)
	for revisions.Scan() {
		leaf.Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: revisions.Text()})
	}
	return revisions.Err()
}

func TestALeafWhosePacketsAreDropped(t *testing.T) {
	ctx := t.Context()
	g := NewWithT(t)
	w := start(ctx, t)
	cut, run := leafInNamespace(t)
	well, err := leafserver.Start(leafserver.Kustomization)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(well.Stop()).To(Succeed()) })
	runWell := func(revision string) {
		well.Put(leafserver.Object{Namespace: "dev", Name: "app", Revision: revision})
	}
	run("v1")
	runWell("v1")
	w.addPipeline(ctx, t, "cut", cut)
	w.addPipeline(ctx, t, "well", well.Kubeconfig(leafserver.Token))
	g.Eventually(w.promotions).Should(And(ContainElement("cut@v1"), ContainElement("well@v1")))

	drop(t)
	run("v2")
	runWell("v2")
	g.Eventually(w.promotions).Should(ContainElement("well@v2"), "others are promoted meanwhile")
	g.Eventually(w.target("cut")).Should(And(HaveField("Reason", "Unreachable"), HaveField("Error", HaveSuffix("timed out"))))
	runWell("v3")
	g.Eventually(w.promotions).Should(ContainElement("well@v3"))
	g.Consistently(w.promotions).ShouldNot(ContainElement("cut@v2"))

	undrop(t)
	g.Eventually(w.target("cut")).Should(And(HaveField("Reason", BeEmpty()), HaveField("Revision", "v2")))
	g.Eventually(w.promotions).Should(ContainElement("cut@v2"))
}

const namespace = "sluice-leaf"

// leafInNamespace starts a leaf cluster in a network namespace. It returns its kubeconfig, and a function that sets the
// revision of the application.
func leafInNamespace(t testing.TB) (kubeconfig []byte, run func(revision string)) {
	t.Helper()
	g := NewWithT(t)
	ip(t, "netns", "add", namespace)
	t.Cleanup(func() { ip(t, "netns", "delete", namespace) }) // and with it the link
	ip(t, "link", "add", "sluice-leaf0", "type", "veth", "peer", "name", "sluice-leaf1", "netns", namespace)
	ip(t, "address", "add", here+"/30", "dev", "sluice-leaf0")
	ip(t, "link", "set", "sluice-leaf0", "up")
	ip(t, "-netns", namespace, "address", "add", there+"/30", "dev", "sluice-leaf1")
	ip(t, "-netns", namespace, "link", "set", "sluice-leaf1", "up")

	command := exec.Command("ip", "netns", "exec", namespace, os.Args[0])
	command.Env = append(os.Environ(), serveVariable+"="+net.JoinHostPort(there, "6443"))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	stdout, err := command.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(command.Start()).To(Succeed())
	t.Cleanup(func() {
		g.Expect(stdin.Close()).To(Succeed())
		g.Expect(command.Wait()).To(Succeed())
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	g.Expect(err).NotTo(HaveOccurred())
	var content string
	g.Expect(json.Unmarshal(line, &content)).To(Succeed())
	return []byte(content), func(revision string) {
		_, err := fmt.Fprintln(stdin, revision)
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// drop drops the outgoing packets of the leaf cluster without rejecting them.
func drop(t testing.TB) { ip(t, "-netns", namespace, "route", "add", "blackhole", here+"/32") }

func undrop(t testing.TB) { ip(t, "-netns", namespace, "route", "delete", "blackhole", here+"/32") }

func ip(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "ip %s: %s", strings.Join(args, " "), out)
}

// world is a control plane with pipeline-controller. The test receives its notifications.
type world struct {
	cluster *localcluster.Cluster
	admin   client.Client
	events  chan string
	seen    []string
}

func start(ctx context.Context, t testing.TB) *world {
	t.Helper()
	g := NewWithT(t)
	w := &world{events: make(chan string, 1000)}
	events := httptest.NewServer(http.HandlerFunc(w.notify))
	t.Cleanup(events.Close)
	var err error
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(w.cluster.Stop()).To(Succeed()) })
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	w.admin, err = client.New(w.cluster.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.cluster.ApplyKustomization(ctx, filepath.Join(root, "config", "default"), "Deployment")).To(Succeed())
	g.Expect(w.cluster.Apply(ctx, []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: prod}
spec: {suspend: true, interval: 1h, prune: true, path: ., sourceRef: {kind: GitRepository, name: none}}
`))).To(Succeed())
	_, err = w.cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: name, ServiceAccount: name, Args: []string{"--events-addr=" + events.URL},
	})
	g.Expect(err).NotTo(HaveOccurred())
	return w
}

// addPipeline creates a Pipeline from a leaf cluster to the control plane, where the application never runs anything.
func (w *world) addPipeline(ctx context.Context, t testing.TB, name string, kubeconfig []byte) {
	t.Helper()
	g := NewWithT(t)
	secret := &corev1.Secret{Data: map[string][]byte{"value": kubeconfig}}
	secret.Namespace, secret.Name = flux, name
	g.Expect(w.admin.Create(ctx, secret)).To(Succeed())
	g.Expect(w.cluster.Apply(ctx, fmt.Appendf(nil, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %[1]s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: app}
  environments:
  - {name: dev, targets: [{namespace: dev, clusterRef: {kind: Secret, name: %[1]s}}]}
  - {name: prod, targets: [{namespace: prod}]}
  promotion: {strategy: {notification: {}}}
`, name))).To(Succeed())
}

// notify receives the events of pipeline-controller.
func (w *world) notify(_ http.ResponseWriter, r *http.Request) {
	var event struct {
		Message        string            `json:"message"`
		InvolvedObject map[string]string `json:"involvedObject"`
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(content, &event) != nil {
		return
	}
	if _, revision, ok := strings.Cut(event.Message, " to prod with version "); ok {
		w.events <- event.InvolvedObject["name"] + "@" + revision
	}
}

// promotions returns all notified promotions.
func (w *world) promotions() []string {
	for {
		select {
		case event := <-w.events:
			w.seen = append(w.seen, event)
		default:
			return w.seen
		}
	}
}

// target returns a function that reads the status of a Pipeline's target in the leaf cluster.
func (w *world) target(name string) func() (pipelinesv1.TargetStatus, error) {
	return func() (pipelinesv1.TargetStatus, error) {
		pipeline := &pipelinesv1.Pipeline{}
		if err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: flux, Name: name}, pipeline); err != nil {
			return pipelinesv1.TargetStatus{}, err
		}
		if env := pipeline.Status.Environments["dev"]; env != nil && len(env.Targets) == 1 {
			return env.Targets[0], nil
		}
		return pipelinesv1.TargetStatus{}, nil
	}
}
