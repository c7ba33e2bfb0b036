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
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/target"
)

// observe gathers the world that a plan is made from.
func (r *PipelineReconciler) observe(ctx context.Context, pipeline *pipelinesv1.Pipeline) (plan.World, error) {
	gates, err := r.findGates(ctx, r.Client, pipeline)
	if err != nil {
		return plan.World{}, err
	}
	approvals, err := approvalsOf(ctx, r.Client, pipeline)
	if err != nil {
		return plan.World{}, err
	}
	world := plan.World{
		Pipeline:  pipeline,
		Targets:   map[string][]target.State{},
		Gates:     gates,
		Approvals: approvals,
		Now:       r.Now(),
	}
	r.Targets.Want(pipeline)
	if requested, ok := meta.ReconcileAnnotationValue(pipeline.Annotations); ok && requested != pipeline.Status.LastHandledReconcileAt {
		r.Targets.Hurry(client.ObjectKeyFromObject(pipeline))
	}
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			world.Targets[env.Name] = append(world.Targets[env.Name], r.Targets.Read(ctx, pipeline, t))
		}
	}
	if pipeline.Spec.Suspend || connecting(world) > 0 {
		// No action follows.
		return world, nil
	}
	world.PullRequests = r.pullRequests(ctx, world)
	return world, nil
}

// connectingPatience is how long a cluster may take to be connected before that is told in the status.
const connectingPatience = 10 * time.Second

// connecting returns for how long nothing is to be made of the world, since some cluster is being connected for the first time. That is
// over in a moment as a rule, and the Pipeline is queued then: its status need not become worse for that moment, whenever the controller
// starts or a kubeconfig changes.
func connecting(world plan.World) time.Duration {
	wait := time.Duration(0)
	for _, states := range world.Targets {
		for _, state := range states {
			if state.Reason == pipelinesv1.ConnectingReason {
				wait = max(wait, connectingPatience-world.Now.Sub(state.Since))
			}
		}
	}
	return wait
}

// findGates returns the gates that the Pipeline refers to.
func (r *PipelineReconciler) findGates(ctx context.Context, reader client.Reader, pipeline *pipelinesv1.Pipeline) (gatingv1.Found, error) {
	finder := gatingv1.Finder{
		Gate: func(name types.NamespacedName) (*gatingv1.Gate, error) {
			gate := &gatingv1.Gate{}
			if err := reader.Get(ctx, name, gate); err != nil {
				return nil, client.IgnoreNotFound(err)
			}
			return gate, nil
		},
		NamespaceLabels: func(name string) (map[string]string, error) {
			labels := namespaceMetadata()
			err := reader.Get(ctx, types.NamespacedName{Name: name}, labels)
			return labels.Labels, err
		},
		NoCrossNamespaceRefs: r.NoCrossNamespaceRefs,
	}
	return finder.Find(pipeline.Namespace, pipeline.GateReferences())
}

// promotionOf describes the promotion that the record of an environment is about. Its pull request is looked for where it was opened,
// whatever has become of the spec since.
func promotionOf(pipeline *pipelinesv1.Pipeline, name string) (promote.Promotion, bool) {
	status := pipeline.Status.Environments[name]
	if status == nil || status.Promotion == nil {
		return promote.Promotion{}, false
	}
	configured, opened := pipeline.PromotionInto(pipeline.Environment(name)), status.Promotion.Repository
	if configured == nil && opened == nil {
		return promote.Promotion{}, false
	}
	promotion := promote.Promotion{
		Pipeline:    client.ObjectKeyFromObject(pipeline),
		Environment: name,
		Revision:    status.Promotion.Revision,
		Started:     status.Promotion.StartTime,
		Checked:     status.Promotion.Preconditions,
	}
	if configured != nil {
		promotion.Strategy = *configured.Strategy.DeepCopy()
	}
	if opened != nil {
		if promotion.Strategy.PullRequest == nil {
			promotion.Strategy.PullRequest = &pipelinesv1.PullRequestPromotion{}
		}
		pr := promotion.Strategy.PullRequest
		pr.BaseBranch = opened.BaseBranch
		// For the same repository the spec knows better by now: the Secret may have been replaced by one of another name.
		if pr.URL != opened.URL {
			pr.Type, pr.URL, pr.SecretRef = opened.Type, opened.URL, opened.SecretRef
		}
		if last := status.History; len(last) > 0 && last[0].Superseded && last[0].Repository != nil && plan.SameRepository(last[0].Repository.URL, opened.URL) {
			promotion.Supersedes = last[0].PullRequest
		}
	}
	for _, t := range status.Targets {
		if t.Revision != "" {
			promotion.Running = append(promotion.Running, t.Revision)
		}
	}
	return promotion, true
}
