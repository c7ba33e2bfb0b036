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

const (
	// ApprovalType is the type of the precondition Approval.
	ApprovalType = "Approval"
	// ApprovalMissingReason says that a person has to approve the promotion.
	ApprovalMissingReason = "ApprovalMissing"
)

// Approval asks for a person's approval of a manual promotion. There is no means of giving one yet, so that it holds.
func Approval(in Input) *Result {
	if !in.Promotion.Manual {
		return nil
	}
	return &Result{
		Type:    ApprovalType,
		Reason:  ApprovalMissingReason,
		Message: "a person's approval is missing",
	}
}
