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
	"slices"
	"strings"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/application"
)

// oracle implements the promotion algorithm a second time, as simple as possible, without sharing code with the tested
// one.
type oracle struct {
	spec *pipelinesv1.PipelineSpec
	// read returns the state of the application in a namespace.
	read func(namespace string) application.State
	// everReady returns the last revision on which a target was ready.
	everReady func(environment, namespace string) string
}

// standing is the state of a run.
type standing struct {
	// revision of the run; empty if the first environment has not settled.
	revision string
	// reason of the Ready condition; empty if a promotion is needed.
	reason string
	// environment that a promotion is needed into.
	environment string
}

func (o oracle) stand() standing {
	switch {
	case !o.valid():
		return standing{reason: "InvalidSpec"}
	case len(o.spec.Environments) == 0:
		return standing{reason: "UpToDate"}
	}
	revision, reason := o.first()
	if revision == "" {
		return standing{reason: reason}
	}
	for _, env := range o.spec.Environments[1:] {
		switch {
		case o.runs(env, revision):
			continue
		case o.unknown(env):
			return standing{revision: revision, reason: "TargetNotReadable"}
		case o.reached(env, revision):
			return standing{revision: revision, reason: "RollingOut"}
		case o.promotion(env) == nil:
			return standing{revision: revision, reason: "NoPromotion"}
		}
		return standing{revision: revision, environment: env.Name}
	}
	return standing{revision: revision, reason: "UpToDate"}
}

func (o oracle) valid() bool {
	for i, env := range o.spec.Environments {
		promotion := o.promotion(env)
		if i == 0 || promotion == nil {
			continue
		}
		if (promotion.Strategy.PullRequest != nil) == (promotion.Strategy.Notification != nil) {
			return false
		}
	}
	return true
}

func (o oracle) promotion(env pipelinesv1.Environment) *pipelinesv1.Promotion {
	if env.Promotion != nil {
		return env.Promotion
	}
	return o.spec.Promotion
}

// first returns the revision of the first environment, or the reason why it has none.
func (o oracle) first() (revision, reason string) {
	env := o.spec.Environments[0]
	if len(env.Targets) == 0 {
		return "", "EnvironmentNotReady"
	}
	if o.unknown(env) {
		return "", "TargetNotReadable"
	}
	revision = o.readyOn(env, env.Targets[0])
	if revision == "" || !o.runs(env, revision) {
		return "", "EnvironmentNotReady"
	}
	return revision, ""
}

// readyOn returns the revision on which a target counts as ready.
func (o oracle) readyOn(env pipelinesv1.Environment, t pipelinesv1.Target) string {
	state := o.read(t.Namespace)
	if state.Known && state.Ready {
		return state.Revision
	}
	if state.Known && env.Settle == "individually" {
		return o.everReady(env.Name, t.Namespace)
	}
	return ""
}

// runs reports whether all targets of an environment are ready on the revision. It is true for an environment without
// targets.
func (o oracle) runs(env pipelinesv1.Environment, revision string) bool {
	for _, t := range env.Targets {
		if !sameRevision(o.readyOn(env, t), revision) {
			return false
		}
	}
	return true
}

// reached reports whether any target of an environment runs the revision, ready or not.
func (o oracle) reached(env pipelinesv1.Environment, revision string) bool {
	return slices.ContainsFunc(env.Targets, func(t pipelinesv1.Target) bool {
		return sameRevision(o.read(t.Namespace).Revision, revision) || sameRevision(o.readyOn(env, t), revision)
	})
}

func (o oracle) unknown(env pipelinesv1.Environment) bool {
	return slices.ContainsFunc(env.Targets, func(t pipelinesv1.Target) bool { return !o.read(t.Namespace).Known })
}

// sameRevision compares the parts after the last '@', if both have one.
func sameRevision(a, b string) bool {
	if i, j := strings.LastIndex(a, "@"), strings.LastIndex(b, "@"); i >= 0 && j >= 0 {
		return a[i:] == b[j:]
	}
	return a == b && a != ""
}

// gatesOpen reports whether the gates of a promotion are open. If they are not, it reports whether one is missing.
func gatesOpen(refs *gatingv1.GateReferences, gate func(name string) *gatingv1.Gate) (open, missing bool) {
	if refs == nil || len(refs.Refs) == 0 {
		return true, false
	}
	opened := 0
	for _, ref := range refs.Refs {
		switch found := gate(string(ref)); {
		case found == nil:
			missing = true
		case !found.Spec.Closed:
			opened++
		}
	}
	if refs.Require == "oneOf" {
		return opened > 0, missing && opened == 0
	}
	return opened == len(refs.Refs), missing
}

// approved reports whether enough people have approved the revision by exactly that name.
func approved(promotion *pipelinesv1.Promotion, environment, revision string, approvals []*pipelinesv1.PromotionApproval) bool {
	people := map[string]bool{}
	onlyPeople := promotion.Approvals != nil && promotion.Approvals.HTTP != nil && !*promotion.Approvals.HTTP
	for _, approval := range approvals {
		if onlyPeople && approval.Spec.ApprovedBy == modelController {
			continue
		}
		if approval.Spec.PipelineRef.Name == modelPipeline.Name && approval.Spec.Environment == environment &&
			approval.Spec.Revision == revision {
			people[approval.Spec.ApprovedBy] = true
		}
	}
	required := 0
	if promotion.Manual {
		required = 1
	}
	if promotion.Approvals != nil {
		required = int(promotion.Approvals.Required)
	}
	return len(people) >= required
}
