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

// Package why answers in one line why an environment of a Pipeline does not run the revision that travels through it. It is pure, and
// repeats what pipeline-controller has written into the status, with what is of use to a person at a terminal: for how long, and the
// command that goes on from there.
package why

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/api/plaintext"
)

// Line answers for an environment that is in the Pipeline's spec.
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
		return "pipeline-controller has not reconciled the pipeline yet: does it run?"
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

// since tells from when on an environment has stood where it stands.
func since(status *pipelinesv1.EnvironmentStatus, now time.Time) string {
	if status == nil || status.Since == nil {
		return ""
	}
	return fmt.Sprintf(" (since %s, %s)", status.Since.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(status.Since.Time)))
}

// advice tells what a person can do, where Sluice waits for one.
func advice(pipeline *pipelinesv1.Pipeline, env string) string {
	status := pipeline.Status.Environments[env]
	switch {
	case status == nil:
		return ""
	case status.State == pipelinesv1.EnvironmentAbandoned, status.State == pipelinesv1.EnvironmentRolledBack:
		return fmt.Sprintf("; the next revision will be promoted, or this one by the annotations %s and %s, with one new value for both",
			meta.ReconcileRequestAnnotation, meta.ForceRequestAnnotation)
	case status.WaitingApproval.Revision != "" && waits(status.State):
		return "; to approve: " + ApproveCommand(pipeline, env)
	}
	return ""
}

// waits reports whether a promotion's turn has come, so that an approval moves it on.
func waits(state pipelinesv1.EnvironmentState) bool {
	return state == pipelinesv1.EnvironmentWaiting || state == pipelinesv1.EnvironmentFailed || state == pipelinesv1.EnvironmentPullRequestOpen
}

// Lagging returns the first environment that does not run the revision, else the last one. It is empty if there are none.
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

// Unmet returns what the promotion into an environment waits for besides people's approval, in words.
func Unmet(record *pipelinesv1.PromotionRecord) []string {
	var unmet []string
	for _, precondition := range record.Preconditions {
		if !precondition.Met && precondition.Type != pipelinesv1.ApprovalPrecondition {
			unmet = append(unmet, precondition.Message)
		}
	}
	return unmet
}

// ApproveCommand is what approves the promotion into an environment.
func ApproveCommand(pipeline *pipelinesv1.Pipeline, env string) string {
	return fmt.Sprintf("flux approve promotion %s --env %s -n %s", pipeline.Name, quote(env), pipeline.Namespace)
}

// PullRequestURL returns where the promotion's pull request is; empty if there is none.
func PullRequestURL(record *pipelinesv1.PromotionRecord) string {
	if record.PullRequest == nil {
		return ""
	}
	return record.PullRequest.URL
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// quote writes a word so that a shell takes it for one.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
