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

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/tests/playground"
)

const (
	nextVersion = "v1.1.0"
	// laterVersion is for the reader to release.
	laterVersion = "v1.2.0"
	// patience is the timeout of a step.
	patience = 2 * time.Minute
	// glance is the polling interval.
	glance = 100 * time.Millisecond
)

// story demonstrates the steps of a promotion.
type story struct {
	*narrator
	world *playground.Playground
}

func (s *story) tell(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		s.begin, s.closeGate, s.release, s.promoteToStaging, s.waitAtTheGate, s.openGate, s.promoteToProd, s.finish,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) begin(ctx context.Context) error {
	s.note("seeding the repositories app and fleet")
	if err := s.world.Seed(ctx); err != nil {
		return err
	}
	s.chapter("An application runs in three environments.")
	for _, env := range playground.Environments {
		if err := s.seeVersion(ctx, env, playground.FirstVersion); err != nil {
			return err
		}
	}
	return s.seeWhy(ctx, "every environment runs v1.0.0")
}

func (s *story) closeGate(ctx context.Context) error {
	s.chapter("Prod is frozen: the gate is closed.")
	if err := s.flux(ctx, "close", "gate", playground.GateName, "--reason", "end of quarter, ask the release manager"); err != nil {
		return err
	}
	return s.wait(ctx, "the source of prod to be held", func(ctx context.Context) (string, error) {
		gate, err := s.world.Gate(ctx)
		held := gate.Status.HeldSources()
		if err != nil || held == 0 {
			return "", err
		}
		return fmt.Sprintf("gate %s holds %d source: GitRepository app-prod fetches nothing new", gate.Name, held), nil
	})
}

func (s *story) release(ctx context.Context) error {
	s.chapter(nextVersion + " is released.")
	s.note("tagging " + nextVersion + " in repository app")
	if err := s.world.Release("app", nextVersion); err != nil {
		return err
	}
	return s.seeVersion(ctx, "dev", nextVersion)
}

func (s *story) promoteToStaging(ctx context.Context) error {
	s.chapter("The Pipeline carries it on.")
	return s.promote(ctx, "staging")
}

func (s *story) waitAtTheGate(ctx context.Context) error {
	s.chapter("Prod waits, and the Pipeline says for what.")
	if err := s.wait(ctx, "the promotion into prod to wait for the gate", func(ctx context.Context) (string, error) {
		record, err := s.world.Promotion(ctx, "prod")
		if err != nil || record == nil || record.State != pipelinesv1.PromotionUnapproved {
			return "", err
		}
		return s.world.Why(ctx)
	}); err != nil {
		return err
	}
	return s.showAll(ctx)
}

func (s *story) openGate(ctx context.Context) error {
	s.chapter("The gate is opened.")
	return s.flux(ctx, "open", "gate", playground.GateName)
}

func (s *story) promoteToProd(ctx context.Context) error { return s.promote(ctx, "prod") }

func (s *story) finish(ctx context.Context) error {
	s.chapter("One revision has travelled from dev to prod.")
	if err := s.seeWhy(ctx, "every environment runs "+nextVersion); err != nil {
		return err
	}
	return s.showAll(ctx)
}

// promote waits for the environment's pull request, merges it as a reviewer would, and waits for the version.
func (s *story) promote(ctx context.Context, env string) error {
	var opened *pipelinesv1.PullRequestStatus
	if err := s.wait(ctx, "a pull request for "+env, func(ctx context.Context) (string, error) {
		record, err := s.world.Promotion(ctx, env)
		if err != nil || record == nil || record.State != pipelinesv1.PromotionCreated {
			return "", err
		}
		opened = record.PullRequest
		return "pull request for " + env + ": " + opened.URL, nil
	}); err != nil {
		return err
	}
	diff, err := s.world.Diff(opened.Number)
	if err != nil {
		return err
	}
	s.diff("git diff main..."+opened.Branch, diff)
	s.note("merging it")
	if err := s.world.Merge("fleet", opened.Number); err != nil {
		return err
	}
	return s.seeVersion(ctx, env, nextVersion)
}

// seeVersion waits until the environment runs the version.
func (s *story) seeVersion(ctx context.Context, env, version string) error {
	return s.wait(ctx, fmt.Sprintf("%s to run %s", env, version), func(ctx context.Context) (string, error) {
		running, err := s.world.RunningVersion(ctx, env)
		if err != nil || running != version {
			return "", err
		}
		return fmt.Sprintf("%-8s runs %s", env, running), nil
	})
}

// seeWhy waits until the Pipeline's message starts with the expected text.
func (s *story) seeWhy(ctx context.Context, expected string) error {
	return s.wait(ctx, "the Pipeline to say: "+expected, func(ctx context.Context) (string, error) {
		why, err := s.world.Why(ctx)
		if err != nil || !bytes.HasPrefix([]byte(why), []byte(expected)) {
			return "", err
		}
		return "the Pipeline says: " + why, nil
	})
}

// wait polls look until it returns a text, and prints that.
func (s *story) wait(ctx context.Context, what string, look func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	var last error
	for {
		text, err := look(ctx)
		if text != "" && err == nil {
			s.seen("%s", text)
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			why, _ := s.world.Why(context.WithoutCancel(ctx))
			return fmt.Errorf("waiting for %s: %w (the Pipeline says: %q; last error: %v)", what, ctx.Err(), why, last)
		case <-tick.C:
		}
	}
}

// showAll shows the gate, and what runs where.
func (s *story) showAll(ctx context.Context) error {
	if err := s.flux(ctx, "gate", "list"); err != nil {
		return err
	}
	return s.flux(ctx, "pipeline", "list", "--output", "wide")
}

// flux runs a command of the plugin as the Flux CLI does, which the demo does not need for that.
func (s *story) flux(ctx context.Context, verb string, args ...string) error {
	program, err := s.world.Cluster.Program("plugins/flux-" + verb)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.world.Cluster.Kubeconfig)
	out, err := command.CombinedOutput()
	shown := "flux " + verb
	for _, arg := range args {
		if bytes.ContainsRune([]byte(arg), ' ') {
			arg = fmt.Sprintf("%q", arg)
		}
		shown += " " + arg
	}
	s.output(shown, string(out))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return nil
}
