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

// Package scale measures the controllers, as processes, with many Pipelines, and with many sources on one gate. It uses
// a real API server and Flux's real controllers. See docs/benchmarks.md for how to run the benchmarks, and for their
// output.
package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

const (
	gateControllerName = "gate-controller"
	gateName           = "freeze"

	// patience is the timeout of all waits.
	patience = 20 * time.Minute
)

// world is a cluster in which many sources refer to one gate.
type world struct {
	cluster        *localcluster.Cluster
	client         client.WithWatch
	gateController *localcluster.Process
	audit          auditLog
	// sources are the names of the sources. They are unique across kinds.
	sources []string
	// upstreams serve the sources.
	upstreams *upstreams
	// fetches is true if source-controller runs.
	fetches bool
	// closed is the last setting of the gate.
	closed bool
}

// options configure a world.
type options struct {
	sources int
	// flux are the controllers of Flux to run. Nothing is fetched without source-controller.
	flux []localcluster.FluxController
	// args are flags of gate-controller, except the address of notification-controller.
	args []string
}

// start starts a world with an open gate and settled sources. It ends with the test.
func start(ctx context.Context, t testing.TB, options options) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{audit: audited(t)}
	var err error
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{Flux: options.flux})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := w.install(ctx, options.args); err != nil {
		t.Fatal(err)
	}
	if err := w.addSources(ctx, t, options); err != nil {
		t.Fatal(err)
	}
	return w
}

// install applies config/default and the component that adds spec.gates to Flux's sources, and starts gate-controller.
func (w *world) install(ctx context.Context, args []string) error {
	var err error
	if w.client, err = newClient(w.cluster); err != nil {
		return err
	}
	if err := w.gateSources(ctx); err != nil {
		return err
	}
	if err := w.cluster.ApplyKustomization(ctx, filepath.Join(configDir, "default"), "Deployment"); err != nil {
		return err
	}
	w.gateController, err = w.startGateController(ctx, gateControllerName, args)
	return err
}

func newClient(cluster *localcluster.Cluster) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(gatingv1.AddToScheme(scheme))
	utilruntime.Must(pipelinesv1.AddToScheme(scheme))
	utilruntime.Must(kustomizev1.AddToScheme(scheme))
	utilruntime.Must(sourcev1.AddToScheme(scheme))
	return client.NewWithWatch(cluster.Config, client.Options{Scheme: scheme})
}

// startGateController starts gate-controller with the name of a Pod.
func (w *world) startGateController(ctx context.Context, pod string, args []string) (*localcluster.Process, error) {
	return w.cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: pod, Binary: gateControllerName, ServiceAccount: gateControllerName, Env: []string{"POD_NAME=" + pod},
		Args: append([]string{"--events-addr=" + w.cluster.EventsAddr}, args...),
	})
}

const configDir = "../../config"

// gateSources patches Flux's CRDs with config/components/gated-sources.
func (w *world) gateSources(ctx context.Context) error {
	dir := filepath.Join(w.cluster.Dir, localcluster.FluxNamespace)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	path, err := w.cluster.FluxCRDs(localcluster.SourceController)
	if err != nil {
		return err
	}
	crds, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	component, err := filepath.Abs(filepath.Join(configDir, "components", "gated-sources"))
	if err != nil {
		return err
	}
	// kubectl rejects an absolute path.
	if component, err = filepath.Rel(dir, component); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "gotk-components.yaml"), crds, 0o600),
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, "resources: [gotk-components.yaml]\ncomponents: [%s]\n", component), 0o600),
		w.cluster.ApplyKustomization(ctx, dir))
}

// addSources creates an open gate and its sources, and waits until they have settled.
func (w *world) addSources(ctx context.Context, t testing.TB, options options) error {
	from, err := publish(t)
	if err != nil {
		return err
	}
	w.upstreams = from
	var manifests strings.Builder
	fmt.Fprintf(&manifests, "{apiVersion: %s, kind: Gate, metadata: {name: %s, namespace: flux-system}, spec: {closed: false}}\n", gatingv1.GroupVersion, gateName)
	manifests.WriteString(from.secrets)
	for i := range options.sources {
		kind := kindOf(i)
		name := fmt.Sprintf("%s-%03d", strings.ToLower(kind), i)
		gates := fmt.Sprintf("gates: {refs: [%s]}", gateName)
		if kind == sourcev1.HelmChartKind && i/block%2 == 1 {
			gates = "" // inherited from its HelmRepository
		}
		fmt.Fprintf(&manifests, "---\n{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: flux-system}, spec: {interval: 24h, %s, %s}}\n",
			sourcev1.GroupVersion, kind, name, from.spec(kind, i), gates)
		w.sources = append(w.sources, name)
	}
	if err := w.cluster.Apply(ctx, []byte(manifests.String())); err != nil {
		return err
	}
	if err := w.all(ctx, "reconciled with the open gate", func(s sourceState) bool { return s.open && s.told }); err != nil {
		return err
	}
	if w.fetches = slices.Contains(options.flux, localcluster.SourceController); w.fetches {
		if err := w.fluxDone(ctx); err != nil {
			return err
		}
	}
	return w.idle(ctx)
}

// fluxDone waits until source-controller is idle.
func (w *world) fluxDone(ctx context.Context) error {
	return w.all(ctx, "done with", func(s sourceState) bool { return s.done })
}

