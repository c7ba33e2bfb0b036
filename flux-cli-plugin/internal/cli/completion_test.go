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

func TestEnvironmentsAreCompletedWithWhatWaitsInThem(t *testing.T) {
	g := NewWithT(t)
	stdout, _, err := cluster{objects: []client.Object{waiting()}}.run(t, "flux-approve", "__complete", "promotion", "app", "--env", "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stdout).To(Equal("dev\nstaging\nprod\tv1.2.3@sha1:cccccccc waits for approval\n:4\n"))
}

func TestRevisionsAreCompleted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command []string
		want    string
	}{
		{
			name:    "to approve, those that wait",
			command: []string{"flux-pipeline", "__complete", "approve", "app", "--revision", ""},
			want:    current + "\twaits for approval in prod\n:4\n",
		},
		{
			name:    "to wait for, the current one",
			command: []string{"flux-pipeline", "__complete", "wait", "app", "--revision", "v1"},
			want:    current + "\tthe current revision\n:4\n",
		},
		{
			name:    "none before a pipeline is named",
			command: []string{"flux-pipeline", "__complete", "wait", "--revision", ""},
			want:    ":4\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			stdout, _, err := cluster{objects: []client.Object{waiting()}}.run(t, tt.command...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stdout).To(Equal(tt.want))
		})
	}
}

func TestPipelinesAreCompleted(t *testing.T) {
	testCommands(t, []commandTest{
		{
			name:    "the names of pipelines are completed, with what travels through them",
			command: "flux-pipeline __complete why a",
			objects: []client.Object{waiting(), elsewhere()},
			wantOut: "\napp\tv1.2.3@sha1:cccccccc\n:4\n",
			wantLog: "Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
	})
}
