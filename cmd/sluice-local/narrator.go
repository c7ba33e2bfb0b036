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
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/moby/term"

	"github.com/sluice-toolkit/sluice/tests/playground"
)

const (
	// columns is the length of the longest line.
	columns = 100
	// margin is the width of an event's time and mark.
	margin = 10

	bold  = "1"
	red   = "31"
	green = "32"
)

// narrator prints each event with the time since the start. On a terminal, it uses colours.
type narrator struct {
	out     *os.File
	start   time.Time
	colours bool
}

func newNarrator(out *os.File) *narrator {
	colours := term.IsTerminal(out.Fd()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &narrator{out: out, start: time.Now(), colours: colours}
}

func (n *narrator) paint(style, text string) string {
	if !n.colours || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (n *narrator) line(style, mark, text string) {
	lines := fold(text, columns-margin)
	fmt.Fprintf(n.out, "%6.1fs %s %s\n", time.Since(n.start).Seconds(), n.paint(style, mark), lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintf(n.out, "%*s%s\n", margin, "", line)
	}
}

// fold breaks a text into lines, between words.
func fold(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.SplitAfter(text, " ") {
		if line != "" && len([]rune(line+strings.TrimRight(word, " "))) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += word
	}
	return append(lines, line)
}

// note prints what is being done.
func (n *narrator) note(text string) { n.line("", "►", text) }

// seen prints what was observed.
func (n *narrator) seen(format string, args ...any) {
	n.line(green, "✔", fmt.Sprintf(format, args...))
}

// chapter starts a section of the output.
func (n *narrator) chapter(text string) { fmt.Fprintf(n.out, "\n%s\n", n.paint(bold, text)) }

// output prints a command and its output.
func (n *narrator) output(command, text string) {
	fmt.Fprintln(n.out)
	for _, line := range fold("$ "+command, columns-2) {
		fmt.Fprintf(n.out, "  %s\n", n.paint(bold, line))
	}
	for _, long := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		for _, line := range fold(long, columns-2) {
			fmt.Fprintf(n.out, "  %s\n", line)
		}
	}
	fmt.Fprintln(n.out)
}

// diff prints a diff as the output of a command.
func (n *narrator) diff(command, text string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "+"):
			lines[i] = n.paint(green, line)
		case strings.HasPrefix(line, "-"):
			lines[i] = n.paint(red, line)
		}
	}
	n.output(command, strings.Join(lines, "\n"))
}

// keep prints how to use what is still running.
func (n *narrator) keep(world *playground.Playground, plugins string) {
	clone, err := url.Parse(world.RepositoryURL("app"))
	if err != nil {
		panic(err) // the playground made it
	}
	clone.User = url.UserPassword(world.Git.Username, world.Git.Password)
	fmt.Fprintf(n.out, `
Everything is left running; Ctrl-C ends it.

    export KUBECONFIG=%[1]s
    export FLUXCD_PLUGINS=%[2]s
    flux pipeline list -o wide
    flux gate get %[3]s

Without the Flux CLI, call the plugins by their paths, such as $FLUXCD_PLUGINS/flux-gate.

To release the next version, and to watch it travel:

    git clone %[4]s
    cd app
    sed -i.old s/%[5]s/%[6]s/ deploy/app.yaml
    git -c user.name=me -c user.email=me@localhost commit -am "Release %[6]s"
    git tag %[6]s
    git push origin main %[6]s
    flux pipeline list --watch

To hold it back from prod, and to let it go:

    flux close gate %[3]s --reason "end of quarter"
    flux open gate %[3]s

Its pull requests are merged in Gitea, as %[7]s with the password %[8]s:

    %[9]s/%[7]s/fleet/pulls

Logs are in %[10]s/logs.
`, world.Cluster.Kubeconfig, plugins, playground.GateName, clone, nextVersion, laterVersion,
		world.Git.Username, world.Git.Password, world.Git.URL, world.Cluster.Dir)
}
