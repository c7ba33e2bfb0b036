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
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/killproxy"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// The application runs v2.0.0 in namespace crash-one and v1.0.0 in crash-two. Each round has its own Pipeline, and
// kills pipeline-controller at another call of the promotion: to the API server, the Git host, or
// notification-controller.
var _ = Describe("Killing pipeline-controller", Ordered, func() {
	var (
		proxy       *killproxy.Proxy
		flags       localcluster.ControllerProcess
		gitHost, ca string
		// promoted is the Pipeline whose calls are counted.
		promoted atomic.Value
		// accepted counts the notifications that notification-controller has accepted.
		accepted = &receipts{counts: map[string]int{}}
	)

	BeforeAll(func(ctx SpecContext) {
		github.AddToken(githost.Token{Value: token, Login: "sluice-bot"})
		_, err := world.Git.CreateRepository("crash")
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"v1.0.0", "v2.0.0"} {
			Expect(world.Release("crash", version)).To(Succeed())
		}
		for namespace, version := range map[string]string{"crash-one": "v2.0.0", "crash-two": "v1.0.0"} {
			deploy(ctx, "crash", namespace, version)
			Eventually(ctx, field(object("v1", "ConfigMap", namespace, "app"), "data", "version")).Should(Equal(version))
		}

		proxy = &killproxy.Proxy{}
		DeferCleanup(proxy.Close)
		promoted.Store("none")
		ofPromoted := func(r *http.Request) bool { return strings.Contains(r.URL.Path, promoted.Load().(string)) }
		server, err := proxy.Kubernetes(world.Cluster.Config, ofPromoted)
		Expect(err).NotTo(HaveOccurred())
		transport := github.Transport()
		transport.DisableKeepAlives = true // a request on a connection that is used again is repeated if that is cut
		host, err := proxy.HTTPS(github.URL(), transport, ofPromoted)
		Expect(err).NotTo(HaveOccurred())
		gitHost, ca = host.URL, base64.StdEncoding.EncodeToString(killproxy.CA(host))
		notification := func(r *http.Request) bool { return asksForPromotion(r, promoted.Load().(string)) }
		events, err := proxy.HTTP(world.Cluster.EventsAddr, accepted, notification)
		Expect(err).NotTo(HaveOccurred())

		Expect(world.PipelineController.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(world.PipelineController.Start(ctx)).To(Succeed()) })
		flags = localcluster.ControllerProcess{
			Binary: "pipeline-controller", ServiceAccount: "pipeline-controller", Server: server, Args: []string{"--events-addr=" + events.URL, "--approval-addr="},
		}
	})

	// start runs a controller under its own name.
	start := func(ctx context.Context, name string, args ...string) *localcluster.Process {
		GinkgoHelper()
		as := flags
		as.Name = name
		as.Args = append(args, flags.Args...)
		controller, err := world.Cluster.StartController(ctx, as)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error {
			log, _ := logOf(name)
			AddReportEntry(name, ReportEntryVisibilityFailureOrVerbose, log[max(0, len(log)-8<<10):])
			return controller.Kill()
		})
		return controller
	}
	// promote creates a Pipeline with one promotion that is due immediately, and counts its calls from now on.
	promote := func(ctx context.Context, name, strategy string) {
		GinkgoHelper()
		promoted.Store(name)
		apply(ctx, `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: %s, namespace: flux-system}
spec:
  appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: crash}
  environments:
  - {name: one, targets: [{namespace: crash-one}]}
  - {name: two, targets: [{namespace: crash-two}]}
  promotion: {strategy: {%s}}
`, name, strategy)
	}
	byPullRequest := func(ctx context.Context, name string) string {
		GinkgoHelper()
		Expect(github.AddRepository(owner, name)).To(Succeed())
		_, err := github.CommitFiles(owner, name, "main", map[string]string{
			"app.yaml": fmt.Sprintf("tag: v1.0.0 # {\"$promotion\": \"flux-system:%s:two:tag\"}\n", name)}, "Begin")
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: flux-system}, stringData: {token: %s}, data: {ca.crt: %s}}", name, token, ca)
		return fmt.Sprintf("pull-request: {type: github, url: '%s/%s/%s.git', baseBranch: main, secretRef: {name: %[3]s}}", gitHost, owner, name)
	}
	// remove deletes the Pipeline, so it makes no more calls.
	remove := func(ctx context.Context, name string) {
		GinkgoHelper()
		promoted.Store("none")
		pipeline := object(pipelinesAPI, pipelinesv1.PipelineKind, flux, name)
		Expect(world.Client.Delete(ctx, pipeline)).To(Succeed())
		Eventually(ctx, field(pipeline, "metadata", "uid")).Should(BeNil())
	}
	expectOnePullRequest := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(ctx, record(name, "two")).Should(haveState("created"))
		promotion, err := record(name, "two")(ctx)
		Expect(err).NotTo(HaveOccurred())
		all, err := github.PullRequests(owner, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(ConsistOf(And(HaveField("State", "open"), HaveField("Number", BeEquivalentTo(promotion.PullRequest.Number)))))
		branches, err := github.Branches(owner, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(branches).To(And(HaveLen(2), HaveKeyWithValue(promotion.PullRequest.Branch, promotion.PullRequest.HeadCommit)))
	}

	// atCalls kills the controller before and after the first call of a promotion, and at intervals after that, until
	// it completes.
	atCalls := func(ctx context.Context, every int, prefix string, controller *localcluster.Process, prepare func(ctx context.Context, name string) string,
		done, expect func(ctx context.Context, name string)) {
		GinkgoHelper()
		deaths := 0
		for call := 1; ; call += every {
			for _, carriedOut := range []bool{false, true} {
				name := fmt.Sprintf("%s-%d-%t", prefix, call, carriedOut)
				strategy := prepare(ctx, name)
				dead := proxy.KillAt(killproxy.Moment{Call: call, Done: carriedOut}, controller.Kill)
				promote(ctx, name, strategy)
				finished := make(chan struct{})
				go func() {
					defer GinkgoRecover()
					defer close(finished)
					done(ctx, name)
				}()
				var death killproxy.Death
				select {
				case death = <-dead:
				case <-finished:
					proxy.Forget()
					select {
					case death = <-dead: // after the last call
					default: // there is no such call
						remove(ctx, name)
						Expect(deaths*every).To(BeNumerically(">=", 6), "a promotion takes a few calls")
						return
					}
				}
				Expect(death.Err).NotTo(HaveOccurred())
				By(fmt.Sprintf("killed at call %d, carried out: %t: %s", call, carriedOut, death.Call))
				deaths++
				Expect(controller.Start(ctx)).To(Succeed())
				reconcile(ctx, name, "now") // otherwise, an interrupted attempt is repeated after its backoff
				<-finished
				expect(ctx, name)
				remove(ctx, name)
			}
		}
	}

	DescribeTable("and starting it again, leads to one pull request", func(ctx SpecContext, every int) {
		done := func(ctx context.Context, name string) {
			Eventually(ctx, record(name, "two")).Should(haveState("created"))
		}
		prefix := fmt.Sprintf("pulled-%d", every)
		atCalls(ctx, every, prefix, start(ctx, "pipeline-controller-killed"), byPullRequest, done, expectOnePullRequest)
	},
		Entry("at every third call of a promotion by pull request", 3),
		Entry("at any call of a promotion by pull request", slow, 1),
	)

	It("at any call of a promotion by notification, and starting it again, leads to one accepted event", func(ctx SpecContext) {
		prepare := func(context.Context, string) string { return "notification: {}" }
		done := func(ctx context.Context, name string) {
			Eventually(ctx, record(name, "two")).Should(haveState("succeeded"))
		}
		atCalls(ctx, 1, "told", start(ctx, "pipeline-controller-killed-too"), prepare, done,
			func(_ context.Context, name string) { Expect(accepted.of(name)).To(Equal(1)) })
	})

	It("at each attempt leads to few attempts, each after the backoff of the one before", func(ctx SpecContext) {
		const name = "backs-off"
		strategy := byPullRequest(ctx, name)
		controller := start(ctx, "pipeline-controller-backs-off")
		died := make(chan error, 2)
		deadly := github.FailNext("", name, 2, func(http.ResponseWriter, *http.Request, http.Handler) {
			died <- controller.Kill()
			panic(http.ErrAbortHandler)
		})
		promote(ctx, name, strategy)

		var attempts []pipelinesv1.PromotionRecord
		for n := range 2 {
			Eventually(ctx, died).Should(Receive(BeNil()))
			attempt, err := record(name, "two")(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(attempt).To(And(haveState("unattempted"), HaveField("Attempts", BeEquivalentTo(n+1)), HaveField("NextAttemptTime", Not(BeNil()))))
			attempts = append(attempts, attempt)
			Expect(controller.Start(ctx)).To(Succeed())
		}
		last := attempts[1]
		Eventually(ctx, ready(name)).Should(And(HaveField("Reason", "PromotionFailed"),
			HaveField("Message", "two: the last attempt to promote "+revision.Short(last.Revision)+" was interrupted; next attempt at "+
				last.NextAttemptTime.UTC().Format(time.RFC3339))))
		backoff := func(attempt pipelinesv1.PromotionRecord) time.Duration {
			return attempt.NextAttemptTime.Sub(attempt.LastAttemptTime.Time)
		}
		Expect(backoff(attempts[0])).To(BeNumerically(">=", 8*time.Second))
		Expect(backoff(attempts[1])).To(BeNumerically(">=", 16*time.Second))
		Expect(attempts[1].LastAttemptTime.Time).NotTo(BeTemporally("<", attempts[0].NextAttemptTime.Time))

		reconcile(ctx, name, "now")
		expectOnePullRequest(ctx, name)
		Expect(deadly.Hits()).To(Equal(2))
		Expect(record(name, "two")(ctx)).To(And(HaveField("Attempts", BeEquivalentTo(3)), HaveField("NextAttemptTime", BeNil())))
		remove(ctx, name)
		Expect(controller.Kill()).To(Succeed())
	})

	It("during a promotion makes another replica continue it, with one pull request", func(ctx SpecContext) {
		election := []string{"--enable-leader-election", "--leader-election-lease-duration=15s", "--leader-election-renew-deadline=10s"}
		leader := start(ctx, "pipeline-controller-leader", election...)
		Eventually(ctx, metricsOf(leader)).Should(ContainSubstring(`leader_election_master_status{name="pipeline-controller-leader-election"} 1`))
		start(ctx, "pipeline-controller-follower", election...)

		// The Git host opens the pull request, but its response never arrives.
		strategy := byPullRequest(ctx, "replicas")
		died := make(chan error, 1)
		github.FailNext(http.MethodPost, "replicas"+createCall, 1, func(_ http.ResponseWriter, r *http.Request, carryOut http.Handler) {
			carryOut.ServeHTTP(httptest.NewRecorder(), r)
			died <- leader.Kill()
			panic(http.ErrAbortHandler)
		})
		promote(ctx, "replicas", strategy)
		Eventually(ctx, died).Should(Receive(BeNil()))
		expectOnePullRequest(ctx, "replicas")
		Expect(github.Count(http.MethodPost, "replicas"+createCall)).To(Equal(1))
		remove(ctx, "replicas")
	})
})

// asksForPromotion reports whether a request contains the event that promotes by notification for a Pipeline.
func asksForPromotion(r *http.Request, pipeline string) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && strings.Contains(string(body), `"reason":"Promote"`) && strings.Contains(string(body), pipeline)
}