// block is the number of consecutive sources that contain every kind.
const block = 20

// kindOf returns the kind of the i-th source. Most are GitRepositories.
func kindOf(i int) string {
	switch i % block {
	case block - 4:
		return sourcev1.OCIRepositoryKind
	case block - 3:
		return sourcev1.BucketKind
	case block - 2:
		return sourcev1.HelmRepositoryKind
	case block - 1:
		return sourcev1.HelmChartKind
	default:
		return sourcev1.GitRepositoryKind
	}
}

// upstreams serves the sources' content.
type upstreams struct {
	git     *githost.Server
	other   *upstream.Server
	secrets string
}

// publish starts the upstreams with one small revision each.
func publish(t testing.TB) (*upstreams, error) {
	git, err := githost.New()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = git.Close() })
	other, err := upstream.New()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = other.Close() })

	git.AddToken(githost.Token{Value: "token", Login: "flux"})
	if err := errors.Join(git.AddRepository("fleet", "app"), other.CreateBucket("app")); err != nil {
		return nil, err
	}
	u := &upstreams{git: git, other: other, secrets: fmt.Sprintf(`
---
{apiVersion: v1, kind: Secret, metadata: {name: git, namespace: flux-system}, stringData: {username: flux, password: token, ca.crt: %q}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s3, namespace: flux-system}, stringData: {accesskey: %s, secretkey: %s}}
`, git.CA(), upstream.AccessKey, upstream.SecretKey)}
	return u, u.push("1.0.0")
}

// push publishes a version on each upstream.
func (u *upstreams) push(version string) error {
	_, err := u.git.CommitFiles("fleet", "app", "main", map[string]string{"version": version}, "Release "+version)
	return errors.Join(err,
		u.other.PushArtifact("app", "latest", map[string]string{"version": version}),
		u.other.PutObject("app", "version", version),
		u.other.PublishChart("charts", "app", version))
}

// spec returns the part of a source's spec that refers to its upstream.
func (u *upstreams) spec(kind string, i int) string {
	switch kind {
	case sourcev1.OCIRepositoryKind:
		return fmt.Sprintf("url: %q, insecure: true, ref: {tag: latest}", u.other.OCIURL("app"))
	case sourcev1.BucketKind:
		return fmt.Sprintf("endpoint: %q, bucketName: app, insecure: true, secretRef: {name: s3}", u.other.S3Endpoint())
	case sourcev1.HelmRepositoryKind:
		return fmt.Sprintf("url: %q", u.other.HelmURL("charts"))
	case sourcev1.HelmChartKind:
		return fmt.Sprintf("chart: app, sourceRef: {kind: HelmRepository, name: helmrepository-%03d}", i-1)
	default:
		return fmt.Sprintf("url: %q, ref: {branch: main}, secretRef: {name: git}", u.git.RepositoryURL("fleet", "app"))
	}
}

// turn closes or opens the gate.
func (w *world) turn(ctx context.Context, closed bool) error {
	w.closed = closed
	gate := &gatingv1.Gate{}
	gate.Namespace, gate.Name = localcluster.FluxNamespace, gateName
	return w.client.Patch(ctx, gate, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"closed":%t}}`, closed)))
}

// idle waits until gate-controller is idle: the gate reports its sources, and the queue is empty.
func (w *world) idle(ctx context.Context) error {
	held := 0
	if w.closed {
		held = len(w.sources)
	}
	return poll(ctx, "gate-controller to be idle", func(ctx context.Context) error {
		gate := &gatingv1.Gate{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: localcluster.FluxNamespace, Name: gateName}, gate); err != nil {
			return err
		}
		if int(gate.Status.Held) != held || int(gate.Status.Sources) != len(w.sources) || gate.Status.ObservedGeneration != gate.Generation {
			return fmt.Errorf("the gate tells of %d held sources of %d", gate.Status.Held, gate.Status.Sources)
		}
		metrics, err := w.gateControllerMetrics(ctx)
		if err != nil {
			return err
		}
		if queued, active := metrics.sum("workqueue_depth"), metrics.sum("controller_runtime_active_workers"); queued+active > 0 {
			return fmt.Errorf("%v objects are queued and %v worked on", queued, active)
		}
		return nil
	})
}

// metrics are samples by their name and labels.
type metrics map[string]float64

// scrape reads the metrics of a server.
func scrape(ctx context.Context, httpClient *http.Client, url string) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	samples := metrics{}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndex(line, " ")
		if strings.HasPrefix(line, "#") || space < 0 {
			continue
		}
		if samples[line[:space]], err = strconv.ParseFloat(line[space+1:], 64); err != nil {
			return nil, err
		}
	}
	return samples, lines.Err()
}

// sum adds the samples of a metric that have all labels, each as `name="value"`.
func (m metrics) sum(name string, labels ...string) float64 {
	var sum float64
	for sample, value := range m {
		metric, rest, _ := strings.Cut(sample, "{")
		has := func(label string) bool { return strings.Contains("{"+rest, label) }
		if metric == name && !slices.ContainsFunc(labels, func(label string) bool { return !has(label) }) {
			sum += value
		}
	}
	return sum
}

// poll calls probe until it returns nil.
func poll(ctx context.Context, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-ticker.C:
		}
	}
}
