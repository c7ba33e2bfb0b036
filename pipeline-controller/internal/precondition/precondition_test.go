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

package precondition_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

func TestEvaluate(t *testing.T) {
	closed := &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: true}}
	gates := &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}
	passing := func(revision string) gatingv1.Found {
		gate := closed.DeepCopy()
		gate.Status.Passes = []gatingv1.PassInForce{{Revision: revision, Expires: metav1.NewTime(now.Add(time.Hour))}}
		return gatingv1.Found{"freeze": {Gate: gate}}
	}

	for _, test := range []struct {
		name      string
		promotion pipelinesv1.Promotion
		gates     gatingv1.Found
		approvals []pipelinesv1.PromotionApproval
		met       bool
		reasons   []string
	}{
		{name: "a promotion that asks for nothing waits for nothing", met: true},
		{
			name:      "an open gate does not hold it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: &gatingv1.Gate{}}},
			met:       true, reasons: []string{"AllGatesOpen"},
		},
		{
			name:      "a closed gate holds it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: closed}},
			reasons:   []string{"GateClosed"},
		},
		{
			name:      "a gate holds it that is closed by an override",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: overridden(true)}},
			reasons:   []string{"GateClosed"},
		},
		{
			name:      "a closed gate that an override opens does not hold it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: overridden(false)}},
			met:       true, reasons: []string{"AllGatesOpen"},
		},
		{
			name:      "a closed gate that lets its revision pass does not hold it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     passing("v1"),
			met:       true, reasons: []string{"RevisionPasses"},
		},
		{
			name:      "a closed gate that lets another revision pass holds it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			gates:     passing("v2"),
			reasons:   []string{"GateClosed"},
		},
		{
			name:      "a missing gate holds it",
			promotion: pipelinesv1.Promotion{Gates: gates},
			reasons:   []string{"GateNotFound"},
		},
		{
			name:      "a manual promotion waits for approval",
			promotion: pipelinesv1.Promotion{Manual: true},
			reasons:   []string{"ApprovalMissing"},
		},
		{
			name:      "every unmet precondition is reported, not just the first",
			promotion: pipelinesv1.Promotion{Manual: true, Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: closed}},
			reasons:   []string{"GateClosed", "ApprovalMissing"},
		},
		{
			name:      "an open gate does not make up for a missing approval",
			promotion: pipelinesv1.Promotion{Manual: true, Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: &gatingv1.Gate{}}},
			reasons:   []string{"AllGatesOpen", "ApprovalMissing"},
		},
		{
			name:      "a closed gate holds what is approved",
			promotion: pipelinesv1.Promotion{Manual: true, Gates: gates},
			gates:     gatingv1.Found{"freeze": {Gate: closed}},
			approvals: approvals("prod v1 ada"),
			reasons:   []string{"GateClosed", "Approved"},
		},
		{
			name:      "one approval lets a manual promotion go ahead",
			promotion: pipelinesv1.Promotion{Manual: true},
			approvals: approvals("prod v1 ada"),
			met:       true, reasons: []string{"Approved"},
		},
		{
			name:      "approvals of another revision or environment don't count",
			promotion: pipelinesv1.Promotion{Manual: true},
			approvals: approvals("prod v2 ada", "staging v1 ada"),
			reasons:   []string{"ApprovalMissing"},
		},
		{
			name:      "required approvals ask for people without 'manual' too",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 1}},
			reasons:   []string{"ApprovalMissing"},
		},
		{
			name:      "the same person twice is one",
			promotion: pipelinesv1.Promotion{Manual: true, Approvals: &pipelinesv1.Approvals{Required: 2}},
			approvals: approvals("prod v1 ada", "prod v1 ada"),
			reasons:   []string{"ApprovalMissing"},
		},
		{
			name:      "two people are two",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 2}},
			approvals: approvals("prod v1 bob", "prod v1 ada"),
			met:       true, reasons: []string{"Approved"},
		},
		{
			name:      "an approval by HTTP counts like a person's",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 2}},
			approvals: approvals("prod v1 controller", "prod v1 ada"),
			met:       true, reasons: []string{"Approved"},
		},
		{
			name:      "it counts where that is said",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 2, HTTP: ptr.To(true)}},
			approvals: approvals("prod v1 controller", "prod v1 ada"),
			met:       true, reasons: []string{"Approved"},
		},
		{
			name:      "it doesn't where the promotion says so",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 2, HTTP: ptr.To(false)}},
			approvals: approvals("prod v1 controller", "prod v1 ada"),
			reasons:   []string{"ApprovalMissing"},
		},
		{
			name:      "people's count there",
			promotion: pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: 2, HTTP: ptr.To(false)}},
			approvals: approvals("prod v1 controller", "prod v1 ada", "prod v1 bob"),
			met:       true, reasons: []string{"Approved"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			results := precondition.Evaluate(precondition.Input{
				Environment: "prod", Revision: "v1", Promotion: &test.promotion, Gates: test.gates, Approvals: test.approvals, HTTPApprover: "controller", Now: now,
			})
			var reasons []string
			for _, result := range results {
				reasons = append(reasons, result.Reason)
			}
			g.Expect(reasons).To(Equal(test.reasons))
			g.Expect(precondition.Met(results)).To(Equal(test.met))
		})
	}
}

