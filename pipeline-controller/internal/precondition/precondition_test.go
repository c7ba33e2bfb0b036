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
	"testing"

	. "github.com/onsi/gomega"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

func TestEvaluate(t *testing.T) {
	closed := &gatingv1.Gate{Spec: gatingv1.GateSpec{Closed: true}}
	gates := &gatingv1.GateReferences{Refs: []gatingv1.GateReference{"freeze"}}

	for _, test := range []struct {
		name      string
		promotion pipelinesv1.Promotion
		gates     gatingv1.Found
		met       bool
		reasons   []string
	}{
		{name: "a promotion that asks for nothing waits for nothing", met: true},
		{
			name:      "an open gate lets it go ahead",
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
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			results := precondition.Evaluate(precondition.Input{
				Environment: "prod", Revision: "v1", Promotion: &test.promotion, Gates: test.gates,
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
