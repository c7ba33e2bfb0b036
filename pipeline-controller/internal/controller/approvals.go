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
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/precondition"
)

const (
	// mostApprovals is the maximum number of approvals of a Pipeline that are evaluated: more than 64 environments with
	// 16 approvals each.
	mostApprovals = 2048
	// fewChores is the maximum number of chores that a reconcile runs itself. More chores are run in a task, mostChores
	// at a time, with choresPause in between for the cache to catch up.
	fewChores   = 10
	mostChores  = 500
	choresPause = time.Second
)

// approvalsOf returns the approvals of the Pipeline, or some of them if there are too many. The result must not be
// modified.
func approvalsOf(ctx context.Context, cached client.Reader, pipeline *pipelinesv1.Pipeline) (_ []pipelinesv1.PromotionApproval, tooMany bool, err error) {
	var approvals pipelinesv1.PromotionApprovalList
	err = cached.List(ctx, &approvals, client.InNamespace(pipeline.Namespace), client.MatchingFields{pipelinesv1.ApprovalPipelineField: pipeline.Name},
		client.Limit(mostApprovals+1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, false, fmt.Errorf("listing the approvals: %w", err)
	}
	tooMany = len(approvals.Items) > mostApprovals
	return slices.DeleteFunc(approvals.Items, func(approval pipelinesv1.PromotionApproval) bool {
		return !approval.Concerns(pipeline)
	}), tooMany, nil
}

// TrimApproval removes everything from an approval that is not read from the cache. The rest can be a thousand times as
// large.
func TrimApproval(obj any) (any, error) {
	approval, ok := obj.(*pipelinesv1.PromotionApproval)
	if !ok {
		return obj, nil
	}
	trimmed := &pipelinesv1.PromotionApproval{TypeMeta: approval.TypeMeta, Spec: approval.Spec}
	trimmed.Spec.Comment = ""
	trimmed.Namespace, trimmed.Name, trimmed.UID = approval.Namespace, approval.Name, approval.UID
	trimmed.ResourceVersion, trimmed.Generation = approval.ResourceVersion, approval.Generation
	trimmed.CreationTimestamp, trimmed.DeletionTimestamp = approval.CreationTimestamp, approval.DeletionTimestamp
	for _, owner := range approval.OwnerReferences {
		// If an approval refers to two Pipelines, one reference is wrong. Further references add no information.
		if owner.Kind == pipelinesv1.PipelineKind && owner.Name == approval.Spec.PipelineRef.Name && len(trimmed.OwnerReferences) < 2 {
			trimmed.OwnerReferences = append(trimmed.OwnerReferences, owner)
		}
	}
	return trimmed, nil
}

// stillThere reads the approvals of a promotion without a cache, by name: one of each user, and no more than required.
func (r *PipelineReconciler) stillThere(ctx context.Context, pipeline *pipelinesv1.Pipeline, in precondition.Input) ([]pipelinesv1.PromotionApproval, error) {
	var there []pipelinesv1.PromotionApproval
	counted := precondition.Counted(in)
	for i := range counted[:min(len(counted), in.Promotion.RequiredApprovals())] {
		fresh := &pipelinesv1.PromotionApproval{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(&counted[i]), fresh)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading approval %s again: %w", counted[i].Name, err)
		case fresh.UID == counted[i].UID && fresh.Concerns(pipeline):
			there = append(there, *fresh)
		}
	}
	return there, nil
}

// httpApprover returns the user name of approvals by HTTP if there is a promotion for which they do not count.
func (r *PipelineReconciler) httpApprover(ctx context.Context, pipeline *pipelinesv1.Pipeline) (string, error) {
	counts := func(env pipelinesv1.Environment) bool {
		promotion := pipeline.PromotionInto(&env)
		return promotion == nil || promotion.CountsHTTP()
	}
	if !slices.ContainsFunc(pipeline.Spec.Environments, func(env pipelinesv1.Environment) bool { return !counts(env) }) {
		return "", nil
	}
	return r.HTTPApprover(ctx)
}

