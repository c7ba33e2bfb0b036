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

// Command sluice-local demonstrates Sluice on this machine. On a real control plane with Flux, it shows a revision on
// its way from dev to prod, and a gate that holds it. Every line of its output is based on observed state.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/sluice-toolkit/sluice/tests/playground"
)

func main() {
	keep := flag.Bool("keep", false, "leave everything running after the story, until Ctrl-C")
	flag.Parse()
	// controller-runtime logs a warning if no logger is set.
	ctrl.SetLogger(logr.Discard())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *keep); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "✗", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	say := newNarrator(os.Stdout)
	world, err := playground.Start(ctx, playground.Options{Progress: say.note})
	if err != nil {
		return err
	}
	defer func() {
		say.note("cleaning up")
		err = errors.Join(err, world.Stop())
	}()

	told := &story{narrator: say, world: world}
	if err := told.tell(ctx); err != nil {
		return err
	}
	if keep {
		plugins, err := world.Cluster.Program("plugins")
		if err != nil {
			return err
		}
		say.keep(world, plugins)
		<-ctx.Done()
	}
	return nil
}
