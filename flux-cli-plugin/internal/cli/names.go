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
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// someNames is for commands that accept several objects.
func someNames(kind string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Contains(args, "") {
			return fmt.Errorf("%s name is required", kind)
		}
		return nil
	}
}

func plural(noun string) string {
	if strings.HasSuffix(noun, "s") {
		return noun + "es"
	}
	return noun + "s"
}

// unique returns each name once, in the given order.
func unique(names []string) []string {
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// failures are the errors of a command that continues with its other objects.
type failures struct {
	log logger
	// noun is the name of an object in messages, and of is the number of objects.
	noun string
	of   int
	all  []error
}

// add records an error. If the command is for several objects, it prints it.
func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.of > 1 {
		f.log.failuref("%s", err)
	}
	f.all = append(f.all, err)
}

// err returns the error of the command.
func (f *failures) err() error {
	switch {
	case len(f.all) == 0:
		return nil
	case f.of == 1:
		return f.all[0]
	}
	return fmt.Errorf("%d of %d %ss failed", len(f.all), f.of, f.noun)
}
