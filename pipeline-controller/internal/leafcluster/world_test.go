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

package leafcluster_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gitopsv1 "github.com/sluice-toolkit/sluice/api/gitops/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/leafcluster"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

// leafsVariable makes the test's own program stand in for leaf clusters: so many, with so many targets each.
const leafsVariable = "SLUICE_TEST_LEAFS"

func TestMain(m *testing.M) {
	var leafs, targets int
	if n, _ := fmt.Sscanf(os.Getenv(leafsVariable), "%d/%d", &leafs, &targets); n == 2 {
		if err := serveLeafs(leafs, targets); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	SetDefaultEventuallyTimeout(30 * time.Second)
	os.Exit(m.Run())
}

// quick makes what takes seconds in earnest take moments.
var quick = leafcluster.Timing{
	ProbeInterval: 50 * time.Millisecond, ProbeTimeout: 3 * time.Second, Grace: 300 * time.Millisecond,
	ResolveInterval: 100 * time.Millisecond, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	Lookups: 1e6,
}

// world is a management cluster, and Clusters that look from it.
type world struct {
	*leafcluster.Clusters
	t          testing.TB
	management *leafserver.Server
	// objects are the objects of the management cluster that lead to kubeconfigs.
	objects client.Client
	issuer  *issuer
	queue   *queue
	stop    context.CancelFunc
}

func newWorld(t testing.TB, change ...func(*leafcluster.Options)) *world {
	t.Helper()
	g := NewWithT(t)
	w := &world{t: t, management: newLeaf(t), issuer: &issuer{lifetime: time.Hour}, queue: &queue{}}
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(gitopsv1.AddToScheme(scheme)).To(Succeed())
	capi := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{capi, corev1.SchemeGroupVersion, gitopsv1.GroupVersion})
	mapper.Add(capi.WithKind("Cluster"), apimeta.RESTScopeNamespace)
	for _, kind := range []string{"Secret", "ConfigMap", "ServiceAccount"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), apimeta.RESTScopeNamespace)
	}
	mapper.Add(gitopsv1.GroupVersion.WithKind("GitopsCluster"), apimeta.RESTScopeNamespace)
	w.objects = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithStatusSubresource(&gitopsv1.GitopsCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: w.issuer.create, List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			t.Errorf("%T was listed", list)
			return nil
		}}).Build()

	config := &rest.Config{
		Host: w.management.URL(), BearerToken: leafserver.Token, TLSClientConfig: rest.TLSClientConfig{CAData: w.management.CA()},
	}
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	options := leafcluster.Options{Config: config, Client: httpClient, Objects: w.objects, Mapper: mapper, Timing: quick}
	for _, c := range change {
		c(&options)
	}
	w.Clusters, err = leafcluster.New(options)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	w.stop = func() {
		stop()
		w.Wait()
		utilnet.CloseIdleConnectionsFor(httpClient.Transport)
	}
	g.Expect(w.Start(ctx, w.queue)).To(Succeed())
	t.Cleanup(func() { w.stop() })
	return w
}

// newLeaf starts an API server that serves Kustomizations.
func newLeaf(t testing.TB) *leafserver.Server {
	t.Helper()
	s, err := leafserver.Start(leafserver.Kustomization)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(s.Stop()).To(Succeed()) })
	return s
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		NewWithT(w.t).Expect(w.objects.Create(context.Background(), obj)).To(Succeed())
	}
}

func (w *world) update(obj client.Object) {
	w.t.Helper()
	NewWithT(w.t).Expect(w.objects.Update(context.Background(), obj)).To(Succeed())
}

func (w *world) delete(obj client.Object) {
	w.t.Helper()
	NewWithT(w.t).Expect(w.objects.Delete(context.Background(), obj)).To(Succeed())
}

