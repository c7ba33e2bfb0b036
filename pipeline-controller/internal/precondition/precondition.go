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

// Package precondition contains the preconditions of promotions. Gates and approvals have the same form: a function
// that returns whether the promotion may continue. To add a precondition, write its Func in a file of its own and add
// it to All.
package precondition

import (
	"strings"
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Input contains what preconditions depend on.
type Input struct {
	// Environment of the promotion.
	Environment string
	// Revision of the promotion, by the name that is written.
	Revision string
	// Promotion settings of the environment.
	Promotion *pipelinesv1.Promotion
	// Gates that the references of the promotion resolve to.
	Gates gatingv1.Found
	// Approvals of the Pipeline, for all environments and revisions.
	Approvals []pipelinesv1.PromotionApproval
	// HTTPApprover is the user name of approvals by HTTP. It is only needed if those do not count.
	HTTPApprover string
	// Now is the time at which the input was read.
	Now time.Time
}

// Result is the result of a precondition for a promotion.
type Result struct {
	// Type names the precondition.
	Type string
	// Met is true if this precondition does not block the promotion.
	Met bool
	// Reason in CamelCase.
	Reason string
	// Message explains the reason, and what would change it.
	Message string
	// Broken is true if the precondition stays unmet until someone fixes a problem, such as a missing gate.
	Broken bool
	// NextTransition is the time at which the precondition becomes met or unmet without a change to any object, or
	// zero.
	NextTransition time.Time
	// NextChange is the time at which the message becomes outdated, so the precondition must be evaluated again. It is
	// zero if unknown.
	NextChange time.Time
}

// Func is a precondition. It returns nil if it does not apply to the promotion.
type Func func(Input) *Result

// All contains the preconditions of all promotions, in the order in which they are reported.
var All = []Func{Gates, Approval}

// Evaluate returns the results of all preconditions that apply.
func Evaluate(in Input) []Result {
	var results []Result
	for _, precondition := range All {
		if result := precondition(in); result != nil {
			results = append(results, *result)
		}
	}
	return results
}

// Met reports whether all results are met.
func Met(results []Result) bool {
	for _, result := range results {
		if !result.Met {
			return false
		}
	}
	return true
}

// Unmet returns the messages of the unmet results in one line, or "".
func Unmet(results []Result) string {
	var waits []string
	for _, result := range results {
		if !result.Met {
			waits = append(waits, result.Message)
		}
	}
	return strings.Join(waits, "; ")
}
