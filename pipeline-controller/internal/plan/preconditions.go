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

package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

// PreconditionsOf returns the input for the preconditions of an action's promotion.
func (w *World) PreconditionsOf(action Action) precondition.Input {
	return w.preconditionInput(action.Environment, action.Revision, w.Pipeline.PromotionInto(w.Pipeline.Environment(action.Environment)))
}

func (w *World) preconditionInput(env, revision string, promotion *pipelinesv1.Promotion) precondition.Input {
	return precondition.Input{
		Environment: env, Revision: revision, Promotion: promotion,
		Gates: w.Gates, Approvals: w.Approvals, HTTPApprover: w.HTTPApprover, Now: w.Now,
	}
}

// clockCheck is the interval at which time-dependent preconditions are evaluated, because a wait until a time does not
// notice that the clock was set.
const clockCheck = time.Minute

// evaluate evaluates preconditions, and has them evaluated again when they change by themselves.
func (p *planner) evaluate(input precondition.Input) []precondition.Result {
	results := precondition.Evaluate(input)
	for _, result := range results {
		if !result.NextChange.IsZero() {
			p.wakeAt(result.NextChange)
			p.wakeAt(p.Now.Add(clockCheck))
		}
	}
	return results
}

// showPreconditions writes into the status what the preconditions say, since when, and what waits for a person.
func (p *planner) showPreconditions(status *pipelinesv1.EnvironmentStatus, results []precondition.Result) {
	before := status.Promotion.Preconditions
	shown := make([]pipelinesv1.PreconditionStatus, len(results))
	status.WaitingApproval.Revision = ""
	for i, result := range results {
		shown[i] = pipelinesv1.PreconditionStatus{
			Type: result.Type, Met: result.Met, Reason: result.Reason, Message: result.Message, LastTransitionTime: new(metav1.NewTime(p.Now)),
		}
		for _, old := range before {
			if old.Type == result.Type && old.Met == result.Met && old.LastTransitionTime != nil {
				shown[i].LastTransitionTime = old.LastTransitionTime
			}
		}
		if !result.NextTransition.IsZero() {
			shown[i].NextTransitionTime = new(metav1.NewTime(result.NextTransition))
		}
		if result.Type == pipelinesv1.ApprovalPrecondition && !result.Met {
			status.WaitingApproval.Revision = status.Promotion.Revision
		}
	}
	status.Promotion.Preconditions = shown
}

// held explains which preconditions a promotion waits for.
func held(record *pipelinesv1.PromotionRecord, results []precondition.Result) standing {
	record.Message = "waits: " + precondition.Unmet(results)
	s := stands(pipelinesv1.EnvironmentWaiting, "%s %s", revision.Short(record.Revision), record.Message)
	for _, result := range results {
		if !result.Met && result.Broken {
			s.state, s.reason = pipelinesv1.EnvironmentFailed, result.Reason
		}
	}
	for _, shown := range record.Preconditions {
		if !shown.Met && (s.since == nil || shown.LastTransitionTime.Before(s.since)) {
			s.since = shown.LastTransitionTime
		}
	}
	return s
}
