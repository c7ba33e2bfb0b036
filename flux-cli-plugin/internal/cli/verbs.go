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
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// verbLinks creates and removes the links by which flux finds the verbs in addition to 'flux sluice'. `flux plugin
// install` installs one program under one name.
type verbLinks struct {
	// program is the path that the program was called by. The links are in its directory, which is Flux's plugin
	// directory.
	program string
	verbs   []*cobra.Command
	// link makes a file that is another name of the program.
	link func(program, path string) error
}

func newVerbLinks(program string, verbs []*cobra.Command) *verbLinks {
	if runtime.GOOS == "windows" {
		// Symbolic links require an administrator there.
		return &verbLinks{program, verbs, os.Link}
	}
	return &verbLinks{program, verbs, func(program, path string) error { return os.Symlink(filepath.Base(program), path) }}
}

func (l *verbLinks) commands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "install-verbs",
			Short: "Add short forms such as 'flux close gate' and 'flux pipeline list'",
			Long: `Add links to this plugin to Flux's plugin directory, so 'flux close gate' works like
'flux sluice close gate'. The links are 'flux open', 'flux close', 'flux approve', 'flux pass',
'flux gate' and 'flux pipeline'.

Existing links stay. If another plugin has one of these names, it is not replaced, and the command
fails.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.each(cmd, l.install) },
		},
		{
			Use:   "remove-verbs",
			Short: "Remove the links that install-verbs created",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return l.each(cmd, l.remove) },
		},
	}
}

// each calls do with each link, and whether it is there.
func (l *verbLinks) each(cmd *cobra.Command, do func(log logger, program, path string, exists bool) error) error {
	program, err := exec.LookPath(l.program)
	if err != nil {
		return err
	}
	own, err := os.Stat(program)
	if err != nil {
		return err
	}
	var failed []error
	for _, verb := range l.verbs {
		path := filepath.Join(filepath.Dir(program), "flux-"+verb.Name()+filepath.Ext(program))
		_, err := os.Lstat(path)
		exists := !errors.Is(err, fs.ErrNotExist)
		if exists {
			if target, err := os.Stat(path); err != nil || !os.SameFile(own, target) {
				failed = append(failed, fmt.Errorf("%s is not a link to this plugin", path))
				continue
			}
		}
		if err := do(loggerFor(cmd), program, path, exists); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (l *verbLinks) install(log logger, program, path string, exists bool) error {
	if exists {
		log.successf("%s is already installed", path)
		return nil
	}
	if err := l.link(program, path); err != nil {
		return err
	}
	log.successf("%s installed", path)
	return nil
}

func (l *verbLinks) remove(log logger, _, path string, exists bool) error {
	if !exists {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	log.successf("%s removed", path)
	return nil
}
