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
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/runtime/announce"
)

// elsewhere has readable targets in another cluster.
type elsewhere struct{ Targets }

func (elsewhere) Read(context.Context, *pipelinesv1.Pipeline, pipelinesv1.Target) application.State {
	return application.State{Known: true}
}

func TestEventsOnAPipeline(t *testing.T) {
	const (
		gates    = pipelinesv1.GatesPrecondition
		approval = pipelinesv1.ApprovalPrecondition
	)
	status := func(state pipelinesv1.PromotionState, environment pipelinesv1.EnvironmentState, message string, unmet ...string) *pipelinesv1.EnvironmentStatus {
		record := &pipelinesv1.PromotionRecord{Revision: "v2", State: state, StartTime: metav1.Unix(1, 0)}
		for _, precondition := range []string{gates, approval} {
			record.Preconditions = append(record.Preconditions, pipelinesv1.PreconditionStatus{Type: precondition, Met: true})
		}
		made := &pipelinesv1.EnvironmentStatus{Promotion: record, State: environment, Message: message}
		for _, precondition := range unmet {
			for i := range record.Preconditions {
				record.Preconditions[i].Met = record.Preconditions[i].Met && record.Preconditions[i].Type != precondition
			}
			if precondition == approval {
				made.WaitingApproval.Revision = "v2"
			}
		}
		return made
	}
	waits := func(message string, unmet ...string) *pipelinesv1.EnvironmentStatus {
		return status(pipelinesv1.PromotionUnapproved, pipelinesv1.EnvironmentWaiting, message, unmet...)
	}
	opened := func(message string, unmet ...string) *pipelinesv1.EnvironmentStatus {
		return status(pipelinesv1.PromotionCreated, pipelinesv1.EnvironmentPullRequestOpen, message, unmet...)
	}
	failed := func(second int64) *pipelinesv1.EnvironmentStatus {
		made := status(pipelinesv1.PromotionFailed, pipelinesv1.EnvironmentFailed, "promoting v2 failed")
		made.Promotion.LastError, made.Promotion.StartTime = "no such branch", metav1.Unix(second, 0)
		return made
	}
	for _, test := range []struct {
		name        string
		before, now *pipelinesv1.EnvironmentStatus
		want        string
	}{
		{"a promotion that waits for approval says how to approve it", nil, waits("v2 waits: waiting for approval", approval),
			"Normal WaitingForPreconditions prod: v2 waits: waiting for approval; to approve: flux approve promotion app --env prod -n apps"},
		{"a promotion that waits for a gate alone does not", nil, waits("v2 waits: gate freeze is closed by jane", gates),
			"Normal WaitingForPreconditions prod: v2 waits: gate freeze is closed by jane"},
		{"a gate that closes while it waits is reported", waits("", approval), waits("v2 waits: gate freeze is closed by jane; waiting for approval", gates, approval),
			"Normal WaitingForPreconditions prod: v2 waits: gate freeze is closed by jane; waiting for approval; to approve: flux approve promotion app --env prod -n apps"},
		{"a gate that opens is not", waits("", gates, approval), waits("v2 waits: waiting for approval", approval), ""},
		{"a gate that closes while the pull request is open is reported", opened(""), opened("v2 waits for pull request; merge blocked: gate freeze is closed by jane", gates),
			"Normal PullRequestOpen prod: v2 waits for pull request; merge blocked: gate freeze is closed by jane"},
		{"a failure is reported", opened(""), failed(1), "Warning PromotionFailed prod: promoting v2 failed"},
		{"a failure that repeats itself is not", failed(1), failed(1), ""},
		{"the same failure of another promotion is", failed(1), failed(2), "Warning PromotionFailed prod: promoting v2 failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(pipelinesv1.AddToScheme(scheme)).To(Succeed())
			recorder := record.NewFakeRecorder(10)
			r := &PipelineReconciler{Announcer: announce.To(scheme, recorder, &record.FakeRecorder{}), Targets: elsewhere{}}
			pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "app"}}
			pipeline.Spec.Environments = []pipelinesv1.Environment{{Name: "prod", Targets: []pipelinesv1.Target{{Namespace: "prod", ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{Kind: "Secret", Name: "leaf"}}}}}
			pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": test.now}
			before := pipelinesv1.PipelineStatus{Environments: map[string]*pipelinesv1.EnvironmentStatus{}}
			if test.before != nil {
				before.Environments["prod"] = test.before
			}
			r.announce(t.Context(), pipeline, before)
			if test.want != "" {
				g.Expect(recorder.Events).To(Receive(Equal(test.want)))
			}
			g.Expect(recorder.Events).To(BeEmpty(), "one event at most, and none on an application of another cluster")
		})
	}
}
