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
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
	"github.com/sluice-toolkit/sluice/tests/standin"
	"github.com/sluice-toolkit/sluice/tests/upstream"
)

const (
	pipelineControllerName = "pipeline-controller"
	// writers is the number of concurrent requests of the benchmark itself.
	writers = 32
	// mostSamples is the maximum number of promotions that are measured one at a time.
	mostSamples = 100
)

// environments of each Pipeline. Each is a namespace, in which the Pipeline's Kustomization has the Pipeline's name.
var environments = []string{"dev", "staging", "prod"}

// fleet is a cluster with Pipelines of three environments, which promote by notification.
type fleet struct {
	cluster    *localcluster.Cluster
	client     client.WithWatch
	controller *localcluster.Process
	names      []string
	// revision is the number of the last revision of the first environment.
	revision int
	seen     sightings
}

// sightings records when something was first seen.
type sightings struct {
	mu sync.Mutex
	// at holds the times by what was seen. Guarded by mu.
	at map[string]time.Time
	// changed is closed and replaced when something was seen. Guarded by mu.
	changed chan struct{}
}

func (s *sightings) see(what string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.at[what]; !again {
		s.at[what] = now
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// reset forgets everything.
func (s *sightings) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.changed = map[string]time.Time{}, make(chan struct{})
}

// await waits until something was seen, and returns when.
func (s *sightings) await(ctx context.Context, what string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s.mu.Lock()
		at, ok := s.at[what]
		changed := s.changed
		s.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}

// What is seen of a Pipeline: the bare watch shows its revision in the first environment, the notification arrives
// outside, and the status says so.
func written(name, revision string) string  { return name + " runs " + revision }
func arrived(name string) string            { return name + " is promoted" }
func recorded(name, revision string) string { return name + " has promoted " + revision }

// startFleet starts a cluster with Pipelines that have settled on a revision, without pipeline-controller.
func startFleet(ctx context.Context, t testing.TB, size int, flux ...localcluster.FluxController) (*fleet, error) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := localcluster.Start(ctx, localcluster.Options{Flux: flux})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{cluster: cluster}
	f.seen.reset()
	if f.client, err = newClient(cluster); err != nil {
		return nil, err
	}
	if err := cluster.ApplyKustomization(ctx, filepath.Join(configDir, "default"), "Deployment"); err != nil {
		return nil, err
	}
	for _, name := range environments {
		if err := f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	for i := range size {
		f.names = append(f.names, fmt.Sprintf("app-%04d", i))
	}
	return f, f.addPipelines(ctx, localcluster.FluxNamespace, f.names, pipelinesv1.Promotion{
		Strategy: pipelinesv1.Strategy{Notification: &pipelinesv1.NotificationPromotion{}},
	})
}

// addPipelines creates Pipelines with a promotion.
func (f *fleet) addPipelines(ctx context.Context, namespace string, names []string, promotion pipelinesv1.Promotion) error {
	return each(ctx, names, func(ctx context.Context, name string) error {
		pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		pipeline.Spec.AppRef = pipelinesv1.LocalAppReference{APIVersion: kustomizev1.GroupVersion.String(), Kind: kustomizev1.KustomizationKind, Name: name}
		pipeline.Spec.Promotion = &promotion
		for _, env := range environments {
			pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{Name: env, Targets: []pipelinesv1.Target{{Namespace: env}}})
		}
		return f.client.Create(ctx, pipeline)
	})
}

// each calls do for each name, several at a time.
func each(ctx context.Context, names []string, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	return group.Wait()
}

// revisionOf returns a revision as GitRepositories have them. Messages show only the beginning of a commit.
func revisionOf(n int) string { return fmt.Sprintf("main@sha1:%07x%033x", n, n) }

