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
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-toolkit/sluice/api/marker"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// pipelineMarkersCommand lists the markers of a checkout. It does not contact a cluster.
type pipelineMarkersCommand struct {
	cluster  *clusterFlags
	only     marker.Key
	set      string
	noHeader bool
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

PATH is a directory or a file. If the strategy of a pipeline has a path, use it: promotions set only
markers below it.

The command reads the same files as pipeline-controller: those that end in .yaml or .yml, without
symbolic links and submodules. Markers are not set in files larger than 8 MiB.`,
		Example: `  # List and check the markers of the current directory
  flux pipeline markers

  # What would a promotion into prod change?
  flux pipeline markers --env prod --set v1.2.3@sha1:2e5d0003aa4f0bd8ddcb2ff4d1ac1c6d0f2f6a31

  # The same for a pipeline with the path ./apps/prod, and a chart version
  flux pipeline markers ./apps/prod --env prod --set 6.9.1`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: command.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&command.only.Environment, "env", "", "only the markers of this environment")
	flags.StringVar(&command.only.Pipeline, "pipeline", "", "only the markers of this pipeline")
	flags.BoolVar(&command.noHeader, "no-header", false, "print no headings")
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
	found, err := c.find(dir, c.only)
	if err != nil {
		return err
	}
	if len(found) == 0 && c.only != (marker.Key{}) {
		return c.noneFound(dir)
	}
	if len(found) == 0 {
		loggerFor(cmd).failuref("no markers found in %s", dir)
		return nil
	}
	printer := c.cluster.printer(cmd)
	if preview {
		printer.changes(loggerFor(cmd), found)
	} else if err := printer.markers(found, c.noHeader); err != nil {
		return err
	}
	if wrong := wrongOf(found); wrong > 0 {
		return fmt.Errorf("invalid markers: %d of %d", wrong, len(found))
	}
	return nil
}

// noneFound returns the error for markers that were asked for and do not exist.
func (c *pipelineMarkersCommand) noneFound(dir string) error {
	only := c.only
	only.Environment = ""
	others, err := c.find(dir, only)
	if err != nil {
		return err
	}
	var environments []string
	for _, m := range others {
		if env := m.Key.Environment; env != "" && !slices.Contains(environments, env) {
			environments = append(environments, env)
		}
	}
	if c.only.Environment == "" || len(environments) == 0 {
		return fmt.Errorf("no markers of %s found in %s", describeKey(c.only), dir)
	}
	return fmt.Errorf("no markers of %s found in %s, which has: %s", describeKey(c.only), dir, strings.Join(environments, ", "))
}

// describeKey returns what markers were selected by.
func describeKey(only marker.Key) string {
	var parts []string
	for _, part := range []struct{ noun, name string }{
		{"environment", only.Environment}, {"pipeline", only.Pipeline}, {"namespace", only.Namespace},
	} {
		if part.name != "" {
			parts = append(parts, part.noun+" "+part.name)
		}
	}
	return strings.Join(parts, ", ")
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
func (c *pipelineMarkersCommand) find(at string, only marker.Key) ([]foundMarker, error) {
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
		markers, err := c.markersOf(files, name, info.Size(), only)
		for _, m := range markers {
			found = append(found, foundMarker{Marker: m, file: filepath.Join(dir, filepath.FromSlash(name))})
		}
		return err
	})
	return found, err
}

// markersOf returns the markers of a file. A file that is too large is not read into memory; the result is a single
// marker with the error.
func (c *pipelineMarkersCommand) markersOf(files fs.FS, name string, size int64, only marker.Key) ([]marker.Marker, error) {
	tooLarge := marker.CheckSize(size)
	if tooLarge == nil {
		content, err := fs.ReadFile(files, name)
		return marker.List(content, only, c.set), err
	}
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	line, _, err := marker.Search(file, only)
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

func (p printer) markers(found []foundMarker, noHeader bool) error {
	shown := &table{headings: []string{"MARKER", "PIPELINE", "ENVIRONMENT", "PART", "VALUE", "PROBLEM"}}
	for _, m := range found {
		pipeline, problem := "", ""
		if m.Key.Pipeline != "" {
			pipeline = m.Key.Namespace + "/" + m.Key.Pipeline
		}
		if m.Err != nil {
			problem = m.Err.Error()
		}
		shown.add(nil, nil, location(m.file, m.Line), pipeline, m.Key.Environment, m.Part, m.Value, problem)
	}
	return p.tables(noHeader).print(shown)
}

// changes prints the old and new text of values that would change, as written in the file.
func (p printer) changes(log logger, found []foundMarker) {
	last := ""
	for _, m := range found {
		switch {
		case m.Err != nil:
			log.failuref("%s: %s", location(m.file, m.Line), plaintext.Line(m.Err.Error()))
		case m.Old != m.New:
			change := p.change(m)
			// Several markers may set the same value.
			if change != last {
				fmt.Fprintln(p.out, change)
			}
			last = change
		}
	}
	if last == "" && wrongOf(found) == 0 {
		log.successf("no value would change")
	}
}

func (p printer) change(m foundMarker) string {
	words := []string{plaintext.Line(location(m.file, m.FieldLine)) + ":"}
	if old := plaintext.Line(m.Old); old != "" {
		words = append(words, p.paint(old, red))
	}
	words = append(words, "→")
	if new := plaintext.Line(m.New); new != "" {
		words = append(words, p.paint(new, green))
	}
	return strings.Join(words, " ")
}

func location(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }
