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

// Package precondition holds what a promotion waits for. Gates and approvals are one thing here: a function that looks at
// the world and says whether the promotion may go ahead. To add one, write its Func in a file of its own and name it in All.
package precondition

import (
	"strings"
	"time"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Input is the part of the world that preconditions look at.
type Input struct {
	// Environment that is promoted into.
	Environment string
	// Revision that is promoted, by the name that is written.
	Revision string
	// Promotion is the one that applies to the environment.
	Promotion *pipelinesv1.Promotion
	// Gates are what the references to gates were found to name.
	Gates gatingv1.Found
	// Approvals are those of the Pipeline, for whatever environment and revision.
	Approvals []pipelinesv1.PromotionApproval
	// HTTPApprover is the name in which approvals by HTTP are made. It is needed where these don't count.
	HTTPApprover string
	// Now is the time at which the world was read.
	Now time.Time
}

// Result is what a precondition says of a promotion.
type Result struct {
	// Type names the precondition.
	Type string
	// Met reports whether the promotion may go ahead as far as this precondition is concerned.
	Met bool
	// Reason is one word that says why.
	Reason string
	// Message says why, and what would change it.
	Message string
	// Broken tells that the precondition will stay unmet until someone mends something, such as a gate that doesn't exist.
	Broken bool
	// NextTransition is when the precondition becomes met or unmet by itself; zero where that isn't known.
	NextTransition time.Time
}

// Func is a precondition. It returns nil where the promotion does not ask for it.
type Func func(Input) *Result

// All are the preconditions of every promotion, in the order in which they are reported.
var All = []Func{Gates, Approval}

// Evaluate returns what every precondition that applies says, met or not.
func Evaluate(in Input) []Result {
	var results []Result
	for _, precondition := range All {
		if result := precondition(in); result != nil {
			results = append(results, *result)
		}
	}
	return results
}

// Met reports whether all results are.
func Met(results []Result) bool {
	for _, result := range results {
		if !result.Met {
			return false
		}
	}
	return true
}

// Unmet says what the unmet ones wait for, in a line. It is empty if all are met.
func Unmet(results []Result) string {
	var waits []string
	for _, result := range results {
		if !result.Met {
			waits = append(waits, result.Message)
		}
	}
	return strings.Join(waits, "; ")
}
