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
)

const (
	// ApprovalMissingReason means that the promotion needs further approvals.
	ApprovalMissingReason = "ApprovalMissing"
	// ApprovedReason means that the promotion has all required approvals.
	ApprovedReason = "Approved"
)

// Approval is met if the promotion has the required number of approvals.
func Approval(in Input) *Result {
	required := in.Promotion.RequiredApprovals()
	if required == 0 {
		return nil
	}
	approvers := Approvers(in)
	if len(approvers) >= required {
		return &Result{Type: pipelinesv1.ApprovalPrecondition, Met: true, Reason: ApprovedReason, Message: "approved by " + strings.Join(approvers, ", ")}
	}
	message := "waiting for approval"
	switch {
	case len(approvers) > 0:
		message = fmt.Sprintf("%d of %d approvals, by %s", len(approvers), required, strings.Join(approvers, ", "))
	case required > 1:
		message = fmt.Sprintf("0 of %d approvals", required)
	}
	if !in.Promotion.CountsHTTP() {
		message += "; approvals by HTTP don't count"
	}
	return &Result{Type: pipelinesv1.ApprovalPrecondition, Reason: ApprovalMissingReason, Message: message}
}

// Approvers returns the sorted names of the users who have approved the promotion.
func Approvers(in Input) []string {
	var approvers []string
	for _, approval := range Counted(in) {
		approvers = append(approvers, approval.Spec.ApprovedBy)
	}
	return approvers
}

// Counted returns the approvals of the promotion, one for each user, sorted by user.
func Counted(in Input) []pipelinesv1.PromotionApproval {
	var counted []pipelinesv1.PromotionApproval
	for i := range in.Approvals {
		if approves(&in.Approvals[i], in) {
			counted = append(counted, in.Approvals[i])
		}
	}
	slices.SortStableFunc(counted, func(a, b pipelinesv1.PromotionApproval) int {
		return strings.Compare(a.Spec.ApprovedBy, b.Spec.ApprovedBy)
	})
	return slices.CompactFunc(counted, func(a, b pipelinesv1.PromotionApproval) bool { return a.Spec.ApprovedBy == b.Spec.ApprovedBy })
}

// approves compares whole revisions: the name is what users have seen, and what is written.
func approves(approval *pipelinesv1.PromotionApproval, in Input) bool {
	return approval.DeletionTimestamp.IsZero() && approval.Spec.Environment == in.Environment && approval.Spec.Revision == in.Revision &&
		(in.Promotion.CountsHTTP() || isPersons(approval, in))
}

// isPersons reports whether an approval was not made by HTTP. If the name of approvals by HTTP is not known, no
// approval counts as a person's.
func isPersons(approval *pipelinesv1.PromotionApproval, in Input) bool {
	return in.HTTPApprover != "" && approval.Spec.ApprovedBy != in.HTTPApprover
}
