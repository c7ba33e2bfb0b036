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

package scale

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-toolkit/sluice/tests/localcluster"
)

// BenchmarkCrash kills gate-controller, closes the gate at the same time, and measures how long it takes until the
// sources are held. gate-controller runs with the flags of its Deployment. A crash function kills it and returns its
// replacement.
func BenchmarkCrash(b *testing.B) {
	args, err := localcluster.DeploymentArgs(filepath.Join(configDir, "gate-controller", "deployment.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	args = append(args, "--events-addr=")
	w := start(b.Context(), b, options{sources: block, args: args})
	pods := 0
	newPod := func(ctx context.Context) (*localcluster.Process, error) {
		pods++
		return w.startGateController(ctx, fmt.Sprintf("%s-%d", gateControllerName, pods), args)
	}
	for _, crash := range []struct {
		name  string
		crash func(ctx context.Context, kill func() error) (*localcluster.Process, error)
	}{
		{"restarted in its Pod", func(ctx context.Context, kill func() error) (*localcluster.Process, error) {
			if err := kill(); err != nil {
				return nil, err
			}
			return w.gateController, w.gateController.Start(ctx)
		}},
		{"replaced by another Pod", func(ctx context.Context, kill func() error) (*localcluster.Process, error) {
			if err := kill(); err != nil {
				return nil, err
			}
			return newPod(ctx)
		}},
		{"with a second replica", func(ctx context.Context, kill func() error) (*localcluster.Process, error) {
			second, err := newPod(ctx)
			if err != nil {
				return nil, err
			}
			return second, kill()
		}},
	} {
		b.Run(crash.name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				took, err := w.measureCrash(b.Context(), crash.crash)
				if err != nil {
					b.Fatal(err)
				}
				times = append(times, took)
			}
			b.ReportMetric(0, "ns/op")
			reportTimes(b, "hold", times)
		})
	}
}

// measureCrash returns the time from the crash of gate-controller to the hold of the last source, and opens the gate.
func (w *world) measureCrash(ctx context.Context, crash func(context.Context, func() error) (*localcluster.Process, error)) (time.Duration, error) {
	held, err := w.watchSources(ctx, func(s sourceState) bool { return s.suspended })
	if err != nil {
		return 0, err
	}
	var died time.Time
	w.gateController, err = crash(ctx, func() error {
		died = time.Now()
		if err := w.gateController.Kill(); err != nil {
			return err
		}
		return w.turn(ctx, true)
	})
	if err != nil {
		return 0, err
	}
	times, err := held[0].times(len(w.sources), died)
	if err != nil {
		return 0, err
	}
	if err := w.idle(ctx); err != nil {
		return 0, err
	}
	if _, err := w.measure(ctx, false); err != nil {
		return 0, err
	}
	return times[len(times)-1], nil
}
