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

package playground

import (
	"context"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// Pipeline returns the Pipeline as it is now.
func (p *Playground) Pipeline(ctx context.Context) (*pipelinesv1.Pipeline, error) {
	pipeline := &pipelinesv1.Pipeline{}
	return pipeline, p.Client.Get(ctx, InFluxNamespace(PipelineName), pipeline)
}

// Gate returns the gate as it is now.
func (p *Playground) Gate(ctx context.Context) (*gatingv1.Gate, error) {
	gate := &gatingv1.Gate{}
	return gate, p.Client.Get(ctx, InFluxNamespace(GateName), gate)
}

// Why returns what the Pipeline says of itself: the message of its Ready condition.
func (p *Playground) Why(ctx context.Context) (string, error) {
	pipeline, err := p.Pipeline(ctx)
	if err != nil {
		return "", err
	}
	ready := apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition)
	if ready == nil {
		return "", nil
	}
	return ready.Message, nil
}

// Promotion returns the record of the promotion into an environment, or nil if there is none.
func (p *Playground) Promotion(ctx context.Context, env string) (*pipelinesv1.PromotionRecord, error) {
	pipeline, err := p.Pipeline(ctx)
	if err != nil || pipeline.Status.Environments[env] == nil {
		return nil, err
	}
	return pipeline.Status.Environments[env].Promotion, nil
}

// RunningVersion returns the version that the application has in an environment: not what any status says, but what
// Flux has applied. It is empty while there is none.
func (p *Playground) RunningVersion(ctx context.Context, env string) (string, error) {
	app := &corev1.ConfigMap{}
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: env, Name: "app"}, app); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return app.Data["version"], nil
}

// InFluxNamespace names an object in the namespace of Flux.
func InFluxNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: localcluster.FluxNamespace, Name: name}
}
