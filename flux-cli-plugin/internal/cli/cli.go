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

// Package cli holds the commands that Sluice adds to the Flux CLI. They take Flux's persistent flags, follow its rule for
// the default namespace, and talk like its own commands.
package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// New returns the commands of the program that was called by the given path, usually os.Args[0]. Called as flux-VERB, as
// Flux calls its plugins, the program is that verb; called by any other name, it takes the verb as its first argument.
func New(program, version string) *cobra.Command {
	flags := &clusterFlags{}
	verbs := []*cobra.Command{
		newVerb("open", "Open what was closed", newGateCommand(opening, flags)),
		newVerb("close", "Close what was open", newGateCommand(closing, flags)),
	}

	root := newRoot(strings.TrimSuffix(filepath.Base(program), ".exe"), verbs)
	root.Version = version
	root.SetVersionTemplate("sluice version {{.Version}}\n")
	root.SilenceUsage = true
	root.SilenceErrors = true
	flags.bind(root)
	return root
}

func newRoot(name string, verbs []*cobra.Command) *cobra.Command {
	for _, verb := range verbs {
		if name == "flux-"+verb.Name() {
			verb.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "flux " + verb.Name()}
			// Completion is flux's own: it asks the plugin through cobra's hidden __complete command.
			verb.CompletionOptions.DisableDefaultCmd = true
			return verb
		}
	}
	root := &cobra.Command{
		Use:   name,
		Short: "Delivery control for Flux: gates and pipelines",
	}
	root.AddCommand(verbs...)
	return root
}

func newVerb(name, short string, nouns ...*cobra.Command) *cobra.Command {
	verb := &cobra.Command{Use: name, Short: short}
	verb.AddCommand(nouns...)
	return verb
}
