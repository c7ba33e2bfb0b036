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
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/describe"
)

// colour is a colour of a terminal. All have the same length, so cells of different colours are aligned.
type colour string

const (
	plain  colour = "\x1b[39m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
)

// colourOf is the colour of each state. Others are plain.
var colourOf = map[string]colour{
	// Gates and sources.
	"open": green, "closed": red, "missing": red, unknown: yellow,
	"released": green, "held": yellow, "refused": red, lost: red,
	// Passes: "force" is the last word of "in force".
	"force": green, describe.Pending: yellow, describe.Expired: red,
	// Conditions.
	"True": green, "False": red, "Unknown": yellow,
	// Environments.
	"Current": green, "Skipped": green,
	"NotReady": yellow, "Behind": yellow, "Waiting": yellow, "Promoting": yellow, "PullRequestOpen": yellow, "Promoted": yellow,
	"RollingOut": yellow, "NotPromoted": yellow, "Suspended": yellow,
	"RolledBack": red, "Failed": red, "Abandoned": red, "Invalid": red,
	// Promotions.
	"succeeded": green, "unapproved": yellow, "unattempted": yellow, "created": yellow, "failed": red, "abandoned": red,
	// Events.
	"Normal": green, "Warning": red,
}

// printer prints results, with colours on a terminal.
type printer struct {
	out     io.Writer
	colours bool
}

// printer returns the printer of a command's results. NO_COLOR turns colours off, see no-color.org.
func (f *clusterFlags) printer(cmd *cobra.Command) printer {
	out := cmd.OutOrStdout()
	return printer{out, f.isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// paint colours a text.
func (p printer) paint(text string, in colour) string {
	if !p.colours {
		return text
	}
	return string(in) + text + string(plain)
}

// paintState colours a text by the state that is its last word.
func (p printer) paintState(text string) string {
	in, known := colourOf[text[strings.LastIndex(text, " ")+1:]]
	if !known {
		in = plain
	}
	return p.paint(text, in)
}
