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

package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// approvalsOf returns the approvals that concern the Pipeline.
func approvalsOf(ctx context.Context, reader client.Reader, pipeline *pipelinesv1.Pipeline) ([]pipelinesv1.PromotionApproval, error) {
	var approvals pipelinesv1.PromotionApprovalList
	err := reader.List(ctx, &approvals, client.InNamespace(pipeline.Namespace), client.MatchingFields{pipelinesv1.ApprovalPipelineField: pipeline.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the approvals: %w", err)
	}
	return slices.DeleteFunc(approvals.Items, func(approval pipelinesv1.PromotionApproval) bool {
		return !approval.Concerns(pipeline)
	}), nil
}

// adopt makes approvals go with their Pipeline when it is deleted.
func (r *PipelineReconciler) adopt(ctx context.Context, pipeline *pipelinesv1.Pipeline, approvals []pipelinesv1.PromotionApproval) error {
	for i := range approvals {
		approval := approvals[i].DeepCopy()
		owned, err := controllerutil.HasOwnerReference(approval.OwnerReferences, pipeline, r.Scheme())
		if owned || err != nil || !approval.DeletionTimestamp.IsZero() {
			continue
		}
		if err := controllerutil.SetOwnerReference(pipeline, approval, r.Scheme()); err != nil {
			return err
		}
		err = r.Patch(ctx, approval, client.MergeFromWithOptions(&approvals[i], client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("making the Pipeline own approval %s: %w", approval.Name, err)
		}
	}
	return nil
}

// collect deletes the approvals that the run of the current revision has left behind.
func (r *PipelineReconciler) collect(ctx context.Context, pipeline *pipelinesv1.Pipeline, stale []pipelinesv1.PromotionApproval, current string) error {
	for i := range stale {
		approval := &stale[i]
		if !approval.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.Delete(ctx, approval, client.Preconditions{UID: &approval.UID}); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return fmt.Errorf("deleting approval %s, of another revision: %w", approval.Name, err)
		}
		r.Event(pipeline, corev1.EventTypeNormal, "ApprovalDeleted", fmt.Sprintf("%s: the approval of %s by %s is void: the Pipeline's revision is %s now",
			approval.Spec.Environment, revision.Short(approval.Spec.Revision), approval.Spec.ApprovedBy, revision.Short(current)))
	}
	return nil
}

// pipelineOf returns the Pipeline that an approval is made for.
func pipelineOf(_ context.Context, obj client.Object) []reconcile.Request {
	approval := obj.(*pipelinesv1.PromotionApproval)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: approval.Namespace, Name: approval.Spec.PipelineRef.Name}}}
}

// indexApprovals is the content of ApprovalPipelineField, which the API server selects by as well.
func indexApprovals(obj client.Object) []string {
	return []string{obj.(*pipelinesv1.PromotionApproval).Spec.PipelineRef.Name}
}
