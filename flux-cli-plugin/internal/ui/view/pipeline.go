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
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/graph"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Pipeline is the page of a Pipeline.
type Pipeline struct {
	Row
	App          string
	Revision     string
	Message      string
	Graph        *graph.Graph
	Actions      []Action
	Environments []Environment
	History      []Record
	Events       []Event
	Commands     []Command
	YAML         string
}

// Environment is an environment on the page of its Pipeline.
type Environment struct {
	Cell
	// Why is the sentence of 'flux pipeline why'.
	Why     string
	Targets []Target
	// Compare is what the promotion changes, or nil.
	Compare *Link
	// Gates are those of the promotion. One that can't be seen has no path.
	Gates   []Link
	Actions []Action
}

// Target is an application object.
type Target struct {
	Kind  describe.Kind
	Text  string
	Whole string
}

// Record is a promotion in the past.
type Record struct {
	Environment, Revision, Whole, State, Message, Approvers string
	Kind                                                    describe.Kind
	Started                                                 Age
	Ended                                                   *Age
	URL                                                     string
}

// Pipeline returns the page of a Pipeline.
func (v *View) Pipeline(pipeline *pipelinesv1.Pipeline) *Pipeline {
	_, message := describe.Ready(pipeline)
	shown := &Pipeline{
		Row: rowOf(pipeline), Actions: v.pipelineActions(pipeline), Revision: short(pipeline.Status.Revision), Message: plaintext.Line(message), Graph: graph.Of(pipeline),
		App:    fmt.Sprintf("%s %s", pipeline.Spec.AppRef.Kind, pipeline.Spec.AppRef.Name),
		Events: v.eventsOf(pipelinesv1.PipelineKind, pipeline),
		YAML:   yamlOf(pipeline, pipelinesv1.GroupVersion.String(), pipelinesv1.PipelineKind),
	}
	for i := range pipeline.Spec.Environments {
		shown.Environments = append(shown.Environments, v.environment(pipeline, &pipeline.Spec.Environments[i], shown.Cells[i]))
	}
	for _, env := range describe.Environments(pipeline) {
		for _, record := range describe.Records(pipeline.Status.Environments[env]) {
			shown.History = append(shown.History, recordOf(env, &record))
		}
	}
	slices.SortStableFunc(shown.History, func(a, b Record) int { return b.Started.Compare(a.Started.Time) })
	name := pipeline.Name + " -n " + pipeline.Namespace
	shown.Commands = commands(
		"Show it", "flux pipeline get "+name,
		"Explain what it waits for", "flux pipeline why "+name,
		"List its promotions", "flux pipeline history "+name,
		"Draw it", "flux pipeline graph "+name+" -o svg",
		"Print its YAML", kubectlGet("pipelines.pipelines.weave.works", pipeline),
	)
	return shown
}

func (v *View) environment(pipeline *pipelinesv1.Pipeline, env *pipelinesv1.Environment, cell Cell) Environment {
	shown := Environment{Cell: cell, Actions: v.approvalActions(pipeline, env.Name), Why: why.Line(pipeline, env.Name, v.Now)}
	if promotion := pipeline.PromotionInto(env); promotion != nil && promotion.Gates != nil && !cell.First {
		for _, ref := range promotion.Gates.Refs {
			shown.Gates = append(shown.Gates, v.gateLink(ref.NamespacedName(pipeline.Namespace)))
		}
	}
	status := pipeline.Status.Environments[env.Name]
	if status == nil {
		return shown
	}
	for i := range status.Targets {
		shown.Targets = append(shown.Targets, targetOf(&status.Targets[i]))
	}
	if revisions := wholeRevisions(status); len(revisions) == 1 {
		shown.Compare = v.compare(pipeline, revisions[0], pipeline.Status.RevisionInto(env.Name))
	}
	return shown
}

// gateLink returns a gate with its state. One that can't be seen is named.
func (v *View) gateLink(key client.ObjectKey) Link {
	gate := v.Snapshot.Gate(key)
	if gate == nil {
		return Link{Text: key.String() + ": missing, or you may not list it"}
	}
	return Link{gate.Name + ": " + describe.GateState(gate, v.Now), GatePath(gate)}
}

func targetOf(target *pipelinesv1.TargetStatus) Target {
	shown := Target{Kind: describe.Waiting, Text: plaintext.Line(describe.Target(target)), Whole: plaintext.Line(target.Revision)}
	switch {
	case target.Ready:
		shown.Kind = describe.Current
	case target.Reason != "":
		shown.Kind = describe.UnknownKind
	}
	return shown
}

var kindOfPromotion = map[pipelinesv1.PromotionState]describe.Kind{
	pipelinesv1.PromotionSucceeded: describe.Current, pipelinesv1.PromotionFailed: describe.Failed, pipelinesv1.PromotionAbandoned: describe.Failed,
}

func recordOf(env string, record *pipelinesv1.PromotionRecord) Record {
	shown := Record{
		Environment: plaintext.Line(env), Revision: short(record.Revision), Whole: plaintext.Line(record.Revision), State: string(record.State),
		Message: plaintext.Line(describe.RecordMessage(record)), Approvers: plaintext.Line(strings.Join(record.Approvers, ", ")),
		Kind: describe.Waiting, Started: Age{record.StartTime.Time}, URL: why.PullRequestURL(record),
	}
	if kind, ended := kindOfPromotion[record.State]; ended {
		shown.Kind = kind
	}
	if record.RollbackTime != nil {
		shown.Kind = describe.RolledBack
	}
	if record.CompletionTime != nil {
		shown.Ended = &Age{record.CompletionTime.Time}
	}
	return shown
}

// compare returns a link to what changes from a revision to another, if their repository is known.
func (v *View) compare(pipeline *pipelinesv1.Pipeline, from, to string) *Link {
	if from == "" || to == "" || revision.Equal(from, to) {
		return nil
	}
	repository := v.repositoryOf(to)
	if target := compareURL(repository, hostType(pipeline, repository), commit(from), commit(to)); target != "" {
		return &Link{short(from) + " → " + short(to), target}
	}
	return nil
}
