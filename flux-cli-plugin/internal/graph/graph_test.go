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

package graph_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/graph"
)

var (
	current  = "v1.2.3@sha1:" + strings.Repeat("c", 40)
	previous = "v1.2.2@sha1:" + strings.Repeat("b", 40)
)

// environment is an environment of a pipeline in a test.
type environment struct {
	name     string
	state    pipelinesv1.EnvironmentState
	revision string
	message  string
	blockers []string
}

func pipelineOf(environments ...environment) *pipelinesv1.Pipeline {
	pipeline := &pipelinesv1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: "app"}}
	pipeline.Status.Revision = current
	pipeline.Status.Environments = map[string]*pipelinesv1.EnvironmentStatus{}
	for _, env := range environments {
		pipeline.Spec.Environments = append(pipeline.Spec.Environments, pipelinesv1.Environment{Name: env.name, Targets: make([]pipelinesv1.Target, 1)})
		if env.state == "" {
			continue
		}
		status := &pipelinesv1.EnvironmentStatus{State: env.state, Message: env.message, Targets: []pipelinesv1.TargetStatus{{Revision: env.revision}}, Promotion: &pipelinesv1.PromotionRecord{}}
		for i, blocker := range env.blockers {
			status.Promotion.Preconditions = append(status.Promotion.Preconditions, pipelinesv1.PreconditionStatus{Type: fmt.Sprint(i), Message: blocker})
		}
		pipeline.Status.Environments[env.name] = status
	}
	return pipeline
}

func usual() *pipelinesv1.Pipeline {
	return pipelineOf(
		environment{name: "dev", state: "Current", revision: current},
		environment{name: "staging", state: "Current", revision: current},
		environment{name: "prod", state: "Waiting", revision: previous, blockers: []string{`gate freeze is closed ("end" of <quarter>)`, "1 of 2 approvals, by ada"}},
	)
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pipeline *pipelinesv1.Pipeline
		want     string
	}{
		{
			name:     "blockers are on the arrow",
			pipeline: usual(),
			want: `
Pipeline/flux-system/app: v1.2.3@sha1:cccccccc
dev       ✓ current   v1.2.3@sha1:cccccccc
│
▼
staging   ✓ current   v1.2.3@sha1:cccccccc
│
┆ gate freeze is closed ("end" of <quarter>)
┆ 1 of 2 approvals, by ada
▼
prod      ◷ waiting   v1.2.2@sha1:bbbbbbbb
`,
		},
		{
			name:     "what nobody has observed is unknown",
			pipeline: pipelineOf(environment{name: "dev"}),
			want: `
Pipeline/flux-system/app: v1.2.3@sha1:cccccccc
dev   ? unknown   <unknown>
`,
		},
		{
			name:     "names that take two cells are aligned",
			pipeline: pipelineOf(environment{name: "開発", state: "Current", revision: current}, environment{name: "prod", state: "RolledBack", revision: previous, message: "was rolled back"}),
			want: `
Pipeline/flux-system/app: v1.2.3@sha1:cccccccc
開発   ✓ current       v1.2.3@sha1:cccccccc
│
┆ was rolled back
▼
prod   ↺ rolled back   v1.2.2@sha1:bbbbbbbb
`,
		},
		{name: "a pipeline without environments has a title", pipeline: pipelineOf(), want: "\nPipeline/flux-system/app: v1.2.3@sha1:cccccccc\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var out strings.Builder
			g.Expect(graph.Of(tt.pipeline).Text(&out, func(text string, _ *graph.Stage) string { return text })).To(Succeed())
			g.Expect(out.String()).To(Equal(strings.TrimPrefix(tt.want, "\n")))
		})
	}
}

func TestMermaid(t *testing.T) {
	g := NewWithT(t)
	var out strings.Builder
	g.Expect(graph.Of(usual()).Mermaid(&out)).To(Succeed())
	g.Expect(out.String()).To(HavePrefix(`flowchart LR
  e0["dev<br/>✓ current<br/>v1.2.3@sha1:cccccccc"]:::current
  e1["staging<br/>✓ current<br/>v1.2.3@sha1:cccccccc"]:::current
  e2["prod<br/>◷ waiting<br/>v1.2.2@sha1:bbbbbbbb"]:::waiting
  e0 --> e1
  e1 -.->|"gate freeze is closed #40;#34;end#34; of #60;quarter#62;#41;<br/>1 of 2 approvals, by ada"| e2
  classDef failed `))
	g.Expect(out.String()).To(HaveSuffix("\n"))
}

