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

// Package why explains in one line why an environment of a Pipeline does not run its current revision. It is pure. It
// repeats the status that pipeline-controller has written, and adds the duration and the next command.
package why

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// Line returns the explanation for an environment in the Pipeline's spec.
func Line(pipeline *pipelinesv1.Pipeline, env string, now time.Time) string {
	line := env + ": " + answer(pipeline, env, now)
	if pipeline.Status.ObservedGeneration < pipeline.Generation && len(pipeline.Status.Conditions) > 0 {
		line += "; pipeline-controller has not seen the last change of the pipeline yet"
	}
	return plaintext.Line(line)
}

func answer(pipeline *pipelinesv1.Pipeline, env string, now time.Time) string {
	status := pipeline.Status.Environments[env]
	if status == nil || status.State == "" {
		if ready := apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.ReadyCondition); ready != nil {
			return ready.Message
		}
		return "pipeline-controller has not reconciled the pipeline yet: check that it is running"
	}
	if stalled := apimeta.FindStatusCondition(pipeline.Status.Conditions, meta.StalledCondition); stalled != nil && status.State != pipelinesv1.EnvironmentInvalid {
		return stalled.Message
	}
	stands := env
	if status.State == pipelinesv1.EnvironmentBehind {
		stands = Lagging(pipeline)
	}
	return status.Message + since(pipeline.Status.Environments[stands], now) + advice(pipeline, stands)
}

// since returns the time at which an environment entered its state.
func since(status *pipelinesv1.EnvironmentStatus, now time.Time) string {
	if status == nil || status.Since == nil {
		return ""
	}
	return fmt.Sprintf(" (since %s, %s)", status.Since.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(status.Since.Time)))
}

// advice returns the command or action with which a person can continue a promotion that waits for them.
func advice(pipeline *pipelinesv1.Pipeline, env string) string {
	status := pipeline.Status.Environments[env]
	switch {
	case status == nil:
		return ""
	case status.State == pipelinesv1.EnvironmentAbandoned, status.State == pipelinesv1.EnvironmentRolledBack:
		return fmt.Sprintf("; to force it: flux pipeline reconcile %s --force -n %s", pipeline.Name, pipeline.Namespace)
	case !waits(status.State):
		return ""
	}
	text := ""
	if status.WaitingApproval.Revision != "" {
		text = "; to approve: " + ApproveCommand(pipeline, env)
	}
	if command := passCommand(pipeline, env); command != "" {
		text += "; if it is urgent: " + command
	}
	return text
}

// passCommand returns the command with which the promotion passes its closed gate. It is empty if no gate is closed, or
// if the promotion has several gates: then the message says which are closed.
func passCommand(pipeline *pipelinesv1.Pipeline, env string) string {
	unmet, promotion := pipeline.WaitsForGates(env), pipeline.PromotionInto(pipeline.Environment(env))
	if unmet == nil || unmet.Reason != gatingv1.GateClosedReason || promotion == nil || promotion.Gates == nil || len(promotion.Gates.Refs) != 1 {
		return ""
	}
	return PassCommand(promotion.Gates.Refs[0].NamespacedName(pipeline.Namespace), pipeline.Status.Environments[env].Promotion.Revision)
}

// waits reports whether the promotion's turn has come, so an approval can continue it.
func waits(state pipelinesv1.EnvironmentState) bool {
	return state == pipelinesv1.EnvironmentWaiting || state == pipelinesv1.EnvironmentFailed || state == pipelinesv1.EnvironmentPullRequestOpen
}

// Lagging returns the first environment that does not run the revision, or the last one if all do. It is empty if there
// are none.
func Lagging(pipeline *pipelinesv1.Pipeline) string {
	last := ""
	for _, env := range pipeline.Spec.Environments {
		last = env.Name
		if status := pipeline.Status.Environments[env.Name]; status == nil || !status.State.Settled() {
			break
		}
	}
	return last
}

// Unmet returns the messages of the unmet preconditions other than approval.
func Unmet(record *pipelinesv1.PromotionRecord) []string {
	var unmet []string
	for _, precondition := range record.Preconditions {
		if !precondition.Met && precondition.Type != pipelinesv1.ApprovalPrecondition {
			unmet = append(unmet, precondition.Message)
		}
	}
	return unmet
}

// ApproveCommand returns the command that approves the promotion into an environment.
func ApproveCommand(pipeline *pipelinesv1.Pipeline, env string) string {
	return fmt.Sprintf("flux approve promotion %s --env %s -n %s", pipeline.Name, Quote(env), pipeline.Namespace)
}

// PassCommand returns the command that lets a revision pass a closed gate.
func PassCommand(gate types.NamespacedName, revision string) string {
	return fmt.Sprintf("flux pass gate %s -n %s --revision %s --reason TEXT", gate.Name, gate.Namespace, Quote(revision))
}

// PullRequestURL returns the URL of the promotion's pull request, or "".
func PullRequestURL(record *pipelinesv1.PromotionRecord) string {
	if record.PullRequest == nil {
		return ""
	}
	return record.PullRequest.URL
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._@:/+-]+$`)

// Quote quotes a word for the shell.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
