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
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/plan"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/promote"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/scm"
	"github.com/sluice-toolkit/sluice/runtime/gates"
)

// observe gathers the input of a plan. It returns how long to wait if the input is not complete yet.
func (r *PipelineReconciler) observe(ctx context.Context, pipeline *pipelinesv1.Pipeline) (_ plan.World, wait time.Duration, err error) {
	if plan.CheckSize(pipeline) != nil {
		// The Pipeline is rejected in any case.
		r.Targets.Forget(client.ObjectKeyFromObject(pipeline))
		return plan.World{Pipeline: pipeline, Now: r.Now()}, 0, nil
	}
	gates, err := r.findGates(ctx, r.Client, pipeline.Namespace, pipeline.GateReferences())
	if err != nil {
		return plan.World{}, 0, err
	}
	approvals, tooMany, err := approvalsOf(ctx, r.Client, pipeline)
	if err != nil {
		return plan.World{}, 0, err
	}
	byHTTP, err := r.httpApprover(ctx, pipeline)
	if err != nil {
		return plan.World{}, 0, err
	}
	world := plan.World{
		Pipeline:         pipeline,
		Targets:          map[string][]application.State{},
		Gates:            gates,
		Approvals:        approvals,
		TooManyApprovals: tooMany,
		HTTPApprover:     byHTTP,
		Now:              r.Now(),
	}
	if world.Alerts, err = r.alertsFor(ctx, pipeline); err != nil {
		return plan.World{}, 0, err
	}
	r.observeTargets(ctx, &world)
	r.observeSources(ctx, &world)
	wait = connecting(world)
	if wait == 0 && !pipeline.Spec.Suspend {
		world.PullRequests = r.pullRequests(world)
	}
	return world, wait, nil
}

func (r *PipelineReconciler) observeTargets(ctx context.Context, world *plan.World) {
	pipeline := world.Pipeline
	if expr := pipeline.RevisionExpr(); expr != "" {
		_, world.RevisionError = application.CompileRevision(expr)
	}
	r.Targets.Want(ctx, pipeline)
	if requested, ok := meta.ReconcileAnnotationValue(pipeline.Annotations); ok && requested != pipeline.Status.LastHandledReconcileAt {
		r.Targets.Refresh(client.ObjectKeyFromObject(pipeline))
	}
	for _, env := range pipeline.Spec.Environments {
		for _, t := range env.Targets {
			world.Targets[env.Name] = append(world.Targets[env.Name], r.Targets.Read(ctx, pipeline, t))
		}
	}
}

// observeSources reads the sources of targets whose state matters for the plan.
func (r *PipelineReconciler) observeSources(ctx context.Context, world *plan.World) {
	keys, of := world.SourcesOfInterest()
	states := r.Targets.ReadSources(ctx, world.Pipeline, of)
	world.Sources = map[plan.TargetKey]application.State{}
	for i, key := range keys {
		world.Sources[key] = states[i]
	}
}

// connectingPatience is how long a cluster may take to connect before the status reports it.
const connectingPatience = 10 * time.Second

// connecting returns how long to wait because a cluster is being connected for the first time. That usually takes a
// moment and then triggers a reconcile. So the status does not change for that moment whenever the controller starts or
// a kubeconfig changes.
func connecting(world plan.World) time.Duration {
	wait := time.Duration(0)
	for _, states := range world.Targets {
		for _, state := range states {
			wait = max(wait, stillConnecting(state, world.Now))
		}
	}
	for _, state := range world.Sources {
		wait = max(wait, stillConnecting(state, world.Now))
	}
	return wait
}

func stillConnecting(state application.State, now time.Time) time.Duration {
	if state.Reason != pipelinesv1.ConnectingReason {
		return 0
	}
	return connectingPatience - now.Sub(state.Since)
}

// findGates returns the gates that a Pipeline in the namespace refers to.
func (r *PipelineReconciler) findGates(ctx context.Context, reader client.Reader, namespace string, refs []gatingv1.GateReference) (gatingv1.Found, error) {
	return gates.NewFinder(ctx, reader, r.NoCrossNamespaceRefs).Find(namespace, refs)
}

// promotionOf returns the promotion in the record of an environment. Its pull request is searched where it was opened,
// even if the spec has changed since.
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
		// For the same repository the spec is more recent: the Secret may have been replaced by one of another name.
		if !scm.SameRepository(pr.URL, opened.URL) {
			pr.Type, pr.URL, pr.Path, pr.SecretRef = opened.Type, opened.URL, opened.Path, opened.SecretRef
		}
		if last := status.History; len(last) > 0 && last[0].Superseded && last[0].Repository != nil && scm.SameRepository(last[0].Repository.URL, opened.URL) {
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