func TestSVG(t *testing.T) {
	hostile := `</text><script>alert(1)</script>&amp;"' ` + "\x00\x1b[31m\u202e" + strings.Repeat("long", 1000)
	many := make([]environment, 64)
	for i := range many {
		many[i] = environment{name: fmt.Sprintf("env-%d", i), state: "Waiting", revision: current, blockers: []string{hostile, hostile}}
	}
	for _, tt := range []struct {
		name     string
		pipeline *pipelinesv1.Pipeline
		boxes    int
	}{
		{name: "the usual pipeline", pipeline: usual(), boxes: 3},
		{name: "texts of strangers", pipeline: pipelineOf(environment{name: hostile, state: pipelinesv1.EnvironmentState(hostile), revision: hostile}), boxes: 1},
		{name: "as many environments as there can be", pipeline: pipelineOf(many...), boxes: 64},
		{name: "no environment", pipeline: pipelineOf(), boxes: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			drawn := graph.Of(tt.pipeline)
			var out strings.Builder
			g.Expect(drawn.SVG(&out)).To(Succeed())
			elements := elementsOf(g, out.String())
			g.Expect(elements["rect"]).To(Equal(tt.boxes))
			g.Expect(elements["marker"]).To(Equal(1))
			g.Expect(elements["style"]).To(Equal(1))
			g.Expect(elements).NotTo(HaveKey("script"))
			expectInside(g, drawn.Layout())
		})
	}
}

// elementsOf counts the elements of a well-formed document.
func elementsOf(g *WithT, document string) map[string]int {
	decoder, elements := xml.NewDecoder(strings.NewReader(document)), map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		g.Expect(err).NotTo(HaveOccurred())
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
}

// expectInside expects that nothing is drawn outside of the drawing, and no box above another.
func expectInside(g *WithT, layout *graph.Layout) {
	const letter = 7 // pixels, at most
	inside := func(line graph.Line) {
		g.Expect(line.X).To(BeNumerically(">=", 0))
		g.Expect(line.X + letter*utf8.RuneCountInString(line.Text)).To(BeNumerically("<=", max(layout.Width, 700)))
		g.Expect(line.Y).To(And(BeNumerically(">=", 0), BeNumerically("<=", layout.Height)))
	}
	for i, box := range layout.Boxes {
		g.Expect(box.X + box.Width).To(BeNumerically("<=", layout.Width))
		g.Expect(box.Y + box.Height).To(BeNumerically("<=", layout.Height))
		for _, line := range []graph.Line{box.Name, box.Running} {
			g.Expect(letter * utf8.RuneCountInString(line.Text)).To(BeNumerically("<=", box.Width))
			inside(line)
		}
		for _, other := range layout.Boxes[:i] {
			if box.X < other.X+other.Width && box.Y < other.Y+other.Height && other.X < box.X+box.Width {
				g.Expect(box.Stage.Name).To(BeEmpty(), "it is above %s", other.Stage.Name)
			}
		}
	}
	for _, arrow := range layout.Arrows {
		for _, line := range arrow.Lines {
			inside(line)
			for _, box := range layout.Boxes {
				under := line.Y > box.Y && line.Y < box.Y+box.Height && line.X < box.X+box.Width
				if under && line.X+letter*utf8.RuneCountInString(line.Text) > box.X {
					g.Expect(line.Text).To(BeEmpty(), "it is in the box of %s", box.Stage.Name)
				}
			}
		}
	}
}

func TestAGraphIsDescribedToThoseWhoDoNotSeeIt(t *testing.T) {
	NewWithT(t).Expect(graph.Of(usual()).Alternative()).To(Equal(
		`Pipeline/flux-system/app; dev is current and runs v1.2.3@sha1:cccccccc; staging is current and runs v1.2.3@sha1:cccccccc; ` +
			`prod is waiting and runs v1.2.2@sha1:bbbbbbbb: gate freeze is closed ("end" of <quarter>): 1 of 2 approvals, by ada`))
}
