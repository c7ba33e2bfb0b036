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
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
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
		shown.add(sources[i].tree())
	}
	status := &gate.Status
	counted := fmt.Sprintf("%d of %s held", status.HeldSources(), describe.Many(status.Sources, "source"))
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
		shown.add(leaf("%s: %s", promotion, describe.HeldByGates(promotion.pipeline, promotion.env)))
	}
	return lister.conclude(shown, gate, "no pipeline names it", describe.Many(gate.Status.HeldPromotions, "promotion")+" held"), nil
}

// sourcesNaming lists the sources that refer to the gate.
func (l *lister) sourcesNaming(ctx context.Context, gate *gatingv1.Gate) ([]gatedSource, error) {
	sources, err := l.sources(ctx)
	return slices.DeleteFunc(sources, func(found gatedSource) bool { return !found.Names(client.ObjectKeyFromObject(gate)) }), err
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
		for _, env := range describe.PromotionsNaming(pipeline, client.ObjectKeyFromObject(gate)) {
			found = append(found, gatedPromotion{pipeline, env})
		}
	}
	return found, nil
}

// conclude explains why a branch of the tree is empty or may be incomplete. In that case it shows the numbers in the
// gate's status.
func (l *lister) conclude(shown *tree, gate *gatingv1.Gate, none, counted string) *tree {
	denial := l.denial()
	switch {
	case denial != "" && describe.Observed(gate):
		shown.add(leaf("%s; by the gate's status: %s", denial, counted))
	case denial != "":
		shown.add(leaf("%s", denial))
	case len(shown.branches) == 0:
		shown.line = none
	}
	return shown
}

// passesOf lists the passes of the gate, also those that have ended.
func (l *lister) passesOf(ctx context.Context, gate *gatingv1.Gate) ([]gatingv1.GatePass, error) {
	passes := &gatingv1.GatePassList{}
	err := l.list(ctx, gatingv1.GatePassKind, passes)
	return slices.DeleteFunc(passes.Items, func(pass gatingv1.GatePass) bool { return !pass.Concerns(gate) }), err
}