// connect creates a GitopsCluster for a server, with a Secret of the same name.
func (w *world) connect(name string, server *leafserver.Server) (*gitopsv1.GitopsCluster, *corev1.Secret) {
	w.t.Helper()
	s, c := secret(name, "value", server.Kubeconfig(leafserver.Token)), gitopsCluster(name)
	w.create(s, c)
	return c, s
}

// secret is one in the namespace of the Pipelines.
func secret(name, key string, kubeconfig []byte) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{key: kubeconfig}}
	s.Namespace, s.Name = "default", name
	return s
}

// gitopsCluster is one whose Secret has the same name.
func gitopsCluster(name string) *gitopsv1.GitopsCluster {
	c := &gitopsv1.GitopsCluster{}
	c.Namespace, c.Name = "default", name
	c.Spec.SecretRef = &fluxmeta.LocalObjectReference{Name: name}
	return c
}

// inCluster returns a target in the cluster of a GitopsCluster.
func inCluster(name string) pipelinesv1.Target {
	return pipelinesv1.Target{Namespace: "prod", ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Name: name}}
}

// pipeline is one of the Kustomization "app".
func pipeline(name string, targets ...pipelinesv1.Target) *pipelinesv1.Pipeline {
	p := &pipelinesv1.Pipeline{}
	p.Namespace, p.Name = "default", name
	p.Spec.AppRef = pipelinesv1.LocalAppReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "app"}
	for _, t := range targets {
		p.Spec.Environments = append(p.Spec.Environments, pipelinesv1.Environment{Name: t.Namespace, Targets: []pipelinesv1.Target{t}})
	}
	return p
}

// state returns a function that reads the one target of a Pipeline, for Eventually.
func (w *world) state(p *pipelinesv1.Pipeline) func() application.State {
	return func() application.State { return w.Read(context.Background(), p, p.Spec.Environments[0].Targets[0]) }
}

// watch declares the targets of a Pipeline and waits until the first one is known.
func (w *world) watch(p *pipelinesv1.Pipeline) {
	w.t.Helper()
	w.Want(context.Background(), p)
	NewWithT(w.t).Eventually(w.state(p)).Should(haveRevision("v1"))
}

// watchIn does the same in a server, with the GitopsCluster "eu".
func (w *world) watchIn(server *leafserver.Server) *pipelinesv1.Pipeline {
	w.t.Helper()
	w.connect("eu", server)
	p := pipeline("p", inCluster("eu"))
	w.watch(p)
	return p
}

func haveRevision(revision string) OmegaMatcher {
	return And(HaveField("Known", true), HaveField("Ready", true), HaveField("Revision", revision))
}

func beUnknown(reason string) OmegaMatcher {
	return And(HaveField("Known", false), HaveField("Reason", reason))
}

// app is the application that Pipelines here are about, in namespace prod.
func app(revision string) leafserver.Object {
	return leafserver.Object{Namespace: "prod", Name: "app", Revision: revision}
}

// newAppLeaf starts an API server that has the application.
func newAppLeaf(t testing.TB) *leafserver.Server {
	t.Helper()
	s := newLeaf(t)
	s.Put(app("v1"))
	return s
}

// queue records queued Pipelines.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	mu     sync.Mutex
	queued map[types.NamespacedName]time.Duration
}

func (q *queue) AddAfter(request reconcile.Request, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued == nil {
		q.queued = map[types.NamespacedName]time.Duration{}
	}
	q.queued[request.NamespacedName] = wait
}

// take returns the names of the Pipelines that were queued since the last call.
func (q *queue) take() map[string]time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := map[string]time.Duration{}
	for name, wait := range q.queued {
		names[name.Name] = wait
	}
	q.queued = nil
	return names
}

// gather returns a function that returns the names of all Pipelines that were queued since this call. Use it with
// Eventually, because one change queues them one by one.
func (q *queue) gather() func() map[string]time.Duration {
	q.take()
	gathered := map[string]time.Duration{}
	return func() map[string]time.Duration {
		maps.Copy(gathered, q.take())
		return gathered
	}
}
