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
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/workpool"
)

// deadHost is a Git host that does not respond.
type deadHost struct{ PullRequests }

func (deadHost) Withdraw(context.Context, promote.Promotion, string) plan.Outcome {
	return plan.Outcome{Err: errors.New("no answer")}
}

// atOnce is a pool that runs tasks immediately, and records when the last one must be run again.
type atOnce struct{ again time.Duration }

func (p *atOnce) Do(task workpool.Task) bool {
	p.again = task.Run(context.Background())
	return true
}

func (*atOnce) Running(string) bool         { return false }
func (*atOnce) Waited(string) time.Duration { return 0 }
func (*atOnce) Cancel(string)               {}

func TestAPipelineIsNotHeldUpForLongByAHostThatDoesNotAnswer(t *testing.T) {
	deleted := metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))

	for _, test := range []struct {
		name string
		now  time.Duration
		wait time.Duration
		gone bool
	}{
		{"it is tried again", 0, finalizerRetry, false},
		{"the clock is behind that of the API server by a little", -finalizerRetry, finalizerRetry, false},
		{"not much longer than a minute", finalizerPatience - time.Second, time.Second, false},
		{"it is removed after a minute", finalizerPatience, 0, true},
		{"the clock is behind that of the API server by far", -time.Hour, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
			pipeline := &pipelinesv1.Pipeline{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "app", UID: "u", DeletionTimestamp: &deleted, Finalizers: []string{pipelinesv1.PipelineFinalizer},
				},
				Spec: pipelinesv1.PipelineSpec{Promotion: &pipelinesv1.Promotion{Strategy: pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{}}}},
				Status: pipelinesv1.PipelineStatus{Environments: map[string]*pipelinesv1.EnvironmentStatus{"prod": {
					Promotion: &pipelinesv1.PromotionRecord{Revision: "v2", State: pipelinesv1.PromotionCreated, StartTime: deleted, Attempts: 1},
				}}},
			}
			kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pipeline).WithStatusSubresource(pipeline).Build()
			actions := &atOnce{}
			r := &PipelineReconciler{Client: kube, Live: kube, PullRequests: deadHost{}, Actions: actions, Now: func() time.Time { return deleted.Add(test.now) }}

			key := client.ObjectKeyFromObject(pipeline)
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(actions.again).To(Equal(test.wait))
			g.Expect(client.IgnoreNotFound(kube.Get(t.Context(), key, pipeline))).To(Succeed())
			g.Expect(kube.Get(t.Context(), key, pipeline) != nil).To(Equal(test.gone))
		})
	}
}