// addApplications creates the Kustomizations of Pipelines. The first environment runs a revision, and the others the
// first one.
func (f *fleet) addApplications(ctx context.Context, names []string, revision string) error {
	return each(ctx, names, func(ctx context.Context, name string) error {
		for i, env := range environments {
			app := standin.Application{Key: client.ObjectKey{Namespace: env, Name: name}, Revision: revisionOf(0), Ready: metav1.ConditionTrue}
			if i == 0 {
				app.Revision = revision
			}
			if err := app.Put(ctx, f.client); err != nil {
				return err
			}
		}
		return nil
	})
}

// addReconciledApplications creates Kustomizations that Flux reconciles every ten seconds.
func (f *fleet) addReconciledApplications(ctx context.Context, t testing.TB) error {
	from, err := upstream.New()
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = from.Close() })
	if err := from.PushArtifact("app", "latest", map[string]string{"app.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {a: b}}"}); err != nil {
		return err
	}
	every := metav1.Duration{Duration: 10 * time.Second}
	for _, env := range environments {
		source := &sourcev1.OCIRepository{ObjectMeta: metav1.ObjectMeta{Namespace: env, Name: "app"}}
		source.Spec = sourcev1.OCIRepositorySpec{URL: from.OCIURL("app"), Insecure: true, Interval: every, Reference: &sourcev1.OCIRepositoryRef{Tag: "latest"}}
		if err := f.client.Create(ctx, source); err != nil {
			return err
		}
	}
	return each(ctx, f.names, func(ctx context.Context, name string) error {
		for _, env := range environments {
			app := &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: env, Name: name}}
			app.Spec = kustomizev1.KustomizationSpec{Interval: every, Path: ".", Prune: true, NamePrefix: name + "-", TargetNamespace: env,
				SourceRef: kustomizev1.CrossNamespaceSourceReference{Kind: sourcev1.OCIRepositoryKind, Name: "app"}}
			if err := f.client.Create(ctx, app); err != nil {
				return err
			}
		}
		return nil
	})
}

// watch records what is seen outside: by a bare watch of the first environment's Kustomizations, and of the Pipelines.
func (f *fleet) watch(ctx context.Context) error {
	apps, err := f.client.Watch(ctx, &kustomizev1.KustomizationList{}, client.InNamespace(environments[0]))
	if err != nil {
		return err
	}
	pipelines, err := f.client.Watch(ctx, &pipelinesv1.PipelineList{})
	if err != nil {
		return err
	}
	go func() {
		for event := range apps.ResultChan() {
			if app, ok := event.Object.(*kustomizev1.Kustomization); ok {
				f.seen.see(written(app.Name, app.Status.LastAppliedRevision))
			}
		}
	}()
	go func() {
		for event := range pipelines.ResultChan() {
			pipeline, ok := event.Object.(*pipelinesv1.Pipeline)
			if !ok {
				continue
			}
			if status := pipeline.Status.Environments[environments[1]]; status != nil && status.Promotion != nil && status.Promotion.State == pipelinesv1.PromotionSucceeded {
				f.seen.see(recorded(pipeline.Name, status.Promotion.Revision))
			}
		}
	}()
	return nil
}

