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
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/leafcluster"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

func TestAClusterIsFoundBy(t *testing.T) {
	capiCluster := func() client.Object {
		c := &unstructured.Unstructured{}
		c.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		c.SetKind("Cluster")
		c.SetNamespace("default")
		c.SetName("eu")
		return c
	}
	for _, test := range []struct {
		name string
		ref  pipelinesv1.CrossNamespaceClusterReference
		// has are the objects, given a kubeconfig.
		has func(kubeconfig []byte) []client.Object
	}{
		{
			name: "a GitopsCluster that names a Secret",
			ref:  pipelinesv1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				return []client.Object{gitopsCluster("eu"), secret("eu", "value", kubeconfig)}
			},
		},
		{
			name: "a GitopsCluster that names a Cluster of Cluster API",
			ref:  pipelinesv1.CrossNamespaceClusterReference{APIVersion: "gitops.weave.works/v1alpha1", Kind: "GitopsCluster", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				c := gitopsCluster("eu")
				c.Spec.SecretRef, c.Spec.CAPIClusterRef = nil, &fluxmeta.LocalObjectReference{Name: "capi"}
				return []client.Object{c, secret("capi-kubeconfig", "value", kubeconfig)}
			},
		},
		{
			name: "a GitopsCluster in another namespace",
			ref:  pipelinesv1.CrossNamespaceClusterReference{Kind: "GitopsCluster", Name: "eu", Namespace: "clusters"},
			has: func(kubeconfig []byte) []client.Object {
				c, s := gitopsCluster("eu"), secret("eu", "value", kubeconfig)
				c.Namespace, s.Namespace = "clusters", "clusters"
				return []client.Object{c, s}
			},
		},
		{
			name: "a Cluster of Cluster API, in whichever version it is served",
			ref:  pipelinesv1.CrossNamespaceClusterReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				return []client.Object{capiCluster(), secret("eu-kubeconfig", "value", kubeconfig)}
			},
		},
		{
			name: "a Secret in the Pipeline's namespace",
			ref:  pipelinesv1.CrossNamespaceClusterReference{Kind: "Secret", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				return []client.Object{secret("eu", "value", kubeconfig)}
			},
		},
		{
			name: "a Secret with the key value.yaml",
			ref:  pipelinesv1.CrossNamespaceClusterReference{Kind: "Secret", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				return []client.Object{secret("eu", "value.yaml", kubeconfig)}
			},
		},
		{
			name: "a Secret with the key kubeconfig",
			ref:  pipelinesv1.CrossNamespaceClusterReference{Kind: "Secret", Name: "eu"},
			has: func(kubeconfig []byte) []client.Object {
				return []client.Object{secret("eu", "kubeconfig", kubeconfig)}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(test.has(newAppLeaf(t).Kubeconfig(leafserver.Token))...)
			w.watch(pipeline("p", pipelinesv1.Target{Namespace: "prod", ClusterRef: &test.ref}))
		})
	}
}

// trouble is something that keeps a target from being known.
type trouble struct {
	name   string
	reason string
	// message is part of what the target says.
	message string
	// begin causes the failure. The cluster is named "eu", and its kubeconfig is that of the leaf unless begin replaces
	// it.
	begin func(t *testing.T, w *world, leaf *leafserver.Server)
	// end restores it.
	end func(t *testing.T, w *world, leaf *leafserver.Server)
}

