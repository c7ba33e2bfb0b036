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
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/killproxy"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// A leader ends, the API server restarts, or the controllers are upgraded during many promotions and a freeze.
// Afterwards, each promotion was made once, and each source is held. All Pipelines promote from namespace
// interrupted-one, where the application runs v2, to interrupted-two, where it runs v1.
var _ = Describe("An interruption", Ordered, Serial, func() {
	const gate, pass, sources = "interrupted", "interrupted-pass", 8
	var (
		events   *receipts
		eventsAt string
	)

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: interrupted, namespace: flux-system}, stringData: {token: %s, ca.crt: %q}}", token, github.CA())
		for _, namespace := range []string{"interrupted-one", "interrupted-two", "interrupted-three"} {
			apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)
		}
		events = &receipts{counts: map[string]int{}}
		proxy := &killproxy.Proxy{}
		DeferCleanup(proxy.Close)
		front, err := proxy.HTTP(world.Cluster.EventsAddr, events, func(*http.Request) bool { return false })
		Expect(err).NotTo(HaveOccurred())
		eventsAt = front.URL
		DeferCleanup(func(ctx SpecContext) {
			for i := range sources {
				deleteAll(ctx, object(sourceAPI, sourcev1.GitRepositoryKind, flux, fmt.Sprintf("%s-%d", gate, i)))
			}
		})
		for _, controller := range []*localcluster.Process{world.GateController, world.PipelineController} {
			Expect(controller.Stop()).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(controller.Start(ctx)).To(Succeed()) })
		}
	})
	BeforeEach(func(ctx SpecContext) {
		runs(ctx, world.Client, "interrupted-one", "v2")
		runs(ctx, world.Client, "interrupted-two", "v1")
	})

	// start runs one of Sluice's controllers until the spec ends.
	start := func(ctx context.Context, name, controller string, server *rest.Config, args ...string) *localcluster.Process {
		GinkgoHelper()
		args = append(args, "--events-addr="+eventsAt)
		if controller == "pipeline-controller" {
			args = append(args, "--approval-addr=")
		}
		process, err := world.Cluster.StartController(ctx, localcluster.ControllerProcess{
			Name: name, Binary: controller, ServiceAccount: controller, Server: server, Args: args,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error {
			log, _ := logOf(name)
			AddReportEntry(name, ReportEntryVisibilityFailureOrVerbose, log[max(0, len(log)-8<<10):])
			return process.Kill()
		})
		return process
	}
	// promoteFrom makes a Pipeline from a namespace, and its repository if it has one.
	promoteFrom := func(ctx context.Context, namespace, name, promotion string) {
		GinkgoHelper()
		if strings.Contains(promotion, "PULL") {
			Expect(github.AddRepository(owner, name)).To(Succeed())
			_, err := github.CommitFiles(owner, name, "main", map[string]string{
				"app.yaml": fmt.Sprintf("tag: v1 # {\"$promotion\": \"flux-system:%s:two\"}\n", name)}, "Begin")
			Expect(err).NotTo(HaveOccurred())
			promotion = strings.Replace(promotion, "PULL", fmt.Sprintf(
				"strategy: {pull-request: {type: github, url: '%s', baseBranch: main, secretRef: {name: interrupted}}}", github.RepositoryURL(owner, name)), 1)
		}
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: leafapp}
  environments:
  - {name: one, targets: [{namespace: %s}]}
  - {name: two, targets: [{namespace: interrupted-two}]}
  promotion: {%s}
`, name, namespace, promotion)
	}
	promote := func(ctx context.Context, name, promotion string) {
		GinkgoHelper()
		promoteFrom(ctx, "interrupted-one", name, promotion)
	}
	expectOnePullRequest := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(ctx, record(name, "two")).Should(And(haveState("created"), HaveField("Revision", "v2")), name)
		Expect(github.PullRequests(owner, name)).To(ConsistOf(HaveField("State", "open")), name)
		Expect(github.Pushes(owner, name)).To(HaveLen(1), name)
	}
	expectOneNotification := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(ctx, record(name, "two")).Should(And(haveState("succeeded"), HaveField("Revision", "v2")), name)
		Expect(events.of(name)).To(Equal(1), name)
	}
	// gated creates sources, or waits until existing ones are released.
	gated := func(ctx context.Context) []*unstructured.Unstructured {
		GinkgoHelper()
		turnGate(ctx, gate, false)
		var all []*unstructured.Unstructured
		for i := range sources {
			name := fmt.Sprintf("%s-%d", gate, i)
			apply(ctx, "{apiVersion: %s, kind: GitRepository, metadata: {name: %s, namespace: flux-system}, spec: {interval: 1h, url: '%s', ref: {branch: main}, gates: {refs: [%s]}}}",
				sourceAPI, name, world.RepositoryURL("app"), gate)
			all = append(all, object(sourceAPI, sourcev1.GitRepositoryKind, flux, name))
		}
		for _, source := range all {
			Eventually(ctx, field(source, "status", "artifact", "digest")).ShouldNot(BeNil())
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("True")))
		}
		return all
	}
	expectHeld := func(ctx context.Context, all []*unstructured.Unstructured) {
		GinkgoHelper()
		for _, source := range all {
			Eventually(ctx, condition(source, gatingv1.GatesOpenCondition)).Should(HaveField("Status", BeEquivalentTo("False")), source.GetName())
			Eventually(ctx, field(source, "spec", "suspend")).Should(Equal(true), source.GetName())
		}
		Eventually(ctx, field(object(gatingAPI, gatingv1.GateKind, flux, gate), "status", "held")).Should(BeEquivalentTo(sources))
	}
	// remove deletes Pipelines, and expects that their pull requests are closed.
	remove := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		for _, name := range names {
			pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
			Expect(world.Client.Delete(ctx, pipeline)).To(Succeed())
			Eventually(ctx, field(pipeline, "metadata", "uid")).Should(BeNil(), name)
		}
	}
	named := func(prefix string, number int) []string {
		var names []string
		for i := range number {
			names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		}
		return names
	}
	// waiting creates Pipelines that wait for a gate, and returns a function that releases all of them at once.
	waiting := func(ctx context.Context, pulled, told []string) (release func()) {
		GinkgoHelper()
		turnGate(ctx, pass, true)
		for _, name := range pulled {
			promote(ctx, name, "gates: {refs: ["+pass+"]}, PULL")
		}
		for _, name := range told {
			promote(ctx, name, "gates: {refs: ["+pass+"]}, strategy: {notification: {}}")
		}
		for _, name := range append(told, pulled...) {
			Eventually(ctx, ready(name)).Should(HaveField("Reason", "WaitingForPreconditions"))
		}
		return func() { turnGate(ctx, pass, false) }
	}
	// restart restarts the API server, which then has no old state.
	restart := func(ctx context.Context) {
		GinkgoHelper()
		Expect(world.Cluster.Compact(ctx)).To(Succeed())
		Expect(world.Cluster.Process("kube-apiserver").Start(ctx)).To(Succeed())
	}

	It("by the death of both leaders makes the other replicas continue", func(ctx SpecContext) {
		election := []string{"--enable-leader-election",
			"--leader-election-lease-duration=10s", "--leader-election-renew-deadline=8s", "--leader-election-retry-period=1s"}
		// die runs two replicas, and kills the leader at one of its writes of these objects.
		die := func(controller, path string, moment killproxy.Moment) <-chan killproxy.Death {
			GinkgoHelper()
			proxy := &killproxy.Proxy{}
			DeferCleanup(proxy.Close)
			server, err := proxy.Kubernetes(world.Cluster.Config, func(r *http.Request) bool { return strings.Contains(r.URL.Path, path) })
			Expect(err).NotTo(HaveOccurred())
			leader := start(ctx, controller+"-first", controller, server, election...)
			Eventually(ctx, metricsOf(leader)).Should(ContainSubstring(`leader_election_master_status{name="` + controller + `-leader-election"} 1`))
			start(ctx, controller+"-second", controller, nil, election...)
			return proxy.KillAt(moment, leader.Kill)
		}
		gates := start(ctx, "gate-controller-before", "gate-controller", nil)
		pipelines := start(ctx, "pipeline-controller-before", "pipeline-controller", nil)
		all, pulled, told := gated(ctx), named("leaderless-pulled", 6), named("leaderless-told", 4)
		release := waiting(ctx, pulled, told)
		Expect(gates.Stop()).To(Succeed())
		Expect(pipelines.Stop()).To(Succeed())

		promoting := die("pipeline-controller", "/pipelines/leaderless", killproxy.Moment{Call: 9, Done: true})
		holding := die("gate-controller", "/gitrepositories/", killproxy.Moment{Call: sources})
		release()
		turnGate(ctx, gate, true)
		Eventually(ctx, promoting).Should(Receive(HaveField("Err", BeNil())))
		Eventually(ctx, holding).Should(Receive(HaveField("Err", BeNil())))

		expectHeld(ctx, all)
		for _, name := range pulled {
			expectOnePullRequest(ctx, name)
		}
		for _, name := range told {
			expectOneNotification(ctx, name)
		}
		turnGate(ctx, gate, false)
		for _, source := range all {
			Eventually(ctx, field(source, "spec", "suspend")).Should(BeNil())
		}
		remove(ctx, append(pulled, told...)...)
	})

	It("by a restart of the API server ends nothing that is in progress", func(ctx SpecContext) {
		start(ctx, "gate-controller-restarted", "gate-controller", nil)
		start(ctx, "pipeline-controller-restarted", "pipeline-controller", nil)
		all, pulled, told := gated(ctx), named("restarted-pulled", 4), named("restarted-told", 4)
		release := waiting(ctx, pulled, told)

		server, died := world.Cluster.Process("kube-apiserver"), make(chan error, 1)
		github.FailNext(http.MethodPost, "restarted-pulled-.*"+createCall, 1, func(w http.ResponseWriter, r *http.Request, carryOut http.Handler) {
			died <- server.Kill()
			carryOut.ServeHTTP(w, r)
		})
		turnGate(ctx, gate, true)
		release()
		Eventually(ctx, died).Should(Receive(BeNil()))
		restart(ctx)

		expectHeld(ctx, all)
		for _, name := range pulled {
			expectOnePullRequest(ctx, name)
		}
		for _, name := range told {
			expectOneNotification(ctx, name)
		}
		remove(ctx, append(pulled, told...)...)
	})

	It("of the watches, during which changes were missed, is recovered from", slow, func(ctx SpecContext) {
		line, err := leafserver.NewLine(world.Cluster.Config.Host)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(line.Close)
		server := &rest.Config{Host: line.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: world.Cluster.Config.CAData}}
		gates := start(ctx, "gate-controller-deaf", "gate-controller", server)
		pipelines := start(ctx, "pipeline-controller-deaf", "pipeline-controller", server)
		runs(ctx, world.Client, "interrupted-one", "v1")
		all := gated(ctx)
		promote(ctx, "missed", "PULL")
		promote(ctx, "missed-end", "PULL")
		for _, name := range []string{"missed", "missed-end"} {
			Eventually(ctx, ready(name)).Should(HaveField("Reason", "UpToDate"))
		}
		// The Pipeline must know the revision first: an approval that is seen before its revision is deleted.
		runs(ctx, world.Client, "interrupted-three", "v2")
		promoteFrom(ctx, "interrupted-three", "missed-approval", "approvals: {required: 1}, PULL")
		Eventually(ctx, ready("missed-approval")).Should(HaveField("Reason", "WaitingForPreconditions"))
		was := []int{gates.PID(), pipelines.PID()}

		line.Silence()
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kustomizeAPI)
		list.SetKind("KustomizationList")
		Expect(world.Client.List(ctx, list)).To(Succeed())
		turnGate(ctx, gate, true)
		runs(ctx, world.Client, "interrupted-one", "v2")
		two := object(kustomizeAPI, kustomizev1.KustomizationKind, "interrupted-two", "leafapp")
		Expect(world.Client.Delete(ctx, two)).To(Succeed())
		Eventually(ctx, field(two, "metadata", "uid")).Should(BeNil())
		runs(ctx, world.Client, "interrupted-two", "v1")
		approve(ctx, "missed-approval", "v2")
		Expect(world.Client.Delete(ctx, object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "missed-end"))).To(Succeed())
		Expect(world.Cluster.Process("kube-apiserver").Kill()).To(Succeed())
		restart(ctx)
		By("checking that no watch can continue where those of the controllers were")
		Eventually(ctx, func(ctx context.Context) error { return goOn(ctx, list) }).Should(Satisfy(apierrors.IsResourceExpired))
		line.Restore()

		expectHeld(ctx, all)
		expectOnePullRequest(ctx, "missed")
		expectOnePullRequest(ctx, "missed-approval")
		Eventually(ctx, field(object(pipelinesAPI, pipelinesv1.PipelineKind, flux, "missed-end"), "metadata", "uid")).Should(BeNil())
		Expect(github.PullRequests(owner, "missed-end")).To(BeEmpty())
		Expect([]int{gates.PID(), pipelines.PID()}).To(Equal(was), "no controller was restarted")
		remove(ctx, "missed", "missed-approval")
	})

	It("by another version of the controllers, during promotions and holds, loses nothing and repeats nothing", func(ctx SpecContext) {
		gates := start(ctx, "gate-controller-old", "gate-controller", nil)
		pipelines := start(ctx, "pipeline-controller-old", "pipeline-controller", nil)
		all := gated(ctx)
		turnGate(ctx, gate, true)
		expectHeld(ctx, all)
		promote(ctx, "old-open", "PULL")
		runs(ctx, world.Client, "interrupted-three", "v2")
		promoteFrom(ctx, "interrupted-three", "old-withdrawn", "PULL")
		promote(ctx, "old-told", "strategy: {notification: {}}")
		promote(ctx, "old-approved", "approvals: {required: 1}, PULL")
		failure := github.FailNext(http.MethodPost, "old-failed"+createCall, githost.Always, githost.InternalServerError())
		promote(ctx, "old-failed", "PULL")
		expectOnePullRequest(ctx, "old-open")
		expectOnePullRequest(ctx, "old-withdrawn")
		expectOneNotification(ctx, "old-told")
		Eventually(ctx, ready("old-approved")).Should(HaveField("Reason", "WaitingForPreconditions"))
		Eventually(ctx, record("old-failed", "two")).Should(haveState("failed"))
		By("stopping the old version while it withdraws a pull request, which is closed and still has its branch")
		closing := make(chan error, 1)
		github.FailNext(http.MethodPost, "old-withdrawn/issues/1/comments", 1, func(http.ResponseWriter, *http.Request, http.Handler) {
			closing <- pipelines.Kill()
			panic(http.ErrAbortHandler)
		})
		runs(ctx, world.Client, "interrupted-three", "v3")
		Eventually(ctx, closing).Should(Receive(BeNil()))
		Expect(gates.Kill()).To(Succeed())
		failure.Remove()

		By("having it leave what an older one would have left")
		for _, name := range []string{"old-open", "old-told", "old-failed", "old-withdrawn"} {
			age(ctx, name)
		}
		approve(ctx, "old-approved", "v2")
		Expect(world.Commit("app", "Continue", map[string]string{"upgrade": "v2"})).To(Succeed())
		published := now(ctx, all)

		start(ctx, "gate-controller-new", "gate-controller", nil, "--watch-label-selector=!sharding.fluxcd.io/key", "--concurrent=8")
		start(ctx, "pipeline-controller-new", "pipeline-controller", nil, "--watch-label-selector=!sharding.fluxcd.io/key", "--concurrent=8")
		for _, name := range []string{"old-open", "old-approved", "old-failed"} {
			expectOnePullRequest(ctx, name)
		}
		expectOneNotification(ctx, "old-told")
		Eventually(ctx, func() (any, error) { return github.PullRequests(owner, "old-withdrawn") }).Should(ConsistOf(
			HaveField("State", "closed"), And(HaveField("State", "open"), HaveField("Title", HaveSuffix("v3")))))
		Expect(github.Branches(owner, "old-withdrawn")).To(HaveLen(2), "main and the branch of v3")
		expectHeld(ctx, all)
		for i, source := range now(ctx, all) {
			Expect(source.Object["status"].(map[string]any)["artifact"]).To(Equal(published[i].Object["status"].(map[string]any)["artifact"]), source.GetName())
		}

		By("continuing")
		Expect(github.Merge(owner, "old-open", 1)).NotTo(BeEmpty())
		reconcile(ctx, "old-open", "merged")
		Eventually(ctx, record("old-open", "two")).Should(haveState("succeeded"))
		turnGate(ctx, gate, false)
		for _, source := range all {
			Eventually(ctx, field(source, "spec", "suspend")).Should(BeNil())
		}
		remove(ctx, "old-open", "old-withdrawn", "old-told", "old-approved", "old-failed")
	})
})

// goOn watches a kind from the version of a list, and returns the error if the watch fails immediately.
func goOn(ctx context.Context, list *unstructured.UnstructuredList) error {
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watcher, err := world.Client.Watch(ctx, list.DeepCopy(), options)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	select {
	case event := <-watcher.ResultChan():
		return apierrors.FromObject(event.Object)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// approve approves the promotion of a revision into environment two of a Pipeline, as administrator.
func approve(ctx context.Context, pipeline, revision string) {
	GinkgoHelper()
	spec := pipelinesv1.PromotionApprovalSpec{Environment: "two", Revision: revision, ApprovedBy: "admin"}
	spec.PipelineRef.Name = pipeline
	Expect(world.Client.Create(ctx, pipelinesv1.NewPromotionApproval(flux, spec))).To(Succeed())
}

// age removes from the status of a Pipeline what an older version does not write.
func age(ctx context.Context, name string) {
	GinkgoHelper()
	pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
	Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline)).To(Succeed())
	promotion, found, err := unstructured.NestedMap(pipeline.Object, "status", "environments", "two", "promotion")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	for _, later := range []string{"approvers", "rateLimitedUntil", "arrivalTime", "repository"} {
		delete(promotion, later)
	}
	if pr, found := promotion["pullRequest"].(map[string]any); found {
		for _, later := range []string{"commit", "baseCommit", "baseFiles", "warning", "gates", "reporting", "merging"} {
			delete(pr, later)
		}
	}
	Expect(unstructured.SetNestedMap(pipeline.Object, promotion, "status", "environments", "two", "promotion")).To(Succeed())
	Expect(world.Client.Status().Update(ctx, pipeline)).To(Succeed())
}

// receipts counts the notifications of each Pipeline that notification-controller accepts.
type receipts struct {
	mu     sync.Mutex
	counts map[string]int
}

func (a *receipts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The sender may be dead already.
	response, err := http.DefaultTransport.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err == nil && response.StatusCode < 300 {
		a.take(body)
	}
	return response, err
}

func (a *receipts) take(body []byte) {
	var event struct {
		Reason         string
		InvolvedObject struct{ Name string }
	}
	if json.Unmarshal(body, &event) == nil && event.Reason == "Promote" {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.counts[event.InvolvedObject.Name]++
	}
}

func (a *receipts) of(pipeline string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[pipeline]
}