// startController starts pipeline-controller with the flags of its Deployment, but for leader election: its Lease is
// renewed all the time. It posts notifications to the receiver. More flags may follow.
func (f *fleet) startController(ctx context.Context, receiver string, flags ...string) error {
	args, err := localcluster.DeploymentArgs(filepath.Join(configDir, pipelineControllerName, "deployment.yaml"))
	if err != nil {
		return err
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--enable-leader-election" })
	f.controller, err = f.cluster.StartController(ctx, localcluster.ControllerProcess{
		Name: pipelineControllerName, ServiceAccount: pipelineControllerName,
		Args: slices.Concat(args, []string{"--approval-addr=", "--events-addr=" + receiver}, flags),
	})
	return err
}

// receive replaces notification-controller. It records when promotions arrive, and counts them.
func (f *fleet) receive(t testing.TB) (url string, sent *atomic.Int64) {
	sent = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			Reason         string
			InvolvedObject struct{ Name string }
		}
		if json.NewDecoder(r.Body).Decode(&event) == nil && event.Reason == "Promote" {
			f.seen.see(arrived(event.InvolvedObject.Name))
			sent.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// metrics reads the metrics of pipeline-controller.
func (f *fleet) metrics(ctx context.Context) (metrics, error) {
	return scrape(ctx, http.DefaultClient, "http://"+f.controller.MetricsAddr)
}

// known waits until pipeline-controller has planned for every Pipeline since its start, and is idle.
func (f *fleet) known(ctx context.Context) error {
	return poll(ctx, "all Pipelines to be known", func(ctx context.Context) error {
		samples, err := f.metrics(ctx)
		if err != nil {
			return err
		}
		planned := samples.sum("controller_runtime_reconcile_total", `controller="pipeline"`, `result="success"`)
		busy := samples.sum("workqueue_depth") + samples.sum("controller_runtime_active_workers")
		if int(planned) < len(f.names) || busy > 0 {
			return fmt.Errorf("%v of %d are, and %v are in progress", planned, len(f.names), busy)
		}
		return nil
	})
}

// settled waits until every environment of every Pipeline that is measured runs its revision.
func (f *fleet) settled(ctx context.Context) error {
	return poll(ctx, "all Pipelines to settle", func(ctx context.Context) error {
		var pipelines pipelinesv1.PipelineList
		if err := f.client.List(ctx, &pipelines, client.InNamespace(localcluster.FluxNamespace)); err != nil {
			return err
		}
		for _, pipeline := range pipelines.Items {
			if condition := apimeta.FindStatusCondition(pipeline.Status.Conditions, pipelinesv1.SettledCondition); condition == nil || condition.Status != metav1.ConditionTrue {
				return fmt.Errorf("%s has not settled: %+v", pipeline.Name, condition)
			}
		}
		return nil
	})
}

// put has the first environment of a Pipeline run the current revision, with one request.
func (f *fleet) put(ctx context.Context, name string) error {
	app := &kustomizev1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: environments[0], Name: name}}
	return f.client.Status().Patch(ctx, app, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"lastAppliedRevision":%q}}`, revisionOf(f.revision))))
}

// promoted waits for the promotion of the current revision. It returns when the bare watch showed the revision in the
// first environment, and when the notification arrived.
func (f *fleet) promoted(ctx context.Context, name string) (seen, sent time.Time, err error) {
	if sent, err = f.seen.await(ctx, arrived(name)); err != nil {
		return seen, sent, err
	}
	if seen, err = f.seen.await(ctx, written(name, revisionOf(f.revision))); err != nil {
		return seen, sent, err
	}
	_, err = f.seen.await(ctx, recorded(name, revisionOf(f.revision)))
	return seen, sent, err
}

// promoteOneByOne promotes a new revision of some Pipelines, each when the one before is done.
func (f *fleet) promoteOneByOne(ctx context.Context) (times, bare []time.Duration, _ error) {
	f.revision++
	f.seen.reset()
	for _, name := range f.names[:min(len(f.names), mostSamples)] {
		before := time.Now()
		if err := f.put(ctx, name); err != nil {
			return nil, nil, err
		}
		seen, sent, err := f.promoted(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		times, bare = append(times, sent.Sub(seen)), append(bare, seen.Sub(before))
	}
	return times, bare, nil
}

// promoteAll promotes a new revision of all Pipelines at once, and returns when the last promotion had arrived.
func (f *fleet) promoteAll(ctx context.Context) (times []time.Duration, last time.Duration, _ error) {
	f.revision++
	f.seen.reset()
	before := time.Now()
	if err := each(ctx, f.names, f.put); err != nil {
		return nil, 0, err
	}
	for _, name := range f.names {
		seen, sent, err := f.promoted(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		times, last = append(times, sent.Sub(seen)), max(last, sent.Sub(before))
	}
	return times, last, nil
}