var troubles = []trouble{
	{
		name: "the object that represents the cluster does not exist", reason: pipelinesv1.ClusterNotFoundReason, message: "GitopsCluster default/eu not found",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.create(secret("eu", "value", leaf.Kubeconfig(leafserver.Token)))
		},
		end: func(_ *testing.T, w *world, _ *leafserver.Server) { w.create(gitopsCluster("eu")) },
	},
	{
		name: "its Secret does not exist", reason: pipelinesv1.SecretNotFoundReason, message: "Secret default/eu not found",
		begin: func(_ *testing.T, w *world, _ *leafserver.Server) { w.create(gitopsCluster("eu")) },
		end: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.create(secret("eu", "value", leaf.Kubeconfig(leafserver.Token)))
		},
	},
	{
		name: "it names no Secret", reason: pipelinesv1.SecretNotFoundReason, message: "has neither 'secretRef' nor 'capiClusterRef'",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			c, _ := w.connect("eu", leaf)
			c.Spec.SecretRef = nil
			w.update(c)
		},
		end: func(_ *testing.T, w *world, _ *leafserver.Server) {
			w.delete(gitopsCluster("eu"))
			w.create(gitopsCluster("eu"))
		},
	},
	{
		name: "its Secret is garbled", reason: pipelinesv1.InvalidKubeconfigReason, message: "Secret default/eu: the content is not a kubeconfig",
		begin: func(_ *testing.T, w *world, _ *leafserver.Server) {
			w.create(gitopsCluster("eu"), secret("eu", "value", []byte("{"+leafserver.Secret)))
		},
		end: restoreSecret,
	},
	{
		name: "its Secret has no kubeconfig", reason: pipelinesv1.InvalidKubeconfigReason, message: "none of the keys",
		begin: func(_ *testing.T, w *world, _ *leafserver.Server) {
			w.create(gitopsCluster("eu"), secret("eu", "config", []byte("{}")))
		},
		end: restoreSecret,
	},
	{
		name: "it is not ready", reason: pipelinesv1.ClusterNotReadyReason, message: "GitopsCluster default/eu is not ready: being made",
		begin: func(t *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			setReady(t, w, metav1.ConditionFalse, "being made")
		},
		end: func(t *testing.T, w *world, _ *leafserver.Server) { setReady(t, w, metav1.ConditionTrue, "made") },
	},
	{
		name: "the API server refuses connections", reason: pipelinesv1.UnreachableReason, message: ": connection refused",
		begin: func(t *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			NewWithT(t).Expect(leaf.Stop()).To(Succeed())
		},
		end: func(t *testing.T, _ *world, leaf *leafserver.Server) { NewWithT(t).Expect(leaf.Resume()).To(Succeed()) },
	},
	{
		name: "the API server takes connections and does not answer", reason: pipelinesv1.UnreachableReason, message: ": timed out",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			leaf.Hang()
		},
		end: func(_ *testing.T, _ *world, leaf *leafserver.Server) { leaf.Unhang() },
	},
	{
		name: "there is nobody behind the load balancer", reason: pipelinesv1.UnreachableReason, message: "responded with 503 Service Unavailable",
		begin: refuse(http.StatusServiceUnavailable, func(leafserver.Request) bool { return true }),
		end:   unrefuse,
	},
	{
		name: "the token is not accepted", reason: pipelinesv1.UnauthorizedReason, message: "rejected the kubeconfig's credentials",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			leaf.Accept("another")
		},
		end: func(_ *testing.T, _ *world, leaf *leafserver.Server) { leaf.Accept(leafserver.Token) },
	},
	{
		name: "the user may not list the kind", reason: pipelinesv1.ForbiddenReason, message: "the kubeconfig's user may not list objects of kind Kustomization.kustomize.toolkit.fluxcd.io in namespace prod",
		begin: refuse(http.StatusForbidden, func(r leafserver.Request) bool { return strings.HasSuffix(r.Path, "kustomizations") }),
		end:   unrefuse,
	},
	{
		name: "the user may list the kind and not watch it", reason: pipelinesv1.ForbiddenReason, message: "the kubeconfig's user may not watch objects of kind Kustomization",
		begin: refuse(http.StatusForbidden, func(r leafserver.Request) bool { return r.Watch }),
		end:   unrefuse,
	},
	{
		name: "the cluster does not have the kind", reason: pipelinesv1.KindNotInstalledReason, message: "the cluster has no kind Kustomization in kustomize.toolkit.fluxcd.io/v1",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			leaf.Serve()
		},
		end: func(_ *testing.T, _ *world, leaf *leafserver.Server) { leaf.Serve(leafserver.Kustomization) },
	},
	{
		name: "the application object does not exist", reason: pipelinesv1.ObjectNotFoundReason, message: "not found",
		begin: func(_ *testing.T, w *world, leaf *leafserver.Server) {
			w.connect("eu", leaf)
			leaf.Delete(app(""))
		},
		end: func(_ *testing.T, _ *world, leaf *leafserver.Server) { leaf.Put(app("v1")) },
	},
	{
		name: "the API server's certificate has expired", reason: pipelinesv1.CertificateExpiredReason, message: "has expired or is not valid yet",
		begin: func(t *testing.T, w *world, leaf *leafserver.Server) {
			expired, ca := certificate(t, time.Minute)
			w.create(gitopsCluster("eu"), secret("eu", "value", leafserver.Kubeconfig(leaf.URL(), ca, leafserver.Token)))
			NewWithT(t).Expect(leaf.Stop()).To(Succeed())
			NewWithT(t).Expect(leaf.ResumeWith(expired)).To(Succeed())
		},
		end: func(t *testing.T, w *world, leaf *leafserver.Server) {
			NewWithT(t).Expect(leaf.Stop()).To(Succeed())
			NewWithT(t).Expect(leaf.Resume()).To(Succeed())
			restoreSecret(t, w, leaf)
		},
	},
	{
		name: "the API server's certificate is another cluster's", reason: pipelinesv1.CertificateInvalidReason, message: "is not trusted by the kubeconfig",
		begin: func(t *testing.T, w *world, leaf *leafserver.Server) {
			_, ca := certificate(t, 24*time.Hour)
			w.create(gitopsCluster("eu"), secret("eu", "value", leafserver.Kubeconfig(leaf.URL(), ca, leafserver.Token)))
		},
		end: restoreSecret,
	},
}

func restoreSecret(_ *testing.T, w *world, leaf *leafserver.Server) {
	w.update(secret("eu", "value", leaf.Kubeconfig(leafserver.Token)))
}

func refuse(code int, which func(leafserver.Request) bool) func(*testing.T, *world, *leafserver.Server) {
	return func(_ *testing.T, w *world, leaf *leafserver.Server) {
		w.connect("eu", leaf)
		leaf.Refuse(func(r leafserver.Request) int {
			if which(r) {
				return code
			}
			return 0
		})
	}
}

func unrefuse(_ *testing.T, _ *world, leaf *leafserver.Server) { leaf.Refuse(nil) }

