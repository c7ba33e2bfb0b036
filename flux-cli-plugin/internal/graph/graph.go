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

// Package graph draws a pipeline: its environments, what each runs, and what the promotion into each waits for. It is
// pure.
package graph

import (
	"fmt"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// Graph is a pipeline as it is drawn.
type Graph struct {
	// Title is the name of the pipeline, and Revision is what it promotes.
	Title, Revision string
	Stages          []Stage
}

// Stage is an environment. All its texts have one line.
type Stage struct {
	Name string
	Kind describe.Kind
	// State is the state in words.
	State string
	// Running is the revisions of its targets, and Targets is their number.
	Running, Targets string
	// Blockers are what the promotion into it waits for.
	Blockers []why.Blocker
}

// Of returns the graph of a pipeline.
func Of(pipeline *pipelinesv1.Pipeline) *Graph {
	drawn := &Graph{
		Title:    fmt.Sprintf("Pipeline/%s/%s", pipeline.Namespace, pipeline.Name),
		Revision: plaintext.Line(revision.Short(pipeline.Status.Revision)),
	}
	for i := range pipeline.Spec.Environments {
		drawn.Stages = append(drawn.Stages, stageOf(pipeline, &pipeline.Spec.Environments[i]))
	}
	return drawn
}

func stageOf(pipeline *pipelinesv1.Pipeline, env *pipelinesv1.Environment) Stage {
	stage := Stage{
		Name:     plaintext.Line(env.Name),
		Kind:     describe.UnknownKind,
		State:    describe.State(""),
		Running:  plaintext.Line(describe.Running(pipeline, env.Name)),
		Targets:  fmt.Sprintf("%d targets", len(env.Targets)),
		Blockers: why.Blockers(pipeline, env.Name),
	}
	if len(env.Targets) == 1 {
		stage.Targets = "1 target"
	}
	if status := pipeline.Status.Environments[env.Name]; status != nil {
		stage.Kind, stage.State = describe.KindOf(status.State), plaintext.Line(describe.State(status.State))
	}
	return stage
}

// Alternative describes the graph to readers who do not see it.
func (g *Graph) Alternative() string {
	text := g.Title
	for i := range g.Stages {
		text += fmt.Sprintf("; %s", g.Stages[i].String())
	}
	return text
}

// String describes the stage in a sentence.
func (s *Stage) String() string {
	text := fmt.Sprintf("%s is %s and runs %s", s.Name, s.State, s.Running)
	for _, blocker := range s.Blockers {
		text += ": " + blocker.Text
	}
	return text
}
