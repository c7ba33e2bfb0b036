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

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-toolkit/sluice/tests/playground"
)

// narrator prints each event with the time since the start.
type narrator struct {
	out   io.Writer
	start time.Time
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, start: time.Now()}
}

func (n *narrator) line(mark, text string) {
	fmt.Fprintf(n.out, "%6.1fs %s %s\n", time.Since(n.start).Seconds(), mark, text)
}

// note prints what is being done.
func (n *narrator) note(text string) { n.line("►", text) }

// seen prints what was observed.
func (n *narrator) seen(format string, args ...any) { n.line("✔", fmt.Sprintf(format, args...)) }

// chapter starts a section of the output.
func (n *narrator) chapter(text string) { fmt.Fprintf(n.out, "\n%s\n", text) }

// output prints the output of a command.
func (n *narrator) output(command, text string) {
	fmt.Fprintf(n.out, "\n        $ %s\n", command)
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(n.out, "        %s\n", line)
	}
	fmt.Fprintln(n.out)
}

// keep prints how to use what is still running.
func (n *narrator) keep(world *playground.Playground) {
	fmt.Fprintf(n.out, `
Everything is left running; Ctrl-C ends it.

    export KUBECONFIG=%[1]s
    kubectl get gates,pipelines -A

    Gitea     %[2]s   (user %[3]s, password %[4]s)
    app       git clone %[5]s
    fleet     git clone %[6]s
    logs      %[7]s/logs

Tag a new version in app and watch it travel, or close the gate first:

    bin/plugins/flux-close gate %[8]s
`, world.Cluster.Kubeconfig, world.Git.URL, world.Git.Username, world.Git.Password,
		world.RepositoryURL("app"), world.RepositoryURL("fleet"), world.Cluster.Dir, playground.GateName)
}