func setReady(t *testing.T, w *world, status metav1.ConditionStatus, message string) {
	c := gitopsCluster("eu")
	g := NewWithT(t)
	g.Expect(w.objects.Get(context.Background(), client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "R", Message: message, LastTransitionTime: metav1.Now()}}
	g.Expect(w.objects.Status().Update(context.Background(), c)).To(Succeed())
}

// certificate makes one for loopback that is good by the CA that is returned with it, for a while that began an hour
// ago.
func certificate(t *testing.T, age time.Duration) (tls.Certificate, []byte) {
	t.Helper()
	g := NewWithT(t)
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: "127.0.0.1", AlternateIPs: []net.IP{net.ParseIP("127.0.0.1")}, MaxAge: age,
	})
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(chain, key)
	g.Expect(err).NotTo(HaveOccurred())
	return pair, chain
}

func TestTrouble(t *testing.T) {
	for _, test := range troubles {
		t.Run("when "+test.name+" the target says so, others are unaffected, and it is known once that is fixed", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			leaf, other := newAppLeaf(t), newAppLeaf(t)
			test.begin(t, w, leaf)
			w.connect("us", other)
			troubled, well := pipeline("troubled", inCluster("eu")), pipeline("well", inCluster("us"))
			before := time.Now()
			w.Want(context.Background(), troubled)
			g.Eventually(w.state(troubled)).Should(And(beUnknown(test.reason), HaveField("Message", ContainSubstring(test.message)),
				HaveField("Since", BeTemporally(">=", before))))
			since, message := w.state(troubled)().Since, w.state(troubled)().Message
			g.Expect(since).To(BeTemporally("<=", time.Now()))
			g.Expect(message).NotTo(ContainSubstring(leafserver.Secret), "what a server says in a refusal is repeated to nobody")
			g.Eventually(w.queue.take).Should(HaveKey("troubled"))

			w.Want(context.Background(), well)
			g.Eventually(w.state(well)).Should(haveRevision("v1"))
			other.Put(app("v2"))
			g.Eventually(w.state(well)).Should(haveRevision("v2"))
			g.Expect(w.state(troubled)()).To(And(beUnknown(test.reason), HaveField("Since", Equal(since)), HaveField("Message", message)))

			test.end(t, w, leaf)
			g.Eventually(w.state(troubled)).Should(haveRevision("v1"))
			g.Eventually(w.queue.take).Should(HaveKey("troubled"))
		})
	}
}

func TestClustersAreLookedUpAtABoundedRate(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, func(o *leafcluster.Options) { o.Timing.Lookups, o.Timing.LookupBurst = 1e-9, 3 })
	p := pipeline("many")
	for i := range 10 {
		p.Spec.Environments = append(p.Spec.Environments, pipelinesv1.Environment{Targets: []pipelinesv1.Target{inCluster(fmt.Sprintf("c%d", i))}})
	}
	w.Want(t.Context(), p)
	g.Eventually(w.WaitingLookups).Should(Equal(10), "those that were looked up wait to be looked up again")
	reasons := map[string]int{}
	for _, env := range p.Spec.Environments {
		reasons[w.Read(t.Context(), p, env.Targets[0]).Reason]++
	}
	g.Expect(reasons).To(Equal(map[string]int{"ClusterNotFound": 3, "Connecting": 7}))
}

func TestAReadDoesNotWait(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, func(o *leafcluster.Options) { o.Timing.ProbeTimeout = time.Hour })
	leaf := newAppLeaf(t)
	leaf.Hang()
	w.connect("eu", leaf)
	p := pipeline("p", inCluster("eu"))
	w.Want(context.Background(), p)
	g.Eventually(leaf.Requests).Should(HaveLen(1))
	g.Expect(w.state(p)()).To(And(beUnknown(pipelinesv1.ConnectingReason), HaveField("Message", "connecting to "+leaf.URL())))
}

// allowing denies references across namespaces, but as the labels say that all namespaces have. They may be unreadable,
// too.
func allowing(labels map[string]string, err error) func(*leafcluster.Options) {
	return func(o *leafcluster.Options) {
		o.NoCrossNamespaceRefs = true
		o.NamespaceLabels = func(context.Context, string) (map[string]string, error) { return labels, err }
	}
}

func TestATargetInANamespaceThatAllowsIt(t *testing.T) {
	g := NewWithT(t)
	labels := map[string]string{pipelinesv1.AllowFromLabel: "default"}
	w := newWorld(t, allowing(labels, nil))
	w.management.Put(app("v1"))
	p := pipeline("p", pipelinesv1.Target{Namespace: "prod"})
	w.watch(p)
	theirs := pipeline("theirs", pipelinesv1.Target{Namespace: "prod"})
	theirs.Namespace = "prod"
	w.watch(theirs)

	delete(labels, pipelinesv1.AllowFromLabel)
	g.Expect(w.state(p)()).To(beUnknown(pipelinesv1.AccessDeniedReason), "before the Pipeline declares its targets again")
	w.Want(context.Background(), p)
	told := w.queue.gather()
	w.management.Put(app("v2"))
	g.Eventually(told).Should(HaveKey("theirs"))
	g.Expect(told()).NotTo(HaveKey("p"))
}

func TestATargetIsRefused(t *testing.T) {
	ref := func(kind, namespace string) *pipelinesv1.CrossNamespaceClusterReference {
		return &pipelinesv1.CrossNamespaceClusterReference{Kind: kind, Name: "eu", Namespace: namespace}
	}
	for _, test := range []struct {
		name            string
		target          pipelinesv1.Target
		change          func(*pipelinesv1.Pipeline)
		options         func(*leafcluster.Options)
		reason, message string
	}{
		{
			name:   "in a cluster that a Secret of another namespace represents",
			target: pipelinesv1.Target{Namespace: "prod", ClusterRef: ref("Secret", "other")},
			reason: pipelinesv1.AccessDeniedReason, message: "a Secret must be in the namespace of the Pipeline",
		},
		{
			name:   "in a cluster that a ConfigMap of another namespace represents",
			target: pipelinesv1.Target{Namespace: "prod", ClusterRef: ref("ConfigMap", "other")},
			reason: pipelinesv1.AccessDeniedReason, message: "a ConfigMap must be in the namespace of the Pipeline",
		},
		{
			name:    "in a cluster of another namespace, where references to other namespaces are denied",
			target:  pipelinesv1.Target{Namespace: "prod", ClusterRef: ref("GitopsCluster", "other")},
			options: func(o *leafcluster.Options) { o.NoCrossNamespaceRefs = true },
			reason:  pipelinesv1.AccessDeniedReason, message: "cross-namespace references are disabled",
		},
		{
			name:    "in another namespace, where references to other namespaces are denied",
			target:  pipelinesv1.Target{Namespace: "prod"},
			options: allowing(nil, nil),
			reason:  pipelinesv1.AccessDeniedReason,
			message: "access denied: cross-namespace references are disabled; to allow this one, label namespace prod with pipelines.weave.works/allow-from=default",
		},
		{
			name:    "in another namespace that allows a third one",
			target:  pipelinesv1.Target{Namespace: "prod"},
			options: allowing(map[string]string{pipelinesv1.AllowFromLabel: "other"}, nil),
			reason:  pipelinesv1.AccessDeniedReason, message: "access denied",
		},
		{
			name:    "in another namespace whose labels can't be read",
			target:  pipelinesv1.Target{Namespace: "prod"},
			options: allowing(map[string]string{pipelinesv1.AllowFromLabel: "default"}, errors.New("unreachable")),
			reason:  pipelinesv1.AccessDeniedReason, message: "access denied",
		},
		{
			name:   "in a cluster that an object of another kind represents",
			target: pipelinesv1.Target{Namespace: "prod", ClusterRef: ref("Deployment", "")},
			reason: pipelinesv1.InvalidTargetReason, message: "unsupported kind Deployment",
		},
		{
			name: "in a cluster that a kind of the same name in another group represents",
			target: pipelinesv1.Target{Namespace: "prod", ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{
				APIVersion: "example.com/v1", Kind: "Cluster", Name: "eu",
			}},
			reason: pipelinesv1.InvalidTargetReason, message: "kind Cluster is not one of example.com/v1",
		},
		{
			name:   "that is a Secret",
			target: pipelinesv1.Target{Namespace: "prod"},
			change: func(p *pipelinesv1.Pipeline) { p.Spec.AppRef.APIVersion, p.Spec.AppRef.Kind = "v1", "Secret" },
			reason: pipelinesv1.InvalidTargetReason, message: "kind Secret in v1 is not an application",
		},
		{
			name:   "whose API nobody names",
			target: pipelinesv1.Target{Namespace: "prod"},
			change: func(p *pipelinesv1.Pipeline) { p.Spec.AppRef.APIVersion = "" },
			reason: pipelinesv1.InvalidTargetReason, message: "spec.appRef.apiVersion is empty",
		},
		{
			name:   "whose version would lead elsewhere",
			target: inCluster("eu"),
			change: func(p *pipelinesv1.Pipeline) { p.Spec.AppRef.APIVersion = "apps/.." },
			reason: pipelinesv1.InvalidTargetReason, message: "apps/.. is not an API version",
		},
		{
			name:   "without a namespace, which would be all of them",
			target: pipelinesv1.Target{ClusterRef: ref("GitopsCluster", "")},
			reason: pipelinesv1.InvalidTargetReason, message: "the namespace or the name of the target is invalid",
		},
		{
			name:    "outside the only namespace that the controller watches",
			target:  pipelinesv1.Target{Namespace: "prod"},
			options: func(o *leafcluster.Options) { o.Namespace = "default" },
			reason:  pipelinesv1.AccessDeniedReason, message: "access denied: the controller watches namespace default only",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			options := test.options
			if options == nil {
				options = func(*leafcluster.Options) {}
			}
			w := newWorld(t, options)
			p := pipeline("p", test.target)
			if test.change != nil {
				test.change(p)
			}
			w.Want(context.Background(), p)
			g.Expect(w.state(p)()).To(And(beUnknown(test.reason), HaveField("Message", ContainSubstring(test.message))))
			g.Expect(w.management.Requests()).To(BeEmpty())
		})
	}
}

func TestNothingButTheKindInTheNamespaceIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	w.connect("eu", leaf)
	w.watch(pipeline("p", inCluster("eu")))
	const kind = "/apis/kustomize.toolkit.fluxcd.io/v1"
	for _, request := range leaf.Requests() {
		g.Expect(request.Path).To(BeElementOf("/version", kind, kind+"/namespaces/prod/kustomizations"))
	}
}

func TestTheSameClusterUnderTwoNamesIsConnectedOnce(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	w.connect("eu", leaf)
	w.connect("europe", leaf)
	one, two := pipeline("one", inCluster("eu")), pipeline("two", inCluster("europe"))
	w.watch(one)
	w.watch(two)
	_, ever := leaf.Connections()
	g.Expect(ever).To(Equal(1))
	watches := 0
	for _, request := range leaf.Requests() {
		if request.Watch {
			watches++
		}
	}
	g.Expect(watches).To(Equal(1))

	queued := w.queue.gather()
	leaf.Put(app("v2"))
	g.Eventually(queued).Should(And(HaveKey("one"), HaveKey("two")))

	w.Forget(client.ObjectKeyFromObject(one))
	leaf.Put(app("v3"))
	g.Eventually(w.state(two)).Should(haveRevision("v3"))
	_, ever = leaf.Connections()
	g.Expect(ever).To(Equal(1))
}

func TestAChangeQueuesThePipelinesOfTheTargetAndNoOthers(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	eu, us := newAppLeaf(t), newAppLeaf(t)
	eu.Put(leafserver.Object{Namespace: "prod", Name: "other", Revision: "v1"})
	eu.Put(leafserver.Object{Namespace: "test", Name: "app", Revision: "v1"})
	w.connect("eu", eu)
	w.connect("us", us)
	w.management.Put(app("v1"))

	otherApp := pipeline("other-app", inCluster("eu"))
	otherApp.Spec.AppRef.Name = "other"
	otherNamespace := inCluster("eu")
	otherNamespace.Namespace = "test"
	all := []*pipelinesv1.Pipeline{
		pipeline("one", inCluster("eu")), pipeline("two", inCluster("us"), inCluster("eu")),
		otherApp, pipeline("other-namespace", otherNamespace), pipeline("other-cluster", inCluster("us")),
		pipeline("management", pipelinesv1.Target{Namespace: "prod"}),
	}
	for _, p := range all {
		w.watch(p)
	}
	// What the connecting has queued arrives before a later change does.
	settle := func(leaf *leafserver.Server, p *pipelinesv1.Pipeline, revision string) {
		leaf.Put(app(revision))
		g.Eventually(w.state(p)).Should(haveRevision(revision))
		w.queue.take()
	}
	settle(eu, all[0], "v2")

	queued := w.queue.gather()
	eu.Put(app("v3"))
	g.Eventually(queued).Should(And(HaveLen(2), HaveKeyWithValue("one", time.Duration(0)), HaveKeyWithValue("two", time.Duration(0))))
	looked := app("v3")
	looked.Ready, looked.Message = "Unknown", "Reconciliation in progress"
	queued = w.queue.gather()
	eu.Put(looked)
	g.Eventually(queued).Should(And(HaveLen(2), HaveKeyWithValue("one", 5*time.Second), HaveKeyWithValue("two", 5*time.Second)),
		"what was just read is likely to be ready again in a moment")
	queued = w.queue.gather()
	eu.Delete(app(""))
	g.Eventually(queued).Should(HaveLen(2))
	g.Expect(w.state(all[0])()).To(beUnknown(pipelinesv1.ObjectNotFoundReason))

	w.management.Put(app("v2"))
	g.Eventually(w.queue.take).Should(And(HaveLen(1), HaveKey("management")))

	all[1].Spec.Environments = all[1].Spec.Environments[:1]
	w.Want(context.Background(), all[1])
	eu.Put(app("v4"))
	g.Eventually(w.queue.take).Should(And(HaveLen(1), HaveKey("one")), "two is no longer about that cluster")
}

