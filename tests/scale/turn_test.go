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
	"time"
)

// turned is the result of closing or opening the gate.
type turned struct {
	// backstop holds, in order, the time from the write of the Gate until the backstop refused or allowed each source's
	// artifact.
	backstop []time.Duration
	// suspensions holds, in order, the time from the write of the Gate until each source was held or released.
	suspensions []time.Duration
	// conditions holds the same for the condition GatesOpen.
	conditions []time.Duration
	// bySource holds gate-controller's requests about each source, by name.
	bySource map[string][]request
	// others holds its other requests: for the status of the Gate, and its one event.
	others []request
}

// measure closes or opens the gate, and waits until gate-controller is idle. The gate must not be in that state
// already.
func (w *world) measure(ctx context.Context, closed bool) (*turned, error) {
	position, err := w.audit.end()
	if err != nil {
		return nil, err
	}
	seen, err := w.watchSources(ctx,
		func(s sourceState) bool { return (s.open && s.told) != closed },
		func(s sourceState) bool { return s.suspended == closed },
		func(s sourceState) bool { return s.suspended == closed && s.open == !closed && s.told })
	if err != nil {
		return nil, err
	}
	before := time.Now()
	if err := w.turn(ctx, closed); err != nil {
		return nil, err
	}
	result := &turned{}
	if result.backstop, err = seen[0].times(len(w.sources), before); err != nil {
		return nil, err
	}
	if result.suspensions, err = seen[1].times(len(w.sources), before); err != nil {
		return nil, err
	}
	if result.conditions, err = seen[2].times(len(w.sources), before); err != nil {
		return nil, err
	}
	if err := w.idle(ctx); err != nil {
		return nil, err
	}
	return result, w.count(ctx, position, result)
}

// count finds gate-controller's requests since a position in the log. Events are posted in the background, so it waits
// for one event of each source.
func (w *world) count(ctx context.Context, position int64, result *turned) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, "an event of each source and of the gate", func(ctx context.Context) error {
		requests, err := w.audit.since(ctx, position)
		if err != nil {
			return err
		}
		result.bySource, result.others = map[string][]request{}, nil
		events := 0
		for _, r := range requests {
			if r.User.Username != gateControllerUser {
				continue
			}
			if r.ObjectRef.Resource == "events" {
				events++
			}
			switch name := r.source(); name {
			case "", gateName:
				result.others = append(result.others, r)
			default:
				result.bySource[name] = append(result.bySource[name], r)
			}
		}
		if events < len(w.sources)+1 {
			return fmt.Errorf("there are %d events of %d sources and a gate", events, len(w.sources))
		}
		return nil
	})
}

// aboutSources returns the number of requests about all sources, and the maximum for one source.
func (t *turned) aboutSources() (sum, most int) {
	for _, requests := range t.bySource {
		sum += len(requests)
		most = max(most, len(requests))
	}
	return sum, most
}
