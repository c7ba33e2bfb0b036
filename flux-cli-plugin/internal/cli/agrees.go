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
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// agrees asks the person at the terminal.
func agrees(cmd *cobra.Command, question string) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "? %s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		// A read from a terminal cannot be cancelled, so an interrupt leaves this one behind.
		answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		answered <- answer
	}()
	select {
	case <-cmd.Context().Done():
		fmt.Fprintln(cmd.ErrOrStderr())
		return false
	case answer := <-answered:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes"
	}
}