func TestALeafThatIsCutOff(t *testing.T) {
	for _, test := range []struct {
		name    string
		cut     func(leaf *leafserver.Server, line *leafserver.Line) error
		restore func(leaf *leafserver.Server, line *leafserver.Line) error
		reason  string
	}{
		{
			name:    "the line goes silent: nothing is delivered, nothing refused",
			cut:     func(_ *leafserver.Server, line *leafserver.Line) error { line.Silence(); return nil },
			restore: func(_ *leafserver.Server, line *leafserver.Line) error { line.Restore(); return nil },
			reason:  pipelinesv1.UnreachableReason,
		},
		{
			name:    "the API server stops",
			cut:     func(leaf *leafserver.Server, _ *leafserver.Line) error { return leaf.Stop() },
			restore: func(leaf *leafserver.Server, _ *leafserver.Line) error { return leaf.Resume() },
			reason:  pipelinesv1.UnreachableReason,
		},
		{
			name: "the token is revoked and watches end",
			cut: func(leaf *leafserver.Server, _ *leafserver.Line) error {
				leaf.Accept()
				leaf.Disconnect()
				return nil
			},
			restore: func(leaf *leafserver.Server, _ *leafserver.Line) error { leaf.Accept(leafserver.Token); return nil },
			reason:  pipelinesv1.UnauthorizedReason,
		},
		{
			name: "the CRD is deleted",
			cut:  func(leaf *leafserver.Server, _ *leafserver.Line) error { leaf.Serve(); return nil },
			restore: func(leaf *leafserver.Server, _ *leafserver.Line) error {
				leaf.Serve(leafserver.Kustomization)
				return nil
			},
			reason: pipelinesv1.KindNotInstalledReason,
		},
		{
			name: "the rights are taken away and watches end",
			cut: func(leaf *leafserver.Server, _ *leafserver.Line) error {
				leaf.Refuse(func(r leafserver.Request) int {
					if strings.Contains(r.Path, "/namespaces/") {
						return http.StatusForbidden
					}
					return 0
				})
				leaf.Disconnect()
				return nil
			},
			restore: func(leaf *leafserver.Server, _ *leafserver.Line) error { leaf.Refuse(nil); return nil },
			reason:  pipelinesv1.ForbiddenReason,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, func(o *leafcluster.Options) { o.Timing.Grace = 3 * time.Second })
			leaf := newAppLeaf(t)
			line, err := leafserver.NewLine(leaf.URL())
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(line.Close()).To(Succeed()) })
			w.create(gitopsCluster("eu"), secret("eu", "value", leafserver.Kubeconfig(line.URL(), leaf.CA(), leafserver.Token)))
			p := pipeline("p", inCluster("eu"))
			w.watch(p)
			w.queue.take()

			cut := time.Now()
			g.Expect(test.cut(leaf, line)).To(Succeed())
			var last time.Time
			g.Eventually(func() application.State {
				state := w.state(p)()
				if state.Known {
					last = time.Now()
				}
				return state
			}).Should(beUnknown(test.reason))
			g.Expect(last.Sub(cut)).To(BeNumerically(">=", 500*time.Millisecond), "what was last seen of it holds for the time of grace")
			g.Eventually(w.queue.take).Should(HaveKey("p"))

			leaf.Put(app("v2"))
			g.Expect(test.restore(leaf, line)).To(Succeed())
			g.Eventually(w.state(p)).Should(haveRevision("v2"))
			g.Eventually(w.queue.take).Should(HaveKey("p"))
		})
	}
}

func TestALeafThatFailsInDifferentWaysByTurnsIsUnknownAfterTheTimeOfGraceToo(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	p := w.watchIn(leaf)
	var turn atomic.Int32
	leaf.Refuse(func(r leafserver.Request) int {
		if !strings.Contains(r.Path, "/namespaces/") {
			return 0
		}
		return []int{http.StatusForbidden, http.StatusServiceUnavailable}[turn.Add(1)%2]
	})
	leaf.Disconnect()
	g.Eventually(w.state(p)).Should(HaveField("Known", false))
	g.Eventually(turn.Load).Should(BeNumerically(">", 20))
	g.Expect(w.state(p)()).To(HaveField("Known", false))
}

func TestAKubeconfigThatIsReplaced(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf, elsewhere := newAppLeaf(t), newLeaf(t)
	elsewhere.Put(app("v7"))
	_, s := w.connect("eu", leaf)
	p := pipeline("p", inCluster("eu"))
	w.watch(p)

	// The token is rotated.
	s.Data["value"] = leaf.Kubeconfig("b-token")
	leaf.Accept("b-token")
	w.update(s)
	g.Eventually(func() bool {
		for _, request := range leaf.Requests() {
			if request.Watch && request.User == "b-token" {
				return true
			}
		}
		return false
	}).Should(BeTrue())
	g.Eventually(w.state(p)).Should(haveRevision("v1"))
	g.Eventually(func() int { open, _ := leaf.Connections(); return open }).Should(Equal(1))

	// The cluster moves: what the old one runs is not what the new one does.
	s.Data["value"] = elsewhere.Kubeconfig(leafserver.Token)
	w.update(s)
	g.Eventually(w.state(p)).Should(haveRevision("v7"))
	g.Eventually(func() int { open, _ := leaf.Connections(); return open }).Should(BeZero())

	// The Secret is deleted, and made again with the same content.
	w.delete(s)
	g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.SecretNotFoundReason))
	g.Eventually(func() int { open, _ := elsewhere.Connections(); return open }).Should(BeZero(), "credentials that are gone are not used")
	w.create(secret("eu", "value", elsewhere.Kubeconfig(leafserver.Token)))
	g.Eventually(w.state(p)).Should(haveRevision("v7"))

	// The same applies to the cluster object.
	w.delete(gitopsCluster("eu"))
	g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.ClusterNotFoundReason))
	w.create(gitopsCluster("eu"))
	g.Eventually(w.state(p)).Should(haveRevision("v7"))
}

func TestAWatchThatIsTooOldListsAgain(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	p := w.watchIn(leaf)
	leaf.Hang()
	leaf.Put(app("v2"))
	leaf.Compact()
	leaf.Unhang()
	g.Eventually(w.state(p)).Should(haveRevision("v2"))
}

func TestAListOfSeveralPages(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	for i := range 250 {
		leaf.Put(leafserver.Object{Namespace: "prod", Name: "app-" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Revision: "v1"})
	}
	w.connect("eu", leaf)
	last := pipeline("p", inCluster("eu"))
	last.Spec.AppRef.Name = "app-zi"
	w.watch(last)
	lists := 0
	for _, request := range leaf.Requests() {
		if strings.HasSuffix(request.Path, "kustomizations") && !request.Watch {
			lists++
		}
	}
	g.Expect(lists).To(Equal(3))
}

