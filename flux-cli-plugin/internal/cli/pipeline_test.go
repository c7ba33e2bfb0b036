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
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

// newPipeline is a Pipeline with dev, staging and prod. It promotes v1.2.3, which has reached staging.
func newPipeline() *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "app", Generation: 1}}
	pipeline.Spec.AppRef = pipelinesv1.LocalAppReference{APIVersion: kustomizev1.GroupVersion.String(), Kind: kustomizev1.KustomizationKind, Name: "app"}
	pipeline.Status = pipelinesv1.PipelineStatus{
		ObservedGeneration: 1, Revision: current, Environments: map[string]*pipelinesv1.EnvironmentStatus{},
	}
	for _, env := range []struct{ name, revision string }{{"dev", current}, {"staging", current}, {"prod", previous}} {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{
			Name: env.name, Targets: []pipelinesv1.Target{{Namespace: env.name}},
		})
		pipeline.Status.Environments[env.name] = &pipelinesv1.EnvironmentStatus{
			Targets: []pipelinesv1.TargetStatus{{
				ClusterAppRef: pipelinesv1.ClusterAppReference{LocalAppReference: pipeline.Spec.AppRef},
				Namespace:     env.name, Ready: true, Revision: env.revision, ReadyRevision: env.revision,
			}},
		}
	}
	return pipeline
}

// stand sets the status of a run that has reached an environment, like pipeline-controller.
func stand(pipeline *pipelinesv1.Pipeline, at string, state pipelinesv1.EnvironmentState, ready metav1.ConditionStatus, message string) {
	pipeline.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: ready, Reason: string(state), Message: at + ": " + message}}
	now, text := pipelinesv1.EnvironmentCurrent, "runs v1.2.3@sha1:cccccccc"
	for _, env := range pipeline.Spec.Environments {
		status := pipeline.Status.Environments[env.Name]
		if env.Name == at {
			now, text = state, message
		}
		status.State, status.Message, status.Since = now, text, nil
		if env.Name == at {
			now, text = pipelinesv1.EnvironmentBehind, "waits for "+at+": "+message
		}
	}
}

// promoted is a Pipeline with history: two promotions into prod, and one into an environment that was removed from the
// spec.
func promoted() *pipelinesv1.Pipeline {
	pipeline := waiting(approved, created)
	pipeline.Status.Environments["prod"].Promotion.Message = "pull request " + pull + " waits to be merged"
	pipeline.Status.Environments["prod"].History = []pipelinesv1.PromotionRecord{
		{
			Revision: previous, State: pipelinesv1.PromotionSucceeded, StartTime: *at(-48 * time.Hour), CompletionTime: at(-47 * time.Hour),
			Message: "pull request https://github.com/acme/fleet/pull/5 was merged", Approvers: []string{"ada", "bob"},
			PullRequest: &pipelinesv1.PullRequestStatus{URL: "https://github.com/acme/fleet/pull/5"},
		},
		{
			Revision: "1.0.0", State: pipelinesv1.PromotionAbandoned, StartTime: *at(-72 * time.Hour), CompletionTime: at(-71 * time.Hour),
			Message: "superseded by v1.2.2@sha1:bbbbbbbb",
		},
	}
	pipeline.Status.Environments["old"] = &pipelinesv1.EnvironmentStatus{Promotion: &pipelinesv1.PromotionRecord{
		Revision: previous, State: pipelinesv1.PromotionFailed, StartTime: *at(-time.Hour), Message: "the last attempt failed", LastError: "no such host",
	}}
	stand(pipeline, "prod", "PullRequestOpen", "True", "v1.2.3@sha1:cccccccc waits for pull request "+pull+" to be merged")
	return pipeline
}

// elsewhere is a suspended Pipeline of another namespace that was never reconciled.
func elsewhere() *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
	pipeline.Spec.Suspend = true
	return pipeline
}

// outOfReach is a Pipeline with a target that cannot be read.
func outOfReach() *pipelinesv1.Pipeline {
	pipeline := newPipeline()
	pipeline.Status.Environments["prod"].Targets = append(pipeline.Status.Environments["prod"].Targets,
		pipelinesv1.TargetStatus{
			ClusterAppRef: pipelinesv1.ClusterAppReference{
				LocalAppReference: pipeline.Spec.AppRef, ClusterRef: &pipelinesv1.CrossNamespaceClusterReference{Name: "eu"},
			},
			Namespace: "prod", Error: "no route\nto host",
		})
	stand(pipeline, "prod", "Unknown", "False", "Kustomization prod/app in cluster eu can't be read: no route\nto host")
	return pipeline
}
