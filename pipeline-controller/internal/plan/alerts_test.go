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

package plan_test

import (
	"testing"

	notificationv1 "github.com/fluxcd/notification-controller/api/v1"
	notificationv1beta3 "github.com/fluxcd/notification-controller/api/v1beta3"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func TestAMissingAlertIsReported(t *testing.T) {
	const missing = "no Alert matches the notifications for staging, prod: create an Alert for this Pipeline"
	alert := func(namespace string, source notificationv1.CrossNamespaceObjectReference, change ...func(*notificationv1beta3.AlertSpec)) *notificationv1beta3.AlertList {
		alert := notificationv1beta3.Alert{Spec: notificationv1beta3.AlertSpec{EventSources: []notificationv1.CrossNamespaceObjectReference{{Kind: "Kustomization", Name: "*"}, source}}}
		alert.Namespace = namespace
		for _, c := range change {
			c(&alert.Spec)
		}
		return &notificationv1beta3.AlertList{Items: []notificationv1beta3.Alert{alert}}
	}
	pipeline := notificationv1.CrossNamespaceObjectReference{Kind: "Pipeline", Name: "app"}
	labelled := func(value string) notificationv1.CrossNamespaceObjectReference {
		return notificationv1.CrossNamespaceObjectReference{Kind: "Pipeline", Name: "*", MatchLabels: map[string]string{"team": value}}
	}
	for _, test := range []struct {
		name   string
		alerts *notificationv1beta3.AlertList
		world  func(*plan.World)
		want   string
	}{
		{name: "there is none", alerts: &notificationv1beta3.AlertList{}, want: missing},
		{name: "one names the Pipeline", alerts: alert("default", pipeline)},
		{name: "one names all Pipelines of the namespace", alerts: alert("default", notificationv1.CrossNamespaceObjectReference{Kind: "Pipeline", Name: "*"})},
		{name: "one of another namespace names this one", alerts: alert("flux-system", notificationv1.CrossNamespaceObjectReference{Kind: "Pipeline", Name: "app", Namespace: "default"})},
		{name: "one of another namespace names its own", alerts: alert("flux-system", pipeline), want: missing},
		{name: "one names another Pipeline", alerts: alert("default", notificationv1.CrossNamespaceObjectReference{Kind: "Pipeline", Name: "other"}), want: missing},
		{name: "one names an object of another kind", alerts: alert("default", notificationv1.CrossNamespaceObjectReference{Kind: "HelmRelease", Name: "app"}), want: missing},
		{name: "one selects its labels", alerts: alert("default", labelled("shop"))},
		{name: "one selects other labels", alerts: alert("default", labelled("other")), want: missing},
		{name: "one is suspended", alerts: alert("default", pipeline, func(s *notificationv1beta3.AlertSpec) { s.Suspend = true }), want: missing},
		{name: "one takes only errors", alerts: alert("default", pipeline, func(s *notificationv1beta3.AlertSpec) { s.EventSeverity = "error" }), want: missing},
		{name: "one includes the message", alerts: alert("default", pipeline, func(s *notificationv1beta3.AlertSpec) {
			s.InclusionList = []string{"(", "^Promote pipeline default/app to (staging|prod) with version v2$"}
		})},
		{name: "one does not include it", alerts: alert("default", pipeline, func(s *notificationv1beta3.AlertSpec) { s.InclusionList = []string{"failed"} }), want: missing},
		{name: "one excludes it for an environment", alerts: alert("default", pipeline, func(s *notificationv1beta3.AlertSpec) { s.ExclusionList = []string{"to prod"} }),
			want: "no Alert matches the notifications for prod: create an Alert for this Pipeline"},
		{name: "Alerts can't be read"},
		{name: "the Pipeline promotes by pull request", alerts: &notificationv1beta3.AlertList{}, world: spec(func(s *pipelinesv1.PipelineSpec) {
			s.Promotion.Strategy = pipelinesv1.Strategy{PullRequest: &pipelinesv1.PullRequestPromotion{}}
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			w := with(world("v2", "v1", "v1"), spec(byNotification))
			w.Pipeline.Labels = map[string]string{"team": "shop"}
			w.Alerts = test.alerts
			if test.world != nil {
				test.world(&w)
			}
			condition := apimeta.FindStatusCondition(plan.Next(w).Status.Conditions, pipelinesv1.AlertMissingCondition)
			if test.want == "" {
				g.Expect(condition).To(BeNil())
				return
			}
			g.Expect(condition).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "NoAlert"), HaveField("Message", test.want)))
		})
	}
}
