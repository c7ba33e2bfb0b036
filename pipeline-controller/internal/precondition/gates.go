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

package precondition

import (
	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// Gates is met if the gates of the promotion are open, or let its revision pass.
func Gates(in Input) *Result {
	if in.Promotion.Gates == nil || len(in.Promotion.Gates.Refs) == 0 {
		return nil
	}
	evaluation := gatingv1.EvaluateRevision(in.Promotion.Gates, in.Gates, in.Revision, in.Now)
	return &Result{
		Type:           pipelinesv1.GatesPrecondition,
		Met:            evaluation.Open,
		Reason:         evaluation.Reason,
		Message:        evaluation.Message,
		NextTransition: evaluation.NextTransition,
		NextChange:     evaluation.NextChange,
		Broken:         evaluation.Reason == gatingv1.GateNotFoundReason || evaluation.Reason == gatingv1.AccessDeniedReason,
	}
}