// overridden is a gate whose override lasts for an hour.
func overridden(closed bool) *gatingv1.Gate {
	return &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: !closed, Override: &gatingv1.Override{Closed: closed, Until: metav1.NewTime(now.Add(time.Hour))}}}
}

var now = time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)

// approvals reads "<environment> <revision> <approver>".
func approvals(words ...string) []pipelinesv1.PromotionApproval {
	var all []pipelinesv1.PromotionApproval
	for _, word := range words {
		part := strings.Fields(word)
		all = append(all, pipelinesv1.PromotionApproval{
			Spec: pipelinesv1.PromotionApprovalSpec{Environment: part[0], Revision: part[1], ApprovedBy: part[2]},
		})
	}
	return all
}

func TestApprovalTellsHowManyAreMissing(t *testing.T) {
	const byHTTP, notByHTTP = true, false
	for _, test := range []struct {
		required  int32
		http      bool
		approvals []pipelinesv1.PromotionApproval
		message   string
	}{
		{1, byHTTP, nil, "waiting for approval"},
		{2, byHTTP, nil, "0 of 2 approvals"},
		{2, byHTTP, approvals("prod v1 ada"), "1 of 2 approvals, by ada"},
		{2, byHTTP, approvals("prod v1 bob", "prod v1 ada"), "approved by ada, bob"},
		{1, notByHTTP, nil, "waiting for approval; approvals by HTTP don't count"},
		{2, notByHTTP, approvals("prod v1 ada", "prod v1 controller"), "1 of 2 approvals, by ada; approvals by HTTP don't count"},
		{2, notByHTTP, approvals("prod v1 bob", "prod v1 ada", "prod v1 controller"), "approved by ada, bob"},
	} {
		result := precondition.Approval(precondition.Input{
			Environment: "prod", Revision: "v1", Approvals: test.approvals, HTTPApprover: "controller",
			Promotion: &pipelinesv1.Promotion{Approvals: &pipelinesv1.Approvals{Required: test.required, HTTP: &test.http}},
		})
		NewWithT(t).Expect(result.Message).To(Equal(test.message))
	}
}

func TestAnApprovalThatIsBeingDeletedDoesNotCount(t *testing.T) {
	given := approvals("prod v1 ada")
	given[0].DeletionTimestamp = &metav1.Time{Time: time.Now()}
	NewWithT(t).Expect(precondition.Approvers(precondition.Input{
		Environment: "prod", Revision: "v1", Approvals: given, Promotion: &pipelinesv1.Promotion{},
	})).To(BeEmpty())
}