// chore is a request about an approval that must succeed before a status is written.
type chore func(ctx context.Context) error

// choresFor returns the requests about approvals that must precede the status of a plan. Approvals that no longer apply
// are deleted, so none outlives the run for which it was given. All others become owned by their Pipeline and are
// deleted with it.
func (r *PipelineReconciler) choresFor(pipeline *pipelinesv1.Pipeline, world plan.World, next plan.Plan) []chore {
	var chores []chore
	stale := map[types.UID]bool{}
	for _, approval := range next.StaleApprovals {
		stale[approval.UID] = true
		if approval.DeletionTimestamp.IsZero() {
			chores = append(chores, func(ctx context.Context) error { return r.collect(ctx, pipeline, &approval, next) })
		}
	}
	for i := range world.Approvals {
		approval := &world.Approvals[i]
		owned, err := controllerutil.HasOwnerReference(approval.OwnerReferences, pipeline, r.Scheme())
		if !owned && err == nil && approval.DeletionTimestamp.IsZero() && !stale[approval.UID] {
			chores = append(chores, func(ctx context.Context) error { return r.adopt(ctx, pipeline, approval) })
		}
	}
	return chores
}

func doAll(ctx context.Context, chores []chore) error {
	for _, chore := range chores {
		if err := errors.Join(ctx.Err(), chore(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// adopt sets the owner of an approval, so it is deleted with its Pipeline.
func (r *PipelineReconciler) adopt(ctx context.Context, pipeline *pipelinesv1.Pipeline, cached *pipelinesv1.PromotionApproval) error {
	// The cache does not contain all owners.
	fresh := &pipelinesv1.PromotionApproval{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), fresh); err != nil || fresh.UID != cached.UID {
		return client.IgnoreNotFound(err)
	}
	owned := fresh.DeepCopy()
	if err := controllerutil.SetOwnerReference(pipeline, owned, r.Scheme()); err != nil {
		return err
	}
	if err := r.Patch(ctx, owned, client.MergeFromWithOptions(fresh, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting the owner of approval %s: %w", fresh.Name, err)
	}
	return nil
}

// collect deletes an approval that does not apply to the next status.
func (r *PipelineReconciler) collect(ctx context.Context, pipeline *pipelinesv1.Pipeline, approval *pipelinesv1.PromotionApproval, next plan.Plan) error {
	if err := r.Delete(ctx, approval, client.Preconditions{UID: &approval.UID}); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("deleting approval %s of another revision: %w", approval.Name, err)
	}
	// No events are recorded if many are deleted at once.
	if len(next.StaleApprovals) <= fewChores {
		r.Event(pipeline, corev1.EventTypeNormal, pipelinesv1.ApprovalDeletedReason, void(pipeline, approval, next.Status.RevisionInto(approval.Spec.Environment)))
	}
	return nil
}

// void explains why an approval no longer counts.
func void(pipeline *pipelinesv1.Pipeline, approval *pipelinesv1.PromotionApproval, promoted string) string {
	env := approval.Spec.Environment
	why := "the Pipeline has no such environment"
	if pipeline.Environment(env) != nil {
		why = fmt.Sprintf("approve %s instead", revision.Short(promoted))
	}
	return fmt.Sprintf("%s: deleted the approval of %s by %s: %s", env, revision.Short(approval.Spec.Revision), approval.Spec.ApprovedBy, why)
}

// pipelineOf returns the Pipeline of an approval.
func pipelineOf(_ context.Context, obj client.Object) []reconcile.Request {
	approval := obj.(*pipelinesv1.PromotionApproval)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: approval.Namespace, Name: approval.Spec.PipelineRef.Name}}}
}

// indexApprovals is the index for ApprovalPipelineField, which is a field selector of the API server too.
func indexApprovals(obj client.Object) []string {
	return []string{obj.(*pipelinesv1.PromotionApproval).Spec.PipelineRef.Name}
}
