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
	"fmt"
	"slices"
	"strings"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

const (
	// ApprovalType is the type of the precondition Approval.
	ApprovalType = "Approval"
	// ApprovalMissingReason says that people have yet to approve the promotion.
	ApprovalMissingReason = "ApprovalMissing"
	// ApprovedReason says that as many people as needed have approved the promotion.
	ApprovedReason = "Approved"
)

// Approval asks for as many people's approval as the promotion requires.
func Approval(in Input) *Result {
	required := in.Promotion.RequiredApprovals()
	if required == 0 {
		return nil
	}
	approvers := Approvers(in)
	if len(approvers) >= required {
		return &Result{Type: ApprovalType, Met: true, Reason: ApprovedReason, Message: "approved by " + strings.Join(approvers, ", ")}
	}
	message := "a person's approval is missing"
	switch {
	case len(approvers) > 0:
		message = fmt.Sprintf("%d of %d approvals, by %s", len(approvers), required, strings.Join(approvers, ", "))
	case required > 1:
		message = fmt.Sprintf("0 of %d approvals", required)
	}
	return &Result{Type: ApprovalType, Reason: ApprovalMissingReason, Message: message}
}

// Approvers returns the different people who have approved the promotion, in alphabetical order.
func Approvers(in Input) []string {
	var approvers []string
	for i := range in.Approvals {
		if approves(&in.Approvals[i], in) {
			approvers = append(approvers, in.Approvals[i].Spec.ApprovedBy)
		}
	}
	slices.Sort(approvers)
	return slices.Compact(approvers)
}

func approves(approval *pipelinesv1.PromotionApproval, in Input) bool {
	return approval.DeletionTimestamp.IsZero() && approval.Spec.Environment == in.Environment &&
		revision.Equal(approval.Spec.Revision, in.Revision)
}
