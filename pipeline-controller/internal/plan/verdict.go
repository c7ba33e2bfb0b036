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
	"fmt"
	"maps"
	"slices"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

// verdict is where a run stands, in one line: the answer to "why isn't it in prod yet".
type verdict struct {
	// ready is the status of the Ready condition. A promotion that waits is in order; one that something must be mended for is not.
	ready   metav1.ConditionStatus
	reason  string
	message string
	// stalled means that nothing will change until the spec does.
	stalled bool
}

func fine(reason, format string, args ...any) verdict {
	return verdict{ready: metav1.ConditionTrue, reason: reason, message: fmt.Sprintf(format, args...)}
}

func broken(reason, format string, args ...any) verdict {
	return verdict{ready: metav1.ConditionFalse, reason: reason, message: fmt.Sprintf(format, args...)}
}

func progressing(reason, format string, args ...any) verdict {
	return verdict{ready: metav1.ConditionUnknown, reason: reason, message: fmt.Sprintf(format, args...)}
}

func stalled(reason, format string, args ...any) verdict {
	v := broken(reason, format, args...)
	v.stalled = true
	return v
}

func pending(format string, args ...any) *verdict {
	return ptr(fine(pipelinesv1.EnvironmentNotReadyReason, format, args...))
}

// held says which preconditions a promotion waits for.
func held(env string, record *pipelinesv1.PromotionRecord, results []precondition.Result) verdict {
	v := fine(pipelinesv1.WaitingForPreconditionsReason, "")
	for _, result := range results {
		if !result.Met && result.Broken {
			v = broken(result.Reason, "")
		}
	}
	record.Message = "waits: " + unmet(results)
	v.message = fmt.Sprintf("%s: %s %s", env, revision.Short(record.Revision), record.Message)
	return v
}

// conclude writes into the conditions where the run stands, and, unless the first environment is settled, what unsettles it.
func (p *planner) conclude(v verdict, unsettled *verdict) {
	p.pipeline.Status.ObservedGeneration = p.pipeline.Generation
	if v.ready == metav1.ConditionTrue {
		v = p.lingeringError(v)
	}
	p.setCondition(meta.ReadyCondition, v.ready, v)
	p.setOrRemove(meta.StalledCondition, v.stalled, v)
	p.setOrRemove(meta.ReconcilingCondition, v.ready == metav1.ConditionUnknown, v)

	if unsettled != nil {
		p.setCondition(pipelinesv1.PromotionPendingCondition, metav1.ConditionTrue, *unsettled)
	} else {
		p.setCondition(pipelinesv1.PromotionPendingCondition, metav1.ConditionFalse,
			fine(pipelinesv1.EnvironmentReadyReason, "the first environment is settled"))
	}
}

// lingeringError finds an error of a promotion that the run isn't standing at, so that it doesn't hide behind a good verdict.
func (p *planner) lingeringError(v verdict) verdict {
	for _, name := range slices.Sorted(maps.Keys(p.pipeline.Status.Environments)) {
		record := p.pipeline.Status.Environments[name].Promotion
		if name != p.standsAt && record != nil && !record.State.Ended() && record.LastError != "" {
			return broken(pipelinesv1.PromotionFailedReason, "%s: promotion of %s: %s", name, revision.Short(record.Revision), record.LastError)
		}
	}
	return v
}

func (p *planner) setOrRemove(conditionType string, present bool, v verdict) {
	if present {
		p.setCondition(conditionType, metav1.ConditionTrue, v)
		return
	}
	apimeta.RemoveStatusCondition(&p.pipeline.Status.Conditions, conditionType)
}

func (p *planner) setCondition(conditionType string, status metav1.ConditionStatus, v verdict) {
	apimeta.SetStatusCondition(&p.pipeline.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             v.reason,
		Message:            cut(v.message, longestMessage),
		ObservedGeneration: p.pipeline.Generation,
		LastTransitionTime: metav1.NewTime(p.Now),
	})
}
