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

package cli

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
)

// referrersOf returns a lister of the objects that may refer to the gate. It lists other namespaces only if the gate
// allows references from there, so other gates need no permission for that.
func referrersOf(kube client.Client, gate *gatingv1.Gate) *lister {
	return &lister{kube: kube, everywhere: gate.Spec.AccessFrom != nil, namespace: gate.Namespace}
}

// sourcesOf shows the sources that refer to the gate.
func sourcesOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate) (*tree, error) {
	lister := referrersOf(kube, gate)
	sources, err := lister.sourcesNaming(ctx, gate)
	if err != nil {
		return nil, err
	}
	lister.warn(log)
	shown := &tree{line: "sources"}
	for i := range sources {
		shown.add(leaf("%s: %s", &sources[i], sources[i].describe()))
	}
	status := &gate.Status
	counted := fmt.Sprintf("%d of %s held", status.HeldSources(), many(status.Sources, "source"))
	return lister.conclude(shown, gate, "no source names it", counted), nil
}

// pipelinesOf shows the promotions that refer to the gate.
func pipelinesOf(ctx context.Context, kube client.Client, log logger, gate *gatingv1.Gate) (*tree, error) {
	lister := referrersOf(kube, gate)
	promotions, err := lister.promotionsNaming(ctx, gate)
	if err != nil {
		return nil, err
	}
	lister.warn(log)
	shown := &tree{line: "promotions"}
	for _, promotion := range promotions {
		shown.add(leaf("%s: %s", promotion, heldByGates(promotion.pipeline, promotion.env)))
	}
	return lister.conclude(shown, gate, "no pipeline names it", many(gate.Status.HeldPromotions, "promotion")+" held"), nil
}

// sourcesNaming lists the sources that refer to the gate.
func (l *lister) sourcesNaming(ctx context.Context, gate *gatingv1.Gate) ([]source, error) {
	sources, err := l.sources(ctx)
	return slices.DeleteFunc(sources, func(found source) bool { return !found.names(client.ObjectKeyFromObject(gate)) }), err
}

// gatedPromotion is the promotion into an environment that refers to a gate.
type gatedPromotion struct {
	pipeline *pipelinesv1.Pipeline
	env      string
}

func (p gatedPromotion) String() string {
	return fmt.Sprintf("Pipeline/%s/%s: %s", p.pipeline.Namespace, p.pipeline.Name, p.env)
}

// promotionsNaming lists the promotions that refer to the gate.
func (l *lister) promotionsNaming(ctx context.Context, gate *gatingv1.Gate) ([]gatedPromotion, error) {
	pipelines := &pipelinesv1.PipelineList{}
	if err := l.list(ctx, pipelinesv1.PipelineKind, pipelines); err != nil {
		return nil, err
	}
	var found []gatedPromotion
	for i := range pipelines.Items {
		pipeline := &pipelines.Items[i]
		for env := range pipeline.PromotedEnvironments() {
			promotion := pipeline.PromotionInto(env)
			if promotion != nil && promotion.Gates.Name(client.ObjectKeyFromObject(gate), pipeline.Namespace) {
				found = append(found, gatedPromotion{pipeline, env.Name})
			}
		}
	}
	return found, nil
}

// conclude explains why a branch of the tree is empty or may be incomplete. In that case it shows the numbers in the
// gate's status.
func (l *lister) conclude(shown *tree, gate *gatingv1.Gate, none, counted string) *tree {
	denial := l.denial()
	switch {
	case denial != "" && observed(gate):
		shown.add(leaf("%s; by the gate's status: %s", denial, counted))
	case denial != "":
		shown.add(leaf("%s", denial))
	case len(shown.branches) == 0:
		shown.line = none
	}
	return shown
}

// heldByGates reports in words whether the promotion waits for gates.
func heldByGates(pipeline *pipelinesv1.Pipeline, env string) string {
	if status := pipeline.Status.Environments[env]; status != nil && status.State == pipelinesv1.EnvironmentPromoted {
		return status.Message // a gate may hold the environment's source
	}
	if unmet := pipeline.WaitsForGates(env); unmet != nil {
		return fmt.Sprintf("%s waits: %s", revision.Short(recordOf(pipeline, env).Revision), unmet.Message)
	}
	return "does not wait"
}

// passesOf lists the passes of the gate, also those that have ended.
func (l *lister) passesOf(ctx context.Context, gate *gatingv1.Gate) ([]gatingv1.GatePass, error) {
	passes := &gatingv1.GatePassList{}
	err := l.list(ctx, gatingv1.GatePassKind, passes)
	return slices.DeleteFunc(passes.Items, func(pass gatingv1.GatePass) bool { return !pass.Concerns(gate) }), err
}
