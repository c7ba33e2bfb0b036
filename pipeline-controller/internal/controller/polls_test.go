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
	"errors"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

var polledAt = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestPollInterval(t *testing.T) {
	for _, test := range []struct {
		name string
		age  time.Duration
		err  error
		want time.Duration
	}{
		{"a new pull request is polled every half minute", time.Minute, nil, 30 * time.Second},
		{"after an hour it is every three minutes", time.Hour, nil, 3 * time.Minute},
		{"after a day every ten", 24 * time.Hour, nil, 10 * time.Minute},
		{"what can't be read is tried again soon, however old it is", 24 * time.Hour, errors.New("timeout"), 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			record := &pipelinesv1.PromotionRecord{State: pipelinesv1.PromotionCreated, StartTime: metav1.NewTime(polledAt.Add(-test.age))}
			NewWithT(t).Expect(pollInterval(record, test.err, polledAt)).To(Equal(test.want))
		})
	}
}

func TestPollIsDue(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*plan.World)
		due    bool
	}{
		{"not while nothing has changed", func(*plan.World) {}, false},
		{"in its time", func(w *plan.World) { w.Now = polledAt.Add(time.Minute) }, true},
		{"when the wall clock was put back, whatever it says", func(w *plan.World) { w.Now = polledAt.Add(-time.Hour) }, true},
		{"when a person asks", func(w *plan.World) {
			w.Pipeline.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
		}, true},
		{"when a webhook came", func(w *plan.World) {
			w.Pipeline.Annotations = map[string]string{pipelinesv1.WebhookAnnotation: "now"}
		}, true},
		{"when the spec has changed, which may have fixed an error", func(w *plan.World) { w.Pipeline.Generation++ }, true},
		{"when it is another pull request", func(w *plan.World) {
			w.Pipeline.Status.Environments["prod"].Promotion.PullRequest.URL = "https://git/pulls/8"
		}, true},
		{"when the promotion has come to another state", func(w *plan.World) {
			w.Pipeline.Status.Environments["prod"].Promotion.State = pipelinesv1.PromotionAbandoned
		}, true},
		{"when a target runs the revision, since then it was merged", func(w *plan.World) {
			w.Targets["prod"] = []application.State{{Known: true, Revision: "v2"}}
		}, true},
		{"not for a target of another revision", func(w *plan.World) {
			w.Targets["prod"] = []application.State{{Known: true, Revision: "v1"}}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pipeline := &pipelinesv1.Pipeline{}
			pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{"prod": {Promotion: &pipelinesv1.PromotionRecord{
				Revision: "v2", State: pipelinesv1.PromotionCreated, PullRequest: &pipelinesv1.PullRequestStatus{URL: "https://git/pulls/7"},
			}}}
			world := plan.World{Pipeline: pipeline, Targets: map[string][]application.State{}, Now: polledAt}
			before := poll{url: "https://git/pulls/7", state: pipelinesv1.PromotionCreated, PullRequest: plan.PullRequest{NextPoll: polledAt.Add(time.Minute)}}
			test.change(&world)
			NewWithT(t).Expect(before.due(world, "prod")).To(Equal(test.due))
		})
	}
}