func TestWhatALeafSendsIsBounded(t *testing.T) {
	huge := func(size int) []byte {
		return []byte(`{"metadata":{"namespace":"prod","name":"app","resourceVersion":"5"},"spec":"` + strings.Repeat("x", size) + `"}`)
	}
	t.Run("an event that is too large ends the watch, and the target is unknown if it can't be listed either", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		leaf := newAppLeaf(t)
		p := w.watchIn(leaf)
		leaf.PutRaw(leafserver.Kustomization, "prod", "app", huge(65<<20))
		g.Eventually(w.state(p), 30*time.Second).Should(And(beUnknown(pipelinesv1.UnreachableReason), HaveField("Message", ContainSubstring("the response is too large"))))
		leaf.Put(app("v2"))
		g.Eventually(w.state(p), 30*time.Second).Should(haveRevision("v2"))
	})
	t.Run("nonsense is not taken for an answer", func(t *testing.T) {
		w := newWorld(t)
		leaf := newLeaf(t)
		leaf.PutRaw(leafserver.Kustomization, "prod", "app", []byte(`["told-to-nobody"]`))
		w.connect("eu", leaf)
		p := pipeline("p", inCluster("eu"))
		w.Want(context.Background(), p)
		NewWithT(t).Eventually(w.state(p)).Should(And(beUnknown(pipelinesv1.UnreachableReason), HaveField("Message", ContainSubstring("is not a Kubernetes API server"))))
	})
	t.Run("objects that are too many are not remembered", func(t *testing.T) {
		w := newWorld(t)
		leaf := newLeaf(t)
		for i := range 10001 {
			leaf.PutRaw(leafserver.Kustomization, "prod", fmt.Sprint(i), fmt.Appendf(nil, `{"metadata":{"namespace":"prod","name":"%d"}}`, i))
		}
		w.connect("eu", leaf)
		p := pipeline("p", inCluster("eu"))
		w.Want(context.Background(), p)
		NewWithT(t).Eventually(w.state(p), 30*time.Second).Should(And(beUnknown(pipelinesv1.InvalidTargetReason), HaveField("Message", ContainSubstring("more than 10000 objects"))))
	})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	leaf.Refuse(func(leafserver.Request) int { return http.StatusFound })
	w.connect("eu", leaf)
	p := pipeline("p", inCluster("eu"))
	w.Want(context.Background(), p)
	g.Eventually(w.state(p)).Should(And(beUnknown(pipelinesv1.UnreachableReason), HaveField("Message", ContainSubstring("responded with 302 Found"))))
}

func TestAPersonDoesNotWaitForABackoff(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t, func(o *leafcluster.Options) {
		o.Timing.BackoffMin, o.Timing.BackoffMax, o.Timing.ResolveInterval = time.Hour, time.Hour, time.Hour
	})
	leaf := newAppLeaf(t)
	g.Expect(leaf.Stop()).To(Succeed())
	w.connect("eu", leaf)
	p := pipeline("p", inCluster("eu"))
	w.Want(context.Background(), p)
	g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.UnreachableReason))
	g.Expect(leaf.Resume()).To(Succeed())
	w.Refresh(client.ObjectKeyFromObject(p))
	g.Eventually(w.state(p)).Should(haveRevision("v1"))
}

func TestTargetsInTheManagementCluster(t *testing.T) {
	local := pipelinesv1.Target{Namespace: "prod"}
	t.Run("are known at once, before the watch has begun", func(t *testing.T) {
		w := newWorld(t)
		w.management.Put(app("v1"))
		w.management.Refuse(func(r leafserver.Request) int {
			if strings.HasSuffix(r.Path, "kustomizations") {
				return http.StatusServiceUnavailable
			}
			return 0
		})
		p := pipeline("p", local)
		w.Want(context.Background(), p)
		state := w.state(p)()
		NewWithT(t).Expect(state).To(haveRevision("v1"))
		NewWithT(t).Expect(state.Object).To(Equal(corev1.ObjectReference{
			APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Namespace: "prod", Name: "app", UID: types.UID("prod-app"),
		}), "events can be made about it")
	})
	t.Run("are seen by one watch in all namespaces", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		w.management.Put(app("v1"))
		w.management.Put(leafserver.Object{Namespace: "test", Name: "app", Revision: "v1"})
		one, two := pipeline("one", local), pipeline("two", pipelinesv1.Target{Namespace: "test"})
		w.watch(one)
		w.watch(two)
		w.management.Put(app("v2"))
		g.Eventually(w.state(one)).Should(haveRevision("v2"))
		var watches []string
		g.Eventually(func() []string {
			for _, request := range w.management.Requests() {
				if request.Watch {
					watches = append(watches, request.Path)
				}
			}
			return watches
		}).ShouldNot(BeEmpty())
		g.Expect(watches).To(ConsistOf("/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"))
	})
	t.Run("are read in the version that is served when the one asked for is gone", func(t *testing.T) {
		w := newWorld(t)
		w.management.Put(app("v1"))
		p := pipeline("p", local)
		p.Spec.AppRef.APIVersion = "kustomize.toolkit.fluxcd.io/v1beta2"
		w.watch(p)
	})
	for _, test := range []struct {
		name            string
		begin           func(*leafserver.Server)
		reason, message string
	}{
		{
			name:   "of a kind that does not exist",
			begin:  func(s *leafserver.Server) { s.Serve() },
			reason: pipelinesv1.KindNotInstalledReason, message: "the cluster has no kind Kustomization",
		},
		{
			name:   "of a kind that the controller may not read",
			begin:  func(s *leafserver.Server) { s.Refuse(forbidObjects) },
			reason: pipelinesv1.ForbiddenReason, message: "the controller may not",
		},
		{
			name:   "that do not exist",
			begin:  func(s *leafserver.Server) { s.Delete(app("")) },
			reason: pipelinesv1.ObjectNotFoundReason, message: "not found",
		},
	} {
		t.Run(test.name+" say so, at first and when it becomes so", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t)
			w.management.Put(app("v1"))
			p := pipeline("p", local)
			w.watch(p)
			w.queue.take()
			test.begin(w.management)
			w.management.Disconnect()
			g.Eventually(w.state(p)).Should(And(beUnknown(test.reason), HaveField("Message", ContainSubstring(test.message))))
			g.Eventually(w.queue.take).Should(HaveKey("p"))

			again := newWorld(t)
			test.begin(again.management)
			again.Want(context.Background(), p)
			g.Expect(again.state(p)()).To(beUnknown(test.reason))
			g.Eventually(again.state(p)).Should(beUnknown(test.reason))
		})
	}
}

