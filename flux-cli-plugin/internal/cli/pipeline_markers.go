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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-toolkit/sluice/api/marker"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// pipelineMarkersCommand lists the markers of a checkout. It does not contact a cluster.
type pipelineMarkersCommand struct {
	cluster *clusterFlags
	only    marker.Key
	set     string
}

// foundMarker is a marker in a file.
type foundMarker struct {
	marker.Marker
	file string
}

func newPipelineMarkersCommand(cluster *clusterFlags) *cobra.Command {
	command := &pipelineMarkersCommand{cluster: cluster}
	cmd := &cobra.Command{
		Use:   "markers [PATH]",
		Short: "List, check and preview the markers of a checkout",
		Long: `List the markers in the YAML files of a directory, and their errors. The command only reads files
and does not contact a cluster. The exit code is 1 if there is an error.

PATH is a directory or a file. If the strategy of a Pipeline has a path, use it: promotions set only
markers below it.

The command reads the same files as pipeline-controller: those that end in .yaml or .yml, without
symbolic links and submodules. Markers are not set in files larger than 8 MiB.`,
		Example: `  # List and check the markers of the current directory
  flux pipeline markers

  # What would a promotion into prod change?
  flux pipeline markers --env prod --set v1.2.3@sha1:2e5d0003aa4f0bd8ddcb2ff4d1ac1c6d0f2f6a31

  # The same for a Pipeline with the path ./apps/prod
  flux pipeline markers ./apps/prod --env prod --set v1.2.3@sha1:2e5d0003aa4f0bd8ddcb2ff4d1ac1c6d0f2f6a31`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: command.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&command.only.Environment, "env", "", "only the markers of this environment")
	flags.StringVar(&command.only.Pipeline, "pipeline", "", "only the markers of this pipeline")
	flags.StringVar(&command.set, "set", "", "show what would change if this revision were promoted")
	return cmd
}

func (c *pipelineMarkersCommand) run(cmd *cobra.Command, args []string) error {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	preview := cmd.Flags().Changed("set")
	if preview && c.set == "" {
		return errors.New("--set takes a revision")
	}
	// The default is all namespaces.
	if cmd.Flags().Changed("namespace") {
		c.only.Namespace = *c.cluster.kubeconfig.Namespace
	}
	found, err := c.find(dir)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		loggerFor(cmd).printf("✗", "no markers found in %s", dir)
		return nil
	}
	if preview {
		printChanges(cmd, found)
	} else if err := printMarkers(cmd, found); err != nil {
		return err
	}
	if wrong := wrongOf(found); wrong > 0 {
		return fmt.Errorf("something is wrong with %d of %d markers", wrong, len(found))
	}
	return nil
}

func wrongOf(found []foundMarker) int {
	wrong := 0
	for _, m := range found {
		if m.Err != nil {
			wrong++
		}
	}
	return wrong
}

// find returns the markers in a file or in the files below a directory. at itself may be a symbolic link.
func (c *pipelineMarkersCommand) find(at string) ([]foundMarker, error) {
	dir, below := at, "."
	if info, err := os.Stat(at); err != nil {
		return nil, err
	} else if !info.IsDir() {
		dir, below = filepath.Split(filepath.Clean(at))
		dir = filepath.Clean(dir)
	}
	files := os.DirFS(dir)
	var found []foundMarker
	err := fs.WalkDir(files, below, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return skipRepositories(files, name)
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil || !marker.MayHold(name) {
			return err
		}
		markers, err := c.markersOf(files, name, info.Size())
		for _, m := range markers {
			found = append(found, foundMarker{Marker: m, file: filepath.Join(dir, filepath.FromSlash(name))})
		}
		return err
	})
	return found, err
}

// markersOf returns the markers of a file. A file that is too large is not read into memory; the result is a single
// marker with the error.
func (c *pipelineMarkersCommand) markersOf(files fs.FS, name string, size int64) ([]marker.Marker, error) {
	tooLarge := marker.CheckSize(size)
	if tooLarge == nil {
		content, err := fs.ReadFile(files, name)
		return marker.List(content, c.only, c.set), err
	}
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	line, _, err := marker.Search(file, c.only)
	if err := errors.Join(err, file.Close()); err != nil || line == 0 {
		return nil, err
	}
	return []marker.Marker{{Line: line, Err: tooLarge}}, nil
}

// skipRepositories skips the .git directory and nested repositories, whose files are not part of the commit.
func skipRepositories(files fs.FS, dir string) error {
	if path.Base(dir) == ".git" {
		return fs.SkipDir
	}
	if dir == "." {
		return nil
	}
	_, err := fs.Stat(files, path.Join(dir, ".git"))
	switch {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

func printMarkers(cmd *cobra.Command, found []foundMarker) error {
	var rows [][]string
	for _, m := range found {
		pipeline, problem := "", ""
		if m.Key.Pipeline != "" {
			pipeline = m.Key.Namespace + "/" + m.Key.Pipeline
		}
		if m.Err != nil {
			problem = m.Err.Error()
		}
		rows = append(rows, []string{location(m.file, m.Line), pipeline, m.Key.Environment, m.Part, m.Value, problem})
	}
	return printTable(cmd.OutOrStdout(), []string{"MARKER", "PIPELINE", "ENVIRONMENT", "PART", "VALUE", "PROBLEM"}, rows)
}

// printChanges prints the old and new text of values that would change, as written in the file.
func printChanges(cmd *cobra.Command, found []foundMarker) {
	log, last := loggerFor(cmd), ""
	for _, m := range found {
		switch {
		case m.Err != nil:
			log.printf("✗", "%s: %s", location(m.file, m.Line), plaintext.Line(m.Err.Error()))
		case m.Old != m.New:
			change := fmt.Sprintf("%s: %s → %s", location(m.file, m.FieldLine), m.Old, m.New)
			// Several markers may set the same value.
			if change != last {
				fmt.Fprintln(cmd.OutOrStdout(), plaintext.Line(change))
			}
			last = change
		}
	}
	if last == "" && wrongOf(found) == 0 {
		log.successf("no value would change")
	}
}

func location(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }
