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
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/revision"
	"github.com/sluice-toolkit/sluice/flux-cli-plugin/internal/why"
)

// step is the last observed step of an approved promotion.
type step int

const (
	// unseen: pipeline-controller has not counted the approval yet.
	unseen step = iota
	// underWay: all preconditions are met, and the result is pending.
	underWay
	// waits: it is approved, but waits for something else.
	waits
	// done: it succeeded.
	done
	// ended: it is abandoned, or an attempt failed and will be retried.
	ended
)

// follow waits until the approved promotion continues, or until it waits for something else.
func (c *approveCommand) follow(ctx context.Context, kube client.Client, log logger, approved *candidate, by string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cluster.timeout)
	defer cancel()
	log.waitingf("waiting for pipeline reconciliation")
	pipeline := approved.pipeline
	at, text := unseen, ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline); err != nil {
			return false, err
		}
		before := at
		at, text = approved.progress(by, c.cluster.now())
		if at == underWay && before != at {
			log.waitingf("promoting %s into %s", revision.Short(approved.revision), approved.env)
		}
		return at > underWay, nil
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("promotion is approved, but waiting for it failed: %w", err)
	case at == unseen:
		return errors.New("promotion is approved, but pipeline-controller has not reconciled it yet: check that it is running " +
			"(kubectl get deployments --all-namespaces --field-selector metadata.name=pipeline-controller)")
	case at == underWay:
		return fmt.Errorf("promotion is approved and is still in progress: %s", why.Line(pipeline, approved.env, c.cluster.now()))
	case at == ended:
		return fmt.Errorf("promotion is approved, but %s", text)
	case at == waits:
		log.waitingf("%s", text)
	default:
		log.successf("%s", text)
	}
	return nil
}

// progress returns the step and the message of the promotion, according to the pipeline's status.
func (p *candidate) progress(by string, now time.Time) (step, string) {
	promoted, record := p.pipeline.Status.RevisionInto(p.env), recordOf(p.pipeline, p.env)
	if promoted != "" && promoted != p.revision {
		return ended, fmt.Sprintf("%s replaced %s", revision.Short(promoted), revision.Short(p.revision))
	}
	status := p.pipeline.Status.Environments[p.env]
	if status == nil || status.State == "" || record == nil {
		return unseen, ""
	}
	line := why.Line(p.pipeline, p.env, now)
	switch status.State {
	case pipelinesv1.EnvironmentPullRequestOpen:
		return done, record.Message
	case pipelinesv1.EnvironmentPromoted:
		return done, fmt.Sprintf("%s is promoted into %s: %s", revision.Short(p.revision), p.env, record.Message)
	case pipelinesv1.EnvironmentAbandoned, pipelinesv1.EnvironmentRolledBack:
		return ended, line
	case pipelinesv1.EnvironmentWaiting, pipelinesv1.EnvironmentPromoting, pipelinesv1.EnvironmentFailed:
		return p.attempted(record, by, line)
	}
	return waits, line
}

// attempted returns the step of a promotion whose preconditions are met. It ignores the results of attempts before the
// approval.
func (p *candidate) attempted(record *pipelinesv1.PromotionRecord, by, line string) (step, string) {
	switch state := p.pipeline.Status.Environments[p.env].State; {
	case record.Revision != p.revision || !slices.Contains(record.Approvers, by):
		return unseen, ""
	case slices.ContainsFunc(record.Preconditions, func(c pipelinesv1.PreconditionStatus) bool { return !c.Met }):
		return waits, line
	case state == pipelinesv1.EnvironmentFailed:
		return ended, line
	}
	return underWay, ""
}
