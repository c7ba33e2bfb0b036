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
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// logger writes progress messages to standard error, with the same signs as flux.
type logger struct {
	out io.Writer
}

func loggerFor(cmd *cobra.Command) logger { return logger{out: cmd.ErrOrStderr()} }

func (l logger) actionf(format string, a ...any)   { l.printf("►", format, a...) }
func (l logger) generatef(format string, a ...any) { l.printf("✚", format, a...) }
func (l logger) waitingf(format string, a ...any)  { l.printf("◎", format, a...) }
func (l logger) successf(format string, a ...any)  { l.printf("✔", format, a...) }
func (l logger) failuref(format string, a ...any)  { l.printf("✗", format, a...) }
func (l logger) warningf(format string, a ...any)  { l.printf("⚠️", format, a...) }

// detailf writes a detail below the previous line.
func (l logger) detailf(name, format string, a ...any) {
	fmt.Fprintf(l.out, "  %-16s%s\n", name+":", plaintext.Line(fmt.Sprintf(format, a...)))
}

func (l logger) printf(sign, format string, a ...any) {
	fmt.Fprintln(l.out, sign, plaintext.Line(fmt.Sprintf(format, a...)))
}
