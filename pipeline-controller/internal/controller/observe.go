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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// observe gathers the world that a plan is made from.
func (r *PipelineReconciler) observe(ctx context.Context, pipeline *pipelinesv1.Pipeline) plan.World {
	world := plan.World{
		Pipeline:     pipeline,
		Targets:      map[string][]target.State{},
		Gates:        map[gatingv1.GateReference]*gatingv1.Gate{},
		PullRequests: map[string]plan.PullRequest{},
		Now:          r.Now(),
	}
	for i := range pipeline.Spec.Environments {
		env := &pipeline.Spec.Environments[i]
		for _, t := range env.Targets {
			world.Targets[env.Name] = append(world.Targets[env.Name], r.readTarget(ctx, pipeline, t))
		}
		if promotion := pipeline.PromotionInto(env); promotion != nil {
			r.readGates(ctx, r.Client, pipeline.Namespace, promotion.Gates, world.Gates)
		}
	}
	if pipeline.Spec.Suspend {
		return world
	}
	for env, status := range pipeline.Status.Environments {
		if status.Promotion == nil || status.Promotion.State != pipelinesv1.PromotionCreated {
			continue
		}
		if promotion, ok := promotionOf(pipeline, env); ok && promotion.Strategy.PullRequest != nil {
			world.PullRequests[env] = r.PullRequests.Look(ctx, promotion, status.Promotion.PullRequest.Number)
		}
	}
	return world
}

func (r *PipelineReconciler) readTarget(ctx context.Context, pipeline *pipelinesv1.Pipeline, t pipelinesv1.Target) target.State {
	if t.ClusterRef != nil {
		return target.Unknown("this version reads targets of the Pipeline's own cluster only: it does not follow clusterRef")
	}
	return r.Targets.Read(ctx, pipeline.Spec.AppRef, t.Namespace)
}

// readGates adds the referenced gates that exist. One that can't be read is left out like one that doesn't exist: a gate that
// isn't known to be open is not open.
func (r *PipelineReconciler) readGates(ctx context.Context, reader client.Reader, namespace string,
	refs *gatingv1.GateReferences, gates map[gatingv1.GateReference]*gatingv1.Gate) {
	if refs == nil {
		return
	}
	for _, ref := range refs.Refs {
		gate := &gatingv1.Gate{}
		err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: string(ref)}, gate)
		if err == nil {
			gates[ref] = gate
		} else if !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Error(err, "reading a gate failed", "gate", ref)
		}
	}
}

// promotionOf describes the promotion that the record of an environment is about. For an environment that has left the spec
// the Pipeline's default promotion is taken; without one there is no telling how it was promoted.
func promotionOf(pipeline *pipelinesv1.Pipeline, name string) (promote.Promotion, bool) {
	env := &pipelinesv1.Environment{Name: name}
	for i := range pipeline.Spec.Environments {
		if pipeline.Spec.Environments[i].Name == name {
			env = &pipeline.Spec.Environments[i]
		}
	}
	configured := pipeline.PromotionInto(env)
	status := pipeline.Status.Environments[name]
	if configured == nil || status == nil || status.Promotion == nil {
		return promote.Promotion{}, false
	}
	promotion := promote.Promotion{
		Pipeline:    client.ObjectKeyFromObject(pipeline),
		Environment: name,
		Revision:    status.Promotion.Revision,
		Started:     status.Promotion.StartTime,
		Strategy:    configured.Strategy,
	}
	for _, t := range status.Targets {
		if t.Revision != "" {
			promotion.Running = append(promotion.Running, t.Revision)
		}
	}
	return promotion, true
}
