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
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPipelineGraph(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "graph draws for the terminal",
			command: "flux-pipeline graph app",
			objects: []client.Object{promoted()},
			wantOut: `
Pipeline/flux-system/app: v1.2.3@sha1:cccccccc
dev       ✓ current             v1.2.3@sha1:cccccccc
│
▼
staging   ✓ current             v1.2.3@sha1:cccccccc
│
┆ pull request #7 is open
▼
prod      ◷ pull request open   v1.2.2@sha1:bbbbbbbb
`,
		},
		{
			name:    "an unknown format is refused",
			command: "flux-pipeline graph app -o png",
			wantErr: "--output must be mermaid, svg or text",
		},
		{
			name:    "a name is asked for",
			command: "flux-pipeline graph",
			wantErr: "pipeline name is required",
		},
	})
}

func TestPipelineGraphFormats(t *testing.T) {
	for format, want := range map[string]string{"mermaid": "flowchart LR\n", "svg": "<svg "} {
		g := NewWithT(t)
		stdout, _, err := cluster{objects: []client.Object{promoted()}}.run(t, "flux-pipeline", "graph", "app", "--output", format)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(stdout).To(HavePrefix(want))
	}
}

func TestPipelineGraphHasTheColoursOfOtherCommands(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	stdout, _, err := cluster{objects: []client.Object{promoted()}, colours: true}.run(t, "flux-pipeline", "graph", "app")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(And(ContainSubstring("\x1b[32m✓ current\x1b[39m"), ContainSubstring("\x1b[33m◷ pull request open\x1b[39m")))
}