func forbidObjects(r leafserver.Request) int {
	if strings.Contains(r.Path, "kustomizations") {
		return http.StatusForbidden
	}
	return 0
}

func TestALeafWhoseListsHaveExpiredIsUnknown(t *testing.T) {
	gone := func(r leafserver.Request) int {
		if strings.Contains(r.Path, "/namespaces/") {
			return http.StatusGone
		}
		return 0
	}
	answers := And(beUnknown(pipelinesv1.UnreachableReason), HaveField("Message", ContainSubstring("responded with 410 Gone")))
	t.Run("after the time of grace", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		leaf := newAppLeaf(t)
		p := w.watchIn(leaf)
		leaf.Refuse(gone)
		leaf.Disconnect()
		leaf.Put(app("v2"))
		g.Eventually(w.state(p)).Should(answers)
	})
	t.Run("from the start", func(t *testing.T) {
		g := NewWithT(t)
		w := newWorld(t)
		leaf := newAppLeaf(t)
		leaf.Refuse(gone)
		w.connect("eu", leaf)
		p := pipeline("p", inCluster("eu"))
		w.Want(context.Background(), p)
		g.Eventually(w.state(p)).Should(answers)
	})
}

func TestAWatchThatIsNotAnsweredIsGivenUp(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	hang := make(chan struct{})
	leaf.Refuse(func(r leafserver.Request) int {
		if r.Watch {
			<-hang
		}
		return 0
	})
	p := w.watchIn(leaf)
	leaf.Put(app("v2"))
	defer close(hang)
	g.Eventually(w.state(p)).ShouldNot(haveRevision("v1"), "nobody has told of the change")
}

// strict refuses names that can't be any as client-go does: without asking the API server.
type strict struct{ client.Client }

func (s strict) Get(ctx context.Context, name client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if problems := content.IsPathSegmentName(name.Name); name.Name == "" || len(problems) > 0 {
		return fmt.Errorf("invalid resource name %q: %v", name.Name, problems)
	}
	return s.Client.Get(ctx, name, obj, options...)
}

func TestANameThatCannotBeOneIsAReason(t *testing.T) {
	withStrict := func(o *leafcluster.Options) { o.Objects = strict{o.Objects} }
	for _, name := range []string{"", "../eu"} {
		t.Run("of the Secret: "+name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, withStrict)
			leaf := newAppLeaf(t)
			c, _ := w.connect("eu", leaf)
			p := pipeline("p", inCluster("eu"))
			w.watch(p)
			c.Spec.SecretRef.Name = name
			w.update(c)
			g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.SecretNotFoundReason))
			g.Eventually(func() int { open, _ := leaf.Connections(); return open }).Should(BeZero())
		})
		t.Run("of the object that represents the cluster: "+name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(t, withStrict)
			p := pipeline("p", inCluster(name))
			w.Want(context.Background(), p)
			g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.InvalidTargetReason))
		})
	}
}

func TestAListThatIsNotAnsweredDoesNotKeepWhatWasSeenBefore(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(t)
	leaf := newAppLeaf(t)
	p := w.watchIn(leaf)
	hang := make(chan struct{})
	defer close(hang)
	leaf.Refuse(func(r leafserver.Request) int {
		if strings.HasSuffix(r.Path, "/kustomizations") && !r.Watch {
			<-hang
		}
		return 0
	})
	leaf.Put(app("v2"))
	leaf.Compact()
	leaf.Disconnect()
	g.Eventually(w.state(p)).Should(beUnknown(pipelinesv1.UnreachableReason))
}
