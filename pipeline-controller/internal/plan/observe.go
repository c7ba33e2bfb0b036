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

package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// showTargets writes the state of each target to the status. The targets of all environments are one allocation,
// because every plan makes it.
func (p *planner) showTargets() {
	spec := &p.pipeline.Spec
	targets := 0
	for i := range spec.Environments {
		targets += len(p.Targets[spec.Environments[i].Name])
	}
	all := make([]pipelinesv1.TargetStatus, targets)
	for i := range spec.Environments {
		env := &spec.Environments[i]
		before := p.environment(env.Name).Targets
		n := len(p.Targets[env.Name])
		shown := all[:n:n]
		all = all[n:]
		for j, state := range p.Targets[env.Name] {
			shown[j] = pipelinesv1.TargetStatus{
				ClusterAppRef: pipelinesv1.ClusterAppReference{LocalAppReference: spec.AppRef, ClusterRef: env.Targets[j].ClusterRef},
				Namespace:     env.Targets[j].Namespace,
				Ready:         state.Ready,
				Revision:      state.Revision,
				Error:         state.Message,
				Reason:        state.Reason,
				Since:         since(state),
			}
			shown[j].ReadyRevision = readyRevision(shown[j], before)
		}
		p.environment(env.Name).Targets = shown
	}
}

// forgetEnvironments removes environments that are no longer in the spec, unless their pull request may still have to
// be closed.
func (p *planner) forgetEnvironments() {
	maps.DeleteFunc(p.pipeline.Status.Environments, func(name string, status *pipelinesv1.EnvironmentStatus) bool {
		if p.pipeline.Environment(name) != nil {
			return false
		}
		status.State, status.Message, status.Since = "", "", nil
		return !mayHavePullRequest(status.Promotion)
	})
}

// since returns the time from which a target has not been known, in whole seconds like the API server.
func since(state application.State) *metav1.Time {
	if state.Since.IsZero() {
		return nil
	}
	return new(metav1.NewTime(state.Since.Truncate(time.Second)))
}

// readyRevision returns the last revision on which a target was ready.
func readyRevision(now pipelinesv1.TargetStatus, before []pipelinesv1.TargetStatus) string {
	switch {
	case now.Ready:
		return now.Revision
	case now.Reason == pipelinesv1.AccessDeniedReason:
		// After access is revoked, what was read before is neither shown nor counted.
		return ""
	}
	for _, old := range before {
		if sameApplication(old, now) {
			return old.ReadyRevision
		}
	}
	return ""
}

// sameApplication reports whether two targets are the same application object, regardless of the version of its API.
func sameApplication(a, b pipelinesv1.TargetStatus) bool {
	return a.Namespace == b.Namespace && a.ClusterAppRef.Kind == b.ClusterAppRef.Kind && a.ClusterAppRef.Name == b.ClusterAppRef.Name &&
		sameCluster(a.ClusterAppRef.ClusterRef, b.ClusterAppRef.ClusterRef)
}

func sameCluster(a, b *pipelinesv1.CrossNamespaceClusterReference) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// unknownTarget returns the state of an environment if any of its targets is unknown. Unknown is not the same as not
// running the revision.
func (p *planner) unknownTarget(env *pipelinesv1.Environment) *standing {
	states := p.Targets[env.Name]
	i := slices.IndexFunc(states, func(state application.State) bool { return !state.Known })
	if i < 0 {
		return nil
	}
	p.wakeAt(p.Now.Add(UnknownTargetPoll))
	return new(stands(pipelinesv1.EnvironmentUnknown, "%s can't be read: %s", p.describe(env, i), states[i].Message))
}

// describe returns the name of a target for messages.
func (p *planner) describe(env *pipelinesv1.Environment, i int) string {
	name := fmt.Sprintf("%s %s/%s", p.pipeline.Spec.AppRef.Kind, env.Targets[i].Namespace, p.pipeline.Spec.AppRef.Name)
	if cluster := env.Targets[i].ClusterRef; cluster != nil {
		return fmt.Sprintf("%s in cluster %s", name, cluster.Name)
	}
	return name
}
