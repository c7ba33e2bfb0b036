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
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocs compares docs/cli.md with the commands.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../../docs/cli.md")
	g.Expect(err).NotTo(HaveOccurred())
	page, root := string(content), newProgram("flux", "", outside{})

	t.Run("every command and every flag of it is on the page", func(t *testing.T) {
		g := NewWithT(t)
		for _, command := range leaves(root) {
			path := command.CommandPath()
			if command.Parent() == root {
				path = "flux sluice " + command.Name() // flux finds the verbs only
			}
			g.Expect(page).To(ContainSubstring(path))
			command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
				if flag.Name != "help" {
					g.Expect(page).To(MatchRegexp(`--`+flag.Name+`\b`), "%s --%s", command.CommandPath(), flag.Name)
				}
			})
		}
	})

	t.Run("the help of every command fits into 100 columns", func(t *testing.T) {
		g := NewWithT(t)
		for _, command := range append(leaves(root), root) {
			for line := range strings.Lines(command.Long + "\n" + command.UsageString()) {
				g.Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", 100), "%s: %s", command.CommandPath(), line)
			}
		}
	})

	t.Run("every command and every flag on the page exists", func(t *testing.T) {
		g := NewWithT(t)
		for _, line := range regexp.MustCompile(`(?m)^(?:\$ )?flux .*`).FindAllString(page, -1) {
			words := strings.Fields(strings.TrimPrefix(line, "$ "))[1:]
			if words[0] == "sluice" {
				words = words[1:]
			}
			command, _, err := root.Find(words)
			g.Expect(err).NotTo(HaveOccurred(), line)
			g.Expect(command.HasSubCommands()).To(BeFalse(), line)
			for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(line, -1) {
				g.Expect(command.Flag(flag[1])).NotTo(BeNil(), "%s: --%s", line, flag[1])
			}
		}
	})
}

// leaves returns the commands that do something.
func leaves(command *cobra.Command) []*cobra.Command {
	if !command.HasSubCommands() {
		return []*cobra.Command{command}
	}
	var all []*cobra.Command
	for _, child := range command.Commands() {
		all = append(all, leaves(child)...)
	}
	return all
}
