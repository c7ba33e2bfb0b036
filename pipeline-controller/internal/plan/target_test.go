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
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
)

func TestATargetThatIsNotKnownSaysWhyAndSinceWhen(t *testing.T) {
	g := NewWithT(t)
	w := world("v1", "v1")
	since := now.Add(-time.Minute).Add(300 * time.Millisecond)
	w.Targets["staging"] = []application.State{application.UnknownBecause(pipelinesv1.UnreachableReason, "connection refused", since)}
	shown := plan.Next(w).Status.Environments["staging"].Targets[0]
	g.Expect(shown).To(And(HaveField("Error", "connection refused"), HaveField("Reason", "Unreachable"),
		HaveField("Since", Equal(&metav1.Time{Time: now.Add(-time.Minute)}))), "the API server keeps whole seconds")
}

func TestATargetThatMayNotBeReadAnyLongerIsForgotten(t *testing.T) {
	g := NewWithT(t)
	w := world("v1", "v1", "v0")
	w.Pipeline.Spec.Environments[1].Settle = pipelinesv1.SettleIndividually
	w.Pipeline.Status = plan.Next(w).Status

	w.Targets["staging"] = []application.State{application.UnknownBecause(pipelinesv1.UnreachableReason, "connection refused", now)}
	unreachable := plan.Next(w).Status.Environments["staging"].Targets[0]
	g.Expect(unreachable.ReadyRevision).To(Equal("v1"), "a cluster that does not answer is another matter")

	w.Targets["staging"] = []application.State{application.UnknownBecause(pipelinesv1.AccessDeniedReason, "access denied", now)}
	next := plan.Next(w)
	w.Pipeline.Status = next.Status
	g.Expect(next.Action).To(BeNil())
	g.Expect(next.Status.Environments["staging"].Targets[0]).To(And(HaveField("Revision", BeEmpty()), HaveField("ReadyRevision", BeEmpty())))

	w.Targets["staging"] = states("v1!")
	g.Expect(plan.Next(w).Action).To(BeNil(), "what it was ready on before does not count")
}
