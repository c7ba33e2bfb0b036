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

// Package cli contains the commands that Sluice adds to the Flux CLI. They accept Flux's persistent flags, use the same
// default namespace, and print messages in the same style.
package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/term"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// outside is the environment of the commands. Tests replace it.
type outside struct {
	dial       func(*cobra.Command, *clusterFlags) (client.WithWatch, error)
	isTerminal func(stream any) bool
	now        func() time.Time
	// watchInterval is the time between two reads of --watch. Reading again requires no permission but listing.
	watchInterval time.Duration
	// openBrowser shows an address to the user.
	openBrowser func(address string) error
}

// New returns the root command. program is usually os.Args[0]. If the program is called as flux-VERB, as Flux calls its
// plugins, the root command is that verb. Otherwise, as for flux-sluice, the verb is the first argument.
func New(program, version string) *cobra.Command {
	return newProgram(program, version, outside{dial: dial, isTerminal: isTerminal, now: time.Now, watchInterval: 2 * time.Second, openBrowser: openBrowser})
}

func newProgram(program, version string, outside outside) *cobra.Command {
	flags := &clusterFlags{outside: outside}
	verbs := []*cobra.Command{
		newNounVerb("open", "Open gates", "gate", newOpenGateCommand("gate NAME...", "flux open gate", flags)),
		newNounVerb("close", "Close gates", "gate", newCloseGateCommand("gate NAME...", "flux close gate", flags)),
		newNounVerb("approve", "Approve promotions", "promotion", newApproveCommand("promotion PIPELINE", "flux approve promotion", flags)),
		newNounVerb("pass", "Let revisions pass closed gates", "gate", newPassGateCommand(flags)),
		newVerb("gate", "Manage gates and show what they hold",
			newGateListCommand(flags), newGateGetCommand(flags), newGateCalendarCommand(flags), newGateSourcesCommand(flags), newGatePassesCommand(flags), newGateCreateCommand(flags),
			newOpenGateCommand("open NAME...", "flux gate open", flags), newCloseGateCommand("close NAME...", "flux gate close", flags)),
		newVerb("pipeline", "Show and reconcile pipelines, approve promotions and check markers",
			newPipelineListCommand(flags), newPipelineGetCommand(flags), newPipelineWhyCommand(flags), newPipelineWaitCommand(flags),
			newPipelineHistoryCommand(flags), newPipelineEventsCommand(flags), newPipelineGraphCommand(flags),
			newPipelineReconcileCommand(flags), newPipelineSuspendCommand(flags), newPipelineResumeCommand(flags),
			newPipelineClustersCommand(flags), newPipelineMarkersCommand(flags), newUICommand("flux pipeline ui", flags),
			newApproveCommand("approve PIPELINE", "flux pipeline approve", flags)),
	}

	root := newRoot(strings.TrimSuffix(filepath.Base(program), ".exe"), verbs, append(newVerbLinks(program, verbs).commands(), newUninstallCommand(flags), newUICommand("flux sluice ui", flags)))
	root.Version = version
	root.SetVersionTemplate("sluice version {{.Version}}\n")
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	flags.bind(root)
	return root
}

func isTerminal(stream any) bool {
	_, is := term.GetFdInfo(stream)
	return is
}

// newRoot returns the root command for the name of the program: a verb, or all verbs and the commands about Sluice.
func newRoot(name string, verbs, own []*cobra.Command) *cobra.Command {
	for _, verb := range verbs {
		if name == "flux-"+verb.Name() {
			verb.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "flux " + verb.Name()}
			// flux itself provides completion. It calls the plugin's hidden cobra command __complete.
			verb.CompletionOptions.DisableDefaultCmd = true
			return verb
		}
	}
	root := &cobra.Command{
		Use:   name,
		Short: "Delivery control for Flux: gates and pipelines",
	}
	if name == "flux-sluice" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "flux sluice"}
		root.CompletionOptions.DisableDefaultCmd = true
	}
	root.AddCommand(verbs...)
	root.AddCommand(own...)
	return root
}

func newVerb(name, short string, nouns ...*cobra.Command) *cobra.Command {
	verb := &cobra.Command{Use: name, Short: short}
	verb.AddCommand(nouns...)
	return verb
}

// newNounVerb returns a verb that is followed by a noun. Without the noun, the error says what to type.
func newNounVerb(name, short, noun string, nouns ...*cobra.Command) *cobra.Command {
	verb := newVerb(name, short, nouns...)
	verb.Args = cobra.ArbitraryArgs
	verb.FParseErrWhitelist.UnknownFlags = true // those of the noun
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return fmt.Errorf("'flux %[1]s' must be followed by %[2]s: flux %[1]s %[2]s %[3]s", name, noun, args[0])
	}
	return verb
}

// maybeOneName allows one name or none, for lists.
func maybeOneName(kind string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return oneName(kind)(cmd, args)
	}
}

func oneName(kind string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return fmt.Errorf("%s name is required", kind)
		case len(args) > 1:
			return fmt.Errorf("one %s name is expected, got %d arguments: %s", kind, len(args), strings.Join(args, " "))
		}
		return nil
	}
}
