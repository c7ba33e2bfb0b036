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

package view

import (
	"fmt"
	"slices"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/rights"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Need is something that the user can do.
type Need struct {
	Link
	Kind describe.Kind
	// What says what it is, and Detail says why.
	What, Detail string
	Actions      []Action
}

// mostNeeds are shown.
const mostNeeds = 20

// needs returns what the user can do: approve, look at failures, and open gates.
func (v *View) needs() (shown []Need, more int) {
	var approvals, failures []Need
	for _, pipeline := range v.Pipelines {
		approvals = append(approvals, v.approvalsIn(pipeline)...)
		if env := why.Lagging(pipeline); kindOf(pipeline) == describe.Failed || kindOf(pipeline) == describe.RolledBack {
			failures = append(failures, Need{
				Link: Link{pipeline.Namespace + "/" + pipeline.Name, PipelinePath(pipeline)}, Kind: kindOf(pipeline),
				What: kindOf(pipeline).Word(), Detail: why.Line(pipeline, env, v.Now), Actions: v.pipelineActions(pipeline),
			})
		}
	}
	all := slices.Concat(approvals, failures, v.gatesToTurn())
	if len(all) > mostNeeds {
		return all[:mostNeeds], len(all) - mostNeeds
	}
	return all, 0
}

func (v *View) approvalsIn(pipeline *pipelinesv1.Pipeline) []Need {
	var needs []Need
	for i := range pipeline.Spec.Environments {
		env := pipeline.Spec.Environments[i].Name
		status := pipeline.Status.Environments[env]
		if status == nil || status.WaitingApproval.Revision == "" {
			continue
		}
		rev := status.WaitingApproval.Revision
		if slices.Contains(describe.Approvers(pipeline, env, rev), v.User) || MayApprove(v.RightsIn(pipeline.Namespace), pipeline) != "" {
			continue
		}
		needs = append(needs, Need{
			Link: Link{pipeline.Namespace + "/" + pipeline.Name, PipelinePath(pipeline)}, Kind: describe.Waiting,
			What:    "waits for your approval",
			Detail:  plaintext.Line(fmt.Sprintf("%s into %s; approvals: %s; also waits for: %s", short(rev), env, describe.Approvals(pipeline, env, rev), describe.Besides(pipeline, env))),
			Actions: v.approvalActions(pipeline, env),
		})
	}
	return needs
}

// gatesToTurn returns the closed gates that hold something and that the user may turn.
func (v *View) gatesToTurn() []Need {
	var needs []Need
	for _, gate := range v.Gates {
		if gate.StateAt(v.Now).Closed && gate.Status.Held > 0 && MayTurn(v.RightsIn(gate.Namespace), gate) == "" {
			closed := v.closedGate(gate)
			needs = append(needs, Need{
				Link: closed.Link, Kind: describe.Waiting, What: "holds " + closed.Held, Detail: describe.Gate(gate, v.Now), Actions: v.gateActions(gate),
			})
		}
	}
	return needs
}

var (
	pipelinesResource = pipelinesv1.GroupVersion.WithResource("pipelines").GroupResource()
	approvalsResource = pipelinesv1.GroupVersion.WithResource("promotionapprovals").GroupResource()
	gatesResource     = gatingv1.GroupVersion.WithResource("gates").GroupResource()
	passesResource    = gatingv1.GroupVersion.WithResource("gatepasses").GroupResource()
)

// MayApprove returns why the user may not approve promotions of a pipeline, or "".
func MayApprove(rules rights.Rules, pipeline *pipelinesv1.Pipeline) string {
	if rules.Unknown != "" {
		return rules.Unknown
	}
	if rules.Allow(pipelinesv1.ApproveVerb, pipelinesResource, pipeline.Name) && rules.Allow("create", approvalsResource, "") {
		return ""
	}
	return fmt.Sprintf("You may not approve it: that needs the verbs '%s' on pipeline %s and 'create' on promotionapprovals in namespace %s.",
		pipelinesv1.ApproveVerb, pipeline.Name, pipeline.Namespace)
}

// MayTurn returns why the user may not open or close a gate, or "".
func MayTurn(rules rights.Rules, gate *gatingv1.Gate) string {
	return mayPatch(rules, "gate", gate.Namespace, gate.Name)
}

// MayPatch returns why the user may not reconcile, suspend and resume a pipeline, or "".
func MayPatch(rules rights.Rules, pipeline *pipelinesv1.Pipeline) string {
	return mayPatch(rules, "pipeline", pipeline.Namespace, pipeline.Name)
}

func mayPatch(rules rights.Rules, noun, namespace, name string) string {
	resource := gatesResource
	if noun == "pipeline" {
		resource = pipelinesResource
	}
	if rules.Unknown != "" {
		return rules.Unknown
	}
	if rules.Allow("patch", resource, name) {
		return ""
	}
	return fmt.Sprintf("You may not change it: that needs the verb 'patch' on %s %s in namespace %s.", noun, name, namespace)
}

// MayPass returns why the user may not let a revision pass a gate, or "".
func MayPass(rules rights.Rules, gate *gatingv1.Gate) string {
	if rules.Unknown != "" {
		return rules.Unknown
	}
	if rules.Allow(gatingv1.PassVerb, gatesResource, gate.Name) && rules.Allow("create", passesResource, "") {
		return ""
	}
	return fmt.Sprintf("You may not let a revision pass: that needs the verbs '%s' on gate %s and 'create' on gatepasses in namespace %s.",
		gatingv1.PassVerb, gate.Name, gate.Namespace)
}
