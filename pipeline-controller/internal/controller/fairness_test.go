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

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

// slowHost only responds to Pipelines of the namespace "quick". Other requests hang until the context is cancelled.
type slowHost struct {
	PullRequests
	opened, looked chan types.NamespacedName
}

func (h slowHost) Open(ctx context.Context, promotion promote.Promotion, _ promote.Confirm) plan.Outcome {
	return h.answer(ctx, h.opened, promotion.Pipeline)
}

func (h slowHost) Poll(ctx context.Context, promotion promote.Promotion, _ *pipelinesv1.PullRequestStatus) plan.PullRequest {
	return plan.PullRequest{Err: h.answer(ctx, h.looked, promotion.Pipeline).Err}
}

func (slowHost) answer(ctx context.Context, asked chan types.NamespacedName, pipeline types.NamespacedName) plan.Outcome {
	asked <- pipeline
	if pipeline.Namespace != "quick" {
		<-ctx.Done()
	}
	return plan.Outcome{Err: fmt.Errorf("no answer")}
}

// twoTargets runs v2 in the first environment and v1 in the other one.
type twoTargets struct{ Targets }

func (twoTargets) Want(context.Context, *pipelinesv1.Pipeline) {}

func (twoTargets) ReadSources(context.Context, *pipelinesv1.Pipeline, []application.SourceOf) []application.State {
	return nil
}

func (twoTargets) Read(_ context.Context, _ *pipelinesv1.Pipeline, t pipelinesv1.Target) application.State {
	return application.State{Known: true, Ready: true, Revision: map[string]string{"one": "v2", "two": "v1"}[t.Namespace]}
}

func TestASlowHostKeepsNoPipelineFromBeingReconciled(t *testing.T) {
	const many = 40
	for _, test := range []struct {
		name   string
		record *pipelinesv1.PromotionRecord
		asked  func(slowHost) chan types.NamespacedName
	}{
		{"that has a pull request to open", nil, func(h slowHost) chan types.NamespacedName { return h.opened }},
		{"whose pull request is open", &pipelinesv1.PromotionRecord{
			Revision: "v2", State: pipelinesv1.PromotionCreated, StartTime: metav1.NewTime(polledAt), Attempts: 1,
			PullRequest: &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/7", Number: 7, Branch: "promote"},
		}, func(h slowHost) chan types.NamespacedName { return h.looked }},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
			g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
			kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&pipelinesv1.Pipeline{}).
				WithIndex(&pipelinesv1.PromotionApproval{}, pipelinesv1.ApprovalPipelineField, indexApprovals).Build()
			var requests []ctrl.Request
			for i := range many + 1 {
				pipeline := slowPipeline(i, test.record)
				if i == many {
					pipeline.Namespace = "quick"
				}
				g.Expect(kube.Create(t.Context(), pipeline)).To(Succeed())
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pipeline)})
			}
			host := slowHost{opened: make(chan types.NamespacedName, many+1), looked: make(chan types.NamespacedName, many+1)}
			actions, polls := workpool.New(workpool.Share(6)), workpool.New(workpool.Share(6))
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			g.Expect(actions.Start(t.Context(), queue)).To(Succeed())
			g.Expect(polls.Start(t.Context(), queue)).To(Succeed())
			r := &PipelineReconciler{
				Client: kube, Live: kube, Targets: twoTargets{}, PullRequests: host, Actions: actions, Polls: polls, NoCrossNamespaceRefs: true,
				Announcer: announce.To(kube.Scheme(), &record.FakeRecorder{}, &record.FakeRecorder{}),
				Now:       func() time.Time { return polledAt },
			}

			for _, request := range requests {
				_, err := r.Reconcile(t.Context(), request)
				g.Expect(err).NotTo(HaveOccurred())
			}

			g.Eventually(test.asked(host)).Should(Receive(HaveField("Namespace", "slow")))
			g.Eventually(test.asked(host)).Should(Receive(Equal(requests[many].NamespacedName)))
			for _, request := range requests {
				g.Eventually(func() (string, error) {
					pipeline := &pipelinesv1.Pipeline{}
					err := kube.Get(t.Context(), request.NamespacedName, pipeline)
					return pipeline.Status.Revision, err
				}).Should(Equal("v2"), request.String())
			}
		})
	}
}

func slowPipeline(i int, record *pipelinesv1.PromotionRecord) *pipelinesv1.Pipeline {
	name := fmt.Sprintf("app-%d", i)
	pipeline := &pipelinesv1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: "slow", Name: name, UID: types.UID(name), Finalizers: []string{pipelinesv1.PipelineFinalizer}},
		Spec: pipelinesv1.PipelineSpec{
			Environments: []pipelinesv1.Environment{
				{Name: "one", Targets: []pipelinesv1.Target{{Namespace: "one"}}},
				{Name: "two", Targets: []pipelinesv1.Target{{Namespace: "two"}}},
			},
			Promotion: &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{
				PullRequest: &pipelinesv1.PullRequestPromotion{URL: "https://git/owner/repository", BaseBranch: "main"},
			}},
		},
	}
	if record != nil {
		pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"two": {Promotion: record.DeepCopy()}}
	}
	return pipeline
}
