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
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/ui/action"
)

// Action is a button.
type Action struct {
	action.Request
	Label string
	// Denied says why the user may not do it, or is "".
	Denied string
}

// Question is what is asked before an action.
type Question struct {
	Action
	Title string
	// Says is what will happen.
	Says []string
	// Command is the beginning of the command that does the same.
	Command string
	// The fields to fill in.
	AskFor, AskReason, AskComment, AskRevision, AskForce bool
	// MayLast is true if no duration has to be given.
	MayLast bool
	// Revisions wait for the gate.
	Revisions []string
}

// pipelineActions returns the buttons of a pipeline.
func (v *View) pipelineActions(pipeline *pipelinesv1.Pipeline) []Action {
	if v.ReadOnly {
		return nil
	}
	denied := MayPatch(v.RightsIn(pipeline.Namespace), pipeline)
	on := func(verb action.Verb, label string) Action {
		return Action{Request: action.Request{Verb: verb, Namespace: pipeline.Namespace, Name: pipeline.Name}, Label: label, Denied: denied}
	}
	if pipeline.Spec.Suspend {
		return []Action{on(action.Resume, "Resume")}
	}
	return []Action{on(action.Reconcile, "Reconcile"), on(action.Suspend, "Suspend")}
}

// approvalActions returns the button that approves a promotion, if one waits.
func (v *View) approvalActions(pipeline *pipelinesv1.Pipeline, env string) []Action {
	status := pipeline.Status.Environments[env]
	if v.ReadOnly || status == nil || status.WaitingApproval.Revision == "" {
		return nil
	}
	return []Action{{
		Request: action.Request{Verb: action.Approve, Namespace: pipeline.Namespace, Name: pipeline.Name, Environment: env, Revision: status.WaitingApproval.Revision},
		Label:   "Approve", Denied: MayApprove(v.RightsIn(pipeline.Namespace), pipeline),
	}}
}

// gateActions returns the buttons of a gate.
func (v *View) gateActions(gate *gatingv1.Gate) []Action {
	if v.ReadOnly {
		return nil
	}
	rules := v.RightsIn(gate.Namespace)
	on := func(verb action.Verb, label, denied string) Action {
		return Action{Request: action.Request{Verb: verb, Namespace: gate.Namespace, Name: gate.Name}, Label: label, Denied: denied}
	}
	if !gate.StateAt(v.Now).Closed {
		return []Action{on(action.Close, "Close", MayTurn(rules, gate))}
	}
	return []Action{on(action.Open, "Open", MayTurn(rules, gate)), on(action.Pass, "Let a revision pass", MayPass(rules, gate))}
}

// Question returns what is asked before a request is carried out, or nil if its object does not exist.
func (v *View) Question(request action.Request) *Question {
	key := client.ObjectKey{Namespace: request.Namespace, Name: request.Name}
	var asked *Question
	if request.Verb.OfGates() {
		if gate := v.Snapshot.Gate(key); gate != nil {
			asked = v.askGate(request, gate)
		}
	} else if pipeline := v.Snapshot.Pipeline(key); pipeline != nil {
		asked = v.askPipeline(request, pipeline)
	}
	if asked == nil {
		return nil
	}
	asked.Request = request
	if args, err := request.Args(); err == nil {
		asked.Command = action.Command(args)
	}
	for i := range asked.Says {
		asked.Says[i] = plaintext.Line(asked.Says[i])
	}
	return asked
}

func (v *View) askPipeline(request action.Request, pipeline *pipelinesv1.Pipeline) *Question {
	denied := MayPatch(v.RightsIn(pipeline.Namespace), pipeline)
	name := pipeline.Namespace + "/" + pipeline.Name
	switch request.Verb {
	case action.Approve:
		return v.askApproval(request, pipeline)
	case action.Reconcile:
		return &Question{Action: Action{Label: "Reconcile", Denied: denied}, Title: "Reconcile " + name, AskForce: true, Says: []string{
			"pipeline-controller checks pull requests, and attempts a failed promotion again, now.",
		}}
	case action.Suspend:
		return &Question{Action: Action{Label: "Suspend", Denied: denied}, Title: "Suspend " + name, Says: []string{
			"Nothing is promoted until the pipeline is resumed. Open pull requests stay open.",
		}}
	case action.Resume:
		return &Question{Action: Action{Label: "Resume", Denied: denied}, Title: "Resume " + name, Says: []string{
			"Promotions continue at once.",
		}}
	}
	return nil
}

func (v *View) askApproval(request action.Request, pipeline *pipelinesv1.Pipeline) *Question {
	env, rev := request.Environment, request.Revision
	return &Question{
		Action: Action{Label: "Approve", Denied: MayApprove(v.RightsIn(pipeline.Namespace), pipeline)},
		Title:  "Approve a promotion of " + pipeline.Namespace + "/" + pipeline.Name, AskComment: true,
		Says: []string{
			fmt.Sprintf("%s is promoted into %s, which runs %s.", rev, env, describe.Running(pipeline, env)),
			fmt.Sprintf("Approvals: %s.", describe.Approvals(pipeline, env, rev)),
			fmt.Sprintf("It also waits for: %s.", describe.Besides(pipeline, env)),
			fmt.Sprintf("A PromotionApproval is created in your name, %s.", v.User),
		},
	}
}

func (v *View) askGate(request action.Request, gate *gatingv1.Gate) *Question {
	rules, name := v.RightsIn(gate.Namespace), gate.Namespace+"/"+gate.Name
	refer := describe.Many(gate.Status.Sources, "source") + " and " + describe.Many(gate.Status.Pipelines, "pipeline")
	yours := fmt.Sprintf("Your name, %s, and the reason are in every message about the gate.", v.User)
	switch request.Verb {
	case action.Open:
		return &Question{Action: Action{Label: "Open", Denied: MayTurn(rules, gate)}, Title: "Open gate " + name, AskFor: true, MayLast: true, AskReason: true, Says: []string{
			fmt.Sprintf("It is %s.", describe.Gate(gate, v.Now)),
			fmt.Sprintf("It holds %s and %s now. They continue, unless other gates hold them.", describe.Many(gate.Status.HeldSources(), "source"), describe.Many(gate.Status.HeldPromotions, "promotion")),
			yours,
		}}
	case action.Close:
		return &Question{Action: Action{Label: "Close", Denied: MayTurn(rules, gate)}, Title: "Close gate " + name, AskFor: true, MayLast: true, AskReason: true, Says: []string{
			fmt.Sprintf("It is %s.", describe.Gate(gate, v.Now)),
			fmt.Sprintf("%s refer to it. Sources publish nothing new, and promotions wait, until it opens.", refer),
			yours,
		}}
	case action.Pass:
		return &Question{
			Action: Action{Label: "Let it pass", Denied: MayPass(rules, gate)}, Title: "Let a revision pass gate " + name,
			AskRevision: true, AskFor: true, AskReason: true, Revisions: v.Gate(gate).Waiting(), Says: []string{
				"Only this revision passes. Everything else stays held.",
				strings.TrimSpace(peopleNeeded(gate)),
				fmt.Sprintf("A GatePass is created in your name, %s.", v.User),
			},
		}
	}
	return nil
}

func peopleNeeded(gate *gatingv1.Gate) string {
	if required := gate.PassesRequired(); required > 1 {
		return fmt.Sprintf("%d people must grant it for the same revision.", required)
	}
	return "One person is enough to grant it."
}
