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

// Command sluice is a plugin of the Flux CLI. The same binary is several plugins, distinguished by the name it is
// called by. If it is linked as flux-VERB in Flux's plugin directory, 'flux VERB' runs it. The verbs are open, close,
// approve, pass, gate and pipeline.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // neither the image nor Windows has time zones

	"github.com/moby/term"

	"github.com/sluice-toolkit/sluice/api/plaintext"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/cli"
)

// version is set by the linker: -X main.version=1.2.3.
var version = "0.0.0-dev.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	program := cli.New(os.Args[0], version)
	// On Windows, these streams understand colours.
	in, out, errOut := term.StdStreams()
	program.SetIn(in)
	program.SetOut(out)
	program.SetErr(errOut)
	if err := program.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(errOut, "✗", plaintext.Line(err.Error()))
		os.Exit(cli.ExitCode(err))
	}
}
